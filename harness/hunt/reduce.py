# SPDX-License-Identifier: GPL-2.0-only
"""The fewest changes of CPU that still make a scenario fail: delta debugging (Zeller and Hildebrandt 2002)."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from harness.hunt.trial import Fault, Ground, Trial
from harness.report.format import plural
from lab.base.errors import CannotJudge
from lab.base.units import Tell
from lab.schedule import NOBODY, Change, Schedule, read_log

REPEATS = 3
MOST_BOOTS = 200
"""Of a reduction. Where all that comes before a fault decides when the CPUs meet, nothing is left out in thousands."""
NEAR, LAST, LONG = 12, 3, 20_000
"""Of several changes each of the ``LAST`` is tried alone, at its own time and ``NEAR`` times before and after it, for
``LONG`` ns at least: those before it may only decide when the CPUs meet, and a short one that they follow closely."""


class _Enough(Exception):
    """``MOST_BOOTS`` were made."""


@dataclass(frozen=True)
class Reduction:
    """``changes`` of the find were ``before`` many; after ``MOST_BOOTS`` fewer may do. ``trial`` is their boot."""

    changes: tuple[Change, ...]
    before: int
    boots: int
    trial: Trial


def fewest(items: Sequence[Change], fails: Callable[[Sequence[Change]], bool]) -> list[Change]:
    """A part of ``items``, which fail together, that fails and does not without any one of them.

    Few of many are found by bisection (QuickXplain, Junker 2004), d of n in about 2 d log n boots at most. It takes for
    granted that more changes fail too, which a schedule need not do: then parts and their rests are tried.
    """
    if not items or fails(()):
        return []
    left = _needed((), items, fails, doubted=False)
    return left if len(left) == 1 or fails(left) else _by_parts(items, fails)


def _needed(
    base: Sequence[Change], items: Sequence[Change], fails: Callable[[Sequence[Change]], bool], *, doubted: bool
) -> list[Change]:
    """Those of ``items`` that fail with ``base``, which may do so alone where it is ``doubted``."""
    if doubted and fails(base):
        return []
    if len(items) == 1:
        return [*items]
    middle = len(items) // 2
    late = _needed((*base, *items[:middle]), items[middle:], fails, doubted=True)
    return [*_needed((*base, *late), items[:middle], fails, doubted=bool(late)), *late]


def _by_parts(items: Sequence[Change], fails: Callable[[Sequence[Change]], bool]) -> list[Change]:
    left, parts = list(items), 2
    while len(left) > 1:
        size = -(-len(left) // parts)
        chunks = [left[at : at + size] for at in range(0, len(left), size)]
        others = [[item for item in left if item not in chunk] for chunk in chunks]
        smaller = next((part for part in (*chunks, *others) if len(part) < len(left) and fails(part)), None)
        if smaller is not None:
            left, parts = smaller, 2 if smaller in chunks else max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(left))
    return left


class Reducer:
    """Boots schedules of explicit changes and compares what goes wrong with the ``fault`` that was found."""

    def __init__(self, ground: Ground, fault: Fault, folder: Path, tell: Tell) -> None:
        self._ground, self._fault, self._folder, self._tell = ground, fault, folder, tell
        self._boots = 0
        self._least: list[Change] = []

    def repeats(self, schedule: Schedule) -> int:
        """How often the schedule fails in the same way with the same digest, of ``REPEATS`` boots."""
        trials = [self._boot(schedule) for _ in range(REPEATS)]
        return sum(self._fault.like(trial.fault) and trial.digest == trials[0].digest for trial in trials)

    def reduce(self, schedule: Schedule, folder: Path) -> Reduction:
        """``folder`` is that of the boot that was found. Raises CannotJudge where its changes alone do not fail."""
        changes = tuple(made.change for made in read_log(folder))
        if not self.fails(changes):
            why = "turns of drawn lengths are not changes at places" if schedule.strategy == "turns" else ""
            raise CannotJudge(f"the changes of this find do not repeat it; {why}".rstrip("; "), remedy="use its seed")
        with suppress(_Enough):
            left = fewest(changes, self.fails) if len(changes) <= LAST else []
            if len(left) != 1:
                left = self._alone(left or changes) or left or fewest(changes, self.fails)
            for place, (key, usual) in product(range(len(left)), (("passes", 1), ("leader", NOBODY))):
                simpler = replace(left[place], **{key: usual})
                if simpler != left[place] and self.fails((*left[:place], simpler, *left[place + 1 :])):
                    left[place] = simpler
            for place, change in enumerate(left):
                # Which of the blocks behind which it stops one after another is it?
                if change.passes > 1 and self.fails(left):
                    stops = [stop for made in read_log(self._folder) if made.change == change for stop in made.stops]
                    several = ((*left[:place], stop, *left[place + 1 :]) for stop in reversed(stops))
                    left = [*next(filter(self.fails, several), left)]
        trial = self._boot(Schedule(tuple(self._least), values=True))
        # Of those behind the fault none is made.
        least = tuple(made.change for made in read_log(trial.folder))
        return Reduction(least, len(changes), self._boots, trial)

    def _alone(self, changes: Sequence[Change]) -> list[Change]:
        steps = sorted(range(-NEAR, NEAR + 1), key=abs)
        for last, step in product(reversed(changes[-LAST:]), steps):
            change = replace(last, nth=last.nth + step, length=max(last.length, LONG))
            if change.nth > 0 and self.fails([change]):
                return [change]
        return []

    def fails(self, changes: Sequence[Change]) -> bool:
        """Raises _Enough."""
        if self._boots >= MOST_BOOTS:
            raise _Enough
        trial = self._boot(Schedule(tuple(changes)))
        failed = self._fault.like(trial.fault)
        if failed and (len(changes) <= len(self._least) or not self._least):
            self._least = [*changes]
        self._tell(f"{plural(len(changes), 'change')}: {trial.fault if failed else 'holds'}")
        return failed

    def _boot(self, schedule: Schedule) -> Trial:
        self._boots += 1
        return self._ground.boot(schedule, self._folder)

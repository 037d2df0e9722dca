# SPDX-License-Identifier: GPL-2.0-only
"""One search of a range for all that moved in it.

What has the same answers goes on together, so a commit is built once, and a scenario that moved is measured on it once.
git chooses the commits. A figure that still differs before or after its culprit is searched there too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from harness.bisect.notebook import CommitWord
from harness.bisect.repository import Repository
from harness.track.moves import BOOTS, BUILDS, Seen, answer, differs, moves, word_before
from harness.track.state import Kind, Move, Trend
from lab.base.errors import CannotJudge
from lab.base.units import Tell


class Measures(Protocol):
    """What measures commits, each scenario on each once."""

    def seen(self, commit: str, scenario: str, *, moved: int = 0) -> Seen:
        """In the layout ``moved`` of the same code. Raises CannotJudge for a commit that does not build."""

    def builds(self, commit: str) -> str:
        """Why it does not build, empty where it does."""

    def hunted(self, commit: str, find: str, *, moved: int = 0) -> str:
        """The fault that a kept search finds; ``moved`` and errors as for ``seen``."""


@dataclass(frozen=True)
class Suspicion:
    """A move between the ends ``good`` and ``bad``, with all answers so far."""

    move: Move
    good: tuple[str, ...]
    bad: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    @property
    def range(self) -> tuple[tuple[str, ...], ...]:
        return self.good, self.bad, self.skipped

    def told(self, commit: str, word: CommitWord) -> "Suspicion":
        match word:
            case CommitWord.GOOD:
                return replace(self, good=(*self.good, commit))
            case CommitWord.BAD:
                return replace(self, bad=(*self.bad, commit))
        return replace(self, skipped=(*self.skipped, commit))


@dataclass(frozen=True)
class Cause:
    """The ``culprit`` of a move, or the commits ``left``. ``move`` is what that commit alone changes."""

    move: Move
    culprit: str = ""
    left: tuple[str, ...] = ()


@dataclass
class RangeSearch:
    """Searches the commits of ``repository`` between a good and a bad one."""

    repository: Repository
    measures: Measures
    tell: Tell
    causes: list[Cause] = field(default_factory=list)
    _asked: set[tuple[object, ...]] = field(default_factory=set)
    _skipped: set[str] = field(default_factory=set)

    def run(self, between: Iterable[tuple[Move, str, str]]) -> Sequence[Cause]:
        """Each move with its good end, empty where that is not known, and its bad end, which contains the good one."""
        waiting = list[Suspicion]()
        for move, good, bad in between:
            if good:
                waiting += self._new(move, good, bad)
            else:
                self.causes.append(Cause(move))
        while waiting:
            families: dict[tuple[tuple[str, ...], ...], list[Suspicion]] = {}
            for suspicion in waiting:
                families.setdefault(suspicion.range, []).append(suspicion)
            largest = max(families.values(), key=len)
            waiting = [each for each in waiting if each not in largest] + self._step(largest)
        return self.causes

    def _new(self, move: Move, good: str, bad: str) -> Iterator[Suspicion]:
        key = (move.key, good, bad)
        if good != bad and key not in self._asked:
            self._asked.add(key)
            yield Suspicion(move, (good,), (bad,))

    def _step(self, family: Sequence[Suspicion]) -> list[Suspicion]:
        """The family after one more commit; none where its search is over."""
        first = family[0]
        step = self.repository.next_step(list(first.bad), list(first.good), list(first.skipped))
        if not step.test:
            return [more for each in family for more in self._ended(each, step.culprit, step.left)]
        left = len(self.repository.suspects(first.good, first.bad[-1]))
        names = ", ".join(dict.fromkeys(each.move.scenario or BUILDS for each in family))
        self.tell(f"{step.test[:12]}: {left} suspects left of {names}")
        return [each.told(step.test, self._word(each, step.test)) for each in family]

    def _word(self, suspicion: Suspicion, commit: str) -> CommitWord:
        move = suspicion.move
        if move.kind is Kind.BUILD:
            return CommitWord.BAD if self.measures.builds(commit) else CommitWord.GOOD
        try:
            if move.kind is Kind.HUNT:
                return CommitWord.BAD if _found(self.measures, commit, move) else CommitWord.GOOD
            ends = (self.measures.seen(end[0], move.scenario) for end in (suspicion.good, suspicion.bad))
            return answer(move, self.measures.seen(commit, move.scenario), *ends)
        except CannotJudge as error:
            if commit not in self._skipped:
                self.tell(f"{commit[:12]}: skipped, {error.message}")
            self._skipped.add(commit)
            return CommitWord.SKIP

    def _ended(self, suspicion: Suspicion, culprit: str, left: Sequence[str]) -> Iterator[Suspicion]:
        move = suspicion.move
        if not culprit:
            self.causes.append(Cause(move, left=tuple(left)))
            return
        parent, good, bad = self.repository.commit(culprit).parents[0], suspicion.good[0], suspicion.bad[0]
        if move.kind in (Kind.BUILD, Kind.HUNT):
            self.causes.append(Cause(move, culprit))
            return
        name = move.scenario
        try:
            before, after = self.measures.seen(parent, name), self.measures.seen(culprit, name)
        except CannotJudge:
            self.causes.append(Cause(move, culprit))
            return
        own = differs(move, before, after)
        self.causes.append(Cause(own or move, culprit))
        if move.kind is Kind.BOOT and move.before == BOOTS:
            # What does not boot at the bad end hid what moved before.
            for hidden in moves(self.measures.seen(good, name), before):
                yield from self._new(hidden, good, parent)
            return
        for first, last in ((good, parent), (culprit, bad)):
            if self.repository.contains(last, first) and first != last:
                rest = differs(move, self.measures.seen(first, name), self.measures.seen(last, name))
                yield from self._new(rest, first, last) if rest else ()


def _found(measures: Measures, commit: str, move: Move, *, moved: int = 0) -> bool:
    """Whether a kept search finds there what it finds at the end that the move leads to."""
    return bool(measures.hunted(commit, move.name, moved=moved)) is (move.trend is Trend.WORSE)


_LAYOUTS = 3
VERIFIED_IN = 2
"""Scenarios of an alarm that the checks of its culprit measure; the others moved with them."""


@dataclass(frozen=True)
class Verdict:
    """The words of the ``checks``, and the moves that pass all of them. ``why``: what contradicts the culprit."""

    checks: Mapping[str, str]
    moves: tuple[Move, ...]
    why: str = ""


def verify(repository: Repository, measures: Measures, culprit: str, head: str, of: Sequence[Move]) -> Verdict:
    """The parent must be good, the commit bad, in another layout too, and ``head`` with the commit reverted good."""
    parent, revert = repository.commit(culprit).parents[0], repository.reverted(culprit, head)
    names = list(dict.fromkeys(move.scenario for move in of))[:VERIFIED_IN]
    checks: dict[str, str] = {"parent": "good", "culprit": "bad"}
    left = [move for move in of if move.scenario in names]
    tests: Sequence[tuple[str, Callable[[Move], bool]]] = (
        ("differ", partial(_differ, measures, parent, culprit)),
        ("another layout", partial(_layout, measures, parent, culprit)),
        ("revert", partial(_reverted, measures, revert, head)),
    )
    for what, holds in tests:
        if what == "revert" and revert is None:
            checks[what] = "does not apply"
            continue
        try:
            passing = [move for move in left if holds(move)]
        except CannotJudge as error:
            checks[what] = f"cannot be measured: {error.message}"
            return Verdict(checks, tuple(left), f"{what} {checks[what]}")
        if not passing:
            return Verdict(checks, (), _CONTRADICTIONS[what])
        left = passing
        if what != "differ":
            checks[what] = "the same" if what == "another layout" else "good"
    return Verdict(checks, tuple(left))


_CONTRADICTIONS = {
    "differ": "the commit and its parent do not differ by more than layout moves",
    "another layout": "in another layout of the same code the commit and its parent do not differ",
    "revert": "with the commit reverted it stays",
}


def _differ(measures: Measures, parent: str, culprit: str, move: Move) -> bool:
    if move.kind is Kind.BUILD:
        return not measures.builds(parent) and bool(measures.builds(culprit))
    if move.kind is Kind.HUNT:
        return _found(measures, culprit, move) and not _found(measures, parent, move)
    return differs(move, measures.seen(parent, move.scenario), measures.seen(culprit, move.scenario)) is not None


def _layout(measures: Measures, parent: str, culprit: str, move: Move) -> bool:
    """Whether other layouts of the same code show it: of a figure, whether they leave the commit and its parent further
    apart than they move either. Where tasks starve, any layout moves a figure by more than the thresholds.
    """
    if move.kind is Kind.BUILD:
        return True
    if move.kind is Kind.HUNT:
        return _found(measures, culprit, move, moved=1) and not _found(measures, parent, move, moved=1)
    if move.kind is not Kind.FIGURE:
        ends = (measures.seen(sha, move.scenario, moved=1) for sha in (parent, culprit))
        other = differs(replace(move, scenario=f"{move.scenario}.word"), *ends)
        return other is not None and other.trend is move.trend
    before, after = (
        [measures.seen(sha, move.scenario, moved=moved).reading(move) for moved in range(_LAYOUTS)]
        for sha in (parent, culprit)
    )
    low, high = ([each for each in side if isinstance(each, float)] for side in (before, after)[:: move.sign])
    if len(low) < _LAYOUTS or len(high) < _LAYOUTS:
        return False
    return min(high) - max(low) > max(max(side) - min(side) for side in (low, high))


def _reverted(measures: Measures, revert: str | None, head: str, move: Move) -> bool:
    if revert is None or move.kind is Kind.BUILD:
        return revert is None or not measures.builds(revert)
    if move.kind is Kind.HUNT:
        return not _found(measures, revert, move)
    seen = measures.seen(revert, move.scenario)
    if move.kind is not Kind.FIGURE:
        return seen.reading(move) == word_before(move)
    # Another commit may have moved the figure too: the revert must move it back by more than the threshold.
    back = differs(move, measures.seen(head, move.scenario), seen)
    return back is not None and back.sign == -move.sign

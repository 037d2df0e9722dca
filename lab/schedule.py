# SPDX-License-Identifier: GPL-2.0-only
"""When the virtual CPUs of a guest change: schedules as values, and what a boot did with one.

``lab/native/sharing/schedule.c`` carries them out. A change at a place: the CPU stands behind the block for ``length``
ns of virtual time, in which the others execute; ``passes`` times. Before that a ``leader`` executes alone as long.
"""

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from lab.base.errors import LabBroken

SCHEDULE_FILE, SCHEDULE_LOG, SCHEDULE_RESULT = "schedule.txt", "schedule.log", "{load}.schedule"
TURNS, STALLS, FEW = "turns", "stalls", "few"
_PERMILLE = (1, 4, 20, 80)
NOBODY = -1
_SHORTEST, _LONGEST = 2, 5
"""Powers of ten between which the length of a change is drawn."""


@dataclass(frozen=True, order=True)
class Change:
    """When ``cpu`` begins the block at ``address`` for the ``nth`` time. The CPU ``leader`` executes before others."""

    cpu: int
    address: int
    nth: int
    length: int
    passes: int = 1
    leader: int = NOBODY

    def __str__(self) -> str:
        return f"at {self.cpu} {self.address:x} {self.nth} {self.length} {self.passes} {self.leader}"


@dataclass(frozen=True)
class Schedule:
    """``changes`` alone, or those that the plugin draws from ``seed`` by ``strategy``: turns, or stalls.

    Without a change a turn has ``turn`` instructions, with 0 until QEMU's next timer. The log may have ``values``.
    ``uses``: an instruction reads a line that CPUs share, a number, or writes it (True); sorted.
    """

    changes: tuple[Change, ...] = ()
    strategy: str = ""
    seed: int = 0
    turn: int = 0
    values: bool = False
    uses: tuple[tuple[int, int, bool], ...] = ()

    @property
    def text(self) -> str:
        drawn = {
            TURNS: f"turns {self.seed}\n",
            STALLS: f"stalls {self.seed} {_PERMILLE[self.seed % len(_PERMILLE)]} {self.seed // 4 % 2}\n",
        }
        turn = f"turn {self.turn}\n" if self.turn and self.strategy != TURNS else ""
        uses = "".join(f"uses {address:x} {line} {'rw'[writes]}\n" for address, line, writes in self.uses)
        head = turn + "values\n" * self.values + uses
        return head + drawn.get(self.strategy, "") + "".join(f"{change}\n" for change in self.changes)


@dataclass(frozen=True)
class Course:
    """What a boot did: ``hits`` of places, a digest of their ``order``, and how often each began on each CPU.

    ``pairs``: a CPU began the second place when the last one of another CPU was the first; both use one shared line,
    and one of them writes it.
    """

    hits: int = 0
    order: str = ""
    changes: int = 0
    places: Mapping[tuple[int, int], int] = field(default_factory=dict, repr=False)
    pairs: frozenset[tuple[int, int]] = field(default=frozenset(), repr=False)

    def among(self, addresses: Collection[int]) -> "Course":
        """With places at these ``addresses`` alone, unless there are none."""
        left = {place: count for place, count in self.places.items() if place[1] in addresses}
        return replace(self, places=left or self.places)


def read_course(text: str) -> Course:
    """A measured file ``SCHEDULE_RESULT``. Raises LabBroken."""
    head, *rows = map(str.split, text.splitlines())
    try:
        _, hits, _, order, _, changes = head
        places = {(int(cpu), int(at, 16)): int(count) for _, cpu, at, *rest in rows for count in rest}
        pairs = frozenset((int(first, 16), int(second, 16)) for _, first, second, *rest in rows if not rest)
        return Course(int(hits), order, int(changes), places, pairs)
    except ValueError as error:
        raise LabBroken(f"the plugin's schedule cannot be read: {error}", remedy="report this as a bug") from error


def drawn(strategy: str, seed: int, places: Mapping[tuple[int, int], int]) -> Schedule:
    """The schedule of a seed. ``few``: one to three changes at ``places``, of a boot without changes.

    Half of the changes are at a place drawn from all, whatever its count, half at one of all the times that a place
    was begun. With more than two CPUs one of the others executes before the rest: PCT's priorities.
    """
    if strategy != FEW:
        return Schedule((), strategy, seed)
    random_of = random.Random(seed)  # noqa: S311 # repeatable, not secret
    every, counts = sorted(places), [places[each] for each in sorted(places)]
    cpus = sorted({cpu for cpu, _ in every})
    changes = set()
    for _ in range(1 + seed % 3):
        weights = counts if random_of.getrandbits(1) else None
        ((cpu, address),) = random_of.choices(every, weights)
        length = round(10 ** random_of.uniform(_SHORTEST, _LONGEST))
        passes = random_of.choice((1, 1, 2, 8))
        nth = random_of.randint(1, places[cpu, address])
        others = [each for each in cpus if each != cpu]
        leader = random_of.choice(others) if len(others) > 1 else NOBODY
        changes.add(Change(cpu, address, nth, length, passes, leader))
    return Schedule(tuple(sorted(changes)))


@dataclass(frozen=True)
class Position:
    """Where ``cpu`` goes on, at the ``executed`` instruction of all CPUs.

    ``values`` are what instructions there read and wrote last, by their addresses, as far as the log has them.
    """

    cpu: int
    address: int
    executed: int
    values: Mapping[int, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class LoggedChange:
    """A change that was made, where other CPUs executed meanwhile, and where its own CPU went on.

    ``values`` are those of the block behind which it stopped. ``stops`` are its further passes, each as a change.
    """

    change: Change
    executed: int
    others: tuple[Position, ...]
    back: Position | None
    values: Mapping[int, int] = field(default_factory=dict, compare=False)
    stops: tuple[Change, ...] = ()


def read_log(folder: Path) -> Iterator[LoggedChange]:
    """The changes that a boot in ``folder`` made, in their order; also of one that did not end."""
    path = folder / SCHEDULE_LOG
    rows = [line.split() for line in path.read_text().splitlines()] if path.is_file() else []
    starts = [place for place, row in enumerate(rows) if row[0] == "change"]
    for start, end in pairwise((*starts, len(rows))):
        cpu, begin, *numbers, executed = rows[start][1:]
        stopped = dict[int, int]()
        # The line of a block is before its values, and CPUs execute one at a time.
        latest, positions, stops = {cpu: stopped}, list[tuple[str, Position]](), list[tuple[int, int]]()
        for word, number, at, *rest in rows[start + 1 : end]:
            if word == "value":
                latest.get(number, stopped)[int(at, 16)] = int(rest[-1], 16)
                continue
            latest[number] = {}
            if word != "stop":
                positions.append((word, Position(int(number), int(at, 16), int(rest[0]), latest[number])))
            elif number == cpu and rest[1] != "0":
                stops.append((int(at, 16), int(rest[1])))
        back = next((position for word, position in positions if word == "back" and position.cpu == int(cpu)), None)
        others = tuple(position for word, position in positions if word == "run")
        change = Change(int(cpu), int(begin, 16), *map(int, numbers))
        again = (replace(change, address=address, nth=nth, passes=1) for address, nth in stops)
        yield LoggedChange(change, int(executed), others, back, stopped, tuple(again))

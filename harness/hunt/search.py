# SPDX-License-Identifier: GPL-2.0-only
"""Boots of one scenario under schedules of successive seeds, side by side, until a fault or to a limit."""

import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from shutil import rmtree
from statistics import mean
from typing import Any

from harness.hunt.trial import Fault, Ground, Trial, ready
from harness.run.bench import BootMaker
from harness.scenario.model import Scenario
from lab.base.errors import Misuse
from lab.base.units import Tell
from lab.kernels.model import Kernel
from lab.schedule import FEW, STALLS, TURNS, Schedule, drawn, read_log
from lab.session import Lab, run_job

MIXED = "mixed"
STRATEGIES = (MIXED, FEW, STALLS, TURNS)
_SHARES = (0, 1, 0, 1, 0, 1, 0, 2)
"""The places of eight seeds of ``mixed`` in the order of what strategies find."""
SEEDS_FILE = "seeds.jsonl"


@dataclass(frozen=True)
class Limits:
    """A search: ``seeds`` from ``first`` on (0: any number), for ``minutes`` at most; a fault of ``kind``, if
    named, ends it unless ``on``."""

    seeds: int
    minutes: float = math.inf
    first: int = 1
    on: bool = False
    kind: str = ""

    def end(self, fault: Fault | None) -> bool:
        return fault is not None and self.kind in ("", fault.kind) and not self.on


@dataclass(frozen=True)
class Find:
    """A seed under which the scenario failed; ``trial`` has its folder, ``strategy`` drew the schedule."""

    seed: int
    ground: Ground
    schedule: Schedule
    trial: Trial
    strategy: str


@dataclass
class Progress:
    """``orders`` are digests of the order in which CPUs passed the places; ``earlier`` seeds were done before.

    ``pairs`` are accesses of two CPUs to one shared line, of which one writes, in their order: arm and two places.
    ``phases`` are seconds of host time by phase, of all boots.
    """

    seeds: int = 0
    earlier: int = 0
    changes: int = 0
    orders: set[str] = field(default_factory=set)
    pairs: set[tuple[str, int, int]] = field(default_factory=set)
    finds: list[Find] = field(default_factory=list)
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)

    @property
    def both(self) -> int:
        """Pairs of places that were passed in either order."""
        return sum((arm, second, first) in self.pairs for arm, first, second in self.pairs if first <= second)

    @property
    def either(self) -> int:
        """Pairs of places that were passed in one order at least."""
        return len({(arm, *sorted(places)) for arm, *places in self.pairs})


def demand_cpus(scenario: Scenario, arms: Sequence[str]) -> None:
    """Raises Misuse for what has no schedules."""
    if not scenario.timing.exact:
        raise Misuse(f"{scenario.name} is of the wall clock", remedy="hunt takes scenarios whose boots repeat exactly")
    if alone := [name for name in arms if not scenario.arms[name].topology.processors.several]:
        raise Misuse(f"arm {alone[0]} of {scenario.name} has one CPU", remedy="machine: {cpus: 2} in its topology")


def folder_of(results: Path, scenario: Scenario, spec: str) -> Path:
    """That of all searches with this scenario on the kernel ``spec``."""
    plain = "".join(char if char.isalnum() or char in "-.+" else "-" for char in spec)
    folder = results / "hunts" / f"{scenario.name}-{plain}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def grounds_of(
    lab: Lab, kernel: Kernel, scenario: Scenario, arms: Sequence[str], root: Path, *, at: Sequence[str] = (), tell: Tell
) -> Iterator[Ground]:
    """Raises what ``ready`` raises."""
    for name in arms:
        folder = root / f"ready-{name}"
        rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield ready(lab, kernel, (scenario, scenario.arms[name]), functions=at, folder=folder, tell=tell)


class Mix:
    """``mixed``: of each eight seeds from ``first`` on four are of the strategy that found most before the last eight,
    three of the second, one of the third. What a seed finds are pairs of accesses that a boot without changes does not
    pass; their mean counts. What a seed is depends on no time, however many are made at once."""

    def __init__(self, first: int) -> None:
        self._first, self._kinds, self._gains = first, dict[int, str](), dict[int, int]()

    def _known(self, seed: int) -> range:
        block = (seed - self._first) // len(_SHARES)
        return range(self._first, self._first + max(0, block - 1) * len(_SHARES))

    def ready(self, seed: int) -> bool:
        """Whether all is known by which its strategy is chosen."""
        return all(each in self._gains for each in self._known(seed))

    def kind(self, seed: int) -> str:
        gains: dict[str, list[int]] = {FEW: [], STALLS: [], TURNS: []}
        for each in self._known(seed):
            gains[self._kinds[each]].append(self._gains[each])
        order = sorted(gains, key=lambda kind: -mean(gains[kind] or [0]))
        self._kinds[seed] = order[_SHARES[(seed - self._first) % len(_SHARES)]]
        return self._kinds[seed]

    def note(self, seed: int, kind: str, gain: int) -> None:
        self._kinds[seed], self._gains[seed] = kind, gain


class Search:
    """A folder in ``root`` keeps a line for each seed, and the boots of finds."""

    def __init__(
        self,
        grounds: Sequence[Ground],
        strategy: str,
        root: Path,
        at_once: int,
        tell: Callable[[Progress], None] = lambda _: None,
        *,
        make: BootMaker = run_job,
    ) -> None:
        self._grounds, self._strategy = grounds, strategy
        self._root = root
        self._at_once, self._tell, self._make = at_once, tell, make
        self._abort = threading.Event()
        self._progress, self._mix = Progress(), Mix(1)
        self._passed = {ground.arm.name: ground.course.pairs for ground in grounds}

    def run(self, limits: Limits) -> Progress:
        """Raises what a boot raises, after the others were stopped."""
        started, progress = time.monotonic(), self._progress
        self._mix = Mix(limits.first)
        # What a seed of mixed is depends on the first one.
        name = f"{self._strategy}-{limits.first}" if self._strategy == MIXED else self._strategy
        self._folder = self._root / f"{name}-{self._grounds[0].identity[:12]}-{self._grounds[-1].identity[:12]}"
        self._folder.mkdir(exist_ok=True)
        done = self._earlier()
        end = started + 60 * limits.minutes
        seeds = deque[int]()
        more = (seed for seed in self._seeds(limits) if seed not in done)
        waiting: dict[Future[Find], int] = {}
        with ThreadPoolExecutor(self._at_once) as pool:
            try:
                while True:
                    ending = time.monotonic() > end or any(limits.end(find.trial.fault) for find in progress.finds)
                    while not ending and len(waiting) < self._at_once:
                        seeds.extend(islice(more, 1 - len(seeds)))
                        if not seeds or (self._strategy == MIXED and not self._mix.ready(seeds[0])):
                            break
                        seed = seeds.popleft()
                        kind = self._mix.kind(seed) if self._strategy == MIXED else self._strategy
                        waiting[pool.submit(self._try, seed, kind)] = seed
                    if not waiting:
                        break
                    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                        del waiting[future]
                        self._note(future.result())
                    progress.seconds = time.monotonic() - started
                    self._tell(progress)
            finally:
                self._abort.set()
        return progress

    @staticmethod
    def _seeds(limits: Limits) -> Iterator[int]:
        seed = limits.first
        while not limits.seeds or seed < limits.first + limits.seeds:
            yield seed
            seed += 1

    def _ground(self, seed: int) -> Ground:
        return self._grounds[seed % len(self._grounds)]

    def _try(self, seed: int, kind: str) -> Find:
        ground, folder = self._ground(seed), self._folder / f"seed-{seed}"
        schedule = drawn(kind, seed, ground.course.places)
        trial = ground.boot(schedule, folder, self._abort, self._make)
        if trial.fault is None:
            rmtree(folder)
        return Find(seed, ground, schedule, trial, kind)

    def _note(self, find: Find) -> None:
        trial, progress = find.trial, self._progress
        row: dict[str, Any] = {"seed": find.seed, "arm": find.ground.arm.name, "digest": trial.digest}
        # A guest that did not come to the end of its loads has its log alone.
        row |= {"strategy": find.strategy, "gain": 0, "changes": len([*read_log(trial.folder)])}
        if trial.course:
            passed = trial.course.pairs
            row["gain"] = len(passed - self._passed[find.ground.arm.name])
            pairs = sorted(pair for pair in passed if (find.ground.arm.name, *pair) not in progress.pairs)
            row |= {"order": trial.course.order, "changes": trial.course.changes, "pairs": pairs}
        if trial.fault:
            row |= {"fault": str(trial.fault)}
            progress.finds.append(find)
        for phase, seconds in trial.seconds.items():
            progress.phases[phase] = progress.phases.get(phase, 0.0) + seconds
        self._count(row)
        with (self._folder / SEEDS_FILE).open("a") as file:
            file.write(json.dumps(row) + "\n")

    def _count(self, row: dict[str, Any]) -> None:
        self._progress.seeds += 1
        self._mix.note(row["seed"], row["strategy"], row["gain"])
        self._progress.changes += row.get("changes", 0)
        self._progress.orders.add(row.get("order", str(row["seed"])))
        self._progress.pairs |= {(row["arm"], first, second) for first, second in row.get("pairs", ())}

    def _earlier(self) -> set[int]:
        """The seeds that this search had done when it was interrupted; finds are made again."""
        path = self._folder / SEEDS_FILE
        lines = path.read_text().splitlines() if path.is_file() else []
        # The last line may be cut off.
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        rows = [row for row in rows if "fault" not in row]
        for row in rows:
            self._count(row)
        self._progress.earlier = len(rows)
        return {row["seed"] for row in rows}

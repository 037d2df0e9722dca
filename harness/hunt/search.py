# SPDX-License-Identifier: GPL-2.0-only
"""Boots of one scenario under schedules of successive seeds, side by side, until a fault or to a limit."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any

from harness.hunt.trial import Fault, Ground, Trial, ready
from harness.run.boots import BootMaker
from harness.scenario.model import Scenario
from lab.base.errors import Misuse
from lab.base.units import Tell
from lab.kernels.model import Kernel
from lab.schedule import FEW, STALLS, TURNS, Schedule, drawn
from lab.session import Lab, run_job

MIXED = "mixed"
STRATEGIES = (MIXED, FEW, STALLS, TURNS)
_MIX = (FEW, FEW, FEW, STALLS)
SEEDS_FILE = "seeds.jsonl"


@dataclass(frozen=True)
class Limits:
    """A search: ``seeds`` from ``first`` on, or ``minutes``; unless ``on`` a fault of ``kind``, if named, ends it."""

    seeds: int
    minutes: float = 0.0
    first: int = 1
    on: bool = False
    kind: str = ""

    def end(self, fault: Fault | None) -> bool:
        return fault is not None and self.kind in ("", fault.kind) and not self.on


@dataclass(frozen=True)
class Find:
    """A seed under which the scenario failed; ``trial`` has its folder."""

    seed: int
    ground: Ground
    schedule: Schedule
    trial: Trial


@dataclass
class Searched:
    """``orders`` are digests of the order in which CPUs passed the places; ``earlier`` seeds were done before.

    ``phases`` are seconds of host time by phase, of all boots.
    """

    seeds: int = 0
    earlier: int = 0
    changes: int = 0
    orders: set[str] = field(default_factory=set)
    finds: list[Find] = field(default_factory=list)
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)


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


def schedule_of(ground: Ground, strategy: str, seed: int) -> Schedule:
    """The schedule of a seed; ``mixed`` takes the strategies in turn."""
    kind = _MIX[seed % len(_MIX)] if strategy == MIXED else strategy
    return drawn(kind, seed, ground.course.places)


class Search:
    """A folder in ``root`` keeps a line for each seed, and the boots of finds."""

    def __init__(
        self,
        grounds: Sequence[Ground],
        strategy: str,
        root: Path,
        at_once: int,
        progress: Callable[[Searched], None] = lambda _: None,
        *,
        make: BootMaker = run_job,
    ) -> None:
        self._grounds, self._strategy = grounds, strategy
        self._folder = root / f"{strategy}-{grounds[0].identity[:12]}-{grounds[-1].identity[:12]}"
        self._folder.mkdir(exist_ok=True)
        self._at_once, self._progress, self._make = at_once, progress, make
        self._abort = threading.Event()
        self._searched = Searched()

    def run(self, limits: Limits) -> Searched:
        """Raises what a boot raises, after the others were stopped."""
        started, searched = time.monotonic(), self._searched
        done = self._earlier()
        end = started + 60 * limits.minutes if limits.minutes else float("inf")
        seeds = (seed for seed in self._seeds(limits) if seed not in done)
        waiting: dict[Future[Find], int] = {}
        with ThreadPoolExecutor(self._at_once) as pool:
            try:
                while True:
                    ending = time.monotonic() > end or any(limits.end(find.trial.fault) for find in searched.finds)
                    while not ending and len(waiting) < self._at_once and (seed := next(seeds, None)) is not None:
                        waiting[pool.submit(self._try, seed)] = seed
                    if not waiting:
                        break
                    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                        del waiting[future]
                        self._note(future.result())
                    searched.seconds = time.monotonic() - started
                    self._progress(searched)
            finally:
                self._abort.set()
        return searched

    @staticmethod
    def _seeds(limits: Limits) -> Iterator[int]:
        seed = limits.first
        while limits.minutes or seed < limits.first + limits.seeds:
            yield seed
            seed += 1

    def _ground(self, seed: int) -> Ground:
        return self._grounds[seed % len(self._grounds)]

    def _try(self, seed: int) -> Find:
        ground, folder = self._ground(seed), self._folder / f"seed-{seed}"
        schedule = schedule_of(ground, self._strategy, seed)
        trial = ground.boot(schedule, folder, self._abort, self._make)
        if trial.fault is None:
            rmtree(folder)
        return Find(seed, ground, schedule, trial)

    def _note(self, find: Find) -> None:
        trial, searched = find.trial, self._searched
        row: dict[str, Any] = {"seed": find.seed, "arm": find.ground.arm.name, "digest": trial.digest}
        if trial.course:
            row |= {"order": trial.course.order, "changes": trial.course.changes}
        if trial.fault:
            row |= {"fault": str(trial.fault)}
            searched.finds.append(find)
        for phase, seconds in trial.seconds.items():
            searched.phases[phase] = searched.phases.get(phase, 0.0) + seconds
        self._count(row)
        with (self._folder / SEEDS_FILE).open("a") as file:
            file.write(json.dumps(row) + "\n")

    def _count(self, row: dict[str, Any]) -> None:
        self._searched.seeds += 1
        self._searched.changes += row.get("changes", 0)
        self._searched.orders.add(row.get("order", str(row["seed"])))

    def _earlier(self) -> set[int]:
        """The seeds that this search had done when it was interrupted; finds are made again."""
        path = self._folder / SEEDS_FILE
        lines = path.read_text().splitlines() if path.is_file() else []
        # The last line may be cut off.
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        rows = [row for row in rows if "fault" not in row]
        for row in rows:
            self._count(row)
        self._searched.earlier = len(rows)
        return {row["seed"] for row in rows}

# SPDX-License-Identifier: GPL-2.0-only
"""The boots of one run: turns on this host, threads, records, and which of the planned ones are made."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from harness.base.files import copy_atomic
from harness.judge.verdict import Verdict, unmade
from harness.record.judging import judge_run, result_of
from harness.record.store import PlannedCell, RunFolder, Store, save_boot
from harness.run.events import CellFinished, CellPhase, CellStarted, Listener
from harness.scenario.model import Scenario
from harness.scenario.ratio import named_lines
from lab.base import host
from lab.base.record import BootRecord
from lab.observers import counted
from lab.session import Lab, PhaseSeen, PreparedJob, run_job
from lab.symbols import with_line_names


class Stopped(Exception):
    """The run was aborted before this boot had ended."""


@dataclass(frozen=True)
class _Turn:
    """A waiting or running boot. ``rank`` orders waiting boots; ``memory`` in bytes includes QEMU's overhead."""

    rank: int
    number: int
    memory: int
    alone: bool


@dataclass
class Lanes:
    """At most ``at_once`` boots at a time, whose guests together use at most ``memory`` bytes.

    The lowest rank starts first, but a boot that does not fit does not block one that does. A single boot
    may always run.
    """

    at_once: int
    memory: int
    _waiting: list[_Turn] = field(default_factory=list)
    _running: list[_Turn] = field(default_factory=list)
    _aborts: list[threading.Event] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _count: int = 0
    _stopped: bool = False

    @contextmanager
    def taken(self, memory: int, *, rank: int = 0, alone: bool = False, abort: threading.Event) -> Iterator[None]:
        """Wait until a guest of ``memory`` bytes fits; with ``alone``, until no other runs. ``stop`` sets ``abort``.

        Raises Stopped when ``abort`` is set while waiting.
        """
        turn = self._turn(memory, rank, alone, abort)
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(turn)
                self._aborts.remove(abort)
                self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            for abort in self._aborts:
                abort.set()
            self._changed.notify_all()

    def nudge(self) -> None:
        """Wake waiting boots after an ``abort`` was set."""
        with self._changed:
            self._changed.notify_all()

    def _turn(self, memory: int, rank: int, alone: bool, abort: threading.Event) -> _Turn:
        with self._changed:
            self._count += 1
            turn = _Turn(rank, self._count, memory + host.GUEST_OVERHEAD, alone)
            self._waiting.append(turn)
            try:
                self._changed.wait_for(lambda: self._stopped or abort.is_set() or self._next() is turn)
                if self._stopped or abort.is_set():
                    raise Stopped
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()
            self._running.append(turn)
            self._aborts.append(abort)
        return turn

    def _next(self) -> _Turn | None:
        fitting = (turn for turn in self._waiting if self._fits(turn))
        return min(fitting, key=lambda turn: (turn.rank, turn.number), default=None)

    def _fits(self, turn: _Turn) -> bool:
        if not self._running:
            return True
        if turn.alone or any(other.alone for other in self._running):
            return False
        used = sum(other.memory for other in self._running)
        return len(self._running) < self.at_once and used + turn.memory <= self.memory


Jobs = Mapping[tuple[str, int], PreparedJob]
"""The prepared job of each arm and seed that the kernel and QEMU can run."""


class BootMaker(Protocol):
    """The signature of ``lab.session.run_job``."""

    def __call__(
        self, lab: Lab, prepared: PreparedJob, folder: Path, *, phase_seen: PhaseSeen, abort: threading.Event | None
    ) -> BootRecord: ...


@dataclass(frozen=True)
class Turns:
    """How the boots of a run share the host with those of other runs. The lowest ``rank`` starts first.

    ``boot`` makes one boot, on this host or on another.
    """

    lanes: Lanes
    rank: int = 0
    boot: BootMaker = run_job


@dataclass
class Boots:
    """Makes the boots of one run. One thread starts a machine and follows it until it has ended.

    ``made`` counts the boots started so far.
    """

    lab: Lab
    scenario: Scenario
    folder: RunFolder
    jobs: Jobs
    listener: Listener
    turns: Turns
    abort: threading.Event = field(default_factory=threading.Event)
    made: int = 0

    def make(self, cells: Sequence[PlannedCell]) -> Verdict:
        """Make these boots, as many at a time as ``at_once`` says, and judge all that the run has then."""
        self.abort.clear()
        pool = ThreadPoolExecutor(self.at_once(cells), thread_name_prefix="boot")
        try:
            # Within: a thread that an interrupt leaves unknown to the pool would be waited for for ever at the end.
            futures = [pool.submit(self._boot, number, cell) for number, cell in enumerate(cells, start=self.made + 1)]
            self.made += len(cells)
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        finally:
            self.abort.set()
            self.turns.lanes.nudge()
            pool.shutdown(cancel_futures=True)
        return judge_run(self.folder)

    def at_once(self, cells: Sequence[PlannedCell]) -> int:
        """Boots side by side: limited by the lanes, by memory for the largest guest, and by ``cells``."""
        if self.scenario.timing.alone:
            return 1
        memory = max((self.scenario.arms[cell.arm].topology.memory for cell in cells), default=0)
        lanes = self.turns.lanes
        return max(1, min(lanes.at_once, host.guests_that_fit(memory, lanes.memory), len(cells)))

    def _boot(self, number: int, cell: PlannedCell) -> None:
        memory = self.scenario.arms[cell.arm].topology.memory
        alone = self.scenario.timing.alone
        with self.turns.lanes.taken(memory, rank=self.turns.rank, alone=alone, abort=self.abort):
            self._boot_now(number, cell)

    def _boot_now(self, number: int, cell: PlannedCell) -> None:
        started = time.monotonic()
        self.listener(CellStarted(number, cell.arm, cell.seed))
        job = self.jobs[cell.arm, cell.seed]

        def phase_seen(phase: str) -> None:
            self.listener(CellPhase(number, phase))

        record = self.turns.boot(
            # A repetition boots: --verify compares a guest that was restored with one that was not.
            replace(self.lab, cold=self.lab.cold or cell.repeat > 0),
            counted(self.lab, job, phase_seen),
            self.folder.fresh_boot_folder(cell),
            phase_seen=phase_seen,
            abort=self.abort,
        )
        if self.abort.is_set():
            raise Stopped
        record = with_line_names(self.lab, job, record, named_lines(self.scenario), phase_seen)
        save_boot(record)
        result = result_of(self.folder, cell, record)
        seconds = time.monotonic() - started
        reason = "; ".join(result.reasons)
        self.listener(CellFinished(number, cell.arm, cell.seed, result.status, seconds, reason))


def recorded(folder: RunFolder, cell: PlannedCell, jobs: Jobs) -> bool:
    """Whether the cell has a complete record of exactly this job that host interference did not invalidate."""
    return _record(folder, cell, jobs[cell.arm, cell.seed]) is not None


def _record(folder: RunFolder, cell: PlannedCell, job: PreparedJob) -> BootRecord | None:
    record = folder.boot(cell)
    if record is None or record.outcome.invalidated_by_host or dict(record.fingerprint) != dict(job.fingerprint):
        return None
    return record


def adopt(store: Store, run: RunFolder, cell: PlannedCell, job: PreparedJob) -> bool:
    """Copy the cell's boot from another run with the same fingerprint. Return whether there was one.

    Complete boots of a run in progress qualify too. Raises LabBroken.
    """
    for other in reversed(store.runs_like(run)):
        for twin in other.facts.cells:
            if twin.skip or (twin.arm, twin.seed) != (cell.arm, cell.seed):
                continue
            if record := _record(other, twin, job):
                copy_atomic(record.folder, run.boot_folder(cell))
                if run.boot(cell) is not None:
                    return True
    return False


Side = tuple[Boots, Sequence[PlannedCell]]
"""One of two kernels that are measured together, and its boots that are waiting."""


class EveryBoot:
    """Makes every planned boot, side by side."""

    def make(self, boots: Boots, waiting: Sequence[PlannedCell], base: Side | None = None) -> Verdict:
        """Make the boots that are waiting, or as many as the rule needs, and judge the run; ``base`` is beside it."""
        return boots.make(waiting)

    def complete(self, run: RunFolder, jobs: Jobs) -> bool:
        """Whether the run made every boot that its verdict rests on, each of exactly these jobs."""
        return all(recorded(run, cell, jobs) for cell in run.facts.cells if not cell.skip)

    def repeatable(self, verdict: Verdict) -> bool:
        """Whether the run stays unfinished, so that the same command repeats boots that the host invalidated."""
        return False


class UntilDecided(EveryBoot):
    """Makes rounds of all arms, and of the BASE kernel in turn, until the stopping rule is met."""

    def make(self, boots: Boots, waiting: Sequence[PlannedCell], base: Side | None = None) -> Verdict:
        sides = ((boots, waiting), *([base] if base else []))
        for side, cells in sides:
            for cell in cells:
                # A boot that the host invalidated left a record; without removing it, judging would count it.
                if side.folder.boot_folder(cell).exists():
                    side.folder.fresh_boot_folder(cell)
        verdict = judge_run(boots.folder)
        for seed in sorted({cell.seed for _, cells in sides for cell in cells}):
            if not unmade(verdict):
                break
            # Boots of another run on this host would be noise in this round.
            with boots.lab.cache.workspace("turn", "wall"):
                # There and back, as the arms: a drift of the host affects both kernels alike.
                for side, cells in sides if seed % 2 else sides[::-1]:
                    side.make([cell for cell in cells if cell.seed == seed])
            verdict = judge_run(boots.folder)
        return verdict

    def complete(self, run: RunFolder, jobs: Jobs) -> bool:
        made = [cell for cell in run.facts.cells if not cell.skip and run.boot(cell) is not None]
        return all(recorded(run, cell, jobs) for cell in made) and not unmade(judge_run(run))

    def repeatable(self, verdict: Verdict) -> bool:
        return any(cell.outcome and cell.outcome.invalidated_by_host for cell in verdict.all_cells)

# SPDX-License-Identifier: GPL-2.0-only
"""The boots of one run: made in threads, recorded in the run's folder."""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from harness.base.files import copy_atomic
from harness.judge.verdict import Verdict
from harness.record.judging import judge_run, result_of
from harness.record.store import PlannedCell, RunFolder, Store, save_boot
from harness.run.events import CellFinished, CellPhase, CellStarted, Listener
from harness.run.lanes import Lanes, Stopped
from harness.scenario.model import Scenario
from lab import sharing
from lab.base import host
from lab.base.record import BootRecord
from lab.session import Lab, PhaseSeen, PreparedJob

Jobs = Mapping[tuple[str, int], PreparedJob]
"""The prepared job of each arm and seed that the kernel and QEMU can run."""


class BootMaker(Protocol):
    """The signature of ``lab.sharing.boot``."""

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
    boot: BootMaker = sharing.boot


@dataclass
class Boots:
    """Makes the boots of one run. One thread starts a machine and follows it until it has ended.

    ``alone`` admits no other boot on the host at the same time. ``made`` counts the boots started so far.
    """

    lab: Lab
    scenario: Scenario
    folder: RunFolder
    jobs: Jobs
    listener: Listener
    turns: Turns
    alone: bool
    abort: threading.Event = field(default_factory=threading.Event)
    made: int = 0

    def make(self, cells: Sequence[PlannedCell]) -> Verdict:
        """Make these boots, as many at a time as ``at_once`` says, and judge all that the run has then."""
        self.abort.clear()
        pool = ThreadPoolExecutor(self.at_once(cells), thread_name_prefix="boot")
        futures = [pool.submit(self._boot, number, cell) for number, cell in enumerate(cells, start=self.made + 1)]
        self.made += len(cells)
        try:
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
        if self.alone:
            return 1
        memory = max((self.scenario.arms[cell.arm].topology.memory for cell in cells), default=0)
        lanes = self.turns.lanes
        return max(1, min(lanes.at_once, host.guests_that_fit(memory, lanes.memory), len(cells)))

    def _boot(self, number: int, cell: PlannedCell) -> None:
        memory = self.scenario.arms[cell.arm].topology.memory
        with self.turns.lanes.taken(memory, rank=self.turns.rank, alone=self.alone, abort=self.abort):
            self._boot_now(number, cell)

    def _boot_now(self, number: int, cell: PlannedCell) -> None:
        started = time.monotonic()
        self.listener(CellStarted(number, cell.arm, cell.seed))
        record = self.turns.boot(
            # A repetition boots: --verify compares a guest that was restored with one that was not.
            replace(self.lab, cold=self.lab.cold or cell.repeat > 0),
            self.jobs[cell.arm, cell.seed],
            self.folder.fresh_boot_folder(cell),
            phase_seen=lambda phase: self.listener(CellPhase(number, phase)),
            abort=self.abort,
        )
        if self.abort.is_set():
            raise Stopped
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

# SPDX-License-Identifier: GPL-2.0-only
"""The measuring service: from a request to a judged run. Nothing else plans, boots and stores a run."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from harness.base.files import copy_atomic, held_one
from harness.judge.verdict import Verdict, unmade
from harness.limits.cost import arm_seconds
from harness.record.judging import Altered, Run, judge_run, result_of
from harness.record.store import PlannedCell, RunFolder, Store, load_run, readable, save_boot
from harness.run.events import CellFinished, CellPhase, CellStarted, Listener, RunStarted, nobody
from harness.run.plan import Jobs, PlannedRun, Request, plan_run
from harness.scenario.model import Scenario
from harness.scenario.ratio import named_lines
from lab.base import host
from lab.base.errors import LabBroken, Misuse
from lab.base.record import BootRecord
from lab.base.units import show_size
from lab.observers import counted
from lab.session import Lab, PhaseSeen, PreparedJob, run_job
from lab.symbols import with_line_names


class Stopped(Exception):
    """The run was aborted before this boot had ended."""


@dataclass(frozen=True, eq=False)
class _Turn:
    """A waiting or running boot. ``rank`` orders waiting boots; ``memory`` in bytes includes QEMU's overhead."""

    rank: int
    memory: int
    alone: bool
    abort: threading.Event


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
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _stopped: bool = False

    @contextmanager
    def taken(self, memory: int, *, rank: int = 0, alone: bool = False, abort: threading.Event) -> Iterator[None]:
        """Wait until a guest of ``memory`` bytes fits; with ``alone``, until no other runs. ``stop`` sets ``abort``.

        Raises Stopped when ``abort`` is set while waiting.
        """
        turn = _Turn(rank, memory + host.GUEST_OVERHEAD, alone, abort)
        with self._changed:
            self._waiting.append(turn)
            try:
                self._changed.wait_for(lambda: self._stopped or abort.is_set() or self._next() is turn)
                if self._stopped or abort.is_set():
                    raise Stopped
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()
            self._running.append(turn)
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(turn)
                self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            for turn in self._running:
                turn.abort.set()
            self._changed.notify_all()

    def nudge(self) -> None:
        """Wake waiting boots after an ``abort`` was set."""
        with self._changed:
            self._changed.notify_all()

    def _next(self) -> _Turn | None:
        """Of those of the lowest rank that fit the one that came first."""
        return min(filter(self._fits, self._waiting), key=lambda turn: turn.rank, default=None)

    def _fits(self, turn: _Turn) -> bool:
        if not self._running:
            return True
        if turn.alone or any(other.alone for other in self._running):
            return False
        used = sum(other.memory for other in self._running)
        return len(self._running) < self.at_once and used + turn.memory <= self.memory


class BootMaker(Protocol):
    """The signature of ``lab.session.run_job``."""

    def __call__(
        self, lab: Lab, prepared: PreparedJob, folder: Path, *, phase_seen: PhaseSeen, abort: threading.Event | None
    ) -> BootRecord: ...


@dataclass(frozen=True)
class Turns:
    """How boots share a host; ``boot`` makes one, on this host or on another."""

    lanes: Lanes
    boot: BootMaker = run_job


@dataclass
class Boots:
    """Makes the boots of one run. One thread starts a machine and follows it until it has ended.

    ``waiting`` have no record yet. ``made`` counts the boots started so far.
    """

    lab: Lab
    scenario: Scenario
    folder: RunFolder
    jobs: Jobs
    waiting: Sequence[PlannedCell]
    listener: Listener
    turns: Turns
    rank: int
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
        with self.turns.lanes.taken(memory, rank=self.rank, alone=alone, abort=self.abort):
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


def _is_of(record: BootRecord | None, job: PreparedJob) -> bool:
    """Whether a cell has a complete record, of exactly this job, that host interference did not invalidate."""
    if record is None or record.outcome.invalidated_by_host:
        return False
    return dict(record.fingerprint) == dict(job.fingerprint)


def adopt(store: Store, run: RunFolder, cell: PlannedCell, job: PreparedJob) -> bool:
    """Copy the cell's boot from another run with the same fingerprint. Return whether there was one.

    Complete boots of a run in progress qualify too. Raises LabBroken.
    """
    for other in reversed(store.runs_like(run)):
        for twin in other.facts.cells:
            if twin.skip or (twin.arm, twin.seed) != (cell.arm, cell.seed):
                continue
            if _is_of(other.boot(twin), job):
                copy_atomic(other.boot_folder(twin), run.boot_folder(cell))
                if run.boot(cell) is not None:
                    return True
    return False


def _until_decided(sides: Sequence[Boots]) -> Verdict:
    """Make rounds of all arms, of both kernels in turn, until the stopping rule of the first one is met."""
    for side in sides:
        for cell in side.waiting:
            # A boot that the host invalidated left a record; without removing it, judging would count it.
            if side.folder.boot_folder(cell).exists():
                side.folder.fresh_boot_folder(cell)
    boots = sides[0]
    verdict = judge_run(boots.folder)
    for seed in sorted({cell.seed for side in sides for cell in side.waiting}):
        if not unmade(verdict):
            break
        # Boots of another run on this host would be noise in this round.
        with boots.lab.cache.workspace("turn", "wall"):
            # There and back, as the arms: a drift of the host affects both kernels alike.
            for side in sides if seed % 2 else reversed(sides):
                side.make([cell for cell in side.waiting if cell.seed == seed])
        verdict = judge_run(boots.folder)
    return verdict


Watch = Callable[[], AbstractContextManager[Listener]]
"""Opens a display of one run's progress."""


def unwatched() -> AbstractContextManager[Listener]:
    return nullcontext(nobody)


def turns_of_host(at_once: int = 0) -> Turns:
    """One boot per core (or $BLKLAB_JOBS, or ``at_once``), within the memory that is available now."""
    return Turns(Lanes(at_once or host.number_of("BLKLAB_JOBS", 1) or host.usable_cores(), host.memory_available()))


@dataclass(frozen=True)
class Bench:
    """Measures requests on one lab, into one results folder.

    ``turns`` are those of this host. Boots of the virtual clock are made on the ``cluster`` where there is one. Where
    several runs wait for their turns, the boots of the lowest ``rank`` start first.
    All methods raise what planning and boots raise.
    """

    lab: Lab
    store: Store
    watch: Watch = unwatched
    turns: Turns = field(default_factory=turns_of_host)
    cluster: Turns | None = None
    rank: int = 0

    def run(self, request: Request | PlannedRun) -> Run:
        """A new run, or an interrupted one of the same boots that is completed."""
        (run,) = self._carry_out(self.plan(request))
        return run

    def run_beside(self, base: Request, request: Request) -> tuple[Run, Run]:
        """Runs of the BASE kernel and of that of ``request`` in which rounds of both alternate, or an interrupted pair.

        The stopping rule of the second one ends both.
        """
        old, new = self.plan(base), self.plan(request)
        run, other = self._carry_out(new, replace(old, facts=replace(old.facts, beside=new.facts.kernel)))
        return other, run

    def measure(self, request: Request | PlannedRun) -> Run:
        """The newest earlier run with the same boots, else a new one with equal boots of other runs."""
        plan = self.plan(request)
        if earlier := self.earlier(plan):
            return earlier
        (run,) = self._carry_out(plan, adopting=True)
        return run

    def plan(self, request: Request | PlannedRun) -> PlannedRun:
        """What ``run`` would boot."""
        return request if isinstance(request, PlannedRun) else plan_run(self.lab, request)

    def stop(self) -> None:
        """Abort all boots, and start no more."""
        for turns in filter(None, (self.turns, self.cluster)):
            turns.lanes.stop()

    def earlier(self, plan: PlannedRun) -> Run | None:
        """The newest finished run with the same boots, judged with the scenario's words of today."""
        scenario = plan.request.scenario
        for folder in readable(reversed(self.store.runs(scenario.name))):
            with suppress(Misuse, Altered):
                made = ((plan.jobs[cell.arm, cell.seed], record) for cell, record in folder.boots())
                if plan.facts.repeats(folder.facts) and all(_is_of(record, job) for job, record in made):
                    known = replace(folder, scenario=scenario)
                    if not unmade(verdict := judge_run(known)):
                        return Run(known, verdict, earlier=True)
        return None

    def _carry_out(self, plan: PlannedRun, base: PlannedRun | None = None, *, adopting: bool = False) -> list[Run]:
        """Make every boot of the plan, and of ``base`` beside it, that has no record yet, and judge.

        Raises LabBroken, before anything is booted, when a guest does not fit into the host's memory, and what boots
        raise, after the other boots were stopped.
        """
        started, scenario = time.monotonic(), plan.request.scenario
        plans = [plan, base] if base else [plan]
        turns = self.turns if plan.timing.alone else self.cluster or self.turns
        for each in plans:
            _check_memory(each, turns.lanes.memory)
        self.store.check()
        with self._folders(plan, base) as folders, self.watch() as listener:
            sides = list[Boots]()
            for each, folder in zip(plans, folders, strict=True):
                waiting = self._waiting(each, folder, adopting=adopting)
                made = sum(len(side.waiting) for side in sides)
                sides.append(
                    Boots(self.lab, scenario, folder, each.jobs, waiting, listener, turns, self.rank, made=made)
                )
            boots, left = sides[0], sum(len(side.waiting) for side in sides)
            at_once = boots.at_once(boots.waiting)
            listener(RunStarted(scenario.name, plan.request.kernel.release, left, at_once, arm_seconds(scenario)))
            verdict = _until_decided(sides) if plan.timing.by_rule else boots.make(boots.waiting)
            invalidated = (cell.outcome and cell.outcome.invalidated_by_host for cell in verdict.all_cells)
            elapsed, unfinished = time.monotonic() - started, plan.timing.by_rule and any(invalidated)
            runs = []
            for side in sides:
                own = verdict if side is boots else judge_run(side.folder)
                resumed = sum(not cell.skip for cell in side.folder.facts.cells) - len(side.waiting)
                runs.append(Run(side.folder, own, resumed, unfinished))
            for run in reversed(runs if not unfinished else ()):
                run.folder.finish(run.verdict, elapsed=elapsed)
        return runs

    def _waiting(self, plan: PlannedRun, folder: RunFolder, *, adopting: bool) -> list[PlannedCell]:
        """The boots without a record yet; with ``adopting``, those that no other run has made either."""
        jobs = {cell: plan.jobs[cell.arm, cell.seed] for cell in folder.facts.cells if not cell.skip}
        waiting = [cell for cell, job in jobs.items() if not _is_of(folder.boot(cell), job)]
        if adopting and plan.timing.exact and not plan.request.verify:
            return [cell for cell in waiting if not adopt(self.store, folder, cell, jobs[cell])]
        return waiting

    def _folders(self, plan: PlannedRun, base: PlannedRun | None) -> AbstractContextManager[Sequence[RunFolder]]:
        """The folder of an interrupted run of the same boots, else a new one, with that of the BASE kernel if there is
        one; locked until the context ends."""
        return held_one(self._interrupted(plan, base), lambda: self._new(plan, base))

    def _new(self, plan: PlannedRun, base: PlannedRun | None) -> Sequence[RunFolder]:
        scenario = plan.request.scenario
        if base is None:
            return [self.store.new_run(scenario, plan.facts)]
        other = self.store.new_run(scenario, base.facts)
        return self.store.new_run(scenario, replace(plan.facts, baseline=other.facts.run_id)), other

    def _interrupted(self, plan: PlannedRun, base: PlannedRun | None) -> Iterator[Sequence[RunFolder]]:
        for path in reversed(self.store.unfinished(plan.request.scenario.name)):
            # Misuse: damaged or of another version. It is not resumed.
            with suppress(Misuse):
                run = load_run(path)
                folders, wanted = [run], [plan.facts]
                if base is not None:
                    folders.append(load_run(path.parent / run.facts.baseline))
                    wanted = [replace(plan.facts, baseline=run.facts.baseline), base.facts]
                if all(facts.repeats(folder.facts) for facts, folder in zip(wanted, folders, strict=True)):
                    yield folders


def _check_memory(plan: PlannedRun, available: int) -> None:
    """Raise LabBroken when a guest of the plan does not fit on this host even alone."""
    largest = max(plan.arms, key=lambda arm: arm.topology.memory)
    if not host.guests_that_fit(largest.topology.memory, available):
        raise LabBroken(
            f"arm {largest.name}: a guest of {show_size(largest.topology.memory)} and {show_size(host.GUEST_OVERHEAD)}"
            f" for QEMU do not fit in the {available >> 20}M that this host has available",
            remedy="close other programs, or choose arms of smaller topologies with --arm",
        )

# SPDX-License-Identifier: GPL-2.0-only
"""Carrying out a scenario on a kernel: plan, boot side by side, keep every record, judge at the end."""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Protocol

from harness.adoption import adopt, may_adopt
from harness.analysis.sequence import unmade
from harness.analysis.stopping import stopping_rule
from harness.analysis.verdict import Verdict
from harness.boot_files import save_boot
from harness.events import CellFinished, CellPhase, CellStarted, Listener, RunFinished, RunStarted, nobody
from harness.evidence import Altered
from harness.jobs import guest_job
from harness.judging import judge_run, result_of
from harness.lanes import Lanes, Stopped
from harness.scenario.expand import expand
from harness.scenario.model import Arm, Clock, Scenario
from harness.store import KernelFacts, PlannedCell, RunFacts, RunFolder, Store, load_run, planned
from lab import host
from lab.errors import LabBroken, Misuse
from lab.kernels.model import Kernel
from lab.realise.capability import missing
from lab.realise.in_qemu.hardware import lacking
from lab.record import BootRecord
from lab.session import Lab, PhaseSeen, PreparedJob, accelerator_for, prepare_job, run_job
from lab.units import show_size


@dataclass(frozen=True)
class Request:
    """What somebody wants to know. ``seeds`` None means as many as the scenario says; no ``arms`` means all.

    ``baseline`` is the run id of the same on the BASE kernel ``base``.
    """

    scenario: Scenario
    kernel: Kernel
    seeds: int | None = None
    arms: tuple[str, ...] = ()
    verify: bool = False
    baseline: str = ""
    command: tuple[str, ...] = ()
    base: KernelFacts | None = None


class BootMaker(Protocol):
    """As ``lab.session.run_job``."""

    def __call__(
        self, lab: Lab, prepared: PreparedJob, folder: Path, *, phase_seen: PhaseSeen, abort: threading.Event | None
    ) -> BootRecord: ...


@dataclass(frozen=True)
class Turns:
    """How the boots of a run take their turns among those of others: ``rank`` counts from 0, the first goes first.

    ``boot`` makes one: on this host, or elsewhere in the same way. ``adopt`` takes boots that other runs made
    of exactly the same.
    """

    lanes: Lanes
    rank: int = 0
    boot: BootMaker = run_job
    adopt: bool = False


@dataclass(frozen=True)
class Run:
    """A judged run. ``elapsed`` in seconds; ``resumed`` counts the boots that an earlier, killed run had made.

    ``left_open``: the host spoilt a boot on the wall clock, where they are dear; the same request goes on from there.
    """

    folder: RunFolder
    verdict: Verdict
    elapsed: float
    resumed: int = 0
    left_open: bool = False


def run_scenario(
    lab: Lab,
    request: Request,
    store: Store,
    listener: Listener = nobody,
    at_once: int = 0,
    *,
    turns: Turns | None = None,
) -> Run:
    """Boot every cell of the request that has no record yet, and judge.

    A run of the same request that was killed is taken up again. ``at_once`` 0 means as many boots as the host
    carries; on the wall clock there is one at a time, until the rule of the run is content. ``turns`` are those of
    several runs that share the host. Raises LabBroken, before anything is booted, for a guest that does not
    fit; else what boots raise, after the boots under way were stopped.
    """
    started = time.monotonic()
    _check_arms(request)
    _check_clock(request)
    turns = turns or Turns(lanes_of_host(at_once))
    _check_memory(request, turns.lanes.memory)
    store.check()
    with _folder(store, _facts(lab, request), request.scenario) as folder:
        jobs = _prepared(lab, request)
        waiting = [cell for cell in folder.facts.cells if not cell.skip and not _recorded(folder, cell, jobs)]
        if turns.adopt and may_adopt(folder.facts):
            wanted = {cell: jobs[cell.arm, cell.seed].fingerprint for cell in waiting}
            waiting = [cell for cell in waiting if not adopt(store, folder, cell, wanted[cell])]
        resumed = sum(not cell.skip for cell in folder.facts.cells) - len(waiting)
        workers = _workers(request.scenario, waiting, turns.lanes) if folder.facts.rule is None else 1
        listener(RunStarted(request.scenario.name, request.kernel.release, len(waiting), workers))
        boots = _Boots(lab, request.scenario, folder, jobs, listener, turns)
        verdict = boots.make(waiting, workers) if folder.facts.rule is None else boots.make_in_turn(waiting)
        elapsed = time.monotonic() - started
        left_open = folder.facts.rule is not None and any(
            cell.outcome and cell.outcome.spoilt_by_host for cell in verdict.cells
        )
        if not left_open:
            folder.finish(verdict, elapsed=elapsed)
        listener(RunFinished(verdict.status, elapsed))
    return Run(folder, verdict, elapsed, resumed, left_open)


def measured(lab: Lab, request: Request, store: Store, listener: Listener = nobody, at_once: int = 0) -> RunFolder:
    """``measured_before``, and ``run_scenario`` where there is no such run."""
    return measured_before(lab, request, store) or run_scenario(lab, request, store, listener, at_once).folder


def lanes_of_host(at_once: int = 0) -> Lanes:
    """As many boots side by side as there are cores (or $BLKLAB_JOBS, or ``at_once``), in the memory there is now."""
    return Lanes(at_once or _jobs_of_environment() or host.usable_cores(), host.memory_available())


def measured_before(lab: Lab, request: Request, store: Store) -> RunFolder | None:
    """The newest finished run that a run of this request would repeat boot for boot, None when there is none."""
    _check_arms(request)
    facts, jobs = _facts(lab, request), _prepared(lab, request)
    for path in reversed(store.runs(request.scenario.name)):
        with suppress(Misuse, Altered):
            found = load_run(path)
            if _same(found.facts, facts) and _complete(found, jobs):
                return found
    return None


def _complete(found: RunFolder, jobs: Mapping[tuple[str, int], PreparedJob]) -> bool:
    """Whether a run made every boot that it wanted: on the wall clock its rule may do with fewer than planned."""
    planned_boots = [cell for cell in found.facts.cells if not cell.skip]
    if found.facts.rule is None:
        return all(_recorded(found, cell, jobs) for cell in planned_boots)
    made = [cell for cell in planned_boots if found.boot(cell) is not None]
    return all(_recorded(found, cell, jobs) for cell in made) and not unmade(judge_run(found))


def _same(one: RunFacts, other: RunFacts) -> bool:
    """Whether two runs ask for the same boots."""
    return replace(one, run_id="", started="", command=()) == replace(other, run_id="", started="", command=())


def _check_arms(request: Request) -> None:
    unknown = [arm for arm in request.arms if arm not in request.scenario.arms]
    if unknown:
        known = ", ".join(request.scenario.arms)
        raise Misuse(f"{request.scenario.name} has no arm {', '.join(unknown)}", remedy=f"its arms are {known}")


def _check_clock(request: Request) -> None:
    if request.scenario.clock is Clock.VIRTUAL:
        return
    if request.verify:
        raise Misuse(
            f"{request.scenario.name}: no boot repeats exactly on the wall clock", remedy="run it without --verify"
        )
    if request.base:
        raise Misuse(
            f"{request.scenario.name}: on the wall clock a run of another time is no baseline",
            remedy="run it on either kernel by itself: its ratios are of boots side by side",
        )


def _facts(lab: Lab, request: Request) -> RunFacts:
    kernel, scenario = request.kernel, request.scenario
    cells = expand(scenario, request.seeds, request.arms or None)
    reasons = {cell.arm.name: _lacking(lab, request, cell.arm) for cell in cells}
    package = f" ({lab.qemu.package})" if lab.qemu.package else ""
    return RunFacts(
        run_id="",
        scenario=scenario.name,
        scenario_digest=scenario.digest,
        kernel=KernelFacts(kernel.spec, kernel.release, kernel.origin, kernel.digest, kernel.mutant),
        seeds=tuple(dict.fromkeys(cell.seed for cell in cells)),
        arms=tuple(dict.fromkeys(cell.arm.name for cell in cells)),
        cells=planned(
            ((cell.arm.name, cell.seed, reasons[cell.arm.name]) for cell in cells), repeats=2 if request.verify else 1
        ),
        qemu=f"QEMU {lab.qemu.version_text}{package}{_accelerator(lab, request)}",
        command=request.command,
        baseline=request.baseline,
        base=request.base,
        rule=stopping_rule(cells[-1].seed) if scenario.clock is Clock.WALL else None,
    )


def _accelerator(lab: Lab, request: Request) -> str:
    """What runs the guests, where that is not settled by the clock; nothing where none can be booted."""
    arms = (arm for arm in request.scenario.arms.values() if arm.topology.emulated)
    booted = any(not _lacking(lab, request, arm) for arm in arms)
    return f", {accelerator_for(lab, request.kernel)}" if booted else ""


def _lacking(lab: Lab, request: Request, arm: Arm) -> tuple[str, ...]:
    requires = request.scenario.requires
    return (
        *lacking(arm.topology, lab.qemu.devices),
        *missing(request.kernel, arm.topology, arm.queue, options=requires.config, modules=requires.modules),
    )


@contextmanager
def _folder(store: Store, facts: RunFacts, scenario: Scenario) -> Iterator[RunFolder]:
    """A run that was killed over the same facts, else a new one; held until the context ends."""
    with ExitStack() as stack:
        for path in reversed(store.unfinished(scenario.name)):
            # Damaged, of another version, or being worked on: not ours to take up.
            with suppress(Misuse):
                found = load_run(path)
                if _same(found.facts, facts):
                    stack.enter_context(found.held())
                    break
        else:
            found = store.new_run(scenario, facts)
            stack.enter_context(found.held())
        yield found


def _prepared(lab: Lab, request: Request) -> Mapping[tuple[str, int], PreparedJob]:
    jobs = {}
    for cell in expand(request.scenario, request.seeds, request.arms or None):
        if not _lacking(lab, request, cell.arm):
            job = guest_job(request.scenario, cell.arm, cell.seed)
            jobs[cell.arm.name, cell.seed] = prepare_job(lab, request.kernel, cell.arm.topology, job)
    return jobs


def _recorded(folder: RunFolder, cell: PlannedCell, jobs: Mapping[tuple[str, int], PreparedJob]) -> bool:
    """Whether the cell has a complete record of exactly this job, never one that the host spoilt."""
    record = folder.boot(cell)
    if record is None or record.outcome.spoilt_by_host:
        return False
    return dict(record.fingerprint) == dict(jobs[cell.arm, cell.seed].fingerprint)


def _check_memory(request: Request, available: int) -> None:
    """Raises LabBroken when a guest does not fit on this host even alone."""
    arms = [arm for arm in request.scenario.arms.values() if not request.arms or arm.name in request.arms]
    largest = max(arms, key=lambda arm: arm.topology.memory)
    if not host.guests_that_fit(largest.topology.memory, available):
        raise LabBroken(
            f"arm {largest.name}: a guest of {show_size(largest.topology.memory)} and {show_size(host.GUEST_OVERHEAD)}"
            f" for QEMU do not fit in the {available >> 20}M that this host has available",
            remedy="close other programs, or choose arms of smaller topologies with --arm",
        )


def _workers(scenario: Scenario, waiting: Sequence[PlannedCell], lanes: Lanes) -> int:
    """As many boots as there are lanes, as memory carries of the largest guest, and as are waiting."""
    memory = max((scenario.arms[cell.arm].topology.memory for cell in waiting), default=0)
    return max(1, min(lanes.at_once, host.guests_that_fit(memory, lanes.memory), len(waiting)))


def _jobs_of_environment() -> int:
    named = os.environ.get("BLKLAB_JOBS", "")
    if named and not named.isdecimal():
        raise Misuse(f"BLKLAB_JOBS={named} is no number of boots", remedy="set it to 1 or more, or unset it")
    return int(named or 0)


@dataclass
class _Boots:
    """Makes the boots of one run in threads. A thread starts a machine and stays with it to its end.

    The boots that are ``made`` are counted from 1.
    """

    lab: Lab
    scenario: Scenario
    folder: RunFolder
    jobs: Mapping[tuple[str, int], PreparedJob]
    listener: Listener
    turns: Turns
    abort: threading.Event = field(default_factory=threading.Event)
    made: int = 0

    def make_in_turn(self, cells: Sequence[PlannedCell]) -> Verdict:
        """One after another, a round of all arms at a time, for as long as the verdict wants more.

        Rounds of other runs on this host wait meanwhile: they would be noise.
        """
        for cell in cells:
            # What the host spoilt left a record, which is no reason not to make this boot.
            if self.folder.boot_folder(cell).exists():
                self.folder.fresh_boot_folder(cell)
        verdict = judge_run(self.folder)
        for _, together in groupby(cells, key=lambda cell: cell.seed):
            if not unmade(verdict):
                break
            with self.lab.cache.workspace("turn", "wall"):
                verdict = self.make(list(together), 1)
        return verdict

    def make(self, cells: Sequence[PlannedCell], workers: int) -> Verdict:
        """``workers`` at a time; the verdict on all that the run has then."""
        self.abort.clear()
        pool = ThreadPoolExecutor(workers, thread_name_prefix="boot")
        futures = [pool.submit(self._boot, number, cell) for number, cell in enumerate(cells, start=self.made + 1)]
        self.made += len(cells)
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            _raise_first(done)
        finally:
            self.abort.set()
            self.turns.lanes.nudge()
            pool.shutdown(cancel_futures=True)
        return judge_run(self.folder)

    def _boot(self, number: int, cell: PlannedCell) -> None:
        arm = self.scenario.arms[cell.arm]
        alone = self.scenario.clock is Clock.WALL
        with self.turns.lanes.taken(arm.topology.memory, rank=self.turns.rank, alone=alone, abort=self.abort):
            self._boot_now(number, cell, arm)

    def _boot_now(self, number: int, cell: PlannedCell, arm: Arm) -> None:
        started = time.monotonic()
        self.listener(CellStarted(number, cell.arm, cell.seed))
        record = self.turns.boot(
            self.lab,
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


def _raise_first(done: "set[Future[None]]") -> None:
    for future in done:
        error = future.exception()
        if error is not None:
            raise error

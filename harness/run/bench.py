# SPDX-License-Identifier: GPL-2.0-only
"""The measuring service: from a request to a judged run. Nothing else plans, boots and stores a run."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

from harness.base.files import held_one
from harness.limits.cost import arm_seconds
from harness.record.judging import Altered, Run, judge_run
from harness.record.store import PlannedCell, RunFolder, Store, load_run
from harness.run.boots import Boots, Lanes, Side, Turns, adopt, recorded
from harness.run.events import Listener, RunStarted, nobody
from harness.run.plan import PlannedRun, Request, plan_run
from lab.base import host
from lab.base.errors import LabBroken, Misuse
from lab.base.units import show_size
from lab.session import Lab

Watch = Callable[[], AbstractContextManager[Listener]]
"""Opens a display of one run's progress."""


def unwatched() -> AbstractContextManager[Listener]:
    return nullcontext(nobody)


def turns_of_host(at_once: int = 0) -> Turns:
    """One boot per core (or $BLKLAB_JOBS, or ``at_once``), within the memory that is available now."""
    return Turns(Lanes(at_once or host.number_of("BLKLAB_JOBS", 1) or host.usable_cores(), host.memory_available()))


@dataclass(frozen=True)
class Folders:
    """The folder of a run, and that of the BASE kernel whose rounds alternate with it, None without one."""

    run: RunFolder
    base: RunFolder | None = None

    @property
    def both(self) -> tuple[RunFolder, ...]:
        return (self.run, self.base) if self.base else (self.run,)

    @contextmanager
    def held(self) -> Iterator[None]:
        with ExitStack() as stack:
            for folder in reversed(self.both):
                stack.enter_context(folder.held())
            yield


@dataclass(frozen=True)
class Bench:
    """Measures requests on one lab, into one results folder.

    ``turns`` are those of this host. Boots of the virtual clock are made on the ``cluster`` where there is one.
    All methods raise what planning and boots raise.
    """

    lab: Lab
    store: Store
    watch: Watch = unwatched
    turns: Turns = field(default_factory=turns_of_host)
    cluster: Turns | None = None

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

    def ranked(self, rank: int, watch: Watch) -> "Bench":
        """The same bench for one of several runs: boots of the lowest rank start first."""
        cluster = replace(self.cluster, rank=rank) if self.cluster else None
        return replace(self, watch=watch, turns=replace(self.turns, rank=rank), cluster=cluster)

    def stop(self) -> None:
        """Abort all boots, and start no more."""
        for turns in filter(None, (self.turns, self.cluster)):
            turns.lanes.stop()

    def earlier(self, plan: PlannedRun) -> Run | None:
        """The newest finished run with the same boots, judged with the scenario's words of today."""
        scenario = plan.request.scenario
        for path in reversed(self.store.runs(scenario.name)):
            with suppress(Misuse, Altered):
                folder = load_run(path)
                if plan.facts.repeats(folder.facts) and plan.boots.complete(folder, plan.jobs):
                    folder = replace(folder, scenario=scenario)
                    return Run(folder, judge_run(folder), 0.0, earlier=True)
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
            sides = list[Side]()
            for each, folder in zip(plans, folders.both, strict=True):
                waiting = self._waiting(each, folder, adopting=adopting)
                made = sum(len(cells) for _, cells in sides)
                sides.append((Boots(self.lab, scenario, folder, each.jobs, listener, turns, made=made), waiting))
            (boots, first), *others = sides
            left, at_once = sum(len(cells) for _, cells in sides), boots.at_once(first)
            listener(RunStarted(scenario.name, plan.request.kernel.release, left, at_once, arm_seconds(scenario)))
            verdict = plan.boots.make(boots, first, *others)
            elapsed, unfinished = time.monotonic() - started, plan.boots.repeatable(verdict)
            runs = []
            for folder, (_, cells) in zip(folders.both, sides, strict=True):
                own = verdict if folder is folders.run else judge_run(folder)
                resumed = sum(not cell.skip for cell in folder.facts.cells) - len(cells)
                runs.append(Run(folder, own, elapsed, resumed, unfinished))
            for run in reversed(runs if not unfinished else ()):
                run.folder.finish(run.verdict, elapsed=elapsed)
        return runs

    def _waiting(self, plan: PlannedRun, folder: RunFolder, *, adopting: bool) -> list[PlannedCell]:
        """The boots without a record yet; with ``adopting``, those that no other run has made either."""
        jobs = plan.jobs
        waiting = [cell for cell in folder.facts.cells if not cell.skip and not recorded(folder, cell, jobs)]
        if adopting and plan.timing.exact and not plan.request.verify:
            return [cell for cell in waiting if not adopt(self.store, folder, cell, jobs[cell.arm, cell.seed])]
        return waiting

    def _folders(self, plan: PlannedRun, base: PlannedRun | None) -> AbstractContextManager[Folders]:
        """Those of an interrupted run of the same boots, else new ones; locked until the context ends."""
        return held_one(self._interrupted(plan, base), lambda: self._new(plan, base))

    def _new(self, plan: PlannedRun, base: PlannedRun | None) -> Folders:
        scenario = plan.request.scenario
        if base is None:
            return Folders(self.store.new_run(scenario, plan.facts))
        other = self.store.new_run(scenario, base.facts)
        return Folders(self.store.new_run(scenario, replace(plan.facts, baseline=other.facts.run_id)), other)

    def _interrupted(self, plan: PlannedRun, base: PlannedRun | None) -> Iterator[Folders]:
        for path in reversed(self.store.unfinished(plan.request.scenario.name)):
            # Misuse: damaged or of another version. It is not resumed.
            with suppress(Misuse):
                run, wanted, other = load_run(path), plan.facts, None
                if base is not None:
                    other, wanted = (
                        load_run(path.parent / run.facts.baseline),
                        replace(wanted, baseline=run.facts.baseline),
                    )
                if wanted.repeats(run.facts) and (base is None or other is None or base.facts.repeats(other.facts)):
                    yield Folders(run, other)


def _check_memory(plan: PlannedRun, available: int) -> None:
    """Raise LabBroken when a guest of the plan does not fit on this host even alone."""
    largest = max(plan.arms, key=lambda arm: arm.topology.memory)
    if not host.guests_that_fit(largest.topology.memory, available):
        raise LabBroken(
            f"arm {largest.name}: a guest of {show_size(largest.topology.memory)} and {show_size(host.GUEST_OVERHEAD)}"
            f" for QEMU do not fit in the {available >> 20}M that this host has available",
            remedy="close other programs, or choose arms of smaller topologies with --arm",
        )

# SPDX-License-Identifier: GPL-2.0-only
"""The measuring service: from a request to a judged run. Nothing else plans, boots and stores a run."""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

from harness.base.files import held_one
from harness.record.judging import Altered, Run, judge_run
from harness.record.store import PlannedCell, RunFacts, RunFolder, Store, load_run
from harness.run.boots import Boots, Lanes, Turns, adopt, recorded
from harness.run.events import Listener, RunStarted, nobody
from harness.run.plan import PlannedRun, Request, plan_run
from harness.scenario.model import Scenario
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
    return Turns(Lanes(at_once or _jobs_of_environment() or host.usable_cores(), host.memory_available()))


@dataclass(frozen=True)
class Pair:
    """The folder of a run, and that of the BASE kernel whose rounds alternate with it."""

    base: RunFolder
    run: RunFolder

    @contextmanager
    def held(self) -> Iterator[None]:
        with self.base.held(), self.run.held():
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
        return self._carry_out(self.plan(request), adopting=False)

    def run_beside(self, base: Request, request: Request) -> tuple[Run, Run]:
        """Runs of the BASE kernel and of that of ``request`` in which rounds of both alternate, or an interrupted pair.

        The stopping rule of the second one ends both.
        """
        started, old, new = time.monotonic(), self.plan(base), self.plan(request)
        old = replace(old, facts=replace(old.facts, beside=new.facts.kernel))
        for plan in (old, new):
            _check_memory(plan, self.turns.lanes.memory)
        self.store.check()
        scenario = request.scenario

        def made() -> Pair:
            first = self.store.new_run(scenario, old.facts)
            return Pair(first, self.store.new_run(scenario, replace(new.facts, baseline=first.facts.run_id)))

        with held_one(self._interrupted_pair(old.facts, new.facts), made) as pair, self.watch() as listener:
            run, waiting = self._boots(new, pair.run, listener, self.turns)
            other, others = self._boots(old, pair.base, listener, self.turns, made=len(waiting))
            listener(RunStarted(scenario.name, request.kernel.release, len(waiting) + len(others), 1))
            verdict = new.boots.make(run, waiting, (other, others))
            unfinished, elapsed = new.boots.repeatable(verdict), time.monotonic() - started
            verdicts = judge_run(pair.base), verdict
            for folder, own in zip((pair.base, pair.run), verdicts, strict=True):
                if not unfinished:
                    folder.finish(own, elapsed=elapsed)
        resumed = sum(not cell.skip for cell in pair.run.facts.cells) - len(waiting)
        return Run(pair.base, verdicts[0], elapsed), Run(pair.run, verdict, elapsed, resumed, unfinished)

    def measure(self, request: Request | PlannedRun) -> Run:
        """The newest earlier run with the same boots, else a new one with equal boots of other runs."""
        plan = self.plan(request)
        return self.earlier(plan) or self._carry_out(plan, adopting=True)

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

    def _carry_out(self, plan: PlannedRun, *, adopting: bool) -> Run:
        """Make every boot of the plan that has no record yet, and judge.

        Raises LabBroken, before anything is booted, when a guest does not fit into the host's memory, and what boots
        raise, after the other boots were stopped.
        """
        started = time.monotonic()
        turns = self.turns if plan.timing.alone else self.cluster or self.turns
        _check_memory(plan, turns.lanes.memory)
        self.store.check()
        scenario = plan.request.scenario
        with self._folder(plan.facts, scenario) as folder, self.watch() as listener:
            boots, waiting = self._boots(plan, folder, listener, turns)
            if adopting and plan.timing.exact and not plan.request.verify:
                jobs = plan.jobs
                waiting = [cell for cell in waiting if not adopt(self.store, folder, cell, jobs[cell.arm, cell.seed])]
            resumed = sum(not cell.skip for cell in folder.facts.cells) - len(waiting)
            listener(RunStarted(scenario.name, plan.request.kernel.release, len(waiting), boots.at_once(waiting)))
            verdict = plan.boots.make(boots, waiting)
            elapsed = time.monotonic() - started
            unfinished = plan.boots.repeatable(verdict)
            if not unfinished:
                folder.finish(verdict, elapsed=elapsed)
        return Run(folder, verdict, elapsed, resumed, unfinished)

    def _boots(
        self, plan: PlannedRun, folder: RunFolder, listener: Listener, turns: Turns, made: int = 0
    ) -> tuple[Boots, list[PlannedCell]]:
        """The boots of a run, and those without a record yet."""
        waiting = [cell for cell in folder.facts.cells if not cell.skip and not recorded(folder, cell, plan.jobs)]
        return Boots(self.lab, plan.request.scenario, folder, plan.jobs, listener, turns, made=made), waiting

    def _folder(self, facts: RunFacts, scenario: Scenario) -> AbstractContextManager[RunFolder]:
        """The folder of an interrupted run of the same boots, else a new one; locked until the context ends."""
        return held_one(self._interrupted(facts, scenario), lambda: self.store.new_run(scenario, facts))

    def _interrupted(self, facts: RunFacts, scenario: Scenario) -> Iterator[RunFolder]:
        for path in reversed(self.store.unfinished(scenario.name)):
            # Misuse: damaged or of another version. It is not resumed.
            with suppress(Misuse):
                folder = load_run(path)
                if facts.repeats(folder.facts):
                    yield folder

    def _interrupted_pair(self, base: RunFacts, facts: RunFacts) -> Iterator[Pair]:
        for path in reversed(self.store.unfinished(facts.scenario)):
            with suppress(Misuse):
                run = load_run(path)
                other = load_run(path.parent / run.facts.baseline)
                if replace(facts, baseline=run.facts.baseline).repeats(run.facts) and base.repeats(other.facts):
                    yield Pair(other, run)


def _check_memory(plan: PlannedRun, available: int) -> None:
    """Raise LabBroken when a guest of the plan does not fit on this host even alone."""
    largest = max(plan.arms, key=lambda arm: arm.topology.memory)
    if not host.guests_that_fit(largest.topology.memory, available):
        raise LabBroken(
            f"arm {largest.name}: a guest of {show_size(largest.topology.memory)} and {show_size(host.GUEST_OVERHEAD)}"
            f" for QEMU do not fit in the {available >> 20}M that this host has available",
            remedy="close other programs, or choose arms of smaller topologies with --arm",
        )


def _jobs_of_environment() -> int:
    named = os.environ.get("BLKLAB_JOBS", "")
    if named and not re.fullmatch("[1-9][0-9]{0,8}", named):
        raise Misuse(f"BLKLAB_JOBS={named}: expected a number of boots", remedy="set it to 1 or more, or unset it")
    return int(named or 0)

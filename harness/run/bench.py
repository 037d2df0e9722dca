# SPDX-License-Identifier: GPL-2.0-only
"""The measuring service: from a request to a judged run. Nothing else plans, boots and stores a run."""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace

from harness.base.files import held_one
from harness.judge.cells import CellResult
from harness.judge.verdict import Verdict
from harness.record.judging import Altered, judge_run, results_of
from harness.record.store import RunFacts, RunFolder, Store, load_run
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


@dataclass(frozen=True)
class Run:
    """A judged run. ``elapsed`` in seconds; ``resumed`` counts boots that an interrupted or another run had made.

    ``unfinished``: the host invalidated a boot on the wall clock; the same command repeats only that boot.
    ``earlier``: all of it was measured before, and nothing was booted.
    """

    folder: RunFolder
    verdict: Verdict
    elapsed: float
    resumed: int = 0
    unfinished: bool = False
    earlier: bool = False


def unwatched() -> AbstractContextManager[Listener]:
    return nullcontext(nobody)


def turns_of_host(at_once: int = 0) -> Turns:
    """One boot per core (or $BLKLAB_JOBS, or ``at_once``), within the memory that is available now."""
    return Turns(Lanes(at_once or _jobs_of_environment() or host.usable_cores(), host.memory_available()))


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

    def measure(self, request: Request | PlannedRun) -> Run:
        """The newest earlier run with the same boots, else a new one with equal boots of other runs."""
        plan = self.plan(request)
        return self.earlier(plan) or self._carry_out(plan, adopting=True)

    def cells(self, request: Request) -> list[CellResult]:
        return results_of(self.measure(request).folder)

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
                if plan.facts.repeats(folder.facts) and plan.clock.complete(folder, plan.jobs):
                    folder = replace(folder, scenario=scenario)
                    return Run(folder, judge_run(folder), 0.0, earlier=True)
        return None

    def _carry_out(self, plan: PlannedRun, *, adopting: bool) -> Run:
        """Make every boot of the plan that has no record yet, and judge.

        Raises LabBroken, before anything is booted, when a guest does not fit into the host's memory, and what boots
        raise, after the other boots were stopped.
        """
        started = time.monotonic()
        turns = self.turns if plan.clock.alone else self.cluster or self.turns
        _check_memory(plan, turns.lanes.memory)
        self.store.check()
        scenario = plan.request.scenario
        with self._folder(plan.facts, scenario) as folder, self.watch() as listener:
            waiting = [cell for cell in folder.facts.cells if not cell.skip and not recorded(folder, cell, plan.jobs)]
            if adopting and plan.clock.shares_boots and not plan.request.verify:
                jobs = plan.jobs
                waiting = [cell for cell in waiting if not adopt(self.store, folder, cell, jobs[cell.arm, cell.seed])]
            resumed = sum(not cell.skip for cell in folder.facts.cells) - len(waiting)
            boots = Boots(self.lab, scenario, folder, plan.jobs, listener, turns, plan.clock.alone)
            listener(RunStarted(scenario.name, plan.request.kernel.release, len(waiting), boots.at_once(waiting)))
            verdict = plan.clock.make(boots, waiting)
            elapsed = time.monotonic() - started
            unfinished = plan.clock.repeatable(verdict)
            if not unfinished:
                folder.finish(verdict, elapsed=elapsed)
        return Run(folder, verdict, elapsed, resumed, unfinished)

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

# SPDX-License-Identifier: GPL-2.0-only
"""Carrying out a planned run: its folder, its boots, its verdict."""

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from harness.base.files import held_one
from harness.judge.verdict import Verdict
from harness.record.judging import Altered
from harness.record.store import RunFacts, RunFolder, Store, load_run
from harness.run.boots import Boots, Turns, adopt, recorded
from harness.run.events import Listener, RunStarted, nobody
from harness.run.lanes import Lanes
from harness.run.plan import PlannedRun, Request, plan_run
from harness.scenario.model import Scenario
from lab.base import host
from lab.base.errors import LabBroken, Misuse
from lab.base.units import show_size
from lab.session import Lab


@dataclass(frozen=True)
class Run:
    """A judged run. ``elapsed`` in seconds; ``resumed`` counts boots that an interrupted run had already made.

    ``unfinished``: the host invalidated a boot on the wall clock; the same command repeats only that boot.
    """

    folder: RunFolder
    verdict: Verdict
    elapsed: float
    resumed: int = 0
    unfinished: bool = False


def run_scenario(lab: Lab, request: Request, store: Store, listener: Listener = nobody, at_once: int = 0) -> Run:
    """Plan the request and carry it out. Raises what ``plan_run`` and ``carry_out`` raise."""
    return carry_out(lab, plan_run(lab, request), store, listener, Turns(lanes_of_host(at_once)))


def measured(lab: Lab, request: Request, store: Store, listener: Listener = nobody, at_once: int = 0) -> RunFolder:
    """An earlier run of the request if its boots are all there, else a new one, with equal boots of other runs."""
    plan = plan_run(lab, request)
    earlier = measured_before(plan, store)
    return earlier or carry_out(lab, plan, store, listener, Turns(lanes_of_host(at_once), adopt=True)).folder


def carry_out(lab: Lab, plan: PlannedRun, store: Store, listener: Listener, turns: Turns) -> Run:
    """Make every boot of the plan that has no record yet, and judge.

    An interrupted run of the same plan is resumed. Raises LabBroken, before anything is booted, when a guest does
    not fit into the host's memory, and what boots raise, after the other boots were stopped.
    """
    started = time.monotonic()
    _check_memory(plan, turns.lanes.memory)
    store.check()
    scenario = plan.request.scenario
    with _folder(store, plan.facts, scenario) as folder:
        waiting = [cell for cell in folder.facts.cells if not cell.skip and not recorded(folder, cell, plan.jobs)]
        if turns.adopt and plan.clock.shares_boots and not plan.request.verify:
            wanted = {cell: plan.jobs[cell.arm, cell.seed].fingerprint for cell in waiting}
            waiting = [cell for cell in waiting if not adopt(store, folder, cell, wanted[cell])]
        resumed = sum(not cell.skip for cell in folder.facts.cells) - len(waiting)
        boots = Boots(lab, scenario, folder, plan.jobs, listener, turns, plan.clock.alone)
        listener(RunStarted(scenario.name, plan.request.kernel.release, len(waiting), boots.at_once(waiting)))
        verdict = plan.clock.make(boots, waiting)
        elapsed = time.monotonic() - started
        unfinished = plan.clock.repeatable(verdict)
        if not unfinished:
            folder.finish(verdict, elapsed=elapsed)
    return Run(folder, verdict, elapsed, resumed, unfinished)


def measured_before(plan: PlannedRun, store: Store) -> RunFolder | None:
    """The newest finished run with the same boots as the plan; None when there is none."""
    for path in reversed(store.runs(plan.request.scenario.name)):
        with suppress(Misuse, Altered):
            found = load_run(path)
            if plan.facts.repeats(found.facts) and plan.clock.complete(found, plan.jobs):
                return found
    return None


def lanes_of_host(at_once: int = 0) -> Lanes:
    """One boot per core (or $BLKLAB_JOBS, or ``at_once``), within the memory that is available now."""
    return Lanes(at_once or _jobs_of_environment() or host.usable_cores(), host.memory_available())


def _folder(store: Store, facts: RunFacts, scenario: Scenario) -> AbstractContextManager[RunFolder]:
    """The folder of an interrupted run of the same boots, else a new one; locked until the context ends."""
    return held_one(_interrupted(store, facts, scenario), lambda: store.new_run(scenario, facts))


def _interrupted(store: Store, facts: RunFacts, scenario: Scenario) -> Iterator[RunFolder]:
    for path in reversed(store.unfinished(scenario.name)):
        # Misuse: damaged or of another version. It is not resumed.
        with suppress(Misuse):
            found = load_run(path)
            if facts.repeats(found.facts):
                yield found


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
    if named and not named.isdecimal():
        raise Misuse(f"BLKLAB_JOBS={named}: expected a number of boots", remedy="set it to 1 or more, or unset it")
    return int(named or 0)

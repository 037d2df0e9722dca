# SPDX-License-Identifier: GPL-2.0-only
"""A request, answered as far as possible before anything boots: cells, missing requirements, prepared jobs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.record.store import KernelFacts, RunFacts, planned
from harness.run.boots import Jobs
from harness.run.clocks import STRATEGIES, ClockStrategy
from harness.scenario.expand import expand
from harness.scenario.fio import cgroups, job_file, of_processes, start_phase
from harness.scenario.model import Arm, Cell, Load, Scenario
from lab.kernels.model import Kernel
from lab.session import GuestLoad, Job, Lab, prepare_job, unmet


def cell_job(cell: Cell) -> Job:
    return guest_job(cell.scenario, cell.arm, cell.seed)


def guest_job(scenario: Scenario, arm: Arm, seed: int) -> Job:
    """The job of one arm and seed (counted from 1): its loads, alternately forwards and backwards over windows."""
    loads = tuple(
        GuestLoad(
            load.name,
            job_file(load, arm.topology, seed),
            load.runtime + load.ramp,
            load.ramp,
            of_processes(load),
            load.lost,
        )
        for load in _in_order(scenario, seed)
    )
    labels = {"scenario": scenario.digest, "arm": arm.name, "seed": str(seed)}
    inject = scenario.selftest.inject if scenario.selftest else ""
    groups = tuple(group for load in _in_order(scenario, seed) for group in cgroups(load, arm.topology))
    return Job(arm.queue, loads, scenario.pause, start_phase(scenario.name, seed), labels, inject, cgroups=groups)


def _in_order(scenario: Scenario, seed: int) -> Iterator[Load]:
    loads = [load.windows(scenario.windows) for load in scenario.loads.values()]
    for window in range(scenario.windows):
        # Odd seeds start forwards, even ones backwards, so that no load is always the first of a boot.
        backwards = scenario.windows > 1 and (seed + window) % 2 == 0
        yield from (windows[window] for windows in (reversed(loads) if backwards else loads))


OPTIONS_NEEDED = {
    "io_uring": "IO_URING",
    "io_max": "BLK_DEV_THROTTLING",
    "io_weight": "BLK_CGROUP_IOCOST",
    "bfq_weight": "BFQ_GROUP_IOSCHED",
}
"""Kernel options that fio's engines and the limits of roles need, where not every kernel has them."""


@dataclass(frozen=True)
class Request:
    """What to measure. ``seeds`` None takes the scenario's number; no ``arms`` means all.

    ``baseline`` is the run id of the same scenario on the BASE kernel ``base``.
    """

    scenario: Scenario
    kernel: Kernel
    seeds: int | None = None
    arms: tuple[str, ...] = ()
    verify: bool = False
    baseline: str = ""
    command: tuple[str, ...] = ()
    base: KernelFacts | None = None


def run_command(scenario: str, kernel: str, seeds: int | None, arms: Sequence[str] = ()) -> tuple[str, ...]:
    """The command line that repeats a run; no ``arms`` means all."""
    named = [word for arm in arms for word in ("--arm", arm)]
    return "blklab", "run", scenario, "--kernel", kernel, *(() if seeds is None else ("--seeds", str(seeds))), *named


@dataclass(frozen=True)
class PlannedRun:
    """A run before its first boot. ``facts`` lack only the run's id and start."""

    request: Request
    facts: RunFacts
    jobs: Jobs
    clock: ClockStrategy

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms that were asked for."""
        return tuple(self.request.scenario.arms[name] for name in self.facts.arms)


def plan_run(lab: Lab, request: Request) -> PlannedRun:
    """Expand the scenario once and check each arm's requirements once.

    Raises Misuse for unknown arms and for what the clock cannot answer, LabBroken when a program of the
    guest cannot be built.
    """
    scenario, kernel = request.scenario, request.kernel
    clock = STRATEGIES[scenario.clock]
    clock.refuse(scenario, verify=request.verify, baseline=request.base is not None)
    cells = expand(scenario, request.seeds, request.arms or None)
    arms = {cell.arm.name: cell.arm for cell in cells}
    roles = [role for load in scenario.loads.values() for role in load.roles.values()]
    used = {role.ioengine for role in roles} | {key for role in roles for key in role.options}
    options = (*scenario.requires.config, *(OPTIONS_NEEDED[one] for one in sorted(used & set(OPTIONS_NEEDED))))
    requires = {"options": options, "modules": scenario.requires.modules}
    reasons = {name: unmet(lab, kernel, arm.topology, arm.queue, **requires) for name, arm in arms.items()}
    runnable = [arm for name, arm in arms.items() if not reasons[name]]
    package = f" ({lab.qemu.package})" if lab.qemu.package else ""
    facts = RunFacts(
        run_id="",
        scenario=scenario.name,
        scenario_digest=scenario.digest,
        kernel=KernelFacts.of(kernel),
        seeds=tuple(dict.fromkeys(cell.seed for cell in cells)),
        arms=tuple(arms),
        cells=planned(
            ((cell.arm.name, cell.seed, reasons[cell.arm.name]) for cell in cells), repeats=2 if request.verify else 1
        ),
        qemu=f"QEMU {lab.qemu.version_text}{package}{clock.accelerator(lab, kernel, runnable)}",
        command=request.command,
        baseline=request.baseline,
        base=request.base,
        rule=clock.rule(cells[-1].seed),
    )
    jobs = {
        (cell.arm.name, cell.seed): prepare_job(lab, kernel, cell.arm.topology, cell_job(cell))
        for cell in cells
        if not reasons[cell.arm.name]
    }
    return PlannedRun(request, facts, jobs, clock)

# SPDX-License-Identifier: GPL-2.0-only
"""A request, answered as far as possible before anything boots: cells, missing requirements, prepared jobs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.figures.counters import FOLIO_ADDED
from harness.noise import stopping_rule
from harness.record.store import KernelFacts, RunFacts, planned
from harness.scenario.fio import cgroups, job_file, of_processes, start_phase, step_file
from harness.scenario.model import Arm, Load, Role, Scenario
from harness.scenario.timing import Timing
from lab.base.errors import CannotJudge, Misuse
from lab.base.units import parse_size
from lab.guest.steps import Step
from lab.guest.steps.load import PathMark, Phase, RunLoad, Timed
from lab.guest.steps.setting import Act, AwaitCompletions, Try
from lab.kernels.model import Kernel
from lab.realise.recipe import attribute_file, elevator, queue_settings
from lab.session import GuestLoad, Job, Lab, PreparedJob, accelerator_for, prepare_job, unmet
from lab.topology.limits import longest_wait
from lab.topology.model import Topology
from lab.yaml.strict import names, nearest


def expand(
    scenario: Scenario, seeds: int | None = None, arms: Sequence[str] | None = None
) -> tuple[tuple[Arm, int], ...]:
    """All cells (arm, seed), seed by seed, so every ratio has a value after the first round.

    On the wall clock every other round is in reverse order (A B B A), so a drift affects all arms alike. ``seeds``
    overrides the scenario's number, ``arms`` selects arms, in the order of the file. Raises Misuse for an unknown arm
    and for fewer than one seed.
    """
    count = scenario.seeds if seeds is None else seeds
    if count < 1:
        raise Misuse(f"seeds: expected at least 1, got {count}")
    chosen = set(scenario.arms) if arms is None else set(arms)
    for name in sorted(chosen - set(scenario.arms)):
        raise Misuse(
            f"scenario {scenario.name} has no arm {name}{nearest(name, scenario.arms)}",
            remedy=f"known: {names(scenario.arms)}",
        )
    forwards = [arm for arm in scenario.arms.values() if arm.name in chosen]
    backwards = forwards[::-1] if scenario.timing.by_rule else forwards
    return tuple((arm, seed) for seed in range(1, count + 1) for arm in (forwards if seed % 2 else backwards))


def guest_job(scenario: Scenario, arm: Arm, seed: int) -> Job:
    """The job of one arm and seed (counted from 1): its loads, alternately forwards and backwards over windows."""
    loads = tuple(
        GuestLoad(
            load.name,
            job_file(load, arm.topology, seed),
            load.runtime + load.ramp,
            load.ramp,
            _first_jobs(load),
            of_processes(load),
            load.lost,
            tuple(_steps(load, load.prepare, arm.topology, seed)),
            tuple(_steps(load, load.warm, arm.topology, seed)),
            sum(_longest(role, arm.topology) for role in (*load.prepare, *load.warm)),
            (FOLIO_ADDED,) if load.folios else (),
            tuple(_events(load, arm.topology)),
        )
        for load in _in_order(scenario, seed)
    )
    labels = {"scenario": scenario.digest, "arm": arm.name, "seed": str(seed)}
    inject = scenario.selftest.inject if scenario.selftest else ""
    groups = tuple(group for load in _in_order(scenario, seed) for group in cgroups(load, arm.topology))
    return Job(arm.queue, loads, scenario.pause, start_phase(scenario.name, seed), labels, inject, cgroups=groups)


def _first_jobs(load: Load) -> int:
    """The jobs that fio makes at once: one that starts late is made when its time has come."""
    first = min(min(role.delays) for role in load.roles.values())
    return sum(role.delays.count(first) * role.numjobs for role in load.roles.values())


def _events(load: Load, topology: Topology) -> Iterator[Timed]:
    for event in load.events:
        steps: tuple[Step, ...] = queue_settings(topology, event.queue)
        if event.do:
            steps = (Act(f"{event.do}[{event.target}]", event.do, event.target),)
        elif event.disk:
            file = attribute_file(topology, event.disk, event.write)
            needed = elevator(event.to) if event.write == "queue/scheduler" else ()
            steps = (*needed, Try(f"{event.write}[{event.disk}]", file, event.to))
        if event.errors:
            steps = (PathMark(event.disk, "lost"), *steps)
        if event.ios:
            steps = (AwaitCompletions(event.disk, event.ios), *steps)
        yield from (Timed(at, step, event.cpu) for at in event.times(load.ramp + load.runtime) for step in steps)


_STEP_LEAST = 60 * 10**9
_STEP_TIMES = 4
"""What a filesystem or an array adds to the requests of a step; its time is a limit for guests that hang."""


def _steps(load: Load, roles: Iterable[Role], topology: Topology, seed: int) -> Iterator[Step]:
    for role in roles:
        # What the kernel says meanwhile is not of the set-up.
        yield from (Phase("rest"), RunLoad(f"{load.name}.{role.name}", step_file(role, topology, seed)))


def _longest(role: Role, topology: Topology) -> int:
    """Nanoseconds that a step takes at most: as if its requests came one by one."""
    disks = {name for disk in role.disks for lun in topology.leaves(disk) for name in topology.luns[lun].disks}
    each = max(longest_wait(topology.disks[name], max(role.sizes), 1, topology) for name in disks)
    requests = len(role.disks) * parse_size(role.options["size"]) // min(role.sizes)
    return _STEP_LEAST + _STEP_TIMES * requests * each


def _in_order(scenario: Scenario, seed: int) -> Iterator[Load]:
    loads = [load.windows(scenario.windows) for load in scenario.loads.values()]
    for window in range(scenario.windows):
        # Odd seeds start forwards, even ones backwards, so that no load is always the first of a boot.
        backwards = scenario.windows > 1 and (seed + window) % 2 == 0
        yield from (windows[window] for windows in (reversed(loads) if backwards else loads))


OPTIONS_NEEDED = {
    "io_uring": "IO_URING",
    "io_latency": "BLK_CGROUP_IOLATENCY",
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


Jobs = Mapping[tuple[str, int], PreparedJob]
"""The prepared job of each arm and seed that the kernel and QEMU can run."""


@dataclass(frozen=True)
class PlannedRun:
    """A run before its first boot. ``facts`` lack only the run's id and start."""

    request: Request
    facts: RunFacts
    jobs: Jobs

    @property
    def timing(self) -> Timing:
        return self.request.scenario.timing

    @property
    def arms(self) -> tuple[Arm, ...]:
        return tuple(self.request.scenario.arms[name] for name in self.facts.arms)


def check_repeats(scenario: Scenario, *, verify: bool) -> None:
    """Raise Misuse for ``verify`` where boots scatter."""
    if verify and not scenario.timing.exact:
        message = f"{scenario.name}: boots on the {scenario.clock} clock do not repeat exactly"
        raise Misuse(message, remedy="run it without --verify")


def check_common_arm(*plans: PlannedRun) -> None:
    """Raise CannotJudge, before anything boots, where no arm can run on every kernel."""
    cells = [cell for plan in plans for cell in plan.facts.cells]
    if {cell.arm for cell in cells if cell.skip} == {cell.arm for cell in cells}:
        says = "; ".join(dict.fromkeys(reason for cell in cells for reason in cell.skip))
        message = f"no arm of {plans[0].facts.scenario} runs on both kernels, so nothing was booted: {says}"
        raise CannotJudge(message, remedy="change what the kernel lacks in the topology, or choose another kernel")


def plan_run(lab: Lab, request: Request) -> PlannedRun:
    """Expand the scenario once and check each arm's requirements once.

    Raises Misuse for unknown arms and for what the clock cannot answer, LabBroken when a program of the
    guest cannot be built.
    """
    scenario, kernel = request.scenario, request.kernel
    check_repeats(scenario, verify=request.verify)
    cells = expand(scenario, request.seeds, request.arms or None)
    arms = {arm.name: arm for arm, _ in cells}
    loads = scenario.loads.values()
    roles = [role for load in loads for role in (*load.roles.values(), *load.prepare, *load.warm)]
    used = {role.ioengine for role in roles} | {key for role in roles for key in role.options}
    options = (*scenario.requires.config, *(OPTIONS_NEEDED[key] for key in sorted(used & set(OPTIONS_NEEDED))))
    requires = {"options": options, "modules": scenario.requires.modules}
    reasons = {name: unmet(lab, kernel, arm.topology, arm.queue, **requires) for name, arm in arms.items()}
    emulated = any(arm.topology.emulated for name, arm in arms.items() if not reasons[name])
    facts = RunFacts(
        run_id="",
        scenario=scenario.name,
        scenario_digest=scenario.digest,
        kernel=KernelFacts.of(kernel),
        seeds=tuple(dict.fromkeys(seed for _, seed in cells)),
        arms=tuple(arms),
        cells=planned(((arm.name, seed, reasons[arm.name]) for arm, seed in cells), repeats=2 if request.verify else 1),
        qemu=lab.describe(f", {accelerator_for(lab, kernel)}" if emulated else ""),
        command=request.command,
        baseline=request.baseline,
        base=request.base,
        rule=stopping_rule(cells[-1][1]) if scenario.timing.by_rule else None,
    )
    jobs = {
        (arm.name, seed): prepare_job(lab, kernel, arm.topology, guest_job(scenario, arm, seed))
        for arm, seed in cells
        if not reasons[arm.name]
    }
    return PlannedRun(request, facts, jobs)

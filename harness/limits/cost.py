# SPDX-License-Identifier: GPL-2.0-only
"""Host time that a boot takes under the virtual clock, from bound and window: the work of the guest's CPU decides."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil

from harness.limits.limits import arm_bound
from harness.scenario.model import Arm, Load, Role, Scenario
from lab.base.errors import Misuse
from lab.base.units import parse_size
from lab.topology.model import Driver, Topology

HOST = 15.0
"""Host seconds for a virtual second in which the CPU works: 12.8 to 15.2 in eight boots of shared-queue on 6.1, on an
idle host with two cores. A virtual second in which it is idle takes a tenth of one."""
_IDLE = 0.1
BOOT = 3.0
"""Host seconds for boot, set-up and results."""
SHORT = 0.1
"""Seconds: the window that is proposed; a CPU that works throughout does 1,390 I/Os of 4 KiB in it at least."""
_SECOND = 1e9
_WORKS = 0.95


@dataclass(frozen=True)
class CpuCost:
    """CPU time of a guest at most, in ns of virtual time, which are instructions: of a request that is ``alone`` in
    flight, so that the CPU goes idle and wakes for it, of one that is ``queued`` with others, and for each KiB.
    """

    alone: int
    queued: int
    kib: int


CPU_COSTS = {
    Driver.NULL_BLK: CpuCost(33_000, 22_000, 200),
    Driver.SCSI_DEBUG: CpuCost(35_000, 23_000, 150),
    Driver.TCM_LOOP: CpuCost(49_000, 39_000, 200),
    Driver.TCMU: CpuCost(61_000, 60_000, 820),
    Driver.NVMET_TCP: CpuCost(67_000, 54_000, 1_130),
}
"""Reads and writes on Debian's 6.1.0-56, at depths of 1, 4 and 16, without an elevator, with mq-deadline and with bfq.
Renewed by: python -m tools.costs.
Too small: a boot takes longer than was said, and a draft has its figures set by the CPU, which the idle guard refuses.
Too large: a draft is slower than it has to be."""


@dataclass(frozen=True)
class LoadCost:
    """A load in a boot of an arm: ``window`` in seconds with its ``ramp``, and the share of it that the CPU works.

    ``iops`` are what bound and CPU allow at least. ``bounded``: False where nothing bounds them, and the CPU is taken
    to work throughout. ``steps`` are seconds of the CPU before the window.
    """

    arm: str
    load: str
    window: float
    ramp: float
    busy: float
    iops: float
    bounded: bool = True
    steps: float = 0.0

    @property
    def seconds(self) -> float:
        """Host time."""
        return self.steps * HOST + self.window * (self.busy * HOST + (1 - self.busy) * _IDLE)

    @property
    def shorter(self) -> "LoadCost | None":
        """The same with a window and a ramp of SHORT, where the CPU works throughout; else None."""
        if self.busy < _WORKS or self.window - self.ramp <= SHORT:
            return None
        return replace(self, window=min(self.ramp, SHORT) + SHORT)


def costs(scenario: Scenario, arms: Iterable[str] = ()) -> tuple[LoadCost, ...]:
    """Every load of the arms (all when none is named); nothing on the wall clock, whose windows take their own time."""
    if not scenario.timing.counts_instructions:
        return ()
    chosen = [scenario.arms[name] for name in arms or scenario.arms]
    return tuple(_cost(arm, load) for arm in chosen for load in scenario.loads.values())


def _cost(arm: Arm, load: Load) -> LoadCost:
    topology, roles = arm.topology, load.roles.values()
    window, ramp = (load.ramp + load.runtime) / _SECOND, load.ramp / _SECOND
    steps = sum(
        len(step.disks) * parse_size(step.options["size"]) / step.bs * cpu_seconds(topology, step)
        for step in (*load.prepare, *load.warm)
    )
    each = [cpu_seconds(topology, role) for role in roles]
    try:
        bounds = [min(arm_bound(arm, load, role.name, "iops"), role.jobs * role.pace) for role in roles]
    except Misuse:
        return LoadCost(arm.name, load.name, window, ramp, 1.0, 1 / max(each), bounded=False, steps=steps)
    busy = sum(bound * seconds for bound, seconds in zip(bounds, each, strict=True))
    iops = sum(bounds) / max(1.0, busy)
    return LoadCost(arm.name, load.name, window, ramp, min(1.0, busy), iops, steps=steps)


def cpu_seconds(topology: Topology, role: Role) -> float:
    """What one I/O of the role takes of the guest's CPU at most, on the disk where it takes most."""
    alone = role.depth * len(role.disks) == 1
    rows = [(CPU_COSTS[topology.driver(disk)], _pieces(topology, disk, role.bs)) for disk in role.disks]
    costs = ((cost.alone if alone else cost.queued) * pieces + cost.kib * role.bs / 1024 for cost, pieces in rows)
    return max(costs) / _SECOND


def _pieces(topology: Topology, name: str, bs: int) -> int:
    """Requests that one of ``bs`` bytes becomes below stripes and arrays."""
    stack = topology.stacks.get(name)
    if stack is None:
        return 1
    return max(ceil(bs / (stack.chunk or bs)), *(_pieces(topology, member, bs) for member in stack.over))


def arm_seconds(scenario: Scenario) -> dict[str, float]:
    """Host time of a boot of each arm."""
    return {arm: boot_seconds(scenario, (arm,)) for arm in scenario.arms}


def boot_seconds(scenario: Scenario, arms: Iterable[str] = ()) -> float:
    """Host time of a boot, the mean over the arms."""
    named = tuple(arms) or tuple(scenario.arms)
    if not scenario.timing.counts_instructions:
        windows = sum(load.ramp + load.runtime for load in scenario.loads.values()) * scenario.windows
        return BOOT + windows / _SECOND
    return BOOT + sum(cost.seconds for cost in costs(scenario, named)) / len(named)

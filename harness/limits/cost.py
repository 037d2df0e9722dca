# SPDX-License-Identifier: GPL-2.0-only
"""Host time that a boot takes under the virtual clock, from bound and window: the work of the guest's CPU decides."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from harness.limits.limits import arm_bound
from harness.scenario.model import Arm, Load, Scenario
from lab.base.errors import Misuse
from lab.base.units import parse_size
from lab.topology.model import Driver

HOST = 15.0
"""Host seconds for a virtual second in which the CPU works: 12.8 to 15.2 in eight boots of shared-queue on 6.1, on an
idle host with two cores. A virtual second in which it is idle takes a tenth of one."""
_IDLE = 0.1
BOOT = 3.0
"""Host seconds for boot, set-up and results."""
PER_IO = {Driver.NULL_BLK: 15_000, Driver.NVMET_TCP: 60_000, Driver.TCMU: 85_000}
"""Instructions of an I/O, so ns of virtual time. docs/results/findings.md has 11,000 to 23,000 for null_blk and 55,000
to 61,000 for NVMe over TCP; shared-queue on 6.1 has 80,000 to 94,000 for a modelled disk."""
_OTHER = 17_000
"""scsi_debug has 13,000 to 22,000 there."""
SHORT = 0.1
"""Seconds: the window that is proposed; a CPU that works throughout does 1,100 I/Os in it with any driver."""
_SECOND = 1e9
_WORKS = 0.95


@dataclass(frozen=True)
class LoadCost:
    """A load in a boot of an arm: ``window`` in seconds with its ``ramp``, and the share of it that the CPU works.

    ``iops`` are what bound and CPU allow. ``bounded``: False where nothing bounds them, and the CPU is taken to work
    throughout. ``steps`` are seconds of the CPU before the window.
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
    ns = max(PER_IO.get(hba.driver, _OTHER) for hba in arm.topology.hbas.values())
    most, window, ramp = _SECOND / ns, (load.ramp + load.runtime) / _SECOND, load.ramp / _SECOND
    before = (*load.prepare, *load.warm)
    steps = sum(len(step.disks) * parse_size(step.options["size"]) / step.bs for step in before) / most
    try:
        bound = sum(
            min(arm_bound(arm, load, name, "iops"), len(role.disks) * role.pace) for name, role in load.roles.items()
        )
    except Misuse:
        return LoadCost(arm.name, load.name, window, ramp, 1.0, most, bounded=False, steps=steps)
    return LoadCost(arm.name, load.name, window, ramp, min(1.0, bound / most), min(bound, most), steps=steps)


def boot_seconds(scenario: Scenario, arms: Iterable[str] = ()) -> float:
    """Host time of a boot, the mean over the arms."""
    named = tuple(arms) or tuple(scenario.arms)
    if not scenario.timing.counts_instructions:
        windows = sum(load.ramp + load.runtime for load in scenario.loads.values()) * scenario.windows
        return BOOT + windows / _SECOND
    return BOOT + sum(cost.seconds for cost in costs(scenario, named)) / len(named)

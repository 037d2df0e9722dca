# SPDX-License-Identifier: GPL-2.0-only
"""By how much a draft must be slower than the machine, so that the CPU of a guest does not set its figures."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import ceil

from harness import fitted
from harness.limits.cost import HOST, costs, cpu_seconds
from harness.limits.limits import allowed
from harness.scenario.model import Arm, Load, Role, Scenario
from lab.base.units import show_time
from lab.topology.model import Topology
from lab.topology.parameters import crossings

_LITTLE = 12.0
"""Host seconds of a boot for a load, on an idle host, that are worth a window as long as the job's."""
_MARGIN = 0.5
"""Part of the time that the idle guard leaves to the CPU which a draft plans to use."""


def factor(busy: float) -> int:
    """The whole factor by which rates must be lower and times longer; 1 where the guest keeps up."""
    return max(1, ceil(busy / ((1 - fitted.LEAST_IDLE) * _MARGIN)))


def demands(arm: Arm, loads: Iterable[Load]) -> Iterator[tuple[float, float, str]]:
    """The time of the guest's CPU that each load asks for, 1 for all of it, its IOPS, and its name.

    Every role has what the topology at its own scale allows it. Raises Misuse where nothing limits a role.
    """
    for load in loads:
        rates = expected_rates(arm, load)
        roles = [(rates[role.name] / role.bs, role) for role in load.roles.values() if waits(role)]
        busy = sum(iops * cpu_seconds(arm.topology, role) for iops, role in roles)
        yield busy, sum(iops for iops, _ in roles), load.name


def expected_rates(arm: Arm, load: Load) -> dict[str, float]:
    """Bytes per second of each role: what the topology allows, or less where the role paces itself.

    Raises Misuse where nothing limits a role.
    """
    # A buffered random read that misses the page cache waits for the disk like a direct one.
    waiting = {name: replace(role, direct=role.direct or waits(role)) for name, role in load.roles.items()}
    rates = allowed(arm.topology, replace(load, roles=waiting), arm.queue).rates
    return {name: min(rates[name], role.jobs * role.pace * role.bs) for name, role in load.roles.items()}


def cheap(scenario: Scenario, arm: str, load: Load) -> float:
    """Seconds of a window that a boot spends little of the host's time on."""
    cost = next(cost for cost in costs(scenario, (arm,)) if cost.load == load.name)
    return _LITTLE * cost.window / (cost.seconds - cost.steps * HOST)


def waits(role: Role) -> bool:
    """Whether each I/O waits for a disk, and not for the page cache or for read-ahead."""
    return role.direct or role.rw == "randread"


def not_concluded(topology: Topology) -> tuple[str, ...]:
    """What a scaled topology cannot show: the timers of the kernel that its times cross, a sentence each."""
    alike: dict[str, list[str]] = {}
    for crossing in crossings(topology):
        timer = crossing.timer
        text = f"whether {timer.does} ({timer.name}, {show_time(timer.time)}, {timer.source})"
        on_machine = show_time(round(float(f"{crossing.hardware:.3g}")))
        alike.setdefault(text, []).append(f"{crossing.what} ({on_machine} on the machine)")
    return tuple(
        f"Not to be concluded: {text}, for the scale carries these times across it: {'; '.join(what)}."
        for text, what in alike.items()
    )

# SPDX-License-Identifier: GPL-2.0-only
"""The selftests of bottlenecks, with uses as their boots recorded them."""

from collections.abc import Mapping
from dataclasses import replace

from harness.base.checkout import SCENARIOS
from harness.figures.samples import DiskTime, Held, LoadUse
from harness.limits.bottleneck import Bottleneck, bottleneck
from harness.scenario.load import read_scenario
from harness.scenario.model import Arm, Load, Scenario


def scenario(name: str) -> Scenario:
    return read_scenario(f"bottleneck-{name}", search=SCENARIOS / "selftest")


def held(number: int) -> Held:
    return Held(number, {number: 1.0})


def use(luns: Mapping[str, int], idle: float = 0.9, **more: Mapping[str, object]) -> LoadUse:
    hosts = {"host": held(sum(luns.values()))}
    return LoadUse(idle, luns={name: held(number) for name, number in luns.items()}, hosts=hosts, **more)  # type: ignore[arg-type]


def disks(count: int, busy: float, waited: float = 0.0) -> dict[str, DiskTime]:
    return {f"d{number}": DiskTime(busy, waited) for number in range(count)}


def each(count: int, number: int) -> dict[str, int]:
    return {f"d{place}": number for place in range(count)}


USES: Mapping[tuple[str, str], LoadUse] = {
    ("devices", "disk.stream"): use(each(2, 4), disks=disks(2, 1.0), links={"wire": 0.67}),
    ("devices", "link.stream"): use(each(2, 4), disks=disks(2, 1.0, 0.5), links={"wire": 1.0}),
    ("queues", "host.random"): replace(
        use(each(2, 8)),
        hosts={"host": Held(13.0, {10: 0.5, 16: 0.5})},
        luns={"d0": held(6), "d1": Held(7, {8: 0.6, 6: 0.4})},
    ),
    ("queues", "lun.random"): use(each(2, 8)),
    ("queues", "own.random"): use(each(2, 32)),
    ("cpu", "plain.random"): use(each(2, 30), idle=0.0),
    ("selector", "round-robin.stream"): use(
        {"f0": 1, "s0": 15}, disks=disks(1, 0.17), links={"fast": 0.33, "slow": 1.0}
    ),
    ("selector", "queue-length.stream"): use(
        {"f0": 8, "s0": 8}, disks=disks(1, 0.33), links={"fast": 1.0, "slow": 1.0}
    ),
}


def named(name: str, key: str, seen: LoadUse | None = None) -> Bottleneck:
    of = scenario(name)
    arm, _, load = key.partition(".")
    seen = seen or USES[name, key]
    return bottleneck(of.arms[arm], of.loads[load], [seen], moved(of.arms[arm], of.loads[load], seen))


def moved(arm: Arm, load: Load, seen: LoadUse) -> dict[str, float]:
    """Bytes a second of the only role: by Little's law of what LUNs hold over the service time, 1 MB without one."""
    (role,) = load.roles.values()
    (service,) = {arm.topology.disks[disk].service for lun in seen.luns for disk in arm.topology.luns[lun].disks}
    rate = sum(held.mean for held in seen.luns.values()) * 1e9 / service * role.bs if service else 1e6
    return {role.name: rate}

# SPDX-License-Identifier: GPL-2.0-only
"""What the world would be if one limit were a quarter higher, and what its throughput then says of the limits.

A limit is a capacity: bytes per second, tags, requests. A latency (a seek, a service time) is none. Where
a depth binds, throughput is depth over latency, so that a shorter latency always helps; such rows
are shown and do not count. A processor a quarter faster is the same as devices a quarter slower with
throughput counted in their own, longer seconds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from harness.limits.bottleneck import Bottleneck
from harness.limits.elements import QUEUES, Element, ElementKind
from harness.scenario.model import Arm, Load
from lab.topology.limits import refusals
from lab.topology.model import Hba, Stack, StackKind, Topology
from lab.topology.origins import multiplied
from lab.topology.ranges import in_ranges

RAISE = 1.25
LEAST_GAIN = 0.02
"""What the named limit must gain more than, and any other less."""
LATENCY = "does not count: a latency, not a limit"
OVERLOADED = "does not count: what the selector overloads"
_DISK_RATES, _DISK_TIMES = ("rate", "rpm"), ("seek", "service")
_MOST_WEIGHT = 100
"""ST_MAX_RELATIVE_THROUGHPUT of drivers/md/dm-ps-service-time.c."""


@dataclass(frozen=True)
class Alteration:
    """One limit a quarter higher: the arm and load to run instead, and what their throughput is multiplied with.

    ``named`` is the bottleneck itself. ``aside`` says why a row does not count, and ``refused`` why the limit cannot
    be raised; both are empty otherwise.
    """

    label: str
    says: str
    arm: Arm
    load: Load
    named: bool = False
    aside: str = ""
    times: float = 1.0
    refused: str = ""


@dataclass(frozen=True)
class ProofRow:
    """``gain`` is relative: 0.25 is a quarter more. None where it was not measured, and ``reason`` says why."""

    change: Alteration
    gain: float | None
    reason: str = ""

    @property
    def agrees(self) -> bool:
        """Whether it is as the name of the bottleneck has it; what does not count or was not measured agrees."""
        if self.gain is None or self.change.aside:
            return True
        return self.gain > LEAST_GAIN if self.change.named else self.gain < LEAST_GAIN


@dataclass(frozen=True)
class Proof:
    """The throughput of one arm and load, in bytes per second, and what each raised limit makes of it."""

    bottleneck: Bottleneck
    base: float
    rows: tuple[ProofRow, ...]

    @property
    def named(self) -> ProofRow:
        return next(row for row in self.rows if row.change.named)

    @property
    def proven(self) -> bool:
        """False also where the named limit could not be raised: see ``named``."""
        return self.named.gain is not None and all(row.agrees for row in self.rows)


def changes(arm: Arm, load: Load, found: Bottleneck) -> tuple[Alteration, ...]:
    """One for each limit that the load meets, the named one first. Raises ValueError when nothing is named."""
    if found.binding is None:
        raise ValueError(f"{found.arm}.{found.load} has no bottleneck")
    every: list[Alteration] = []
    for kind in ElementKind:
        of_kind = [one for one in found.elements if one.kind is kind]
        every += _CHANGES[kind](arm, load, of_kind, found.binding)
    every += _parallel_disks(arm, load, found)
    known = [replace(one, refused=one.refused or "; ".join(map(str, refusals(one.arm.topology)))) for one in every]
    return tuple(sorted(known, key=lambda change: not change.named))


def _with(arm: Arm, topology: Topology) -> Arm:
    return replace(arm, topology=topology)


def _multiplied(topology: Topology, kind: str, names: Sequence[str], factors: Mapping[str, float]) -> Topology:
    for name in names:
        for key, factor in factors.items():
            topology = multiplied(topology, f"{kind}.{name}.{key}", factor)
    return topology


def _disks(arm: Arm, load: Load, groups: Sequence[Element], binding: Element) -> Iterator[Alteration]:
    faster = dict.fromkeys(_DISK_RATES, RAISE) | dict.fromkeys(_DISK_TIMES, 1 / RAISE)
    for group in groups:
        named = group == binding
        if binding.kind not in QUEUES:
            topology = _multiplied(arm.topology, "disk", group.names, faster)
            yield Alteration(group.label, "a quarter faster", _with(arm, topology), load, named)
            continue
        topology = _multiplied(arm.topology, "disk", group.names, {"rate": RAISE})
        yield Alteration(f"{group.label}.rate", "a quarter higher", _with(arm, topology), load)
        yield from _latency(arm, load, group.names)


def _latency(arm: Arm, load: Load, names: Sequence[str]) -> Iterator[Alteration]:
    shorter = dict.fromkeys(_DISK_TIMES, 1 / RAISE) | {"rpm": RAISE}
    topology = _multiplied(arm.topology, "disk", names, shorter)
    if topology != arm.topology:
        label = f"disk.{in_ranges(names)}"
        yield Alteration(label, "seek and service a fifth shorter", _with(arm, topology), load, aside=LATENCY)


def _parallel_disks(arm: Arm, load: Load, found: Bottleneck) -> Iterator[Alteration]:
    """Disks that serve any number of requests at once have no limit, but a latency."""
    luns = [lun for role in load.roles.values() for disk in role.disks for lun in arm.topology.leaves(disk)]
    behind = dict.fromkeys(disk for lun in luns for disk in arm.topology.luns[lun].disks)
    parallel = [name for name in behind if arm.topology.disks[name].service]
    if parallel and found.binding and found.binding.kind in QUEUES:
        yield from _latency(arm, load, parallel)
    elif parallel:
        topology = _multiplied(arm.topology, "disk", parallel, {"service": 1 / RAISE})
        yield Alteration(f"disk.{in_ranges(parallel)}", "a quarter faster", _with(arm, topology), load)


def _links(arm: Arm, load: Load, groups: Sequence[Element], binding: Element) -> Iterator[Alteration]:
    for group in groups:
        topology = _multiplied(arm.topology, "link", group.names, {"rate": RAISE, "cost": 1 / RAISE})
        # What the selector overloads is part of what is said of it.
        aside = OVERLOADED if group.binds and binding.kind is ElementKind.SELECTOR else ""
        yield Alteration(group.label, "a quarter faster", _with(arm, topology), load, group == binding, aside)


def _selectors(arm: Arm, load: Load, groups: Sequence[Element], binding: Element) -> Iterator[Alteration]:
    for group in groups:
        stacks = dict(arm.topology.stacks)
        for name in group.names:
            stacks[name] = _adaptive(arm.topology, stacks[name])
        topology = replace(arm.topology, stacks=stacks)
        yield Alteration(group.label, "service-time, weighted by links", _with(arm, topology), load, group == binding)


def _adaptive(topology: Topology, stack: Stack) -> Stack:
    """All paths at once, each with as much in flight as its narrowest link carries."""
    if stack.kind is not StackKind.MULTIPATH:
        return stack
    rates = [_narrowest(topology, path) for path in stack.over]
    weights = tuple(max(1, round(_MOST_WEIGHT * rate / max(rates))) for rate in rates)
    return replace(stack, selector="service-time", policy="multibus", throughput=weights)


def _narrowest(topology: Topology, path: str) -> int:
    rates = [
        topology.links[link].rate
        for lun in topology.leaves(path)
        for disk in topology.luns[lun].disks
        for link in topology.path(lun, disk)
    ]
    return min(rates, default=1)


def _cpu(arm: Arm, load: Load, groups: Sequence[Element], binding: Element) -> Iterator[Alteration]:
    slower = dict.fromkeys(_DISK_RATES, 1 / RAISE) | dict.fromkeys(_DISK_TIMES, RAISE)
    topology = _multiplied(arm.topology, "disk", tuple(arm.topology.disks), slower)
    topology = _multiplied(topology, "link", tuple(topology.links), {"rate": 1 / RAISE, "cost": RAISE})
    for group in groups:
        says = "a quarter faster, to the devices"
        yield Alteration(group.label, says, _with(arm, topology), load, group == binding, times=RAISE)


def _host_queues(arm: Arm, load: Load, groups: Sequence[Element], binding: Element) -> Iterator[Alteration]:
    def raised(hba: Hba) -> Hba:
        can_queue = ceil(hba.can_queue * RAISE)
        # A LUN can hold no more than its host has.
        return replace(
            hba, can_queue=can_queue, cmd_per_lun=can_queue if hba.cmd_per_lun == hba.can_queue else hba.cmd_per_lun
        )

    if groups:
        hbas = arm.topology.hbas
        topology = replace(arm.topology, hbas={name: raised(hba) for name, hba in hbas.items()})
        says = _from_to((hba.can_queue for hba in hbas.values()), (hba.can_queue for hba in topology.hbas.values()))
        yield Alteration("hba.can_queue", says, _with(arm, topology), load, binding in groups)


def _lun_depths(arm: Arm, load: Load, groups: Sequence[Element], binding: Element) -> Iterator[Alteration]:
    if not groups:
        return
    hbas = arm.topology.hbas
    topology = replace(
        arm.topology, hbas={name: replace(hba, cmd_per_lun=ceil(hba.cmd_per_lun * RAISE)) for name, hba in hbas.items()}
    )
    queue = dict(arm.queue)
    if "nr_requests" in queue:
        queue["nr_requests"] = str(ceil(int(queue["nr_requests"]) * RAISE))
    says = _from_to((hba.cmd_per_lun for hba in hbas.values()), (hba.cmd_per_lun for hba in topology.hbas.values()))
    yield Alteration("hba.cmd_per_lun", says, replace(arm, topology=topology, queue=queue), load, binding in groups)


def _iodepths(arm: Arm, load: Load, groups: Sequence[Element], binding: Element) -> Iterator[Alteration]:
    with_depth = [
        role
        for role in load.roles.values()
        if role.ioengine == "io_uring" or (role.ioengine == "libaio" and role.direct)
    ]
    deeper = {**load.roles, **{one.name: replace(one, iodepth=ceil(one.iodepth * RAISE)) for one in with_depth}}
    refused = "" if deeper != load.roles else "its roles have one request in flight each"
    says = _from_to((role.iodepth for role in load.roles.values()), (role.iodepth for role in deeper.values()))
    for group in groups:
        yield Alteration(group.label, says, arm, replace(load, roles=deeper), group == binding, refused=refused)


def _paces(arm: Arm, load: Load, groups: Sequence[Element], binding: Element) -> Iterator[Alteration]:
    """Roles that pace themselves, a quarter faster: a higher rate, or a shorter thinktime."""
    for group in groups:
        faster = {name: replace(load.roles[name], options=_faster(load.roles[name].options)) for name in group.names}
        says = "; ".join(
            dict.fromkeys(
                f"{key} {load.roles[name].options[key]} -> {value}"
                for name, role in faster.items()
                for key, value in role.options.items()
                if value != load.roles[name].options[key]
            )
        )
        yield Alteration(group.label, says, arm, replace(load, roles={**load.roles, **faster}), group == binding)


def _faster(options: Mapping[str, str]) -> Mapping[str, str]:
    changed = dict(options)
    for key in ("rate", "rate_iops"):
        if key in options:
            changed[key] = str(ceil(int(options[key]) * RAISE))
    if "thinktime" in options:
        changed["thinktime"] = str(int(int(options["thinktime"]) / RAISE))
    return changed


def _from_to(before: Iterator[int], after: Iterator[int]) -> str:
    pairs = dict.fromkeys(zip(before, after, strict=True))
    return ", ".join(f"{was} -> {now}" for was, now in pairs)


_CHANGES = {
    ElementKind.DISK: _disks,
    ElementKind.LINK: _links,
    ElementKind.SELECTOR: _selectors,
    ElementKind.CPU: _cpu,
    ElementKind.HOST_QUEUE: _host_queues,
    ElementKind.LUN_DEPTH: _lun_depths,
    ElementKind.IODEPTH: _iodepths,
    ElementKind.PACE: _paces,
}

# SPDX-License-Identifier: GPL-2.0-only
"""A topology as boxes, for text and pages. Equal parts share a box."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, log10
from statistics import fmean

from harness.metrics.occupancy import LoadUse
from lab.base.units import show_rate, show_size, show_time
from lab.topology.graph import BOX, DISK, HBA, LINK, Route, RouteStep, routes
from lab.topology.model import Disk, Stack, StackKind, Topology
from lab.topology.ranges import ranged

_DIGITS = 4
STREAM = 1 << 20
_FEW = 8


@dataclass(frozen=True)
class Scaled:
    """Writes rates and times of the lab. The lab's own figure is left out where it is the hardware's."""

    scale: int

    def rate(self, value: float) -> str:
        """Bytes per second."""
        return self._both(show_rate(_round(value * self.scale)), show_rate(_round(value)))

    def time(self, value: float) -> str:
        """Nanoseconds."""
        return self._both(show_time(_round(value / self.scale)), show_time(_round(value)))

    def _both(self, hardware: str, lab: str) -> str:
        return hardware if self.scale == 1 else f"{hardware} [{lab}]"


def _round(value: float) -> int:
    """Four digits that count: scaled rates are whole bytes per second, and so a little off."""
    return int(round(value, _DIGITS - 1 - floor(log10(value)))) if value >= 1 else 0


STACK = "stack"
_PARTS = 4
_MINUTE = 60e9
_APART = 0.03


@dataclass(frozen=True)
class Meter:
    """How much of something a load used: ``share`` of the window or of the tags, 0 to 1, and the same in words."""

    load: str
    share: float
    words: str


@dataclass(frozen=True)
class Box:
    """``names`` are equal parts; ``lines`` describe one of them, ``meters`` its use."""

    kind: str
    names: tuple[str, ...]
    lines: tuple[str, ...]
    meters: tuple[Meter, ...] = ()

    @property
    def title(self) -> str:
        return ", ".join(ranged(self.names))


@dataclass(frozen=True)
class BoxTree:
    """A box, and those behind it on the ways to the disks."""

    box: Box
    below: tuple["BoxTree", ...]


def branches(topology: Topology, uses: Mapping[str, LoadUse] | None = None) -> tuple[BoxTree, ...]:
    """The ways from the hosts to the disks; ``uses`` are those of loads by name."""
    scaled = Scaled(topology.scale)
    return _branches(
        [
            [_add_meters(_box(topology, step, scaled), topology, uses or {}) for step in _one_disk_step(route)]
            for route in routes(topology)
        ]
    )


def _branches(ways: Sequence[Sequence[Box]]) -> tuple[BoxTree, ...]:
    """Ways with the same first box are one branch."""
    firsts = dict.fromkeys(way[0] for way in ways)
    return tuple(BoxTree(box, _branches([way[1:] for way in ways if way[0] == box and way[1:]])) for box in firsts)


def _add_meters(box: Box, topology: Topology, uses: Mapping[str, LoadUse]) -> Box:
    """A meter for each load that used a part of the box; the mean for several parts."""
    meters = []
    for load, use in uses.items():
        shares = [share for name in box.names if (share := _share(box.kind, name, topology, use)) is not None]
        if not shares:
            continue
        mean, most = fmean(shares), max(shares)
        words = f"{100 * mean:.0f} %" + (f", most {100 * most:.0f} %" if most > mean + _APART else "")
        meters.append(Meter(load, min(1.0, mean), words))
    return replace(box, meters=tuple(meters))


def _share(kind: str, name: str, topology: Topology, use: LoadUse) -> float | None:
    if kind == LINK:
        return use.links.get(name)
    if kind == DISK:
        return use.disks[name].busy if name in use.disks else None
    if kind == HBA:
        return use.hosts[name].mean / topology.hbas[name].can_queue if name in use.hosts else None
    return None


def _one_disk_step(route: Route) -> Iterator[RouteStep]:
    """The steps of a route; the disks of a LUN that shows several are one."""
    shown = [name for step in route.steps if step.kind == DISK for name in step.names]
    yield from (step for step in route.steps if step.kind != DISK)
    yield RouteStep(DISK, tuple(shown))


def _box(topology: Topology, step: RouteStep, scaled: Scaled) -> Box:
    name = step.names[0]
    if step.kind == HBA:
        hba = topology.hbas[name]
        each = "" if hba.shares_tags else " for each LUN"
        queues = (f"can_queue {hba.can_queue}{each}, cmd_per_lun {hba.cmd_per_lun}", f"{hba.hw_queues} hardware queue")
        place = ", ".join(filter(None, (hba.slot and f"slot {hba.slot}", f"node {hba.node}" if hba.node else "")))
        more = f"{queues[1]}s" if hba.hw_queues > 1 else ""
        return Box(HBA, step.names, tuple(filter(None, (hba.model, f"played by {hba.driver}", place, queues[0], more))))
    if step.kind == LINK:
        link = topology.links[name]
        cost = f"{scaled.time(link.cost)} a request" if link.cost else ""
        return Box(LINK, step.names, tuple(filter(None, (link.what, scaled.rate(link.rate), cost))))
    if step.kind == BOX:
        return Box(BOX, step.names, tuple(filter(None, (topology.enclosures[name].model,))))
    disks = [topology.disks[each] for each in step.names]
    kinds = dict.fromkeys(tuple(_disk_lines(disk, scaled)) for disk in disks)
    lines = (
        next(iter(kinds))
        if len(kinds) == 1
        else tuple(f"{disk.name}: {', '.join(_disk_lines(disk, scaled))}" for disk in disks)
    )
    return Box(DISK, step.names, lines)


def _disk_lines(disk: Disk, scaled: Scaled) -> Iterator[str]:
    yield show_size(disk.size)
    yield scaled.rate(disk.rate) if disk.rate else f"{scaled.time(disk.service or 0)} a request"
    for zone in disk.zones:
        yield f"{scaled.rate(zone.rate)} from {show_size(zone.start)}"
    if disk.seek:
        yield f"seek {scaled.time(disk.seek)}"
    if disk.rotation:
        yield f"{_MINUTE * scaled.scale / disk.rotation:.0f} rpm"
    if disk.ncq > 1:
        yield f"NCQ {disk.ncq}"
    if disk.look_ahead:
        yield f"look-ahead {show_size(disk.look_ahead)}"
    if disk.coalesce > 1:
        yield f"reports {disk.coalesce} at a time"


def stack_boxes(topology: Topology) -> Iterator[Box]:
    """Stacks that differ only in their members share a box; uppermost first."""
    below = {member for stack in topology.stacks.values() for member in stack.over}
    alike: dict[tuple[object, ...], list[Stack]] = {}
    for stack in topology.stacks.values():
        hosts = tuple(dict.fromkeys(topology.luns[lun].hba for lun in topology.leaves(stack.name)))
        alike.setdefault((_stack_lines(stack), hosts, stack.name in below), []).append(stack)
    ordered = sorted(alike.items(), key=lambda item: -_height(topology, item[1][0].name))
    for (lines, *_), stacks in ordered:
        parts = tuple(str(line) for line in lines if line) if isinstance(lines, tuple) else ()
        yield Box(STACK, tuple(stack.name for stack in stacks), (*parts, _members(stacks)))


def _height(topology: Topology, name: str) -> int:
    stack = topology.stacks.get(name)
    return 1 + max(_height(topology, member) for member in stack.over) if stack else 0


def _stack_lines(stack: Stack) -> tuple[str, ...]:
    members, size = len(stack.over), f"{show_size(stack.size)} " if stack.size else ""
    chunk = f" x {show_size(stack.chunk)}" if stack.chunk else ""
    part = f"linear, {size}from {show_size(stack.offset)}" if size or stack.offset else "linear"
    lines = {
        StackKind.STRIPE: (f"stripe of {members}{chunk}",),
        StackKind.MULTIPATH: (f"multipath of {members}", f"{stack.selector}, {stack.policy}, {stack.mode}"),
        StackKind.NVME: (f"NVMe multipath of {members}", stack.iopolicy),
        StackKind.MD: (f"{stack.level} of {members}{chunk}",),
        StackKind.SNAPSHOT: (f"snapshot{chunk}", f"the {stack.side}"),
        StackKind.CRYPT: ("dm-crypt",),
        StackKind.LOOP: (f"loop {size}".rstrip(), "direct I/O" if stack.direct_io else ""),
        StackKind.FILESYSTEM: (stack.type, stack.mkfs, stack.mount),
    }
    return tuple(line for line in lines.get(stack.kind, (part,)) if line)


def _members(stacks: list[Stack]) -> str:
    """The members: the first of each stack, then the second of each and so on, as ranges."""
    columns = list(zip(*(stack.over for stack in stacks), strict=True)) if len(stacks) > 1 else [stacks[0].over]
    shown = [name for column in columns for name in ranged(column)]
    more = f" and {len(shown) - _PARTS} more" if len(shown) > _PARTS else ""
    return "over " + ", ".join(shown[:_PARTS]) + more


def kinds_words(named: Iterable[tuple[str, str]]) -> str:
    """``disk d0..11 and link pcie0``, of (kind, name)."""
    kinds: dict[str, list[str]] = {}
    for kind, name in named:
        kinds.setdefault(kind, []).append(name)
    return " and ".join(f"{kind} {listed(names)}" for kind, names in kinds.items())


def listed(names: Iterable[str]) -> str:
    shown = ranged(names)
    return ", ".join(shown[:_FEW]) + (f" and {len(shown) - _FEW} more" if len(shown) > _FEW else "")

# SPDX-License-Identifier: GPL-2.0-only
"""A topology as boxes, in which equal parts share a box, and as text: tree, bounds, kernel timers, origins."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from math import floor, log10
from statistics import fmean

from harness.figures.samples import LoadUse
from harness.limits.filling import FlowKind
from harness.limits.limits import Allowed, allowed
from harness.report.format import listed, plural
from harness.scenario.model import Load, Role
from lab.base.errors import Misuse
from lab.base.units import show_rate, show_size, show_time
from lab.topology.graph import Access, parts
from lab.topology.model import Disk, Hba, Lun, Stack, StackKind, Topology
from lab.topology.parameters import crossings
from lab.topology.ranges import in_ranges, ranged

_DIGITS = 4
_HBA, _LINK, _BOX, _DISK = "hba", "link", "box", "disk"
_STREAM, _RANDOM = 1 << 20, 4 << 10
_DEEP = 1024
_BINDS = 0.999
_MOST_NAMES, _MOST_MEMBERS = 8, 4
_MINUTE = 60e9
_APART = 0.03
"""A meter of several parts says the largest share if it is this far from their mean."""


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


@dataclass(frozen=True)
class Meter:
    """How much of something a load used: ``share`` of the window or of the tags, 0 to 1, and the same as text."""

    load: str
    share: float
    text: str


@dataclass(frozen=True)
class Box:
    """``names`` are equal parts; ``lines`` describe one of them, ``meters`` its use."""

    kind: str
    names: tuple[str, ...]
    lines: tuple[str, ...]
    meters: tuple[Meter, ...] = ()

    @property
    def title(self) -> str:
        return in_ranges(self.names)


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
            [_add_meters(_box(topology, kind, names, scaled), topology, uses or {}) for kind, names in way]
            for way in _ways(topology)
        ]
    )


def _ways(topology: Topology) -> Iterator[list[tuple[str, tuple[str, ...]]]]:
    """The kinds of parts from a host to its disks, each with the names of equal parts; every LUN is on one way."""
    users = Counter(
        link for lun in topology.luns.values() for disk in lun.disks for link in topology.path(lun.name, disk)
    )
    alike: dict[Hashable, list[Lun]] = {}
    for lun in topology.luns.values():
        alike.setdefault(tuple(_key(topology, lun, users)), []).append(lun)
    for luns in alike.values():
        steps = zip(*(_to_disks(topology, lun) for lun in luns), strict=True)
        disks = (dict.fromkeys(names) for names in zip(*(lun.disks for lun in luns), strict=True))
        before = [(step[0][0], tuple(dict.fromkeys(name for _, name in step))) for step in steps]
        yield [*before, (_DISK, tuple(name for names in disks for name in names))]


def _key(topology: Topology, lun: Lun, users: Counter[str]) -> Iterator[Hashable]:
    """What is equal of LUNs on one way."""
    # Of disks with several paths the first paths are one way, the second paths another.
    paths = [other.name for other in topology.luns.values() if lun.disks[0] in other.disks]
    yield len(paths), paths.index(lun.name)
    for kind, name in _to_disks(topology, lun):
        yield replace(topology.links[name], name="") if kind == _LINK and users[name] == 1 else (kind, name)
    yield from (replace(topology.disks[name], name="", links=()) for name in lun.disks)


def _to_disks(topology: Topology, lun: Lun) -> Iterator[tuple[str, str]]:
    """The parts from the host to the disks; links and enclosures are those of the LUN's first disk."""
    first = lun.disks[0]
    of_disk = topology.disks[first].links
    yield _HBA, lun.hba
    yield from ((_LINK, name) for name in topology.path(lun.name, first) if name not in of_disk)
    yield from ((_BOX, box.name) for box in topology.enclosures.values() if first in box.disks)
    yield from ((_LINK, name) for name in of_disk)


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
        text = f"{100 * mean:.0f} %" + (f", most {100 * most:.0f} %" if most > mean + _APART else "")
        meters.append(Meter(load, min(1.0, mean), text))
    return replace(box, meters=tuple(meters))


def _share(kind: str, name: str, topology: Topology, use: LoadUse) -> float | None:
    if kind == _LINK:
        return use.links.get(name)
    if kind == _DISK:
        return use.disks[name].busy if name in use.disks else None
    if kind == _HBA:
        return use.hosts[name].mean / topology.hbas[name].can_queue if name in use.hosts else None
    return None


def _box(topology: Topology, kind: str, names: tuple[str, ...], scaled: Scaled) -> Box:
    name = names[0]
    lines: Iterable[str]
    if kind == _HBA:
        lines = _hba_lines(topology.hbas[name])
    elif kind == _LINK:
        link = topology.links[name]
        lines = (link.what, scaled.rate(link.rate), f"{scaled.time(link.cost)} a request" if link.cost else "")
    elif kind == _BOX:
        lines = (topology.enclosures[name].model,)
    else:
        by_disk = {each: tuple(_disk_lines(topology.disks[each], scaled)) for each in names}
        alike = len(set(by_disk.values())) == 1
        lines = by_disk[name] if alike else (f"{each}: {', '.join(lines)}" for each, lines in by_disk.items())
    return Box(kind, names, tuple(filter(None, lines)))


def _hba_lines(hba: Hba) -> Iterator[str]:
    yield hba.model
    yield hba.original_driver
    yield f"played by {hba.driver}"
    yield ", ".join(filter(None, (hba.slot and f"slot {hba.slot}", f"node {hba.node}" if hba.node else "")))
    yield f"can_queue {hba.can_queue}{'' if hba.shares_tags else ' for each LUN'}, cmd_per_lun {hba.cmd_per_lun}"
    yield plural(hba.hw_queues, "hardware queue") if hba.hw_queues > 1 else ""


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
    alike: dict[tuple[tuple[str, ...], tuple[str, ...], bool], list[Stack]] = {}
    for stack in topology.stacks.values():
        hosts = tuple(dict.fromkeys(topology.luns[lun].hba for lun in topology.leaves(stack.name)))
        alike.setdefault((_stack_lines(stack), hosts, stack.name in below), []).append(stack)
    ordered = sorted(alike.items(), key=lambda item: -_height(topology, item[1][0].name))
    for (lines, *_), stacks in ordered:
        yield Box("stack", tuple(stack.name for stack in stacks), (*lines, _members(stacks)))


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
    return f"over {listed([name for column in columns for name in ranged(column)], _MOST_MEMBERS)}"


def _ranges(names: Iterable[str]) -> str:
    return listed(ranged(names), _MOST_NAMES)


def allowance(topology: Topology) -> Iterator[str]:
    """Lines of text. Rates are the hardware's, followed by the lab's in brackets."""
    yield f"all disks as streams of 1M: {_allowed_words(topology, _targets(topology, (*topology.luns,)), 'read')}"
    for box in stack_boxes(topology):
        yield from _stack(topology, box)
    alike: dict[tuple[str, ...], list[str]] = {}
    for hba in topology.hbas.values():
        alike.setdefault(tuple(_tags(topology, hba)), []).append(hba.name)
    for (first, *rest), hosts in alike.items():
        yield f"tags of {_ranges(hosts)}: {'each ' if len(hosts) > 1 else ''}{first}"
        yield from rest


def _stack(topology: Topology, box: Box) -> Iterator[str]:
    name, several = box.names[0], len(box.names) > 1
    yield f"stack {box.title}: {'each ' if several else ''}{_shares(topology, name)}"
    for rw in ("read", "write"):
        together = f"; all at once {_allowed_words(topology, box.names, rw)}" if several else ""
        yield f"  {rw} in 1M: {_allowed_words(topology, (name,), rw)}{together}"


def _shares(topology: Topology, name: str) -> str:
    """The share of each LUN in the bytes read, as far as the layout fixes it."""
    access = Access(0, topology.region(name).size, _STREAM, sequential=True)
    shares: dict[tuple[str, bool], list[str]] = {}
    for part in parts(topology, name, access):
        share = str(Fraction(part.share).limit_denominator(1000))
        shares.setdefault((share, part.either or len(part.ways) > 1), []).extend(way.lun for way in part.ways)
    return "; ".join(
        f"{'all' if share == '1' else share} by {'any free one of ' if free else ''}{_ranges(luns)}"
        for (share, free), luns in shares.items()
    )


def _allowed_words(topology: Topology, names: tuple[str, ...], rw: str) -> str:
    bounds = _bounds(topology, names, rw)
    if bounds is None:
        return "no bound"
    order = {name: number for number, name in enumerate((*topology.disks, *topology.links, *topology.luns))}
    binding = [limit.element for limit in bounds.limits if limit.use > _BINDS]
    kinds: dict[str, list[str]] = {}
    for element in sorted(binding, key=lambda each: order.get(each.name, 0)):
        kinds.setdefault(element.kind, []).append(element.name)
    total = Scaled(topology.scale).rate(sum(bounds.rates.values()))
    return f"{total}, bound by {' and '.join(f'{kind} {_ranges(names)}' for kind, names in kinds.items())}"


def _bounds(topology: Topology, names: tuple[str, ...], rw: str, bs: int = _STREAM) -> Allowed | None:
    """The bounds of deep roles on all of ``names`` at once; None when one of them has no limit."""
    role = Role("all", names, rw, bs, _DEEP, "libaio", True)
    try:
        return allowed(topology, Load("all", {"all": role}, 0, 0))
    except Misuse:
        return None


def _tags(topology: Topology, hba: Hba) -> Iterator[str]:
    """By Little's law, at the least time that a request can take."""
    scaled = Scaled(topology.scale)
    luns = tuple(lun.name for lun in topology.luns.values() if lun.hba == hba.name)
    each = "" if hba.shares_tags else "each of "
    yield f"{hba.can_queue} for {each}{plural(len(luns), 'LUN')}, {hba.cmd_per_lun} each at most"
    for load, rw, bs in (("streams of 1M", "read", _STREAM), ("random 4k reads", "randread", _RANDOM)):
        bounds = _bounds(topology, _targets(topology, luns), rw, bs)
        for limit in bounds.limits if bounds else ():
            if (limit.element.kind, limit.element.name) == (FlowKind.HOST, hba.name):
                requests = f", {limit.rate * topology.scale / bs:,.0f} requests a second" if bs == _RANDOM else ""
                held = f"{limit.use * hba.can_queue:.3g} of {hba.can_queue} held when something else limits"
                binds = "the tags limit" if limit.use > _BINDS else held
                yield f"  {load}: {scaled.rate(limit.rate)}{requests} by Little's law; {binds}"


def _targets(topology: Topology, luns: tuple[str, ...]) -> tuple[str, ...]:
    """Targets that use each disk once; disks with several paths are spread over the paths."""
    targets = set(topology.targets())
    paths: dict[str, list[str]] = {}
    for lun in luns:
        for disk in topology.luns[lun].disks:
            paths.setdefault(disk, []).append(disk if disk in targets else lun)
    return tuple(names[index % len(names)] for index, names in enumerate(paths.values()))


def describe_topology(topology: Topology) -> str:
    """Text for a person. With a scale, the lab's figures follow the hardware's in brackets."""
    lines = [
        *_head(topology),
        *("", *tree(topology)),
        *("", "what it allows", *(f"  {line}" for line in allowance(topology))),
        *_timers(topology),
        *_origins(topology),
    ]
    return "\n".join(line.rstrip() for line in lines)


def _head(topology: Topology) -> Iterator[str]:
    yield f"{topology.name}: {topology.title}"
    yield f"guest memory {show_size(topology.memory)}"
    if topology.queue:
        yield f"request queues: {', '.join(f'{key} {value}' for key, value in topology.queue.items())}"
    if topology.scale > 1:
        yield f"{topology.scale} times slower than the hardware; figures are the hardware's [the lab's]"


def tree(topology: Topology) -> Iterator[str]:
    """Stacks, an empty line after them, and the ways from the hosts to the disks."""
    if stacks := [*stack_boxes(topology)]:
        yield from (*map(_line, stacks), "")
    for branch in branches(topology):
        yield _line(branch.box)
        yield from _below(branch, "")


def _below(branch: BoxTree, before: str) -> Iterator[str]:
    for number, below in enumerate(branch.below, start=1):
        last = number == len(branch.below)
        yield f"{before}{'└─' if last else '├─'} {_line(below.box)}"
        yield from _below(below, f"{before}{' ' if last else '│'}  ")


def _line(box: Box) -> str:
    count = f"{plural(len(box.names), box.kind)}: " if len(box.names) > 1 else ""
    return f"{box.title}  {count}{', '.join(box.lines)}"


def _timers(topology: Topology) -> Iterator[str]:
    passed = crossings(topology)
    if not passed:
        return
    yield ""
    yield f"warning: kernel timers do not scale; a scale of {topology.scale} moves these times past them"
    scaled = Scaled(topology.scale)
    for timer, each in groupby(passed, lambda crossing: crossing.timer):
        yield f"  {show_time(timer.time)}  {timer.name} ({timer.source}): {timer.does}"
        yield from (f"    {crossing.what}: {scaled.time(crossing.lab)}" for crossing in each)


def _origins(topology: Topology) -> Iterator[str]:
    if topology.origins:
        yield ""
        yield "where its figures come from"
        width = max(len(origin.of) for origin in topology.origins)
        yield from (f"  {origin.of:{width}}  {origin.kind}: {origin.text}" for origin in topology.origins)

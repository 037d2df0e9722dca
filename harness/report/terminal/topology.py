# SPDX-License-Identifier: GPL-2.0-only
"""A topology as text: tree, bounds, kernel timers that its scale passes, origins of its figures."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import groupby

from harness.limits.filling import FlowKind
from harness.limits.limits import Allowed, allowed
from harness.report.drawing.boxes import (
    STREAM,
    Box,
    BoxTree,
    Scaled,
    branches,
    kinds_words,
    listed,
    stack_boxes,
)
from harness.report.format import plural
from harness.scenario.model import Load, Role
from lab.base.errors import Misuse
from lab.base.units import show_size, show_time
from lab.topology.graph import Access, parts
from lab.topology.limits import crossings
from lab.topology.model import Hba, Topology

RANDOM = 4 << 10
_DEEP = 1024
_BINDS = 0.999


def allowance(topology: Topology) -> Iterator[str]:
    """Lines of text. Rates are the hardware's, followed by the lab's in brackets."""
    yield f"all disks as streams of 1M: {_allowed_words(topology, _targets(topology, (*topology.luns,)), 'read')}"
    for box in stack_boxes(topology):
        yield from _stack(topology, box)
    alike: dict[tuple[str, ...], list[str]] = {}
    for hba in topology.hbas.values():
        alike.setdefault(tuple(_tags(topology, hba)), []).append(hba.name)
    for (first, *rest), hosts in alike.items():
        yield f"tags of {listed(hosts)}: {'each ' if len(hosts) > 1 else ''}{first}"
        yield from rest


def _stack(topology: Topology, box: Box) -> Iterator[str]:
    name, several = box.names[0], len(box.names) > 1
    yield f"stack {box.title}: {'each ' if several else ''}{_shares(topology, name)}"
    for rw in ("read", "write"):
        together = f"; all at once {_allowed_words(topology, box.names, rw)}" if several else ""
        yield f"  {rw} in 1M: {_allowed_words(topology, (name,), rw)}{together}"


def _shares(topology: Topology, name: str) -> str:
    """The share of each LUN in the bytes read, as far as the layout fixes it."""
    access = Access(0, topology.region(name).size, STREAM, sequential=True)
    shares: dict[tuple[str, bool], list[str]] = {}
    for part in parts(topology, name, access):
        share = str(Fraction(part.share).limit_denominator(1000))
        shares.setdefault((share, len(part.ways) > 1), []).extend(way.lun for way in part.ways)
    return "; ".join(
        f"{'all' if share == '1' else share} by {'any free one of ' if free else ''}{listed(luns)}"
        for (share, free), luns in shares.items()
    )


def _allowed_words(topology: Topology, names: tuple[str, ...], rw: str) -> str:
    bounds = _bounds(topology, names, rw)
    if bounds is None:
        return "no bound"
    order = {name: place for place, name in enumerate((*topology.disks, *topology.links, *topology.luns))}
    binding = [limit.element for limit in bounds.limits if limit.use > _BINDS]
    binding.sort(key=lambda element: order.get(element.name, 0))
    total = Scaled(topology.scale).rate(sum(bounds.rates.values()))
    return f"{total}, bound by {kinds_words((element.kind, element.name) for element in binding)}"


def _bounds(topology: Topology, names: tuple[str, ...], rw: str, bs: int = STREAM) -> Allowed | None:
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
    for words, rw, bs in (("streams of 1M", "read", STREAM), ("random 4k reads", "randread", RANDOM)):
        bounds = _bounds(topology, _targets(topology, luns), rw, bs)
        for limit in bounds.limits if bounds else ():
            if (limit.element.kind, limit.element.name) == (FlowKind.HOST, hba.name):
                requests = f", {limit.rate * topology.scale / bs:,.0f} requests a second" if bs == RANDOM else ""
                held = f"{limit.use * hba.can_queue:.3g} of {hba.can_queue} held when something else limits"
                binds = "the tags limit" if limit.use > _BINDS else held
                yield f"  {words}: {scaled.rate(limit.rate)}{requests} by Little's law; {binds}"


def _targets(topology: Topology, luns: tuple[str, ...]) -> tuple[str, ...]:
    """Targets that use each disk once; disks with several paths are spread over the paths."""
    known = set(topology.targets())
    paths: dict[str, list[str]] = {}
    for lun in luns:
        for disk in topology.luns[lun].disks:
            paths.setdefault(disk, []).append(disk if disk in known else lun)
    return tuple(names[place % len(names)] for place, names in enumerate(paths.values()))


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
    for place, below in enumerate(branch.below, start=1):
        last = place == len(branch.below)
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

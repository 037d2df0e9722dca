# SPDX-License-Identifier: GPL-2.0-only
"""A topology as text: its tree, what it allows, which timers its scale crosses, where its figures come from."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from harness.report.drawing.drawing import Box, Drawing, drawing
from harness.report.drawing.scaled import Scaled
from harness.report.format import plural
from harness.report.terminal.allowance import allowance
from lab.base.units import show_size, show_time
from lab.topology.model import Topology
from lab.topology.timers import crossings

_INDENT = 3


def describe_topology(topology: Topology) -> str:
    """Text for a person; where a scale sets them apart, the lab's figures stand in brackets behind the hardware's."""
    lines = [
        *_head(topology),
        *_tree(drawing(topology)),
        *("", "what it allows", *_shift(allowance(topology))),
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


def _tree(drawn: Drawing) -> Iterator[str]:
    if drawn.stacks:
        yield ""
        yield from (_line(box) for box in drawn.stacks)
    yield ""
    yield from _branches(drawn.ways, "", first=True)


def _branches(ways: Sequence[tuple[Box, ...]], before: str, *, first: bool = False) -> Iterator[str]:
    """Ways that begin alike as one branch."""
    grouped = [(box, [way[1:] for way in each if way[1:]]) for box, each in _by_first(ways)]
    for place, (box, rest) in enumerate(grouped):
        last = place + 1 == len(grouped)
        yield before + ("" if first else "└─ " if last else "├─ ") + _line(box)
        yield from _branches(rest, before + ("" if first else " " * _INDENT if last else "│  "))


def _by_first(ways: Sequence[tuple[Box, ...]]) -> list[tuple[Box, list[tuple[Box, ...]]]]:
    firsts = list(dict.fromkeys(way[0] for way in ways))
    return [(box, [way for way in ways if way[0] == box]) for box in firsts]


def _line(box: Box) -> str:
    count = f"{plural(len(box.names), box.kind)}: " if len(box.names) > 1 else ""
    return f"{box.title}  {count}{', '.join(box.lines)}"


def _shift(lines: Iterator[str]) -> Iterator[str]:
    yield from (f"  {line}" for line in lines)


def _timers(topology: Topology) -> Iterator[str]:
    found = crossings(topology)
    if not found:
        return
    yield ""
    yield f"warning: timers of the kernel do not scale, and a scale of {topology.scale} carries these times across them"
    scaled = Scaled(topology.scale)
    for timer, each in groupby(found, lambda crossing: crossing.timer):
        yield f"  {show_time(timer.time)}  {timer.name} ({timer.source}): {timer.does}"
        yield from (f"    {crossing.what}: {scaled.time(crossing.lab)}" for crossing in each)


def _origins(topology: Topology) -> Iterator[str]:
    if topology.origins:
        yield ""
        yield "where its figures come from"
        width = max(len(origin.of) for origin in topology.origins)
        yield from (f"  {origin.of:{width}}  {origin.kind}: {origin.text}" for origin in topology.origins)

# SPDX-License-Identifier: GPL-2.0-only
"""A topology as one SVG: a column for each layer, boxes in the order of the ways; text that can be selected."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from markupsafe import Markup

from harness.metrics.use import LoadUse
from harness.report.drawing.boxes import STACK, Box, Drawing, Meter, drawing, flow_words
from harness.report.drawing.svg import path, picture, rect, text, theme
from lab.base.units import show_size
from lab.topology.graph import BOX, DISK, HBA, LINK
from lab.topology.model import Topology

CHARACTER, LINE, PADDING, GAP, LANE = 7.3, 16.0, 9.0, 16.0, 54.0
CELL_HEIGHT, CELL_CHARACTER, CELLS_IN_ROW = 17.0, 6.2, 12
METER_HEIGHT, METER_WIDTH = 15.0, 72.0
_MARGIN, _HEAD, _FOOT = 24.0, 92.0, 40.0
_HEADING = 26.0
_LEAST_SHARE = 0.72
"""A drawing wider than the page shrinks to this share, then scrolls."""
_LEAST_WIDTH = 760.0
_HEADINGS = {STACK: "stacks", HBA: "hosts", LINK: "links", BOX: "enclosures", DISK: "disks"}
_FULL = 0.95
STYLE = theme(
    "topology",
    """\
text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:INK}
.name{font-weight:bold}
.title{font-size:16px}
.cell-name{font-size:10px;text-anchor:middle}
.heading{font-style:italic}
.meter-name{font-size:10px}
.meter-name.full{font-weight:bold}
.paper,.cell{fill:PAPER}
.stack{fill:STACK}
.hba{fill:HBA}
.link{fill:LINK}
.box{fill:BOX}
.disk{fill:DISK}
.outline{stroke:INK;stroke-opacity:.55}
.edge{fill:none;stroke:INK;stroke-opacity:.55}
.track{fill:PAPER;stroke:INK;stroke-opacity:.35}
.used{fill:INK;fill-opacity:.55}
.used.full{fill-opacity:1}
""",
    {"STACK": "#e9e2f8", "HBA": "#dbe8fb", "LINK": "#fbeed2", "BOX": "#eceff1", "DISK": "#dcf1e0"},
    {"STACK": "#3a3053", "HBA": "#243a57", "LINK": "#4d3d17", "BOX": "#34393d", "DISK": "#1f4429"},
)


@dataclass(frozen=True)
class BoxPlace:
    """Pixels; ``x`` and ``y`` of the upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True)
class Layout:
    """``edges`` are pairs of boxes."""

    places: Mapping[Box, BoxPlace]
    edges: tuple[tuple[Box, Box], ...]

    @property
    def size(self) -> tuple[float, float]:
        places = self.places.values()
        return max(place.x + place.width for place in places), max(place.y + place.height for place in places)


def layout(drawn: Drawing) -> Layout:
    """From the right to the left: each box is beside the middle of the boxes that its lines lead to."""
    steps = [pair for way in drawn.ways for pair in pairwise(way)]
    edges = tuple(dict.fromkeys((*drawn.joins, *steps)))
    middles: dict[Box, float] = {}
    columns = _columns(drawn, steps)
    for column in reversed(columns):
        wanted = {
            box: fmean([middles[right] for left, right in edges if left == box and right in middles] or [0.0])
            for box in column
        }
        bottom, moved = -1e9, 0.0
        for box in sorted(column, key=wanted.__getitem__):
            middles[box] = max(wanted[box], bottom + GAP + size(box)[1] / 2)
            moved += middles[box] - wanted[box]
            bottom = middles[box] + size(box)[1] / 2
        for box in column:
            middles[box] -= moved / len(column)
    top = min(middle - size(box)[1] / 2 for box, middle in middles.items())
    places, x = {}, 0.0
    for column in columns:
        width = max(size(box)[0] for box in column)
        for box in column:
            height = size(box)[1]
            places[box] = BoxPlace(x, middles[box] - height / 2 - top, width, height)
        x += width + LANE
    return Layout(places, edges)


def _columns(drawn: Drawing, steps: list[tuple[Box, Box]]) -> list[list[Box]]:
    """Stacks, uppermost first; hosts, links and enclosures by their place on the longest way; disks."""
    boxes = list(dict.fromkeys((*drawn.stacks, *(box for way in drawn.ways for box in way))))
    depth = dict.fromkeys(boxes, 0)
    for _ in boxes:
        for left, right in drawn.joins:
            depth[left] = min(depth[left], depth[right] - 1)
        for left, right in steps:
            depth[right] = max(depth[right], depth[left] + 1)
    last = max(depth.values())
    depth |= {box: last for box in boxes if box.kind == DISK}
    return [[box for box in boxes if depth[box] == place] for place in sorted(set(depth.values()))]


def size(box: Box) -> tuple[float, float]:
    """Width and height in pixels."""
    words = max((len(line) for line in (box.title, *box.lines)), default=0) * CHARACTER
    rows, per_row = cells(box)
    height = LINE * (1 + len(box.lines)) + rows * CELL_HEIGHT + (4 if rows else 0) + METER_HEIGHT * len(box.meters)
    # A bar has the load and its text on the right.
    bars = (METER_WIDTH + 6 + len(f"{meter.load} {meter.words}") * CELL_CHARACTER for meter in box.meters)
    return max(words, per_row * cell_width(box), *bars) + 2 * PADDING, height + PADDING


def cells(box: Box) -> tuple[int, int]:
    """Rows and columns of the single disks inside a box of several."""
    count = len(box.names)
    if box.kind != DISK or count == 1:
        return 0, 0
    rows = -(-count // CELLS_IN_ROW)
    return rows, -(-count // rows)


def cell_width(box: Box) -> float:
    return max(len(name) for name in box.names) * CELL_CHARACTER + 6


def topology_svg(topology: Topology) -> Markup:
    """A file of its own, with a head and what the topology allows."""
    drawn = layout(drawing(topology))
    width, height = max(drawn.size[0], _LEAST_WIDTH) + 2 * _MARGIN, drawn.size[1] + _HEAD + _FOOT + 2 * _MARGIN
    slower = f"; {topology.scale} times slower than the hardware, whose figures come first, and the lab's [in brackets]"
    scale = slower if topology.scale > 1 else ""
    body = [
        text("title name", _MARGIN, _MARGIN + 14, topology.name),
        text("line", _MARGIN, _MARGIN + 34, topology.title),
        text("line", _MARGIN, _MARGIN + 52, f"guest memory {show_size(topology.memory)}{scale}"),
        f'<g transform="translate({_MARGIN:.0f} {_MARGIN + _HEAD:.0f})">{_body(drawn)}</g>',
        text("line", _MARGIN, height - _MARGIN, f"all disks as streams of 1M: {flow_words(topology)}"),
    ]
    return picture("topology", f"{topology.name}: {topology.title}", (width, height), body, style=STYLE)


def topology_figure(topology: Topology, title: str, uses: Mapping[str, LoadUse]) -> Markup:
    """For a page that has ``STYLE``: without a head, and with what each load used of what is drawn."""
    drawn = layout(drawing(topology, uses))
    width, height = drawn.size[0] + 4, drawn.size[1] + _HEADING + 4
    body = f'<g transform="translate(2 0)">{_body(drawn)}</g>'
    return picture("topology", title, (width, height), [body], top=-_HEADING, least=_LEAST_SHARE * width)


def _body(drawn: Layout) -> str:
    """Lines, the kinds of boxes above each column, and the boxes."""
    kinds: dict[float, dict[str, None]] = {}
    for box, place in drawn.places.items():
        kinds.setdefault(place.x, {})[_HEADINGS[box.kind]] = None
    headings = (text("heading", x, -10, ", ".join(words)) for x, words in kinds.items())
    return "".join([*_edges(drawn), *headings, *(part for each in drawn.places.items() for part in _box(*each))])


def _edges(drawn: Layout) -> Iterator[str]:
    for left, right in drawn.edges:
        source, target = drawn.places[left], drawn.places[right]
        start, end = source.x + source.width, target.x
        bend = (end - start) / 2
        curve = (start + bend, source.middle, end - bend, target.middle, end, target.middle)
        yield path("edge", "M", start, source.middle, "C", *curve)


def _box(box: Box, place: BoxPlace) -> Iterator[str]:
    yield rect(f"outline {box.kind}", place.x, place.y, place.width, place.height, radius=5)
    x, y = place.x + PADDING, place.y + LINE
    yield text("name", x, y, box.title)
    for line in box.lines:
        y += LINE
        yield text("line", x, y, line)
    for meter in box.meters:
        yield from _meter(meter, x, y + 5)
        y += METER_HEIGHT
    yield from _cells(box, x, y + 8)


def _meter(meter: Meter, x: float, y: float) -> Iterator[str]:
    """A full bar has bold text too."""
    full = " full" if meter.share >= _FULL else ""
    yield rect("track", x, y, METER_WIDTH, 9)
    yield rect(f"used{full}", x, y, min(1.0, meter.share) * METER_WIDTH, 9)
    yield text(f"meter-name{full}", x + METER_WIDTH + 6, y + 8.5, f"{meter.load} {meter.words}")


def _cells(box: Box, x: float, y: float) -> Iterator[str]:
    _, per_row = cells(box)
    width = cell_width(box)
    for number, name in enumerate(box.names if per_row else ()):
        row, column = divmod(number, per_row)
        left, top = x + column * width, y + row * CELL_HEIGHT
        yield rect("cell", left, top, width - 2, CELL_HEIGHT - 3, radius=2)
        yield text("cell-name", left + width / 2 - 1, top + CELL_HEIGHT - 6.5, name)

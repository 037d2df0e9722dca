# SPDX-License-Identifier: GPL-2.0-only
"""A topology as one self-contained SVG: text that can be selected, colours for light and dark screens."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape

from harness.metrics.use import LoadUse
from harness.report.drawing.drawing import STACK, Box, Drawing, Meter, drawing
from harness.report.terminal.topology import flow_words
from lab.base.units import show_size
from lab.topology.graph import BOX, DISK, HBA, LINK
from lab.topology.model import Topology

CHARACTER, LINE, PADDING, GAP, LANE = 7.3, 16.0, 9.0, 16.0, 54.0
CELL_HEIGHT, CELL_CHARACTER, CELLS_IN_ROW = 17.0, 6.2, 12
METER_HEIGHT, METER_WIDTH = 15.0, 72.0

Edge = tuple[Box, Box]


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
    places: Mapping[Box, BoxPlace]
    edges: tuple[Edge, ...]
    width: float
    height: float


VIA = "via"
"""A placeholder that keeps a line clear of the boxes in the columns it crosses."""


def layout(drawn: Drawing) -> Layout:
    columns, edges = _with_vias(_columns(drawn, _edges_of(drawn)), _edges_of(drawn))
    sizes = {box: size(box) for column in columns for box in column}
    middles = _middles(columns, edges, {box: height for box, (_, height) in sizes.items()})
    places: dict[Box, BoxPlace] = {}
    x = 0.0
    for column in columns:
        width = max(sizes[box][0] for box in column)
        for box in column:
            places[box] = BoxPlace(x, middles[box] - sizes[box][1] / 2, width, sizes[box][1])
        x += width + LANE
    top = min(place.y for place in places.values())
    moved = {box: BoxPlace(each.x, each.y - top, each.width, each.height) for box, each in places.items()}
    return Layout(moved, edges, x - LANE, max(place.y + place.height for place in moved.values()))


def size(box: Box) -> tuple[float, float]:
    """Width and height in pixels."""
    if box.kind == VIA:
        return 0.0, LINE / 2
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


def _edges_of(drawn: Drawing) -> tuple[Edge, ...]:
    steps = [pair for way in drawn.ways for pair in pairwise(way)]
    return tuple(dict.fromkeys((*drawn.joins, *steps)))


def _columns(drawn: Drawing, edges: Sequence[Edge]) -> list[list[Box]]:
    """From left to right: stacks, hosts, what is between, disks."""
    depth: dict[Box, int] = {}
    boxes = list(dict.fromkeys((*drawn.stacks, *(box for way in drawn.ways for box in way))))
    for _ in boxes:
        for left, right in edges:
            depth[right] = max(depth.get(right, 0), depth.get(left, 0) + 1)
    hosts = max((depth.get(way[0], 0) for way in drawn.ways), default=0)
    for stack in reversed(drawn.stacks):
        depth[stack] = min((depth.get(right, 0) for left, right in edges if left == stack), default=hosts) - 1
    last = max(hosts + len(way) - 1 for way in drawn.ways)
    for way in drawn.ways:
        for place, box in enumerate(way):
            depth[box] = last if box.kind == DISK else max(depth.get(box, 0), hosts + place)
    least = min(depth.get(box, 0) for box in boxes)
    columns: list[list[Box]] = [[] for _ in range(last - least + 1)]
    for box in boxes:
        columns[depth.get(box, 0) - least].append(box)
    return [column for column in columns if column]


def _with_vias(columns: list[list[Box]], edges: Sequence[Edge]) -> tuple[list[list[Box]], tuple[Edge, ...]]:
    """Give lines that cross a column a place in it."""
    of = {box: number for number, column in enumerate(columns) for box in column}
    wider, pieces = [list(column) for column in columns], []
    for left, right in edges:
        vias = [Box(VIA, (left.title, right.title, str(number)), ()) for number in range(of[left] + 1, of[right])]
        for number, via in enumerate(vias, start=of[left] + 1):
            wider[number].insert(0, via)
        pieces += list(pairwise([left, *vias, right]))
    return wider, tuple(pieces)


def _middles(columns: list[list[Box]], edges: Sequence[Edge], heights: Mapping[Box, float]) -> dict[Box, float]:
    """Place each box at the mean height of its neighbours, below the boxes above it."""
    middles: dict[Box, float] = {}
    for column in columns:
        _stack_up(column, dict.fromkeys(column, 0.0), heights, middles)
    right = {box: [other for one, other in edges if one == box] for column in columns for box in column}
    left = {box: [one for one, other in edges if other == box] for column in columns for box in column}
    # Stacks and hosts are aligned with what is to their right; the rest then with the hosts.
    behind = [column for column in columns if not {box.kind for box in column} & {STACK, HBA}]
    for towards, order in ((right, columns[-2::-1]), (left, behind)):
        for column in order:
            wanted = {box: _mean((middles[other] for other in towards[box]), middles[box]) for box in column}
            _stack_up(sorted(column, key=wanted.__getitem__), wanted, heights, middles)
    return middles


def _mean(values: Iterable[float], otherwise: float) -> float:
    found = list(values)
    return sum(found) / len(found) if found else otherwise


def _stack_up(
    column: Sequence[Box], wanted: Mapping[Box, float], heights: Mapping[Box, float], middles: dict[Box, float]
) -> None:
    """Place boxes without overlap, as close to the wanted heights as possible."""
    bottom, moved = -1e9, 0.0
    for box in column:
        top = max(wanted[box] - heights[box] / 2, bottom + GAP)
        middles[box] = top + heights[box] / 2
        moved += middles[box] - wanted[box]
        bottom = top + heights[box]
    for box in column:
        middles[box] -= moved / len(column)


_MARGIN, _HEAD, _FOOT = 24.0, 92.0, 40.0
_HEADING = 26.0
_LEAST_SHARE = 0.72
"""A drawing wider than the page shrinks to this share, then scrolls."""
_LEAST_WIDTH = 760.0
_HEADINGS = {STACK: "stacks", HBA: "hosts", LINK: "links", BOX: "enclosures", DISK: "disks"}
_LIGHT = {STACK: "#e9e2f8", HBA: "#dbe8fb", LINK: "#fbeed2", BOX: "#eceff1", DISK: "#dcf1e0"}
_DARK = {STACK: "#3a3053", HBA: "#243a57", LINK: "#4d3d17", BOX: "#34393d", DISK: "#1f4429"}
_DAY, _NIGHT = ("#ffffff", "#16181c"), ("#14171a", "#e8eaed")
"""Paper and ink."""
_FULL = 0.95


def topology_svg(topology: Topology) -> str:
    """A file of its own, with a head and what the topology allows."""
    drawn = layout(drawing(topology))
    width = max(drawn.width, _LEAST_WIDTH) + 2 * _MARGIN
    height = drawn.height + _HEAD + _FOOT + 2 * _MARGIN
    body = _body(drawn)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
            f' width="{width:.0f}" height="{height:.0f}" role="img">',
            f"<title>{escape(topology.name)}: {escape(topology.title)}</title>",
            f"<style>{topology_style()}</style>",
            '<rect class="paper" width="100%" height="100%"/>',
            *_head(topology),
            f'<g transform="translate({_MARGIN:.0f} {_MARGIN + _HEAD:.0f})">',
            *body,
            "</g>",
            _text(_MARGIN, height - _MARGIN, f"all disks as streams of 1M: {flow_words(topology)}", "line"),
            "</svg>\n",
        ]
    )


def topology_figure(topology: Topology, title: str, uses: Mapping[str, LoadUse]) -> str:
    """For a page that has ``topology_style``: without a head, and with what each load used of what is drawn."""
    drawn = layout(drawing(topology, uses))
    width, height = drawn.width + 4, drawn.height + _HEADING + 4
    return "\n".join(
        [
            f'<svg class="topology" viewBox="-2 {-_HEADING:.0f} {width:.0f} {height:.0f}" width="{width:.0f}"'
            f' height="{height:.0f}" style="min-width:{_LEAST_SHARE * width:.0f}px" role="img">',
            f"<title>{escape(title)}</title>",
            *_body(drawn),
            "</svg>",
        ]
    )


def _body(drawn: Layout) -> list[str]:
    return [*_edges(drawn), *_headings(drawn), *(line for each in drawn.places.items() for line in _box(*each))]


def topology_style(within: str = "") -> str:
    """CSS for light and dark; ``within`` is a selector that keeps it from the rest of a page."""
    fixed = {
        "text": "font:12px ui-monospace,Menlo,Consolas,monospace",
        ".name": "font-weight:bold",
        ".title": "font-size:16px",
        ".cell-name": "font-size:10px;text-anchor:middle",
        ".heading": "font-style:italic",
        ".meter-name": "font-size:10px",
        ".meter-name.full": "font-weight:bold",
    }
    light, dark = _colours(*_DAY, _LIGHT), _colours(*_NIGHT, _DARK)
    return f"{_rules(fixed, within)}{_rules(light, within)}@media (prefers-color-scheme:dark){{{_rules(dark, within)}}}"


def _rules(declared: Mapping[str, str], within: str) -> str:
    return "".join(f"{within}{selector}{{{text}}}" for selector, text in declared.items())


def _colours(paper: str, ink: str, fills: Mapping[str, str]) -> dict[str, str]:
    line = f"stroke:{ink};stroke-opacity:.55"
    return {
        "text": f"fill:{ink}",
        ".paper": f"fill:{paper}",
        **{f".{kind}": f"fill:{fill}" for kind, fill in fills.items()},
        ".outline": line,
        ".edge": f"fill:none;{line}",
        ".cell": f"fill:{paper};stroke:none",
        ".track": f"fill:{paper};stroke:{ink};stroke-opacity:.35",
        ".used": f"fill:{ink};fill-opacity:.55",
        ".used.full": f"fill:{ink};fill-opacity:1",
    }


def _head(topology: Topology) -> Iterator[str]:
    yield _text(_MARGIN, _MARGIN + 14, topology.name, "title name")
    yield _text(_MARGIN, _MARGIN + 34, topology.title, "line")
    slower = f"; {topology.scale} times slower than the hardware, whose figures come first, and the lab's [in brackets]"
    scale = slower if topology.scale > 1 else ""
    yield _text(_MARGIN, _MARGIN + 52, f"guest memory {show_size(topology.memory)}{scale}", "line")


def _headings(drawn: Layout) -> Iterator[str]:
    """The kinds of boxes in each column, above it."""
    columns: dict[float, dict[str, None]] = {}
    for box, place in drawn.places.items():
        if box.kind == VIA:
            continue
        columns.setdefault(place.x, {})[_HEADINGS[box.kind]] = None
    for x, kinds in columns.items():
        yield _text(x, -10, ", ".join(kinds), "heading")


def _edges(drawn: Layout) -> Iterator[str]:
    for left, right in drawn.edges:
        one, other = drawn.places[left], drawn.places[right]
        start, end = one.x + one.width, other.x
        bend = (end - start) / 2
        yield (
            f'<path class="edge" d="M{start:.1f} {one.middle:.1f}C{start + bend:.1f} {one.middle:.1f}'
            f' {end - bend:.1f} {other.middle:.1f} {end:.1f} {other.middle:.1f}"/>'
        )


def _box(box: Box, place: BoxPlace) -> Iterator[str]:
    if box.kind == VIA:
        yield f'<path class="edge" d="M{place.x:.1f} {place.middle:.1f}h{place.width:.1f}"/>'
        return
    yield (
        f'<rect class="outline {box.kind}" x="{place.x:.1f}" y="{place.y:.1f}" width="{place.width:.1f}"'
        f' height="{place.height:.1f}" rx="5"/>'
    )
    y = place.y + LINE
    yield _text(place.x + PADDING, y, box.title, "name")
    for line in box.lines:
        y += LINE
        yield _text(place.x + PADDING, y, line, "line")
    for meter in box.meters:
        yield from _meter(meter, place.x + PADDING, y + 5)
        y += METER_HEIGHT
    yield from _cells(box, place.x + PADDING, y + 8)


def _meter(meter: Meter, x: float, y: float) -> Iterator[str]:
    """A full bar has bold text too."""
    full = " full" if meter.share >= _FULL else ""
    used = min(1.0, meter.share) * METER_WIDTH
    yield f'<rect class="track" x="{x:.1f}" y="{y:.1f}" width="{METER_WIDTH:.0f}" height="9"/>'
    yield f'<rect class="used{full}" x="{x:.1f}" y="{y:.1f}" width="{used:.1f}" height="9"/>'
    yield _text(x + METER_WIDTH + 6, y + 8.5, f"{meter.load} {meter.words}", f"meter-name{full}")


def _cells(box: Box, x: float, y: float) -> Iterator[str]:
    _, per_row = cells(box)
    width = cell_width(box)
    for number, name in enumerate(box.names if per_row else ()):
        row, column = divmod(number, per_row)
        left, top = x + column * width, y + row * CELL_HEIGHT
        size = f'width="{width - 2:.1f}" height="{CELL_HEIGHT - 3:.1f}"'
        yield f'<rect class="cell" x="{left:.1f}" y="{top:.1f}" {size} rx="2"/>'
        yield _text(left + width / 2 - 1, top + CELL_HEIGHT - 6.5, name, "cell-name")


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'

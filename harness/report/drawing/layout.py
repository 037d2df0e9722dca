# SPDX-License-Identifier: GPL-2.0-only
"""Where the boxes of a drawing stand: a column for each kind of thing, and each box beside what it is joined to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.report.drawing.drawing import STACK, Box, Drawing
from lab.topology.routes import DISK, HBA

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
"""The kind of box that only keeps a line apart from the boxes of the columns that it passes."""


def layout(drawn: Drawing) -> Layout:
    columns, edges = _with_vias(_columns(drawn, _edges(drawn)), _edges(drawn))
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
    return max(words, per_row * cell_width(box), *meter_widths(box)) + 2 * PADDING, height + PADDING


def meter_widths(box: Box) -> tuple[float, ...]:
    """A bar, and the load and its words beside it."""
    return tuple(METER_WIDTH + 6 + len(f"{meter.load} {meter.words}") * CELL_CHARACTER for meter in box.meters) or (
        0.0,
    )


def cells(box: Box) -> tuple[int, int]:
    """Rows and columns of the single disks inside a box of several."""
    count = len(box.names)
    if box.kind != DISK or count == 1:
        return 0, 0
    rows = -(-count // CELLS_IN_ROW)
    return rows, -(-count // rows)


def cell_width(box: Box) -> float:
    return max(len(name) for name in box.names) * CELL_CHARACTER + 6


def _edges(drawn: Drawing) -> tuple[Edge, ...]:
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
    """Lines that pass a column have a place of their own there."""
    of = {box: number for number, column in enumerate(columns) for box in column}
    wider, pieces = [list(column) for column in columns], []
    for left, right in edges:
        vias = [Box(VIA, (left.title, right.title, str(number)), ()) for number in range(of[left] + 1, of[right])]
        for number, via in enumerate(vias, start=of[left] + 1):
            wider[number].insert(0, via)
        pieces += list(pairwise([left, *vias, right]))
    return wider, tuple(pieces)


def _middles(columns: list[list[Box]], edges: Sequence[Edge], heights: Mapping[Box, float]) -> dict[Box, float]:
    """Each box in the middle of its neighbours, as far as those above it leave room."""
    middles: dict[Box, float] = {}
    for column in columns:
        _stack_up(column, dict.fromkeys(column, 0.0), heights, middles)
    right = {box: [other for one, other in edges if one == box] for column in columns for box in column}
    left = {box: [one for one, other in edges if other == box] for column in columns for box in column}
    # Stacks and hosts go by what is right of them; the rest then follows the hosts.
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
    """Without overlaps, and as a whole where the wishes are."""
    bottom, moved = -1e9, 0.0
    for box in column:
        top = max(wanted[box] - heights[box] / 2, bottom + GAP)
        middles[box] = top + heights[box] / 2
        moved += middles[box] - wanted[box]
        bottom = top + heights[box]
    for box in column:
        middles[box] -= moved / len(column)

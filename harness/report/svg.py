# SPDX-License-Identifier: GPL-2.0-only
"""A topology as one self-contained SVG: text that can be selected, colours for light and dark screens."""

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

from harness.report.allowance import flow_words
from harness.report.drawing import STACK, Box, drawing
from harness.report.layout import (
    CELL_HEIGHT,
    LINE,
    PADDING,
    VIA,
    Layout,
    Place,
    cell_width,
    cells,
    layout,
)
from lab.topology.model import Topology
from lab.topology.routes import BOX, DISK, HBA, LINK
from lab.units import show_size

_MARGIN, _HEAD, _FOOT = 24.0, 92.0, 40.0
_LEAST_WIDTH = 760.0
_HEADINGS = {STACK: "stacks", HBA: "hosts", LINK: "links", BOX: "enclosures", DISK: "disks"}
_LIGHT = {STACK: "#e9e2f8", HBA: "#dbe8fb", LINK: "#fbeed2", BOX: "#eceff1", DISK: "#dcf1e0"}
_DARK = {STACK: "#3a3053", HBA: "#243a57", LINK: "#4d3d17", BOX: "#34393d", DISK: "#1f4429"}
_DAY, _NIGHT = ("#ffffff", "#16181c"), ("#14171a", "#e8eaed")
"""Paper and ink."""


def topology_svg(topology: Topology) -> str:
    drawn = layout(drawing(topology))
    width = max(drawn.width, _LEAST_WIDTH) + 2 * _MARGIN
    height = drawn.height + _HEAD + _FOOT + 2 * _MARGIN
    body = [*_edges(drawn), *_headings(drawn), *(line for each in drawn.places.items() for line in _box(*each))]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
            f' width="{width:.0f}" height="{height:.0f}" role="img">',
            f"<title>{escape(topology.name)}: {escape(topology.title)}</title>",
            f"<style>{_style()}</style>",
            '<rect class="paper" width="100%" height="100%"/>',
            *_head(topology),
            f'<g transform="translate({_MARGIN:.0f} {_MARGIN + _HEAD:.0f})">',
            *body,
            "</g>",
            _text(_MARGIN, height - _MARGIN, f"all disks as streams of 1M: {flow_words(topology)}", "line"),
            "</svg>\n",
        ]
    )


def _style() -> str:
    fonts = "text{font:12px ui-monospace,Menlo,Consolas,monospace}.name{font-weight:bold}.title{font-size:16px}"
    small = ".cell-name{font-size:10px;text-anchor:middle}.heading{font-style:italic}"
    light, dark = _colours(*_DAY, _LIGHT), _colours(*_NIGHT, _DARK)
    return f"{fonts}{small}{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _colours(paper: str, ink: str, fills: Mapping[str, str]) -> str:
    boxes = "".join(f".{kind}{{fill:{fill}}}" for kind, fill in fills.items())
    lines = f".outline,.edge{{stroke:{ink};stroke-opacity:.55}}.edge{{fill:none}}.cell{{fill:{paper};stroke:none}}"
    return f"text{{fill:{ink}}}.paper{{fill:{paper}}}{boxes}{lines}"


def _head(topology: Topology) -> Iterator[str]:
    yield _text(_MARGIN, _MARGIN + 14, topology.name, "title name")
    yield _text(_MARGIN, _MARGIN + 34, topology.title, "line")
    slower = f"; {topology.scale} times slower than the hardware, whose figures come first, and the lab's [in brackets]"
    scale = slower if topology.scale > 1 else ""
    yield _text(_MARGIN, _MARGIN + 52, f"guest memory {show_size(topology.memory)}{scale}", "line")


def _headings(drawn: Layout) -> Iterator[str]:
    """Over each column what stands in it."""
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


def _box(box: Box, place: Place) -> Iterator[str]:
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
    yield from _cells(box, place.x + PADDING, y + 8)


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

# SPDX-License-Identifier: GPL-2.0-only
"""A topology as one self-contained SVG: text that can be selected, colours for light and dark screens."""

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

from harness.metrics.use import LoadUse
from harness.report.drawing.drawing import STACK, Box, Meter, drawing
from harness.report.drawing.layout import (
    CELL_HEIGHT,
    LINE,
    METER_HEIGHT,
    METER_WIDTH,
    PADDING,
    VIA,
    BoxPlace,
    Layout,
    cell_width,
    cells,
    layout,
)
from harness.report.terminal.allowance import flow_words
from lab.base.units import show_size
from lab.topology.model import Topology
from lab.topology.routes import BOX, DISK, HBA, LINK

_MARGIN, _HEAD, _FOOT = 24.0, 92.0, 40.0
_HEADING = 26.0
_LEAST_SHARE = 0.72
"""A drawing that is wider than the page shrinks so far, and is scrolled after that."""
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
    """A bar that is black from end to end says so in words as well."""
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

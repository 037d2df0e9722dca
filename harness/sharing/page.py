# SPDX-License-Identifier: GPL-2.0-only
"""An HTML page with the bytes of each line by CPU."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from harness.figures.lines import CacheLine
from harness.report.charts import Tile, tiles
from harness.report.html import render
from harness.sharing.text import LINES, differential_lines, window_lines
from harness.sharing.window import Window

_BYTE, _ROW, _LEFT, _BYTES = 10, 14, 60, 64
_LEAST = 0.01
"""Transfers per I/O below which a line is not drawn."""
_LEGEND = "The 64 bytes of a line: red were written by the CPU, blue were only read."


def sharing_page(windows: Sequence[Window]) -> str:
    """One window, or two and what differs; then the bytes of the lines that move most."""
    lines = window_lines(windows[0]) if len(windows) == 1 else differential_lines(windows[0], windows[1])
    drawings = [drawing for window in windows for drawing in _drawings(window)]
    title = f"Cache lines: {lines[0]}"
    return render("text.html", title=title, caution="", lines=lines, legend=_LEGEND, drawings=drawings, rows=())


def _drawings(window: Window) -> Iterator[tuple[str, Markup]]:
    """A heading and the line that moves most, of each group."""
    for group in window.groups[:LINES]:
        if group.footprint >= _LEAST:
            place = ", ".join([str(group.place), *group.fields])
            heading = f"{window.head.release} {window.head.cell}: {group.footprint:.3f} per I/O, {place}"
            yield heading, _bytes(group.lines[0])


def _bytes(line: CacheLine) -> Markup:
    """A row for each CPU and a tile for each byte."""
    rows = [(_ROW * row, cpu, use) for row, (cpu, use) in enumerate(sorted(line.users.items()))]
    bytes_ = []
    for top, _, use in rows:
        for byte in range(_BYTES):
            kind = "write" if use.bytes_written >> byte & 1 else "read" if use.bytes_read >> byte & 1 else "idle"
            bytes_.append(Tile(_LEFT + byte * _BYTE, top, _BYTE - 1, _ROW - 2, f"byte {byte}: {kind}", kind))
    labels = [(top + _ROW - 3, f"CPU {cpu}") for top, cpu, _ in rows]
    return tiles("bytes", f"{line.address:x}", (_LEFT + _BYTES * _BYTE, _ROW * len(rows)), bytes_, labels)

# SPDX-License-Identifier: GPL-2.0-only
"""An HTML page with the bytes of each line by CPU: no script, nothing from the network."""

from collections.abc import Iterator, Sequence
from html import escape

from harness.metrics.sharing import CacheLine
from harness.sharing.text import LINES, differential_lines, window_lines
from harness.sharing.window import Window

_BYTE, _ROW, _LEFT, _BYTES = 10, 14, 60, 64
_LEAST = 0.01
"""Transfers per I/O below which a line is not drawn."""
_STYLE = """
:root { color-scheme: light dark; --text: #222; --page: #fff; --idle: #e6e6e6; --read: #6ba3d6; --write: #d0563f }
@media (prefers-color-scheme: dark) { :root { --text: #ddd; --page: #181818; --idle: #333 } }
body { font: 14px/1.4 system-ui, sans-serif; max-width: 1180px; margin: 1em auto; padding: 0 1em; color: var(--text);
       background: var(--page); overflow-wrap: anywhere }
pre { font-size: 12px } pre, .wide { overflow-x: auto } h1 { font-size: 1.3em } h2 { font-size: 1.1em }
svg { display: block; font: 11px monospace; fill: var(--text) }
.idle { fill: var(--idle) } .read { fill: var(--read) } .write { fill: var(--write) }
"""


def sharing_page(windows: Sequence[Window]) -> str:
    """One window, or two and what differs; then the bytes of the lines that move most."""
    lines = window_lines(windows[0]) if len(windows) == 1 else differential_lines(windows[0], windows[1])
    title = f"Cache lines: {lines[0]}"
    body = "".join(_pictures(window) for window in windows)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n<pre>{escape(chr(10).join(lines))}</pre>\n"
        f"<p>The 64 bytes of a line: red were written by the CPU, blue were only read.</p>\n{body}</body></html>\n"
    )


def _pictures(window: Window) -> str:
    parts = []
    for group in window.groups[:LINES]:
        if group.footprint < _LEAST:
            continue
        place = ", ".join([str(group.place), *group.fields])
        title = f"{window.head.release} {window.head.cell}: {group.footprint:.3f} per I/O, {place}"
        parts.append(f'<h2>{escape(title)}</h2>\n<div class="wide">{_picture(group.lines[0])}</div>\n')
    return "".join(parts)


def _picture(line: CacheLine) -> str:
    """The line that moves most in its group."""
    width, height = _LEFT + _BYTES * _BYTE, _ROW * len(line.users)
    boxes = "\n".join(_boxes(line))
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
        f"<title>{line.address:x}</title>\n{boxes}\n</svg>"
    )


def _boxes(line: CacheLine) -> Iterator[str]:
    for row, (cpu, use) in enumerate(sorted(line.users.items())):
        top = row * _ROW
        yield f'<text x="0" y="{top + _ROW - 3}">CPU {cpu}</text>'
        for byte in range(_BYTES):
            kind = "write" if use.bytes_written >> byte & 1 else "read" if use.bytes_read >> byte & 1 else "idle"
            yield (
                f'<rect class="{kind}" x="{_LEFT + byte * _BYTE}" y="{top}" width="{_BYTE - 1}" height="{_ROW - 2}">'
                f"<title>byte {byte}: {kind}</title></rect>"
            )

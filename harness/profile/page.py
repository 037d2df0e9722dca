# SPDX-License-Identifier: GPL-2.0-only
"""An HTML page with a flame graph of each side and every changed function: no script, nothing from the network."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from html import escape

from harness.profile.differential import Differential, Frame, FunctionChange, differential, frames_of, joined
from harness.profile.mail import differential_lines, name_of, profile_lines, whole
from harness.profile.model import BLIND, Profile

_WIDTH, _ROW = 1180, 17
_NARROWEST = 0.4
"""Pixels below which a frame is left out."""
_LETTER = 6.7
"""Pixels of a letter: DejaVu Sans Mono advances by 0.602 of 11 px."""
_MOST = 200
"""Functions listed below the graphs."""
_HEADS = "".join(f"<th>{head}</th>" for head in ("delta", "function", "before", "after", "calls before", "calls after"))
_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #222 }
@media (prefers-color-scheme: dark) { :root { --paper: #121417; --ink: #e7e9eb } }
body { font: 14px/1.4 system-ui, sans-serif; max-width: 1180px; margin: 1em auto; padding: 0 1em; color: var(--ink);
       background: var(--paper); overflow-wrap: anywhere }
pre { font-size: 12px } pre, .wide { overflow-x: auto } h1 { font-size: 1.3em } h2 { font-size: 1.1em }
svg { display: block; font: 11px monospace } svg text { pointer-events: none; fill: #222 }
table { border-collapse: collapse; font: 12px monospace; white-space: nowrap }
td, th { padding: 0 .6em; text-align: right }
td:nth-child(2), th:nth-child(2) { text-align: left } .only { stroke: var(--ink); stroke-width: 1 }
"""


def profile_page(profile: Profile) -> str:
    root, head = frames_of([profile]), profile.head
    graph = _graph(root, 0, root.costs[0], single=True)
    legend = "Kernel call paths are exact. Programs are flat: their callers are not known."
    body = _section("Instructions per I/O by call path", graph)
    return _page(f"{head.scenario} {head.cell} on {head.release}", profile_lines(profile), legend, body)


def differential_page(before: Profile, after: Profile) -> str:
    difference, root = differential(before, after), joined(frames_of([before, after]))
    title = f"{before.head.scenario} {before.head.cell}: {before.head.release} -> {after.head.release}"
    legend = (
        "Both graphs have one scale. Red: more instructions per I/O after than before on this call path; "
        "blue: fewer; outlined: only on this side. A -> B: on this path A is only before and B only after, and most of "
        "both is spent in common callees or their names are alike: one frame. "
        "Programs are flat: their callers are not known."
    )
    graphs = (
        _section(
            f"{profile.head.release}: {whole(root.costs[side]):,} instructions per I/O",
            _graph(root, side, max(root.costs)),
        )
        for side, profile in enumerate((before, after))
    )
    return _page(title, differential_lines(difference), legend, "".join((*graphs, _table(difference))))


def _section(title: str, content: str) -> str:
    return f'<h2>{escape(title)}</h2>\n<div class="wide">{content}</div>\n'


def _page(title: str, lines: Iterable[str], legend: str, body: str) -> str:
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n<p>{escape(BLIND)}</p>\n"
        f"<pre>{escape(chr(10).join(lines))}</pre>\n<p>{escape(legend)}</p>\n{body}</body></html>\n"
    )


def _graph(root: Frame, side: int, scale: Fraction, *, single: bool = False) -> str:
    """An SVG in which the width of a frame is its cost on ``side``."""
    places = list(_places(root, side, 0.0, 0, scale))
    height = (1 + max((depth for _, _, _, depth in places), default=0)) * _ROW
    boxes = "\n".join(_box(*place, side, single=single) for place in places)
    return f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">\n{boxes}\n</svg>'


def _places(
    frame: Frame, side: int, left: float, depth: int, scale: Fraction
) -> Iterator[tuple[Frame, float, float, int]]:
    width = float(_WIDTH * frame.costs[side] / scale) if scale else 0.0
    if width < _NARROWEST:
        return
    yield frame, left, width, depth
    for name in sorted(frame.below):
        below = frame.below[name]
        yield from _places(below, side, left, depth + 1, scale)
        left += float(_WIDTH * below.costs[side] / scale)


def _box(frame: Frame, left: float, width: float, depth: int, side: int, *, single: bool) -> str:
    old, new = frame.costs
    what = f"{whole(frame.costs[side]):,}" if single else f"{whole(old):,} -> {whole(new):,} ({whole(new - old):+,})"
    letters = int((width - 4) / _LETTER)
    name = frame.name if len(frame.name) <= letters else frame.name[: letters - 1] + "~"
    text = f'<text x="{left + 3:.1f}" y="{depth * _ROW + 12}">{escape(name)}</text>' if letters > 2 else ""  # noqa: PLR2004
    only = "" if single or frame.costs[1 - side] else ' class="only"'
    return (
        f'<g><title>{escape(frame.name)}: {what} instructions per I/O</title><rect x="{left:.2f}" y="{depth * _ROW}" '
        f'width="{width:.2f}" height="{_ROW - 1}" fill="{"#f0d9a8" if single else _colour(old, new)}"{only}/>{text}</g>'
    )


def _colour(old: Fraction, new: Fraction) -> str:
    """From blue (all gone) by grey (the same) to red (all new)."""
    change = float((new - old) / max(old, new))
    faded = round(232 - 120 * abs(change))
    return f"rgb(240,{faded},{faded})" if change > 0 else f"rgb({faded},{faded},240)" if change < 0 else "#e8e8e8"


def _table(difference: Differential) -> str:
    rows = "".join(
        f"<tr><td>{whole(change.delta):+,}</td><td>{escape(name_of(change.function))} {_remark(change)}</td>"
        f"<td>{float(change.before.instructions):,.1f}</td><td>{float(change.after.instructions):,.1f}</td>"
        f"<td>{float(change.before.calls):.3f}</td><td>{float(change.after.calls):.3f}</td></tr>\n"
        for change in difference.changes[:_MOST]
    )
    count = len(difference.changes)
    return _section(f"The {min(_MOST, count)} largest of {count} functions, per I/O", f"<table>{_HEADS}{rows}</table>")


def _remark(change: FunctionChange) -> str:
    words = [f"({change.note})"] if change.note else []
    words += [f"with {', '.join(function.name for function in change.inlined)}"] if change.inlined else []
    return escape(" ".join(words))

# SPDX-License-Identifier: GPL-2.0-only
"""An HTML page with a flame graph of each side and every changed function."""

from collections.abc import Iterator
from fractions import Fraction

from markupsafe import Markup

from harness.profile.differential import Frame, FunctionChange, differential, frames_of, joined
from harness.profile.mail import differential_lines, name_of, profile_lines, whole
from harness.profile.model import BLIND, Profile
from harness.report.charts import Tile, tiles
from harness.report.html import render

_WIDTH, _ROW = 1180, 17
_NARROWEST = 0.4
"""Pixels below which a frame is left out."""
_LETTER = 6.7
"""Pixels of a letter: DejaVu Sans Mono advances by 0.602 of 11 px."""
_MOST = 200
"""Functions listed below the graphs."""
_HEADS = ("delta", "function", "before", "after", "calls before", "calls after")


def profile_page(profile: Profile) -> str:
    root, head = frames_of([profile]), profile.head
    heading = "Instructions per I/O by call path"
    legend = "Kernel call paths are exact. Programs are flat: their callers are not known."
    return render(
        "text.html",
        title=f"{head.scenario} {head.cell} on {head.release}",
        caution=BLIND,
        lines=profile_lines(profile),
        legend=legend,
        drawings=[(heading, _graph(heading, root, 0, root.costs[0], single=True))],
        rows=(),
    )


def differential_page(before: Profile, after: Profile) -> str:
    difference, root = differential(before, after), joined(frames_of([before, after]))
    legend = (
        "Both graphs have one scale. Red: more instructions per I/O after than before on this call path; "
        "blue: fewer; outlined: only on this side. A -> B: on this path A is only before and B only after, and most of "
        "both is spent in common callees or their names are alike: one frame. "
        "Programs are flat: their callers are not known."
    )
    drawings = []
    for side, profile in enumerate((before, after)):
        heading = f"{profile.head.release}: {whole(root.costs[side]):,} instructions per I/O"
        drawings.append((heading, _graph(heading, root, side, max(root.costs))))
    count = len(difference.changes)
    return render(
        "text.html",
        title=f"{before.head.scenario} {before.head.cell}: {before.head.release} -> {after.head.release}",
        caution=BLIND,
        lines=differential_lines(difference),
        legend=legend,
        drawings=drawings,
        heading=f"The {min(_MOST, count)} largest of {count} functions, per I/O",
        heads=_HEADS,
        rows=[_row(change) for change in difference.changes[:_MOST]],
    )


def _graph(title: str, root: Frame, side: int, scale: Fraction, *, single: bool = False) -> Markup:
    """A flame graph in which the width of a frame is its cost on ``side``."""
    frames = list(_tiles(root, side, 0.0, 0, scale, single=single))
    height = max((frame.y for frame in frames), default=0) + _ROW
    return tiles("flame", title, (_WIDTH, height), frames)


def _tiles(frame: Frame, side: int, left: float, depth: int, scale: Fraction, *, single: bool) -> Iterator[Tile]:
    width = float(_WIDTH * frame.costs[side] / scale) if scale else 0.0
    if width < _NARROWEST:
        return
    old, new = frame.costs
    cost = f"{whole(frame.costs[side]):,}" if single else f"{whole(old):,} -> {whole(new):,} ({whole(new - old):+,})"
    letters = int((width - 4) / _LETTER)
    name = frame.name if len(frame.name) <= letters else frame.name[: letters - 1] + "~"
    yield Tile(
        x=left,
        y=depth * _ROW,
        width=width,
        height=_ROW - 1,
        tooltip=f"{frame.name}: {cost} instructions per I/O",
        kind="" if single or frame.costs[1 - side] else "only",
        fill="#f0d9a8" if single else _colour(old, new),
        label=name if letters > 2 else "",  # noqa: PLR2004
    )
    for below in (frame.below[name] for name in sorted(frame.below)):
        yield from _tiles(below, side, left, depth + 1, scale, single=single)
        left += float(_WIDTH * below.costs[side] / scale)


def _colour(old: Fraction, new: Fraction) -> str:
    """From blue (all gone) by grey (the same) to red (all new)."""
    change = float((new - old) / max(old, new))
    faded = round(232 - 120 * abs(change))
    return f"rgb(240,{faded},{faded})" if change > 0 else f"rgb({faded},{faded},240)" if change < 0 else "#e8e8e8"


def _row(change: FunctionChange) -> tuple[str, ...]:
    note = f" ({change.note})" if change.note else ""
    note += f" with {', '.join(function.name for function in change.inlined)}" if change.inlined else ""
    return (
        f"{whole(change.delta):+,}",
        f"{name_of(change.function)}{note}",
        *(f"{float(side.instructions):,.1f}" for side in (change.before, change.after)),
        *(f"{float(side.calls):.3f}" for side in (change.before, change.after)),
    )

# SPDX-License-Identifier: GPL-2.0-only
"""Ratio strips: what is expected as a band, and a dot for each seed; one row a kernel where there are several."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.analysis.ensemble import Ensemble
from harness.report.format import figure, spread
from harness.report.page.scale import Axis, Tick, fitting
from harness.scenario.model import Bound

WIDTH, LABELS = 344.0, 84.0
_ROW, _TOP, _FOOT, _EDGE = 22.0, 22.0, 22.0, 12.0
_CHARACTER = 7.0


@dataclass(frozen=True)
class Dot:
    """``holds`` whether the seed's value is within what is expected."""

    x: float
    holds: bool
    words: str


@dataclass(frozen=True)
class StripRow:
    """Pixels. ``low``, ``median`` and ``high`` are None where nothing was measured."""

    label: str
    y: float
    dots: tuple[Dot, ...]
    low: float | None = None
    median: float | None = None
    high: float | None = None
    words: str = ""


@dataclass(frozen=True)
class Strip:
    """A drawing in pixels. ``band`` is the left edge and width of what is expected, ``mark`` the place
    of the report's figure; ``reported`` and ``expected`` are their words."""

    title: str
    width: float
    height: float
    rows: tuple[StripRow, ...]
    ticks: tuple[Tick, ...]
    left: float
    right: float
    base: float
    band: tuple[float, float] | None = None
    expected: Tick | None = None
    edges: tuple[float, ...] = ()
    reported: Tick | None = None
    mark: float | None = None


def strip(
    title: str,
    named: Sequence[tuple[str, Ensemble | None]],
    expect: Bound | None = None,
    reported: float | None = None,
) -> Strip | None:
    """``named`` has a label (empty for a single one) and the ensemble of each row; None when none was measured."""
    known = [ensemble for _, ensemble in named if ensemble is not None]
    if not known:
        return None
    edges = [edge for edge in (expect.low, expect.high) if edge is not None] if expect else []
    values = [value for ensemble in known for value in ensemble.values.values()]
    shown = [*values, *edges, *([reported] if reported is not None else [])]
    left = LABELS + _EDGE if any(label for label, _ in named) else _EDGE
    axis = fitting(shown, left, WIDTH - _EDGE)
    rows = tuple(_row(place, label, ensemble, axis, expect) for place, (label, ensemble) in enumerate(named))
    base = _TOP + _ROW * len(rows)
    return Strip(
        title=_title(title, named, expect, reported),
        width=WIDTH,
        height=base + _FOOT,
        rows=rows,
        ticks=axis.ticks(),
        left=left,
        right=WIDTH - _EDGE,
        base=base,
        band=_band(expect, axis) if expect else None,
        expected=_label(f"expected {expect.text}", [axis.at(edge) for edge in edges], left) if expect else None,
        edges=tuple(axis.at(edge) for edge in edges),
        reported=_label(f"reported {reported:g}", [axis.at(reported)], left) if reported is not None else None,
        mark=axis.at(reported) if reported is not None else None,
    )


def _title(title: str, named: Sequence[tuple[str, Ensemble | None]], expect: Bound | None, told: float | None) -> str:
    rows = "; ".join(
        f"{label + ': ' if label else ''}{spread(ensemble) if ensemble else 'not measured'}"
        for label, ensemble in named
    )
    expected = f", expected {expect.text}" if expect else ""
    return f"{title}: {rows}{expected}" + (f", reported {told:g}" if told is not None else "")


def _row(place: int, label: str, ensemble: Ensemble | None, axis: Axis, expect: Bound | None) -> StripRow:
    y = _TOP + _ROW * (place + 0.5)
    if ensemble is None:
        return StripRow(label, y, (), words="not measured")
    dots = tuple(
        Dot(axis.at(value), expect is None or expect.holds(value), f"seed {seed}: {figure(value)}")
        for seed, value in sorted(ensemble.values.items())
    )
    ends = (axis.at(ensemble.low), axis.at(ensemble.median), axis.at(ensemble.high))
    return StripRow(label, y, dots, *ends)


def _band(expect: Bound, axis: Axis) -> tuple[float, float]:
    start = axis.start if expect.low is None else axis.at(expect.low)
    end = axis.end if expect.high is None else axis.at(expect.high)
    return start, end - start


def _label(text: str, places: Sequence[float], left: float) -> Tick:
    """Over the middle of its places, as far as the drawing is wide."""
    half = len(text) * _CHARACTER / 2
    middle = sum(places) / len(places) if places else (left + WIDTH) / 2
    return Tick(min(max(middle, left - _EDGE + half), WIDTH - half), text)

# SPDX-License-Identifier: GPL-2.0-only
"""Figures over runs as small line charts from zero, each with its change points."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.report.drawing.chart import Axis, path
from harness.report.format import figure, plural, spread
from harness.studies.history import FigureSeries, History, change_points
from lab.base.errors import LabBroken

WIDTH, HEIGHT = 176.0, 34.0
_EDGE = 5.0


@dataclass(frozen=True)
class Whisker:
    """A run: its place, the ends of its range, and its tooltip."""

    x: float
    low: float
    median: float
    high: float
    words: str


@dataclass(frozen=True)
class Trend:
    """Pixels. ``breaks`` are places between runs, ``changes`` their words; ``unsought`` why there are none."""

    over: str
    name: str
    title: str
    line: str
    runs: tuple[Whisker, ...]
    breaks: tuple[float, ...]
    changes: tuple[str, ...]
    last: str
    unsought: str = ""
    width: float = WIDTH
    height: float = HEIGHT


def trends(history: History | None) -> Iterator[Trend]:
    """A line for each series of at least two runs."""
    for series in history.series if history else ():
        yield _trend(series)


def _trend(series: FigureSeries) -> Trend:
    points = series.points
    x = Axis(0.0, len(points) - 1.0, _EDGE, WIDTH - _EDGE)
    y = Axis(0.0, max(point.ensemble.high for point in points) or 1.0, HEIGHT - _EDGE, _EDGE)
    places, changes, unsought = _changes(series)
    last = spread(points[-1].ensemble)
    return Trend(
        over=series.over,
        name=f"{series.arm} {series.figure}",
        title=f"{series.arm} {series.figure} over {series.over}: {plural(len(points), 'run')}, the last {last}",
        line=path([(float(place), point.ensemble.median) for place, point in enumerate(points)], x, y),
        runs=tuple(
            Whisker(
                x.at(place),
                y.at(point.ensemble.low),
                y.at(point.ensemble.median),
                y.at(point.ensemble.high),
                f"{point.label}: {spread(point.ensemble)}",
            )
            for place, point in enumerate(points)
        ),
        breaks=tuple(x.at(place - 0.5) for place in places),
        changes=changes,
        unsought=unsought,
        last=last,
    )


def _changes(series: FigureSeries) -> tuple[tuple[int, ...], tuple[str, ...], str]:
    try:
        found = change_points(series.points)
    except LabBroken as lacking:
        return (), (), f"Change points were not searched: {lacking.message} ({lacking.remedy})."
    words = (
        f"{100 * change.share:+.1f} %, {figure(change.before)} to {figure(change.after)},"
        f" between {series.points[change.at - 1].label} and {series.points[change.at].label}"
        for change in found
    )
    return tuple(change.at for change in found), tuple(words), ""

# SPDX-License-Identifier: GPL-2.0-only
"""Figures over runs as small line charts from zero, each with its change points."""

from collections.abc import Iterator

from harness.report.drawing.chart import Axis, path
from harness.report.format import figure, plural, spread
from harness.report.page.render import Values
from harness.studies.history import FigureSeries, History, change_points
from lab.base.errors import LabBroken

WIDTH, HEIGHT = 176.0, 34.0
_EDGE = 5.0


def trends(history: History | None) -> Iterator[Values]:
    """A line for each series of at least two runs, in pixels; ``unsought`` says why no changes were looked for."""
    for series in history.series if history else ():
        yield _trend(series)


def _trend(series: FigureSeries) -> Values:
    points = series.points
    x = Axis(0.0, len(points) - 1.0, _EDGE, WIDTH - _EDGE)
    y = Axis(0.0, max(point.ensemble.high for point in points) or 1.0, HEIGHT - _EDGE, _EDGE)
    places, changes, unsought = _changes(series)
    last = spread(points[-1].ensemble)
    return {
        "over": series.over,
        "name": f"{series.arm} {series.figure}",
        "title": f"{series.arm} {series.figure} over {series.over}: {plural(len(points), 'run')}, the last {last}",
        "line": path([(float(place), point.ensemble.median) for place, point in enumerate(points)], x, y),
        "runs": tuple(
            {
                **{end: y.at(getattr(point.ensemble, end)) for end in ("low", "median", "high")},
                "x": x.at(place),
                "words": f"{point.label}: {spread(point.ensemble)}",
            }
            for place, point in enumerate(points)
        ),
        "breaks": tuple(x.at(place - 0.5) for place in places),
        "changes": changes,
        "unsought": unsought,
        "last": last,
        "width": WIDTH,
        "height": HEIGHT,
    }


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

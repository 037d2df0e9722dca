# SPDX-License-Identifier: GPL-2.0-only
"""A timeline as one SVG without references, a panel for each claim and for the figures that change most; as a page."""

import math
from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from harness.report.drawing import svg
from harness.report.drawing.chart import Axis, along, fitting, grid, logarithmic
from harness.report.format import figure, spread
from harness.report.page.render import render
from harness.scenario.model import Status
from harness.studies.timeline.lines import ReleaseChange, TimelineRow
from harness.studies.timeline.measure import Timeline
from harness.studies.timeline.sweep import label
from harness.studies.timeline.text import between, by, differences, seeds, values, what

MOST_FIGURES = 6
_WIDTH, _LEFT, _RIGHT = 960.0, 70.0, 930.0
_HEAD, _FOOT, _PANEL = 72.0, 34.0, 248.0
_TOP, _BASE = 96.0, 206.0
"""Of the plot within its panel."""
_NO_CHANGE_TOP = 48.0
_WORDS = 96
_LOGARITHMIC_FROM = 20.0
"""High over low from which a linear axis hides the low values."""
_LEGEND = (
    "\u25cf holds or no bound, \u00d7 fails, upright line: range over the seeds, small dot on the axis: not measured"
)
_STYLE = svg.theme(
    "timeline",
    """\
text{font:12px "DejaVu Sans",sans-serif;fill:INK}
.title{font-size:17px;font-weight:bold}
.name{font-size:13px;font-weight:bold}
.change{font-weight:bold;font-size:11px}
.mono{font:11px "DejaVu Sans Mono",monospace}
.mid{text-anchor:middle}
.end{text-anchor:end}
.soft,.mono{fill:SOFT}
.paper{fill:PAPER}
.dot{fill:INK}
.missing{fill:SOFT}
.grid{stroke:GRID}
.band{fill:BAND}
.edge{stroke:PASS;stroke-dasharray:5 3}
.pass{fill:PASS}
.fail{fill:none;stroke:FAIL;stroke-width:2.4}
.line{fill:none;stroke:INK;stroke-width:1.6}
.range{stroke:INK;stroke-width:1.2}
.step{stroke:INK;stroke-dasharray:2 3}
.figure{stroke:PAPER;stroke-width:3;paint-order:stroke}
""",
    {"PASS": "#14652d", "FAIL": "#a01717"},
    {"PASS": "#7fdc96", "FAIL": "#ff9d95"},
)


def picture(timelines: Sequence[Timeline]) -> Markup:
    """The whole file: scenarios over the same kernels, one below the other."""
    body: list[str] = []
    at = 0.0
    for timeline in timelines:
        sweep = timeline.sweep
        told = f"{sweep.scenario.name} over {len(sweep.specs)} kernels, {len(sweep.points)} measured"
        body.append(svg.text("title", 24, at + 30, sweep.scenario.title))
        body.append(svg.text("soft", 24, at + 52, f"{told}; seeds: {seeds(timeline)}"))
        at += _HEAD
        for line in panels(timeline):
            # Without a change no room is left for the words of one.
            changed = any(change.line is line for change in timeline.changes)
            blank = 0.0 if changed else _TOP - _NO_CHANGE_TOP
            body += [f'<g transform="translate(0 {at - blank:.0f})">', *_panel(timeline, line, blank), "</g>"]
            at += _PANEL - blank
    body.append(svg.text("mono", 24, at + _FOOT - 14, _LEGEND))
    names = ", ".join(timeline.sweep.scenario.name for timeline in timelines)
    title = f"{names} over {len(timelines[0].sweep.specs)} kernels"
    return svg.picture("timeline", title, (_WIDTH, at + _FOOT), body, style=_STYLE)


def panels(timeline: Timeline) -> list[TimelineRow]:
    """The claims that were measured, and the figures that change most."""
    claims = [line for line in timeline.lines if line.bound is not None and line.values]
    largest: dict[str, tuple[float, TimelineRow]] = {}
    for change in timeline.changes:
        if change.line.bound is None and change.share is not None and change.share > -1:
            size = abs(math.log1p(change.share))
            largest[change.line.title] = max(largest.get(change.line.title, (0.0, change.line))[0], size), change.line
    figures = sorted(largest.values(), key=lambda sized: -sized[0])[:MOST_FIGURES]
    return [*claims, *(line for _, line in figures)]


def _panel(timeline: Timeline, line: TimelineRow, top: float) -> Iterator[str]:
    yield svg.text("name", 24, top + 16, _shorten(line.title))
    under = f"{line.ratio}, expected {line.bound.text}" if line.bound else f"median over the seeds, {line.unit}"
    yield svg.text("mono", 24, top + 33, _shorten(under))
    margin = (_RIGHT - _LEFT) / len(timeline.sweep.specs) / 2
    y, x = _upwards(line), Axis(0.0, len(timeline.sweep.specs) - 1.0, _LEFT + margin, _RIGHT - margin)
    if line.bound is not None:
        edges = [(line.bound.high, _TOP), (line.bound.low, _BASE)]
        high, low = (end if edge is None else y.at(edge) for edge, end in edges)
        yield svg.rect("band", _LEFT, high, _RIGHT - _LEFT, low - high)
        yield from (svg.path("edge", "M", _LEFT, y.at(edge), "H", _RIGHT) for edge, _ in edges if edge is not None)
    yield from grid(y, _LEFT, _RIGHT)
    for place, spec in enumerate(timeline.sweep.specs):
        yield svg.path("grid", "M", x.at(place), _BASE, "v", 5.0)
        yield svg.text("mid" if place in line.values else "soft mid", x.at(place), _BASE + 19, label(spec))
        if place not in line.values:
            yield svg.dot("missing", x.at(place), _BASE, 2.5, timeline.sweep.missing.get(place, "not measured"))
    for number, change in enumerate(change for change in timeline.changes if change.line is line):
        yield from _change(timeline, change, x, _TOP - 8 - 28 * (number % 2))
    places = sorted(line.values)
    yield svg.path("line", along([(place, line.values[place].median) for place in places], x, y))
    for place in places:
        yield from _value(line, place, x.at(place), y)


def _change(timeline: Timeline, change: ReleaseChange, x: Axis, base: float) -> Iterator[str]:
    """Its words end at ``base``: those of close changes would overlap in one row."""
    at, neighbours = x.at((change.before + change.after) / 2), between(change, timeline.sweep)
    yield svg.path("step", "M", at, base + 3, "V", _BASE, title=f"{neighbours}: {what(change)}")
    yield svg.text("change mid", at, base - 12, neighbours)
    yield svg.text("soft mid", at, base, by(change.share) if change.share is not None else "")


def _value(line: TimelineRow, place: int, x: float, y: Axis) -> Iterator[str]:
    ensemble, status = line.values[place], line.status(place)
    middle, told = y.at(ensemble.median), spread(ensemble)
    yield svg.path("range", "M", x, y.at(ensemble.low), "V", y.at(ensemble.high))
    if status is Status.FAIL:
        yield svg.cross("fail", x, middle, 5, told)
    else:
        yield svg.dot("pass" if status is Status.PASS else "dot", x, middle, 4, told)
    yield svg.text("figure mid", x, middle - 10 if middle - 20 > _TOP else middle + 20, figure(ensemble.median))


def _upwards(line: TimelineRow) -> Axis:
    edges = [edge for edge in (line.bound.low, line.bound.high) if edge is not None] if line.bound else []
    values = [value for ensemble in line.values.values() for value in ensemble.values.values()] + edges
    if min(values) > 0 and max(values) / min(values) > _LOGARITHMIC_FROM:
        return logarithmic(values, _BASE, _TOP)
    return fitting(values, _BASE, _TOP)


def _shorten(words: str) -> str:
    return words if len(words) <= _WORDS else f"{words[: _WORDS - 3]}..."


def page(timelines: Sequence[Timeline], command: str) -> str:
    """The whole file; ``command`` made it."""
    return render(
        "timeline.html",
        heads=[label(spec) for spec in timelines[0].sweep.specs],
        picture=picture(timelines),
        scenarios=[_tables(timeline) for timeline in timelines],
        command=command,
    )


def _tables(timeline: Timeline) -> Mapping[str, object]:
    sweep = timeline.sweep
    return {
        "name": sweep.scenario.name,
        "title": sweep.scenario.title,
        "measured": len(sweep.points),
        "seeds": seeds(timeline),
        "changes": [
            {
                "between": between(change, sweep),
                "name": change.line.title,
                "by": "" if change.share is None else by(change.share),
                "ends": values(change),
            }
            for change in timeline.changes
        ],
        "options": list(differences(sweep, {(change.before, change.after) for change in timeline.changes})),
        "rows": [{"name": line.title, "cells": list(_cells(timeline, line))} for line in timeline.lines if line.values],
        "origins": [{"label": label(spec), "words": words} for spec, words in _origins(timeline)],
    }


def _cells(timeline: Timeline, line: TimelineRow) -> Iterator[str]:
    for place in range(len(timeline.sweep.specs)):
        ensemble, status = line.values.get(place), line.status(place)
        yield " ".join(filter(None, (spread(ensemble) if ensemble else "", str(status or ""))))


def _origins(timeline: Timeline) -> Iterator[tuple[str, str]]:
    sweep = timeline.sweep
    for place, spec in enumerate(sweep.specs):
        if (point := sweep.points.get(place)) is not None:
            yield spec, f"{point.kernel.release}, {point.kernel.origin}; run {point.run}"
        else:
            yield spec, f"MISS: {sweep.missing[place]}" if place in sweep.missing else "not measured"

# SPDX-License-Identifier: GPL-2.0-only
"""A timeline as one SVG without references, a panel for each claim and for the figures that change most; as a page."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from markupsafe import Markup

from harness.report.drawing.chart import Axis, fitting, logarithmic, path
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
_MARK, _WORDS = 5.0, 96
_LOGARITHMIC_FROM = 20.0
"""High over low from which a linear axis hides the low values."""
_LEGEND = (
    "\u25cf holds or no bound, \u00d7 fails, upright line: range over the seeds, small dot on the axis: not measured"
)
_SHAPES = """\
text { font: 12px "DejaVu Sans", sans-serif } .title { font-size: 17px; font-weight: bold }
.name { font-size: 13px; font-weight: bold } .change { font-weight: bold; font-size: 11px }
.mono { font: 11px "DejaVu Sans Mono", monospace } .edge { stroke-dasharray: 5 3 } .step { stroke-dasharray: 2 3 }
.line { fill: none; stroke-width: 1.6 } .range { stroke-width: 1.2 } .fail { fill: none; stroke-width: 2.4 }
"""
_COLOURS = """\
.paper { fill: PAPER } text, .dot { fill: INK } .soft, .mono { fill: SOFT } .grid { stroke: GRID }
.band { fill: BAND } .edge { stroke: PASS } .pass { fill: PASS } .fail { stroke: FAIL }
.line, .range, .step { stroke: INK }
.figure { stroke: PAPER; stroke-width: 3; paint-order: stroke }
"""
_ROLES = ("PAPER", "INK", "SOFT", "GRID", "BAND", "PASS", "FAIL")
_DAY = ("#fff", "#1b1e22", "#565e67", "#d8dbdf", "#d9ebdd", "#14652d", "#a01717")
_NIGHT = ("#191c20", "#e7e9eb", "#a3abb4", "#31363c", "#1d3a26", "#7fdc96", "#ff9d95")


def picture(timelines: Sequence[Timeline]) -> str:
    """The whole file: scenarios over the same kernels, one below the other."""
    body: list[str] = []
    at = 0.0
    for timeline in timelines:
        body += _title(timeline, at)
        at += _HEAD
        for panel_height, drawn in (_panel(timeline, line) for line in panels(timeline)):
            body += [f'<g transform="translate(0 {at + panel_height - _PANEL:.0f})">', *drawn, "</g>"]
            at += panel_height
    height = at + _FOOT
    body.append(_text(24, height - 14, _LEGEND, "mono"))
    told = f"{', '.join(one.sweep.scenario.name for one in timelines)} over {len(timelines[0].sweep.specs)} kernels"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" width="{_WIDTH:.0f}"'
        f' height="{height:.0f}" role="img"><title>{escape(told)}</title><style>{_style()}</style>'
        f'<rect class="paper" width="100%" height="100%"/>{"".join(body)}</svg>\n'
    )


def _title(timeline: Timeline, top: float) -> Iterator[str]:
    sweep = timeline.sweep
    told = f"{sweep.scenario.name} over {len(sweep.specs)} kernels, {len(sweep.points)} measured"
    yield _text(24, top + 30, sweep.scenario.title, "title")
    yield _text(24, top + 52, f"{told}; seeds: {seeds(timeline)}", "soft")


def _style() -> str:
    """Colours without variables: not every program that draws SVG knows them."""
    day, night = (_coloured(dict(zip(_ROLES, colours, strict=True))) for colours in (_DAY, _NIGHT))
    return f"{_SHAPES}{day}@media (prefers-color-scheme: dark) {{ {night} }}"


def _coloured(colours: Mapping[str, str]) -> str:
    return re.sub("[A-Z]{3,}", lambda role: colours[role[0]], _COLOURS)


def panels(timeline: Timeline) -> list[TimelineRow]:
    """The claims that were measured, and the figures that change most."""
    claims = [line for line in timeline.lines if line.bound is not None and line.values]
    largest: dict[str, tuple[float, TimelineRow]] = {}
    for change in timeline.changes:
        if change.line.bound is None and change.share is not None and change.share > -1:
            size = abs(math.log1p(change.share))
            largest[change.line.title] = max(largest.get(change.line.title, (0.0, change.line))[0], size), change.line
    figures = sorted(largest.values(), key=lambda found: -found[0])[:MOST_FIGURES]
    return [*claims, *(line for _, line in figures)]


def _panel(timeline: Timeline, line: TimelineRow) -> tuple[float, list[str]]:
    """Its height, and what is in it; without a change no room is left for the words of one."""
    changed = any(change.line is line for change in timeline.changes)
    blank = 0.0 if changed else _TOP - _NO_CHANGE_TOP
    return _PANEL - blank, [*_heading(line, blank), *_plot(timeline, line)]


def _heading(line: TimelineRow, top: float) -> Iterator[str]:
    yield _text(24, top + 16, _cut(line.title), "name")
    under = f"{line.ratio}, expected {line.bound.text}" if line.bound else f"median over the seeds, {line.unit}"
    yield _text(24, top + 33, _cut(under), "mono")


def _plot(timeline: Timeline, line: TimelineRow) -> Iterator[str]:
    y, x = _upwards(line), _across(len(timeline.sweep.specs))
    yield from _bound(line, y)
    for tick in y.ticks(4):
        yield f'<path class="grid" d="M{_LEFT} {tick.at:.1f}H{_RIGHT}"/>'
        yield _text(_LEFT - 6, tick.at + 4, tick.label, "soft", "end")
    for place in range(len(timeline.sweep.specs)):
        yield from _kernel(timeline, line, place, x)
    for number, change in enumerate(change for change in timeline.changes if change.line is line):
        yield from _change(timeline, change, x, _TOP - 8 - 28 * (number % 2))
    measured = sorted(line.values)
    yield f'<path class="line" d="{path([(place, line.values[place].median) for place in measured], x, y)}"/>'
    for place in measured:
        yield from _value(line, place, x.at(place), y)


def _bound(line: TimelineRow, y: Axis) -> Iterator[str]:
    if line.bound is None:
        return
    low, high = line.bound.low, line.bound.high
    top = _TOP if high is None else y.at(high)
    base = _BASE if low is None else y.at(low)
    yield f'<rect class="band" x="{_LEFT}" y="{top:.1f}" width="{_RIGHT - _LEFT}" height="{base - top:.1f}"/>'
    for edge in (low, high):
        if edge is not None:
            yield f'<path class="edge" d="M{_LEFT} {y.at(edge):.1f}H{_RIGHT}"/>'


def _kernel(timeline: Timeline, line: TimelineRow, place: int, x: Axis) -> Iterator[str]:
    sweep, at = timeline.sweep, x.at(place)
    yield f'<path class="grid" d="M{at:.1f} {_BASE}v5"/>'
    yield _text(at, _BASE + 19, label(sweep.specs[place]), "" if place in line.values else "soft", "middle")
    if place not in line.values:
        why = sweep.missing.get(place, "not measured")
        yield f'<circle class="soft" cx="{at:.1f}" cy="{_BASE}" r="2.5"><title>{escape(why)}</title></circle>'


def _change(timeline: Timeline, change: ReleaseChange, x: Axis, base: float) -> Iterator[str]:
    """Its words end at ``base``: those of close changes would overlap in one row."""
    at = x.at((change.before + change.after) / 2)
    words = by(change.share) if change.share is not None else ""
    told = f"{between(change, timeline.sweep)}: {what(change)}"
    yield f'<path class="step" d="M{at:.1f} {base + 3}V{_BASE}"><title>{escape(told)}</title></path>'
    yield _text(at, base - 12, between(change, timeline.sweep), "change", "middle")
    yield _text(at, base, words, "soft", "middle")


def _value(line: TimelineRow, place: int, x: float, y: Axis) -> Iterator[str]:
    ensemble, status = line.values[place], line.status(place)
    yield f'<path class="range" d="M{x:.1f} {y.at(ensemble.low):.1f}V{y.at(ensemble.high):.1f}"/>'
    middle = y.at(ensemble.median)
    told = f"<title>{escape(spread(ensemble))}</title>"
    if status is Status.FAIL:
        cross = f"M{x - _MARK:.1f} {middle - _MARK:.1f}l{2 * _MARK} {2 * _MARK}m0 {-2 * _MARK}l{-2 * _MARK} {2 * _MARK}"
        yield f'<path class="fail" d="{cross}">{told}</path>'
    else:
        kind = "pass" if status is Status.PASS else "dot"
        yield f'<circle class="{kind}" cx="{x:.1f}" cy="{middle:.1f}" r="{_MARK - 1}">{told}</circle>'
    above = middle - 10 if middle - 20 > _TOP else middle + 20
    yield _text(x, above, figure(ensemble.median), "figure", "middle")


def _upwards(line: TimelineRow) -> Axis:
    edges = [edge for edge in (line.bound.low, line.bound.high) if edge is not None] if line.bound else []
    values = [value for ensemble in line.values.values() for value in ensemble.values.values()] + edges
    if min(values) > 0 and max(values) / min(values) > _LOGARITHMIC_FROM:
        return logarithmic(values, _BASE, _TOP)
    return fitting(values, _BASE, _TOP)


def _across(count: int) -> Axis:
    margin = (_RIGHT - _LEFT) / count / 2
    return Axis(0.0, count - 1.0, _LEFT + margin, _RIGHT - margin)


def _cut(words: str) -> str:
    return words if len(words) <= _WORDS else f"{words[: _WORDS - 3]}..."


def _text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}"{placed}>{escape(words)}</text>' if words else ""


def page(timelines: Sequence[Timeline], command: str) -> str:
    """The whole file; ``command`` made it."""
    return render(
        "timeline.html",
        heads=[label(spec) for spec in timelines[0].sweep.specs],
        picture=Markup(picture(timelines)),  # noqa: S704 - made here, with every word escaped
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

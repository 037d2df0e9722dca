# SPDX-License-Identifier: GPL-2.0-only
"""The page of a set of runs, and that of one scenario's history: each ratio is a strip with a row for each run."""

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from harness.judge.cells import ensemble_of
from harness.judge.claims import NOT_RUN, EntryVerdict, Judgement
from harness.judge.comparison import Difference, kind_of
from harness.judge.ensemble import Ensemble
from harness.judge.thresholds import LARGE
from harness.judge.verdict import SHOWN_METRIC, Verdict
from harness.metrics.figures import PER_IO
from harness.record.judging import Altered, judge_run
from harness.record.store import RunFolder
from harness.report.drawing.chart import Axis, path
from harness.report.format import figure, plural, reported, severity, spread, value
from harness.report.page.charts import against, time_words
from harness.report.page.judged import MUST_BE, Strip, StripEntry, strip
from harness.report.page.render import Values, render
from harness.report.terminal.comparison import LEGEND
from harness.scenario.model import Claim, Clock, Control, Scenario, Status
from harness.studies.history import FigureSeries, History, change_points
from harness.studies.overview.collection import NEAR, Collection, CollectionCell, Column, JudgedRun, heat_rows
from lab.base.errors import LabBroken, Misuse
from lab.kernels.release import by_release, series_of

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
    places, changes, unsought = _change_points(series)
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


def _change_points(series: FigureSeries) -> tuple[tuple[int, ...], tuple[str, ...], str]:
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


Row = tuple[str, JudgedRun | None]
"""The label of a row, and its run."""
Seen = tuple[str, Judgement]
"""A status and its judgement."""
_NOTHING = "-"


@dataclass(frozen=True)
class Across:
    """``words`` has a status and a value for each row's label."""

    that: str
    ratio: str
    expect: str
    words: tuple[tuple[str, str, str], ...]
    strip: Strip | None
    wish: str = ""

    @property
    def severity(self) -> int:
        return min((severity(word) for _, word, _ in self.words), default=severity(NOT_RUN))


@dataclass(frozen=True)
class ComparedFigure:
    """A figure of one role: for each row the median, the range, and the change from the first row that has it."""

    arm: str
    load: str
    role: str
    cells: tuple[tuple[str, str, str], ...]


def claims(rows: Sequence[Row]) -> list[Across]:
    """Claims of the newest run on all rows that have the same claim, failures first."""
    return _across(rows, _newest_scenario(rows).claims, lambda verdict: verdict.claims, "expected")


def controls(rows: Sequence[Row]) -> list[Across]:
    """Negative controls that ran on at least one row, failures first."""
    return _across(rows, _newest_scenario(rows).controls, lambda verdict: verdict.controls, MUST_BE)


def reproductions(rows: Sequence[Row]) -> Iterator[Across]:
    for wanted in _newest_scenario(rows).reproduces:
        shown = []
        for label, one in rows:
            found = [each for each in one.verdict.reproductions if each.ratio == wanted.ratio.text] if one else []
            shown.append(StripEntry(label, found[0].ensemble if found else None))
        words = tuple((each.label, "", spread(each.ensemble) if each.ensemble else _NOTHING) for each in shown)
        drawn = strip(wanted.that, shown, reported=wanted.reported)
        yield Across(wanted.that, wanted.ratio.text, reported(wanted), words, drawn, "report:")


def compared(
    rows: Sequence[Row], metric: str = SHOWN_METRIC, show: Callable[[float], str] = figure
) -> Iterator[ComparedFigure]:
    """A metric of every measured role; ``show`` formats its values."""
    exact = _newest_scenario(rows).clock is Clock.VIRTUAL
    names = dict.fromkeys(
        (row.arm, row.load, row.role) for _, one in rows if one is not None for row in one.verdict.measured
    )
    for name in names:
        cells = [one.verdict.cells if one else () for _, one in rows]
        ensembles = [ensemble_of(of, name[0], (*name[1:], metric)) for of in cells]
        first = next((ensemble for ensemble in ensembles if ensemble is not None), None)
        if first is None:
            continue
        shown = []
        for ensemble in ensembles:
            change = "" if ensemble is None or ensemble is first else against(ensemble, first, exact=exact)
            shown.append(("-", "", "") if ensemble is None else (*_shown(ensemble, show), change))
        yield ComparedFigure(*name, tuple(shown))


def _shown(ensemble: Ensemble, show: Callable[[float], str]) -> tuple[str, str]:
    """The median, and the range where it differs from it."""
    low, high = show(ensemble.low), show(ensemble.high)
    return show(ensemble.median), "" if low == high else f"{low} .. {high}"


def _across(
    rows: Sequence[Row],
    entries: Iterable[Claim | Control],
    judged: Callable[[Verdict], Iterable[EntryVerdict]],
    wish: str,
) -> list[Across]:
    found = []
    for entry in entries:
        seen = [(label, _seen(judged(one.verdict) if one else (), entry)) for label, one in rows]
        if any(each for _, each in seen):
            that = f"{entry.that} (optional)" if isinstance(entry, Claim) and entry.optional else entry.that
            shown = [
                StripEntry(label, each[1].ensemble, each[1].interval) if each else StripEntry(label)
                for label, each in seen
            ]
            words = tuple(
                (label, each[0], value(each[1])) if each else (label, NOT_RUN, _NOTHING) for label, each in seen
            )
            drawn = strip(that, shown, entry.expect, wish=wish)
            found.append(Across(that, entry.ratio.text, entry.expect.text, words, drawn, wish))
    return sorted(found, key=lambda one: one.severity)


def _seen(judged: Iterable[EntryVerdict], wanted: Claim | Control) -> Seen | None:
    for found in judged:
        if (found.that, found.ratio) == (wanted.that, wanted.ratio.text) and found.judgement is not None:
            return found.word, found.judgement
    return None


def _newest_scenario(rows: Sequence[Row]) -> Scenario:
    runs = [one.run for _, one in rows if one is not None]
    return max(runs, key=lambda run: run.facts.run_id).scenario


_MOST_RUNS = 40


def set_page(collection: Collection, target: Path, page_name: str) -> str:
    """HTML of the heat map and, for each scenario, of its ratios kernel by kernel.

    ``target`` is the path of the page, ``page_name`` the name of the pages in run folders.
    """
    parts = [_part(collection, name, target, page_name) for name in collection.scenarios]
    words = Counter(entry.status for entry in collection.cells.values())
    return render(
        "set.html",
        legend=LEGEND,
        marked=f"Differences of {100 * LARGE.share:g} % or more are marked: {LARGE.because}.",
        collection=collection,
        rows=list(heat_rows(collection)),
        near=f"{100 * NEAR:g} %",
        tally=sorted(words.items()),
        parts=[part for part in parts if part],
    )


def history_page(
    scenario: str, runs: Sequence[RunFolder], target: Path, page_name: str, figures: History | None = None
) -> str:
    """HTML of all runs of a scenario by kernel version and date. Raises Misuse without a run.

    ``figures`` are its series over days and versions.
    """
    shown = sorted(runs[-_MOST_RUNS:], key=lambda run: (by_release(run.facts.kernel.release), run.facts.run_id))
    rows: list[tuple[Column, CollectionCell]] = []
    for run in shown:
        try:
            judged = JudgedRun(run, judge_run(run))
        except (Misuse, Altered):
            continue
        column = Column(f"{series_of(run.facts.kernel.release)} {run.facts.started[5:10]}", run.facts.kernel.release)
        rows.append((column, CollectionCell(str(judged.verdict.status), judged)))
    if not rows:
        raise Misuse(f"no run of {scenario} can be judged", remedy=f"blklab run {scenario}")
    part = _scenario(scenario, rows, target, page_name)
    drawn = list(trends(figures))
    versions = len({entry.judged.run.facts.scenario_digest for _, entry in rows if entry.judged})
    return render(
        "history.html",
        legend=LEGEND,
        part=part,
        versions=versions,
        counted=plural(len(rows), "run"),
        left_out=plural(len(runs) - len(rows), "run") if len(runs) > len(rows) else "",
        changes=list(_changes(rows)),
        trends=drawn,
        unsought=next((one["unsought"] for one in drawn if one["unsought"]), ""),
    )


def _changes(rows: Sequence[tuple[Column, CollectionCell]]) -> Iterator[Values]:
    """Claims whose ranges do not overlap from one run to the next on the same release."""
    named: list[Row] = [(column.label, entry.judged) for column, entry in rows]
    for (_, before), (label, after) in pairwise(named):
        if before is None or after is None or before.run.facts.kernel.release != after.run.facts.kernel.release:
            continue
        exact = after.run.scenario.clock is Clock.VIRTUAL
        old = {claim.ratio: claim.judgement.ensemble for claim in before.verdict.claims}
        for claim in after.verdict.claims:
            was, now = old.get(claim.ratio), claim.judgement.ensemble
            kind = kind_of(was, now, exact=exact)
            if was is not None and now is not None and kind in (Difference.REAL, Difference.MARKED):
                row = {"label": label, "that": claim.that, "was": spread(was), "now": spread(now)}
                yield {**row, "by": against(now, was, exact=exact), "run_id": after.run.facts.run_id}


def _part(collection: Collection, scenario: str, target: Path, page_name: str) -> Values | None:
    rows = [(column, entry) for column, entry in collection.row(scenario) if entry is not None]
    return _scenario(scenario, rows, target, page_name) if any(entry.judged for _, entry in rows) else None


def _scenario(scenario: str, rows: Sequence[tuple[Column, CollectionCell]], target: Path, page_name: str) -> Values:
    """``machines`` are the distinct QEMU versions of the boots."""
    named: list[Row] = [(column.label, entry.judged) for column, entry in rows]
    newest = max((one.run for _, one in named if one), key=lambda run: run.facts.run_id)
    ratios, red, shown = claims(named), controls(named), list(_runs(rows, target, page_name))
    bad = severity(Status.DONE)
    return {
        "name": scenario,
        "title": newest.scenario.title,
        "labels": [label for label, _ in named],
        "claims": ratios,
        "controls": red,
        "reproductions": list(reproductions(named)),
        "tables": {name: figures for name, figures in _tables(named).items() if figures},
        "runs": shown,
        "machines": list(dict.fromkeys(one.run.facts.qemu for _, one in named if one and one.run.facts.qemu)),
        "failed": any(severity(run["status"]) < bad for run in shown),
        "controls_failed": any(one.severity < bad for one in red),
    }


def _tables(named: Sequence[Row]) -> Mapping[str, Sequence[ComparedFigure]]:
    """A metric of every role, kernel by kernel."""
    return {
        "IOPS": list(compared(named)),
        "Latency of the median I/O": list(compared(named, "lat.p50", time_words)),
        "Latency that 99 % of I/Os do not exceed": list(compared(named, "lat.p99", time_words)),
        "CPU time per I/O: instructions of the guest, under the virtual clock": list(
            compared(named, PER_IO, time_words)
        ),
    }


def _runs(rows: Sequence[tuple[Column, CollectionCell]], target: Path, page_name: str) -> Iterator[Values]:
    """``page`` is the address of a run's page relative to this one, empty without one."""
    for column, entry in rows:
        if entry.judged is None:
            nothing = {"release": column.says, "started": "-", "seeds": 0, "command": "-", "page": ""}
            yield {**nothing, "label": column.label, "status": entry.status, "reason": entry.reason}
            continue
        run = entry.judged.run
        page = run.path / page_name
        there = os.path.relpath(page, target.resolve().parent) if page.is_file() else ""
        yield {
            "label": column.label,
            "status": entry.status,
            "release": run.facts.kernel.release,
            "started": run.facts.started[:16].replace("T", " "),
            "seeds": len(run.facts.seeds),
            "command": shlex.join(run.facts.command),
            "page": there,
            "reason": entry.reason,
        }

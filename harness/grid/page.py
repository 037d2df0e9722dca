# SPDX-License-Identifier: GPL-2.0-only
"""The page of a set of runs: each ratio is a strip with a row for each kernel or run."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from harness.grid.lines import KernelSide, changes, figure_lines, ratio_line
from harness.grid.overview import NEAR, Collection, Column, heat_rows, word_of
from harness.judge.claims import NOT_RUN, EntryVerdict
from harness.judge.thresholds import LARGE
from harness.judge.verdict import SHOWN_METRIC
from harness.record.grid import GridCell
from harness.record.judging import Run
from harness.report.charts import StripRow, strip
from harness.report.claims import EXPECTED, MUST_BE, value
from harness.report.format import LEGEND, change_words, figure, reported, severity, spread, time_words
from harness.report.html import Values, render
from harness.scenario.model import Claim, Scenario, Status
from harness.scenario.registry import PER_IO

_NOTHING = "-"
_TABLES: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "IOPS": (SHOWN_METRIC, figure),
    "Latency of the median I/O": ("lat.p50", time_words),
    "Latency that 99 % of I/Os do not exceed": ("lat.p99", time_words),
    "CPU time per I/O: instructions of the guest, under the virtual clock": (PER_IO, time_words),
}

Row = tuple[str, Run | None]
"""The label of a row, and its run."""


def entries(rows: Sequence[Row], of: str, wish: str) -> list[Values]:
    """The ``claims`` or ``controls`` of the newest run on all rows that have the same: first those that change.

    What turns comes before what only has another figure, and failures before what holds.

    Controls that ran on no row are left out. ``words`` has a label, a status and a value for each row.
    """
    parts, sides, exact = [], _sides(rows), _newest(rows).timing.exact
    for entry in getattr(_newest(rows), of):
        verdicts: dict[int, EntryVerdict] = {
            place: verdict
            for place, (_, run) in enumerate(rows)
            for verdict in reversed(getattr(run.verdict, of) if run else ())
            if (verdict.that, verdict.ratio) == (entry.that, entry.ratio.text) and verdict.judgement
        }
        judged = {place: verdict.judgement for place, verdict in verdicts.items() if verdict.judgement}
        words, drawn = [], []
        for place, (label, _) in enumerate(rows):
            verdict, judgement = verdicts.get(place), judged.get(place)
            if verdict and judgement:
                words.append((label, verdict.word, value(judgement)))
                drawn.append(StripRow(label, judgement.ensemble, judgement.interval))
            else:
                words.append((label, NOT_RUN, _NOTHING))
                drawn.append(StripRow(label))
        if judged:
            that = f"{entry.that} (optional)" if isinstance(entry, Claim) and entry.optional else entry.that
            picture = strip(that, drawn, entry.expect, wish=wish)
            part = _part_of(that, entry.ratio.text, f"{wish} {entry.expect.text}", words, picture)
            line = ratio_line(that, entry.ratio, judged, sides, exact=exact)
            moved = any(change.difference.marked for change in changes([line], sorted(line.values)))
            turned = len({verdict.word for verdict in verdicts.values()}) > 1
            parts.append(part | {"change": 2 * turned + moved})
    return sorted(parts, key=lambda part: (-part["change"], part["severity"]))


def _sides(rows: Sequence[Row]) -> dict[int, KernelSide]:
    return {
        place: KernelSide(run.folder.facts.kernel, run.verdict.cells)
        for place, (_, run) in enumerate(rows)
        if run is not None
    }


def _part_of(that: str, ratio: str, expect: str, words: Sequence[tuple[str, str, str]], drawn: object) -> Values:
    worst = min(severity(word) for _, word, _ in words)
    return {"that": that, "ratio": ratio, "expect": expect, "words": words, "strip": drawn, "severity": worst}


def _reproductions(rows: Sequence[Row]) -> Iterator[Values]:
    for wanted in _newest(rows).reproduces:
        drawn, words = [], []
        for label, run in rows:
            alike = [told for told in run.verdict.reproductions if told.ratio == wanted.ratio] if run else []
            row = StripRow(label, alike[0].ensemble if alike else None)
            mark = f" ({alike[0].mark})" if alike and alike[0].mark else ""
            drawn.append(row)
            words.append((label, "", spread(row.ensemble) + mark if row.ensemble else _NOTHING))
        picture = strip(wanted.that, drawn, reported=wanted.reported)
        report = f"report: {reported(wanted.reported, wanted.in_words)}"
        yield _part_of(wanted.that, wanted.ratio.text, report, words, picture)


def compared(
    rows: Sequence[Row], metric: str = SHOWN_METRIC, show: Callable[[float], str] = figure
) -> Iterator[Values]:
    """A metric of every measured role: for each row the median, the range and the change from the first row with it."""
    for line in figure_lines(_sides(rows), (metric,), exact=_newest(rows).timing.exact):
        first = min(line.values)
        cells = [(_NOTHING, "", "")] * len(rows)
        for place, ensemble in line.values.items():
            low, high = show(ensemble.low), show(ensemble.high)
            change = "" if place == first else change_words(line.difference(first, place))
            cells[place] = show(ensemble.median), "" if low == high else f"{low} .. {high}", change
        arm, load, role, _ = line.figures[0]
        yield {"arm": arm, "load": load, "role": role, "cells": cells}


def _newest(rows: Sequence[Row]) -> Scenario:
    return max((run.folder for _, run in rows if run), key=lambda run: run.facts.run_id).scenario


def set_page(collection: Collection) -> str:
    """HTML of the heat map and, for each scenario, of its ratios kernel by kernel or run by run."""
    parts = [_scenario(collection, name) for name in collection.scenarios]
    words = Counter(word_of(entry) for entry in collection.cells.values())
    return render(
        "set.html",
        legend=LEGEND,
        marked=f"Differences of more than {100 * LARGE.share:g} % are marked: {LARGE.because}.",
        collection=collection,
        rows=list(heat_rows(collection)),
        near=f"{100 * NEAR:g} %",
        tally=sorted(words.items()),
        parts=[part for part in parts if part],
    )


def _scenario(collection: Collection, scenario: str) -> Values | None:
    """``machines`` are the distinct QEMU versions of the boots."""
    rows = [(column, entry) for column, entry in collection.row(scenario) if entry is not None]
    named: list[Row] = [(column.label, entry.result) for column, entry in rows]
    if not any(run for _, run in named):
        return None
    ratios, red = entries(named, "claims", EXPECTED), entries(named, "controls", MUST_BE)
    shown = list(_runs(rows))
    bad = severity(Status.DONE)
    tables = {name: list(compared(named, *of)) for name, of in _TABLES.items()}
    return {
        "name": scenario,
        "title": _newest(named).title,
        "labels": [label for label, _ in named],
        "claims": ratios,
        "controls": red,
        "reproductions": list(_reproductions(named)),
        "tables": {name: figures for name, figures in tables.items() if figures},
        "runs": shown,
        "machines": list(dict.fromkeys(run.folder.facts.qemu for _, run in named if run and run.folder.facts.qemu)),
        "failed": any(severity(run["status"]) < bad for run in shown),
        "controls_failed": any(control["severity"] < bad for control in red),
    }


def _runs(rows: Sequence[tuple[Column, GridCell]]) -> Iterator[Values]:
    """``folder`` is that of the run, as text: a page that was mailed could follow no link to it."""
    for column, entry in rows:
        if entry.result is None:
            nothing = {"release": column.says, "started": "-", "seeds": 0, "command": "-", "folder": ""}
            yield {**nothing, "label": column.label, "status": word_of(entry), "reason": entry.reason}
            continue
        run = entry.result.folder
        yield {
            "label": column.label,
            "status": word_of(entry),
            "release": run.facts.kernel.release,
            "started": run.facts.started[:16].replace("T", " "),
            "seeds": len(run.facts.seeds),
            "command": shlex.join(run.facts.command),
            "folder": f"{run.path.parent.name}/{run.path.name}",
            "reason": entry.reason,
        }

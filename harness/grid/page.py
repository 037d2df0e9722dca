# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios x kernels as a set of runs, and its page: each ratio is a strip with a row for each kernel or run.

The runs are those of a matrix, or the newest below a results root.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.grid.lines import GridRow, KernelSide, changes, figure_lines, ratio_line
from harness.grid.measure import judged
from harness.judge.claims import NOT_RUN, XFAIL, EntryVerdict
from harness.judge.difference import LARGE, LARGE_BECAUSE, Significance
from harness.judge.verdict import SHOWN_METRIC, Verdict
from harness.record.grid import Grid, GridCell
from harness.record.judging import Altered, Run, judge_run
from harness.record.store import KernelFacts, RunFolder, Store, load_run, readable
from harness.report.charts import StripRow, strip
from harness.report.claims import EXPECTED, MUST_BE, claim_text, value
from harness.report.format import LEGEND, MARKS, change_words, figure, plural, reported, severity, spread, time_words
from harness.report.html import Values, render
from harness.scenario.model import Bound, Claim, Scenario, Status
from harness.scenario.registry import PER_IO
from lab.base.errors import Misuse
from lab.kernels.model import by_release, series_of

NOT_DECIDED = "not run"
_MOST_RUNS = 40
_PACKAGED = ("debian", "mainline")


@dataclass(frozen=True)
class Column:
    """A kernel: ``label`` is short, ``says`` what exactly it is."""

    label: str
    says: str


@dataclass(frozen=True)
class Collection:
    """``cells`` by scenario and column, those that were asked for; ``scenarios`` with failures come first."""

    title: str
    note: str
    scenarios: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: Mapping[tuple[str, Column], GridCell]

    def row(self, scenario: str) -> list[tuple[Column, GridCell | None]]:
        return [(column, self.cells.get((scenario, column))) for column in self.columns]


def newest(store: Store, tell: Callable[[str], None]) -> Collection:
    """The newest judged run of each scenario on each kernel series, mutants apart. Raises Misuse without any."""
    every = ((name, run) for name in scenarios_of(store) for run in readable(store.runs(name)))
    runs = {(name, _series(run.facts.kernel)): run for name, run in every}
    if not runs:
        raise Misuse(
            f"{store.root} holds no judged run", remedy="run a scenario first, for instance blklab run shared-queue"
        )
    tell(f"judging {plural(len(runs), 'run')}")
    kernels: dict[str, list[KernelFacts]] = {}
    for (_, series), run in runs.items():
        kernels.setdefault(series, []).append(run.facts.kernel)
    ordered = sorted(kernels.items(), key=lambda item: (by_release(item[1][0].release), item[0]))
    columns = {series: _column(series, alike) for series, alike in ordered}
    cells = {(name, columns[series]): _judged_cell(run) for (name, series), run in runs.items()}
    note = "The newest run of each scenario on each kernel."
    names = [*dict.fromkeys(name for name, _ in runs)]
    return _collection(_question(names, columns.values()), note, columns.values(), cells)


def of_matrix(root: Path, record: Grid) -> Collection:
    """The runs of a matrix; a cell whose run folder is gone has that as its reason."""
    named = Counter(_series(kernel) for kernel in record.kernels)
    columns = {}
    for kernel in sorted(record.kernels, key=lambda kernel: by_release(kernel.release)):
        series = _series(kernel)
        columns[kernel] = _column(series if named[series] == 1 else kernel.spec, [kernel])
    cells = {}
    for cell in record.cells:
        shown = cell
        if cell.run:
            try:
                shown = replace(_judged_cell(load_run(root / cell.run)), status=cell.status)
            except Misuse as gone:
                shown = replace(cell, reason=gone.message)
        cells[cell.scenario, columns[cell.kernel]] = shown
    ended = f"ended {_minute(record.ended)}" if record.ended else "not ended"
    note = f"Matrix {record.matrix_id}, started {_minute(record.started)} UTC, {ended}."
    return _collection(_question(record.scenarios, columns.values()), note, columns.values(), cells)


def of_runs(store: Store, scenario: str) -> Collection:
    """The newest runs of one scenario, by kernel version and date. Raises Misuse without any."""
    runs = [*readable(store.runs(scenario))][-_MOST_RUNS:]
    cells = {}
    for run in sorted(runs, key=lambda run: (by_release(run.facts.kernel.release), run.facts.run_id)):
        label = f"{series_of(run.facts.kernel.release)} {run.facts.started[5:10]}"
        cells[scenario, Column(label, f"{run.facts.kernel.release}, run {run.facts.run_id}")] = _judged_cell(run)
    if not cells:
        raise Misuse(f"no run of {scenario} can be read", remedy=f"blklab run {scenario}")
    note = f"{plural(len(cells), 'run')}, sorted by kernel version, then by date."
    return _collection(f"History of {scenario}", note, (column for _, column in cells), cells)


def of_pairs(compared: Sequence[Sequence[RunFolder]], note: str) -> Collection:
    """Two runs of each scenario, the side before first: a column for each kernel, or for each side of one kernel, which
    has the date of its run where there is one."""
    cells = {}
    for both in compared:
        same = len({run.facts.kernel.release for run in both}) == 1
        for run, side in zip(both, ("before", "after"), strict=True):
            kernel, date = run.facts.kernel, _minute(run.facts.started)[5:]
            label = f"{_series(kernel)} {side if len(compared) > 1 else date}" if same else _series(kernel)
            column = _column(label, [kernel])
            cells[run.scenario.name, column] = _judged_cell(run)
    columns = dict.fromkeys(column for _, column in cells)
    labels = [*dict.fromkeys(column.label for column in columns)]
    title = f"What differs between Linux {_listed(labels)}?"
    return _collection(title, f"{note}; changes are relative to the first column.", columns, cells)


def of_rows(rows: Sequence[GridRow], note: str) -> Collection:
    """Scenarios over the same kernels."""
    columns = [Column(short, cell.kernel.spec) for short, cell in zip(rows[0].labels, rows[0].cells, strict=True)]
    cells = {}
    for row in rows:
        for column, cell in zip(columns, row.cells, strict=True):
            shown = cell if cell.result else replace(cell, status=None)
            unasked = replace(shown, reason="not needed: the kernels around agree")
            cells[row.scenario.name, column] = unasked if cell.status is None else shown
    names = ", ".join(row.scenario.name for row in rows)
    return _collection(f"Timeline of {names}", note, columns, cells)


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")


_MOST_NAMED = 4


def _question(scenarios: Sequence[str], columns: Iterable[Column]) -> str:
    """What a page over both answers, such as ``Do the claims of io-cost hold on Linux 6.1 and 7.2?``."""
    names = f"{len(scenarios)} scenarios" if len(scenarios) > _MOST_NAMED else _listed(scenarios)
    kernels = [column.label for column in columns]
    on = f"{len(kernels)} kernels, {kernels[0]} to {kernels[-1]}"
    if len(kernels) <= _MOST_NAMED:
        on = f"Linux {_listed(kernels)}"
    return f"Do the claims of {names} hold on {on}?"


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _collection(
    title: str, note: str, columns: Iterable[Column], cells: Mapping[tuple[str, Column], GridCell]
) -> Collection:
    worst: dict[str, int] = {}
    for (name, _), cell in cells.items():
        worst[name] = min(severity(word_of(cell)), worst.get(name, severity(NOT_DECIDED)))
    return Collection(title, note, tuple(sorted(worst, key=lambda name: worst[name])), tuple(columns), cells)


def scenarios_of(store: Store) -> tuple[str, ...]:
    """Names of the folders below a results root that hold judged runs; not those of variants (``NAME.proof``)."""
    folders = store.root.iterdir() if store.root.is_dir() else ()
    names = sorted(path.name for path in folders if path.is_dir() and "." not in path.name)
    return tuple(name for name in names if store.runs(name))


def _judged_cell(folder: RunFolder) -> GridCell:
    scenario = folder.scenario
    cell = GridCell(scenario.name, scenario.digest, folder.facts.kernel, scenario.clock)
    try:
        return replace(judged(cell, Run(folder, judge_run(folder))), reason="")
    except (Misuse, Altered) as gone:
        return replace(cell, status=Status.ERROR, reason=gone.message)


def word_of(cell: GridCell | None) -> str:
    return NOT_DECIDED if cell is None or cell.status is None else str(cell.status)


def _series(kernel: KernelFacts) -> str:
    """``6.12`` for packages of a distribution; own builds and mutants have their name appended."""
    series = series_of(kernel.release) or kernel.spec
    provider, named, _ = kernel.spec.partition(":")
    own = provider if named and provider not in _PACKAGED else ""
    return " ".join(filter(None, (series, own, kernel.mutant)))


def _column(label: str, kernels: Sequence[KernelFacts]) -> Column:
    says = dict.fromkeys(
        f"{kernel.release or kernel.spec} ({kernel.origin})" if kernel.origin else kernel.spec for kernel in kernels
    )
    return Column(label, "; ".join(says))


NEAR = 0.05
"""Claims with a smaller margin are marked: the next kernel may fail them."""


def shared_reason(collection: Collection) -> str:
    """The reason of all cells where they have one, in words; empty where they have not."""
    reasons = {entry.reason if entry.result is None else "" for entry in collection.cells.values()}
    (reason,) = reasons if len(reasons) == 1 else ("",)
    return f"All {len(collection.cells)} cells: {reason}" if reason and len(collection.cells) > 1 else ""


def heat_rows(collection: Collection) -> Iterator[Values]:
    """``near``: the margin of a claim is below NEAR. ``detail`` is the tooltip."""
    for scenario in collection.scenarios:
        row = collection.row(scenario)
        yield {"scenario": scenario, "cells": [_cell(column, entry) for column, entry in row]}


def _cell(column: Column, entry: GridCell | None) -> Values:
    if entry is None or entry.result is None:
        nothing = {"claims": "", "margin": "", "near": False, "linked": False}
        return {**nothing, "kernel": column.label, "word": word_of(entry), "detail": entry.reason if entry else ""}
    verdict = entry.result.verdict
    counted = [claim for claim in verdict.claims if not claim.optional]
    known = sum(claim.word == XFAIL for claim in counted)
    held = sum(claim.counts_as is Status.PASS for claim in counted) - known
    broken = [claim for claim in counted if claim.counts_as is Status.FAIL]
    least, that = min(_margins(verdict), default=(None, ""))
    if broken:
        says = f"{len(broken)} of {len(counted)} {'fails' if len(broken) == 1 else 'fail'}"
        text = claim_text(broken[0])
        shown = f"{text.figure}, {text.bound}" if broken[0].judgement.ensemble else ""
        detail = f"fails: {broken[0].that}"
    else:
        says = f"{held} of {len(counted)} hold" if counted else ""
        says += f", {known} fails as known" if known == 1 else f", {known} fail as known" if known else ""
        shown = "" if least is None or held + known < len(counted) else f"margin {100 * least:.0f} %"
        detail = f"tightest claim: {that}" if that else ""
    return {
        "kernel": column.label,
        "word": word_of(entry),
        "claims": says,
        "margin": shown,
        "detail": detail,
        "near": least is not None and abs(least) < NEAR,
        "linked": True,
    }


def _margins(verdict: Verdict) -> Iterator[tuple[float, str]]:
    """The margin of every seed of each claim that counts and is not known to fail."""
    for claim in verdict.claims:
        ensemble = claim.judgement.ensemble
        if ensemble is not None and not claim.optional and claim.known is None:
            yield from ((margin(value, claim.entry.expect), claim.that) for value in ensemble.values.values())


def margin(value: float, expect: Bound) -> float:
    """The distance to the limit as a share of it (of half the width of a two-sided bound); negative outside."""
    low, high = expect.low, expect.high
    if low is not None and high is not None and high > low:
        return min(value - low, high - value) / ((high - low) / 2)
    end = low if low is not None else high or 0.0
    distance = value - end if low is not None else end - value
    return distance / (abs(end) or 1.0)


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
        marked=f"Differences of more than {100 * LARGE:g} % are marked: {LARGE_BECAUSE}.",
        collection=collection,
        rows=list(heat_rows(collection)),
        shared=shared_reason(collection),
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
        "marked": [name for name, figures in tables.items() if any(map(_differs, figures))],
        "runs": shown,
        "machines": list(dict.fromkeys(run.folder.facts.qemu for _, run in named if run and run.folder.facts.qemu)),
        "failed": any(severity(run["status"]) < bad for run in shown),
        "controls_failed": any(control["severity"] < bad for control in red),
    }


def _differs(row: Values) -> bool:
    """Whether a figure has a marked change."""
    return any(MARKS[Significance.MARKED] in change for _, _, change in row["cells"])


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

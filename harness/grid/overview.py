# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios x kernels: the run of each cell, of a matrix or the newest one below a results root."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from harness.grid.lines import GridRow
from harness.grid.measure import judged
from harness.judge.claims import XFAIL
from harness.judge.verdict import Verdict
from harness.record.grid import Grid, GridCell
from harness.record.judging import Altered, Run, judge_run
from harness.record.store import KernelFacts, RunFolder, Store, load_run
from harness.report.claims import claim_text
from harness.report.format import plural, severity
from harness.report.html import Values
from harness.scenario.model import Bound, Status
from lab.base.errors import Misuse
from lab.kernels.release import by_release, series_of

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
    runs = {(name, _series(run.facts.kernel)): run for name in scenarios_of(store) for run in runs_of(store, name)}
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
    return _collection(_question(names, columns.values()), note, names, columns.values(), cells)


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
    return _collection(_question(record.scenarios, columns.values()), note, record.scenarios, columns.values(), cells)


def of_runs(store: Store, scenario: str) -> Collection:
    """The newest runs of one scenario, by kernel version and date. Raises Misuse without any."""
    runs = [*runs_of(store, scenario)][-_MOST_RUNS:]
    cells = {}
    for run in sorted(runs, key=lambda run: (by_release(run.facts.kernel.release), run.facts.run_id)):
        label = f"{series_of(run.facts.kernel.release)} {run.facts.started[5:10]}"
        cells[scenario, Column(label, f"{run.facts.kernel.release}, run {run.facts.run_id}")] = _judged_cell(run)
    if not cells:
        raise Misuse(f"no run of {scenario} can be read", remedy=f"blklab run {scenario}")
    note = f"{plural(len(cells), 'run')}, sorted by kernel version, then by date."
    return _collection(f"History of {scenario}", note, (scenario,), (column for _, column in cells), cells)


def of_pairs(compared: Iterable[Sequence[RunFolder]], note: str) -> Collection:
    """Two runs of each scenario, the side before first; runs of one release are told apart by their dates."""
    cells = {}
    for both in compared:
        same = len({run.facts.kernel.release for run in both}) == 1
        for run in both:
            kernel, date = run.facts.kernel, f" {_minute(run.facts.started)[5:]}" if same else ""
            column = Column(f"{_series(kernel)}{date}", f"{kernel.release}, run {run.facts.run_id}")
            cells[run.scenario.name, column] = _judged_cell(run)
    names = dict.fromkeys(name for name, _ in cells)
    columns = dict.fromkeys(column for _, column in cells)
    labels = [*dict.fromkeys(column.label for column in columns)]
    title = f"What differs between Linux {_listed(labels)}?"
    return _collection(title, f"{note}; changes are relative to the first column.", names, columns, cells)


def of_rows(rows: Sequence[GridRow], note: str) -> Collection:
    """Scenarios over the same kernels."""
    columns = [Column(short, cell.kernel.spec) for short, cell in zip(rows[0].labels, rows[0].cells, strict=True)]
    cells = {}
    for row in rows:
        for column, cell in zip(columns, row.cells, strict=True):
            shown = cell if cell.result else replace(cell, status=None)
            unasked = replace(shown, reason="not needed: the kernels around agree")
            cells[row.scenario.name, column] = unasked if cell.status is None else shown
    names = [row.scenario.name for row in rows]
    return _collection(f"Timeline of {', '.join(names)}", note, names, columns, cells)


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
    title: str,
    note: str,
    scenarios: Iterable[str],
    columns: Iterable[Column],
    cells: Mapping[tuple[str, Column], GridCell],
) -> Collection:
    worst: dict[str, int] = {}
    for (name, _), cell in cells.items():
        worst[name] = min(severity(word_of(cell)), worst.get(name, severity(NOT_DECIDED)))
    ordered = sorted(scenarios, key=lambda name: worst.get(name, severity(NOT_DECIDED)))
    return Collection(title, note, tuple(ordered), tuple(columns), cells)


def scenarios_of(store: Store) -> tuple[str, ...]:
    """Names of the folders below a results root that hold judged runs; not those of variants (``NAME.proof``)."""
    folders = store.root.iterdir() if store.root.is_dir() else ()
    names = sorted(path.name for path in folders if path.is_dir() and "." not in path.name)
    return tuple(name for name in names if store.runs(name))


def runs_of(store: Store, scenario: str) -> Iterable[RunFolder]:
    """Judged runs, oldest first, without damaged ones and those of another schema."""
    for path in store.runs(scenario):
        with suppress(Misuse):
            yield load_run(path)


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

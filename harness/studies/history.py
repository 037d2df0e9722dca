# SPDX-License-Identifier: GPL-2.0-only
"""A figure of a scenario over its runs, by date and by kernel version, and between which runs it changes."""

import itertools
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from harness.judge.cells import Ensemble
from harness.judge.comparison import Difference, kind_of
from harness.judge.thresholds import LARGE
from harness.record.index import Index, IndexedRun
from harness.record.store import load_run
from harness.report.format import figure, plural, spread
from lab.kernels.release import by_release

MeasuredRun = tuple[IndexedRun, Ensemble]


@dataclass(frozen=True)
class FigureSeries:
    """One figure. ``over`` says over what: ``days on 6.1`` or ``versions``. ``exact``: of the virtual clock."""

    over: str
    arm: str
    figure: str
    runs: tuple[MeasuredRun, ...]
    exact: bool = False

    def changes(self) -> Iterator[tuple[MeasuredRun, MeasuredRun]]:
        """Neighbours that differ by the rule of ``compare``."""
        for before, after in itertools.pairwise(self.runs):
            if before[1].median and kind_of(before[1], after[1], exact=self.exact) is Difference.MARKED:
                yield before, after


def history(index: Index, scenario: str, metric: str) -> tuple[tuple[FigureSeries, ...], int]:
    """Every series of at least two runs with the newest digest of the scenario, without mutants.

    The number is that of runs that were made before the scenario's file or topology was changed.
    """
    runs = [run for run in index.runs(scenario) if not run.mutant]
    alike = [run for run in runs if run.scenario_digest == runs[-1].scenario_digest]
    groups = {
        f"days on {name}": [run for run in alike if run.series == name]
        for name in sorted({run.series for run in alike}, key=by_release)
    }
    newest_of_release = {run.release: run for run in alike}.values()
    groups["versions"] = sorted(newest_of_release, key=lambda run: by_release(run.release))
    exact = bool(runs) and load_run(index.root / runs[-1].path).scenario.timing.exact
    series = [each for over, group in groups.items() for each in _series(index, over, group, metric, exact=exact)]
    return tuple(series), len(runs) - len(alike)


def _series(index: Index, over: str, runs: Sequence[IndexedRun], metric: str, *, exact: bool) -> Iterator[FigureSeries]:
    figures = {run.path: index.figures(run.path, metric) for run in runs}
    for key in dict.fromkeys(key for values in figures.values() for key in values):
        measured = tuple((run, Ensemble(figures[run.path][key])) for run in runs if key in figures[run.path])
        if len(measured) > 1:
            yield FigureSeries(over, *key, measured, exact)


_BARS = " ▁▂▃▄▅▆▇█"


def print_history(
    console: Console, scenario: str, series: Sequence[FigureSeries], left_out: int, arms: AbstractSet[str]
) -> None:
    """Each series of the chosen arms (all when none), those that change first."""
    shown = [each for each in series if not arms or each.arm in arms]
    for over, group in itertools.groupby(shown, lambda each: each.over):
        console.print(Text(f"\n{scenario} over {over}", "bold underline"))
        for each in sorted(group, key=lambda each: not any(each.changes())):
            _print_series(console, each)
    if not shown:
        console.print(f"{scenario}: fewer than two comparable runs")
    if left_out:
        were = f"{plural(left_out, 'run')} of earlier versions of the scenario are left out"
        console.print(Text(f"\n{were}", "dim"))
    console.print(Text(f"\nchanges from {LARGE.share:.0%} on: {LARGE.because}", "dim"))


def _print_series(console: Console, series: FigureSeries) -> None:
    medians = [ensemble.median for _, ensemble in series.runs]
    top = max(medians) or 1.0
    drawn = "".join(_BARS[max(0, round(value / top * (len(_BARS) - 1)))] for value in medians)
    line = Text(f"  {series.arm} {series.figure}  ").append(drawn, "cyan")
    line.append(f"  {spread(series.runs[-1][1])} in the last of {plural(len(medians), 'run')}")
    console.print(line, soft_wrap=True)
    for (run, before), (later, after) in series.changes():
        line = Text("    ").append(f"{after.median / before.median - 1:+.1%}", "bold")
        line.append(f"  {figure(before.median)} -> {figure(after.median)}  between {_label(run)} and {_label(later)}")
        console.print(line.append(f"  (blklab compare {run.path} {later.path})", "dim"), soft_wrap=True)


def _label(run: IndexedRun) -> str:
    return f"{run.started[:16].replace('T', ' ')}  {run.release}"

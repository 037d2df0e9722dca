# SPDX-License-Identifier: GPL-2.0-only
"""A figure of a scenario over its runs, by date and by kernel version, and between which runs it changes."""

import itertools
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from harness.grid.lines import GridLine, KernelSide, changes, figure_lines
from harness.judge.difference import Difference
from harness.record.index import Index, IndexedRun
from harness.record.store import load_run
from harness.report.format import figure, plural, spread
from lab.kernels.release import by_release


@dataclass(frozen=True)
class FigureSeries:
    """One figure; a place of ``line`` is one of ``runs``. ``over`` says over what: ``days on 6.1`` or ``versions``."""

    over: str
    line: GridLine
    runs: tuple[IndexedRun, ...]

    def changes(self) -> Iterator[tuple[IndexedRun, IndexedRun, Difference]]:
        """Neighbours that differ by the rule of ``compare``."""
        for change in changes([self.line], sorted(self.line.values)):
            yield self.runs[change.before], self.runs[change.after], change.difference


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
    sides = {place: KernelSide(run.kernel_facts, index.cells(run.path)) for place, run in enumerate(runs)}
    for line in figure_lines(sides, (metric,), exact=exact):
        if len(line.values) > 1:
            yield FigureSeries(over, line, tuple(runs))


_BARS = " ▁▂▃▄▅▆▇█"


def print_history(
    console: Console, scenario: str, series: Sequence[FigureSeries], left_out: int, arms: AbstractSet[str]
) -> None:
    """Each series of the chosen arms (all when none), those that change first."""
    shown = [each for each in series if not arms or each.line.arm in arms]
    for over, group in itertools.groupby(shown, lambda each: each.over):
        console.print(Text(f"\n{scenario} over {over}", "bold underline"))
        for each in sorted(group, key=lambda each: not any(each.changes())):
            _print_series(console, each)
    if not shown:
        console.print(f"{scenario}: fewer than two comparable runs")
    if left_out:
        were = f"{plural(left_out, 'run')} of earlier versions of the scenario are left out"
        console.print(Text(f"\n{were}", "dim"))
    console.print(Text("\nchanges are what blklab compare marks", "dim"))


def _print_series(console: Console, series: FigureSeries) -> None:
    ensembles = [series.line.values[place] for place in sorted(series.line.values)]
    medians = [ensemble.median for ensemble in ensembles]
    top = max(medians) or 1.0
    drawn = "".join(_BARS[max(0, round(value / top * (len(_BARS) - 1)))] for value in medians)
    line = Text(f"  {series.line.title}  ").append(drawn, "cyan")
    line.append(f"  {spread(ensembles[-1])} in the last of {plural(len(medians), 'run')}")
    console.print(line, soft_wrap=True)
    for run, later, change in series.changes():
        ends = " -> ".join(figure(side.median) for side in (change.before, change.after) if side)
        line = Text("    ").append("-" if change.share is None else f"{change.share:+.1%}", "bold")
        line.append(f"  {ends}  between {_label(run)} and {_label(later)}")
        console.print(line.append(f"  (blklab compare {run.path} {later.path})", "dim"), soft_wrap=True)


def _label(run: IndexedRun) -> str:
    return f"{run.started[:16].replace('T', ' ')}  {run.release}"

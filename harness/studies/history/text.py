# SPDX-License-Identifier: GPL-2.0-only
"""A scenario's history on the terminal: a line a run where something changed, one line where nothing did."""

from collections.abc import Set as AbstractSet

from rich.console import Console
from rich.text import Text

from harness.judge.comparison import LARGE
from harness.report.format import figure, plural, spread
from harness.studies.history.changes import ChangePoint, change_points
from harness.studies.history.collect import FigureSeries, History

_BARS = " ▁▂▃▄▅▆▇█"


def print_history(console: Console, history: History, arms: AbstractSet[str] = frozenset()) -> None:
    """Each series of the chosen arms (all when none). Raises LabBroken when the library is not installed."""
    shown = [series for series in history.series if not arms or series.arm in arms]
    over = ""
    for series in shown:
        if series.over != over:
            over = series.over
            console.print(Text(f"\n{history.scenario} over {over}", "bold underline"), highlight=False)
        _print_series(console, series)
    if not shown:
        console.print(f"{history.scenario}: no two runs that could be compared", highlight=False)
    if history.left_out:
        were = f"{plural(history.left_out, 'run')} of the scenario as it was before are left out"
        console.print(Text(f"\n{were}", "dim"), highlight=False)
    console.print(Text(f"\nchanges from {LARGE.share:.0%} on: {LARGE.because}", "dim"), highlight=False)


def _print_series(console: Console, series: FigureSeries) -> None:
    changes = change_points(series.points)
    line = Text(f"  {series.arm} {series.figure}  ").append(_sparkline(series), "cyan")
    last = series.points[-1].ensemble
    line.append(f"  {spread(last)} in the last of {plural(len(series.points), 'run')}")
    console.print(line, soft_wrap=True, highlight=False)
    for change in changes:
        console.print(_change(series, change), soft_wrap=True, highlight=False)


def _change(series: FigureSeries, change: ChangePoint) -> Text:
    before, after = series.points[change.at - 1], series.points[change.at]
    line = Text("    ").append(f"{change.share:+.1%}", "bold")
    line.append(f"  {figure(change.before)} -> {figure(change.after)}")
    line.append(f"  between {before.label} and {after.label}")
    return line.append(f"  (blklab compare {series.runs[change.at - 1]} {series.runs[change.at]})", "dim")


def _sparkline(series: FigureSeries) -> str:
    medians = [point.ensemble.median for point in series.points]
    top = max(medians) or 1.0
    return "".join(_BARS[max(0, min(len(_BARS) - 1, round(value / top * (len(_BARS) - 1))))] for value in medians)

# SPDX-License-Identifier: GPL-2.0-only
"""One figure over many runs, and where it changed. Pure.

Change points are ruptures' PELT with a Gaussian cost over logarithms, so that a change is a share
(Killick, Fearnhead, Eckley, "Optimal detection of changepoints with a linear computational cost",
2012). The penalty is that of the Bayesian information criterion for the noise of the ensembles. A
change point is reported only where the runs on both sides differ by the rule of ``compare``.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from harness.judge.comparison import Difference, kind_of
from harness.judge.ensemble import Ensemble
from harness.judge.thresholds import LARGE
from harness.record.index import Index, IndexedRun
from harness.report.format import figure, plural, spread
from lab.base.errors import LabBroken
from lab.kernels.release import by_release

LEAST_NOISE = 0.005
"""Least scatter of figures, as a share: one more space on the command line moves them by this much."""
_PARAMETERS = 2
"""Parameters that a change point adds to the model: its place and the level after it."""


@dataclass(frozen=True)
class HistoryPoint:
    """A figure of one run. ``label`` has the run's date and release."""

    label: str
    ensemble: Ensemble


@dataclass(frozen=True)
class ChangePoint:
    """Between ``points[at - 1]`` and ``points[at]`` the level went from ``before`` to ``after`` (medians)."""

    at: int
    before: float
    after: float

    @property
    def share(self) -> float:
        return self.after / self.before - 1


def change_points(points: Sequence[HistoryPoint]) -> tuple[ChangePoint, ...]:
    """Where the level changes, oldest first; nothing for fewer than two points or figures that are not positive.

    Raises LabBroken when ruptures is not installed.
    """
    medians = [point.ensemble.median for point in points]
    if len(points) < 2 or min(medians) <= 0:  # noqa: PLR2004
        return ()
    return tuple(_real(points, _breaks([math.log(value) for value in medians], _noise(points))))


def _noise(points: Sequence[HistoryPoint]) -> float:
    """Standard deviation of a logarithm, as the seeds scatter."""
    shares = [
        statistics.stdev(math.log(value) for value in point.ensemble.values.values())
        for point in points
        if len(point.ensemble.values) > 1 and point.ensemble.low > 0
    ]
    return max(LEAST_NOISE, statistics.median(shares) if shares else 0.0)


def _breaks(signal: Sequence[float], noise: float) -> list[int]:
    """Starts of the segments but the first."""
    try:
        import numpy  # noqa: PLC0415
        import ruptures  # noqa: PLC0415
    except ImportError as error:
        raise LabBroken(
            "ruptures, which finds change points, is not installed",
            remedy="pip install --require-hashes -r requirements/history.txt in the virtual environment",
        ) from error
    detector: Any = ruptures.Pelt(model="l2", min_size=1, jump=1)
    penalty = _PARAMETERS * noise**2 * math.log(len(signal))
    found: list[int] = detector.fit(numpy.array(signal)).predict(pen=penalty)
    return [int(at) for at in found[:-1]]


def _real(points: Sequence[HistoryPoint], starts: Sequence[int]) -> Iterator[ChangePoint]:
    edges = [0, *starts, len(points)]
    for begin, at, end in zip(edges, edges[1:], edges[2:], strict=False):
        if kind_of(points[at - 1].ensemble, points[at].ensemble) is Difference.MARKED:
            yield ChangePoint(at, _level(points[begin:at]), _level(points[at:end]))


def _level(points: Sequence[HistoryPoint]) -> float:
    return statistics.median(point.ensemble.median for point in points)


@dataclass(frozen=True)
class FigureSeries:
    """One figure over runs. ``over`` says over what: ``days on 6.1`` or ``versions``. ``runs`` belong to ``points``."""

    over: str
    arm: str
    figure: str
    points: tuple[HistoryPoint, ...]
    runs: tuple[str, ...]


@dataclass(frozen=True)
class History:
    """``left_out`` counts runs made before the scenario's file or topology was changed."""

    scenario: str
    series: tuple[FigureSeries, ...]
    left_out: int


def history(index: Index, scenario: str, metric: str) -> History:
    """Every series of at least two runs with the newest digest of the scenario, without mutants."""
    runs = [run for run in index.runs(scenario) if not run.mutant]
    newest = runs[-1].scenario_digest if runs else ""
    alike = [run for run in runs if run.scenario_digest == newest]
    found: list[FigureSeries] = []
    for name in sorted({run.series for run in alike}, key=by_release):
        found += _series(index, f"days on {name}", [run for run in alike if run.series == name], metric)
    # The newest run of each release.
    newest_runs = {run.release: run for run in alike}.values()
    found += _series(index, "versions", sorted(newest_runs, key=lambda run: by_release(run.release)), metric)
    return History(scenario, tuple(found), len(runs) - len(alike))


def _series(index: Index, over: str, runs: Sequence[IndexedRun], metric: str) -> Iterator[FigureSeries]:
    if len(runs) < 2:  # noqa: PLR2004
        return
    figures = {run.path: index.figures(run.path, metric) for run in runs}
    for key in dict.fromkeys(key for one in figures.values() for key in one):
        had = [run for run in runs if key in figures[run.path]]
        points = tuple(
            HistoryPoint(f"{run.started[:16].replace('T', ' ')}  {run.release}", Ensemble(figures[run.path][key]))
            for run in had
        )
        if len(points) > 1:
            yield FigureSeries(over, *key, points, tuple(run.path for run in had))


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
        console.print(f"{history.scenario}: fewer than two comparable runs", highlight=False)
    if history.left_out:
        were = f"{plural(history.left_out, 'run')} of earlier versions of the scenario are left out"
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

# SPDX-License-Identifier: GPL-2.0-only
"""The runs of a scenario as series of points: over the days of one kernel series, and over kernel versions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.judge.ensemble import Ensemble
from harness.record.index import Index, IndexedRun
from harness.studies.history.changes import HistoryPoint
from lab.kernels.release import Release


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
    """``left_out`` are runs of the scenario as it was before its file or topology was changed."""

    scenario: str
    series: tuple[FigureSeries, ...]
    left_out: int


def history(index: Index, scenario: str, metric: str) -> History:
    """Every series of at least two runs of the scenario as it was run last, mutants left out."""
    runs = [run for run in index.runs(scenario) if not run.mutant]
    newest = runs[-1].scenario_digest if runs else ""
    alike = [run for run in runs if run.scenario_digest == newest]
    found: list[FigureSeries] = []
    for name in sorted({run.series for run in alike}, key=_order):
        found += _series(index, f"days on {name}", [run for run in alike if run.series == name], metric)
    found += _series(index, "versions", _by_version(alike), metric)
    return History(scenario, tuple(found), len(runs) - len(alike))


def _by_version(runs: Sequence[IndexedRun]) -> list[IndexedRun]:
    """The newest run of each release, in the order of versions."""
    newest = {run.release: run for run in runs}
    return sorted(newest.values(), key=lambda run: _order(run.release))


def _series(index: Index, over: str, runs: Sequence[IndexedRun], metric: str) -> Iterator[FigureSeries]:
    if len(runs) < 2:  # noqa: PLR2004
        return
    figures = {run.path: index.figures(run.path, metric) for run in runs}
    for key in dict.fromkeys(key for one in figures.values() for key in one):
        had = [run for run in runs if key in figures[run.path]]
        points = tuple(HistoryPoint(_label(run), Ensemble(figures[run.path][key])) for run in had)
        if len(points) > 1:
            yield FigureSeries(over, *key, points, tuple(run.path for run in had))


def _label(run: IndexedRun) -> str:
    return f"{run.started[:16].replace('T', ' ')}  {run.release}"


def _order(release: str) -> tuple[bool, Release | None, str]:
    """Versions that cannot be read come last, by their names."""
    try:
        return False, Release.parse(release), ""
    except ValueError:
        return True, None, release

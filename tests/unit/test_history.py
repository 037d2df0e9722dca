# SPDX-License-Identifier: GPL-2.0-only
"""Change points over runs: those that are there, and none where nothing changed."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli import main
from harness.judge.ensemble import Ensemble
from harness.record.index import open_index
from harness.studies.history import HistoryPoint, change_points, history
from lab.base.errors import EXIT_LAB_BROKEN, EXIT_MISUSE, EXIT_PASS
from tests.unit.record_samples import FIGURE, MODEL, run_of


def points(*levels: float, spread: float = 0.01, seeds: int = 3) -> list[HistoryPoint]:
    """A point for each level, whose seeds scatter by ``spread``."""
    scatter = random.Random(1)  # noqa: S311
    return [
        HistoryPoint(
            str(day), Ensemble({seed: level * (1 + scatter.uniform(-spread, spread)) for seed in range(1, seeds + 1)})
        )
        for day, level in enumerate(levels)
    ]


def found(*levels: float, spread: float = 0.01) -> list[int]:
    return [change.at for change in change_points(points(*levels, spread=spread))]


def test_a_step_is_found_where_it_is() -> None:
    assert found(*[100] * 5, *[80] * 5) == [5]
    assert found(100, 100, 100, 80) == [3], "in the newest run too"
    assert found(100, 80) == [1]
    assert found(*[100] * 4, *[80] * 4, *[100] * 4) == [4, 8]


def test_no_step_no_change() -> None:
    assert found(*[100] * 20) == []
    assert found(*[100] * 20, spread=0.2) == []
    assert found(*[100] * 10, *[97] * 10) == [], "real, and smaller than what is told"
    assert found(100) == []


def test_a_drift_within_the_scatter_is_not_reported() -> None:
    assert found(*(100 - day * 0.3 for day in range(20)), spread=0.05) == []


def test_a_change_says_by_how_much() -> None:
    (change,) = change_points(points(*[100] * 4, *[50] * 4, spread=0.0001))
    assert change.share == pytest.approx(-0.5, abs=0.01)


def test_figures_that_are_nought_have_no_shares() -> None:
    assert change_points([HistoryPoint("a", Ensemble({1: 0.0})), HistoryPoint("b", Ensemble({1: 5.0}))]) == ()


def test_series_over_days_and_over_versions(tmp_path: Path) -> None:
    for day, level in enumerate([95, 95, 60], start=1):
        run_of(tmp_path, [level, level + 1], day=day)
    run_of(tmp_path, [30, 31], release="5.10.0-46-amd64", day=9)
    run_of(tmp_path, [1, 2], day=10, model=replace(MODEL, pause=1))
    run_of(tmp_path, [20, 21], release="6.12.1-amd64", day=11)
    index = open_index(tmp_path)
    made = history(index, "sample", "iops")
    index.close()
    series = {one.over: one for one in made.series if (one.arm, one.figure) == FIGURE}
    assert list(series) == ["days on 6.1", "versions"]
    assert [point.ensemble.low for point in series["days on 6.1"].points] == [95, 95, 60]
    assert [point.ensemble.low for point in series["versions"].points] == [30, 60, 20]
    assert made.left_out == 1


def test_the_command_reports_change_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day, level in enumerate([95, 95, 60, 60], start=1):
        run_of(tmp_path, [level, level + 0.5], day=day)
    assert main(["compare", "--history", "sample", "--results", str(tmp_path)]) == EXIT_PASS
    out = capsys.readouterr().out
    assert "-36.7%  95.25 -> 60.25  between 2026-01-02 02:00  6.1.0-18-amd64 and 2026-01-03 02:00" in out
    assert out.count("blklab compare sample/") == 1
    assert main(["compare", "--history", "sampel", "--results", str(tmp_path)]) == EXIT_MISUSE
    assert "did you mean sample?" in capsys.readouterr().err


def test_without_the_library_it_says_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ruptures", None)
    for day in (1, 2):
        run_of(tmp_path, [95.0], day=day)
    assert main(["compare", "--history", "sample", "--results", str(tmp_path)]) == EXIT_LAB_BROKEN
    assert "requirements/history.txt" in capsys.readouterr().err

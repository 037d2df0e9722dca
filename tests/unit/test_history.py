# SPDX-License-Identifier: GPL-2.0-only
"""A figure over runs: its series, and the neighbours that differ."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from harness.cli import main
from harness.grid.lines import GridLine, KernelSide
from harness.grid.timeline import FigureSeries, history
from harness.judge.cells import Ensemble
from harness.record.index import IndexedRun, indexed_runs
from lab.base.errors import EXIT_MISUSE, EXIT_PASS
from tests.unit.record_samples import MODEL, run_of

FAST = "none together.fast.iops"


def found(*levels: float, spread: float = 0.0) -> list[tuple[float, float]]:
    """The medians around each change; a run has a seed at, above and below its level."""
    run = IndexedRun(*("" for _ in fields(IndexedRun)))  # type: ignore[arg-type]
    values = {
        place: Ensemble({1: level * (1 - spread), 2: level, 3: level * (1 + spread)})
        for place, level in enumerate(levels)
    }
    line = GridLine("together.fast.iops", values, dict.fromkeys(values, KernelSide(run.kernel_facts, ())), exact=False)
    changes = [change for _, _, change in FigureSeries("versions", line, (run,) * len(levels)).changes()]
    return [(change.before.median, change.after.median) for change in changes if change.before and change.after]


@pytest.mark.parametrize(
    ("levels", "spread", "changes"),
    [
        ([100, 100, 80, 80, 100], 0.0, [(100, 80), (80, 100)]),
        ([100, 80], 0.01, [(100, 80)]),
        ([100, 80], 0.2, []),
        ([100, 97], 0.0, []),
        ([0, 5], 0.0, [(0, 5)]),
        ([100], 0.0, []),
    ],
)
def test_neighbours_differ_by_the_rule_of_compare(
    levels: list[float], spread: float, changes: list[tuple[float, float]]
) -> None:
    assert found(*levels, spread=spread) == changes


def test_series_over_days_and_over_versions(tmp_path: Path) -> None:
    for day, level in enumerate([95, 95, 60], start=1):
        run_of(tmp_path, [level, level + 1], day=day)
    run_of(tmp_path, [30, 31], release="5.10.0-46-amd64", day=9)
    run_of(tmp_path, [1, 2], day=10, model=replace(MODEL, pause=1))
    run_of(tmp_path, [20, 21], release="6.12.1-amd64", day=11)
    every, left_out = history(tmp_path, indexed_runs(tmp_path), "iops")
    series = {one.over: one for one in every if one.line.title == FAST}
    assert list(series) == ["days on 6.1", "versions"]
    assert [value.low for value in series["days on 6.1"].line.values.values()] == [95, 95, 60]
    assert [value.low for value in series["versions"].line.values.values()] == [30, 60, 20]
    assert left_out == 1


def test_one_seed_of_the_virtual_clock_decides(tmp_path: Path) -> None:
    """160 and 7,614 IOPS of one seed each, as of null-shared-tags on 5.10 and 6.1."""
    for day, level in enumerate([2, 95], start=1):
        run_of(tmp_path, [level], day=day)
    every, _ = history(tmp_path, indexed_runs(tmp_path), "iops")
    assert [one.line.title for one in every if any(one.changes())] == [FAST]


def test_the_command_reports_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day, level in enumerate([95, 95, 60, 60], start=1):
        run_of(tmp_path, [level, level + 0.5], day=day)
    assert main(["compare", "--history", "sample", "--results", str(tmp_path)]) == EXIT_PASS
    out = capsys.readouterr().out
    assert "-36.7%  95.25 -> 60.25  between 2026-01-02 02:00  6.1.0-18-amd64 and 2026-01-03 02:00" in out
    assert out.count("blklab compare sample/") == 1
    lines = [line for line in out.splitlines() if line.startswith("  none") or line.startswith("  red")]
    assert lines[0].startswith("  none together.fast.iops"), "what changes comes first"
    assert main(["compare", "--history", "sampel", "--results", str(tmp_path)]) == EXIT_MISUSE
    assert "did you mean sample?" in capsys.readouterr().err

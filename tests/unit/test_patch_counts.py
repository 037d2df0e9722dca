# SPDX-License-Identifier: GPL-2.0-only
"""What the mail about a series and the lines for its commit say of figures."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.grid.lines import Kind, Move, Trend
from harness.judge.cells import CellResult
from harness.patch.report import commit_lines, reply, summary, verdict_line
from harness.patch.series import read_series
from harness.patch.study import outcomes
from harness.record import judging
from harness.record.judging import results_of
from harness.record.store import RunFolder
from tests.unit.record_samples import run_of
from tests.unit.series_samples import patched, series_of, small_tree
from tests.unit.test_patch import compared


def test_a_reply_names_the_counts_of_several_cpus_that_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = small_tree(tmp_path)
    (one,) = read_series(series_of(tmp_path, patched(tree, "block/tags.c", "depth = 0", "depth = 1")))
    base, series = run_of(tmp_path, [95.0, 96.0]), run_of(tmp_path, [95.0, 96.0], day=2, release="6.1.0-19-amd64")
    counted = {base.path: {"lines.seen": 1.88, "locks": 2.21}, series.path: {"lines.seen": 0.01, "locks": 2.21}}

    def with_counts(run: RunFolder) -> list[CellResult]:
        counts = {("together", "guest", metric): count for metric, count in counted[run.path].items()}
        return [replace(cell, figures={**cell.figures, **counts}) for cell in results_of(run)]

    monkeypatch.setattr(judging, "results_of", with_counts)
    text = reply([one], compared(outcomes(base, series)), None, "blklab patch series.mbox")
    (line,) = [line.split() for line in text.splitlines() if "lines.seen" in line and "none." in line]
    assert line[:4] == ["1.880", "-99.5%", "*", "0.01000"]
    assert "locks" not in text


def test_what_one_cpu_does_not_show_is_no_sameness(tmp_path: Path) -> None:
    (one,) = read_series(series_of(tmp_path, patched(small_tree(tmp_path), "block/tags.c", "depth = 0", "depth = 1")))
    base = run_of(tmp_path, [95.0])
    same = compared(outcomes(base, run_of(tmp_path, [95.0], day=2, release="6.1.0-19-amd64")))
    said = replace(same, unseen="the series changes locks (block/tags.c)")
    assert verdict_line(said).startswith("NO DIFFERENCE VISIBLE WITH ONE CPU  ")
    assert "  not visible with one CPU: the series changes locks (block/tags.c)" in [*summary(said)]
    text = reply([one], said, None, "blklab patch series.mbox")
    assert "\nFigures: no difference visible with one CPU.\n" in text and "No figure of both differs" not in text
    assert "\nnot visible with one CPU: the series changes locks (block/tags.c)\n" in text
    slower = compared(outcomes(base, run_of(tmp_path, [80.0], day=3, release="6.1.0-20-amd64")))
    assert verdict_line(replace(slower, unseen=said.unseen)).startswith("WORSE")


def test_the_lines_for_a_commit_show_what_the_verdict_rests_on(tmp_path: Path) -> None:
    """For a raid1 that reads one disk only they showed a figure that rose by 1.5 %, under the word WORSE."""
    outcome = outcomes(run_of(tmp_path, [95.0]), run_of(tmp_path, [80.0], day=2))
    better = Move(outcome.scenario, Kind.CLAIM, "written", "FAIL 0.8", "PASS 0.9", Trend.BETTER, 0.125)
    worse = Move(outcome.scenario, Kind.CLAIM, "random reads use both disks", "PASS 0.5", "FAIL 1.0", Trend.WORSE, 1.0)
    lines = commit_lines(compared(replace(outcome, moves=(better, worse))), "blklab patch").splitlines()
    assert lines[1:5] == [
        f"Figure:  {outcome.scenario}: random reads use both disks",
        "Before:  PASS 0.5",
        "After:   FAIL 1.0",
        "Change:  +100.0%",
    ]
    moved = commit_lines(compared(replace(outcome, moves=())), "blklab patch").splitlines()
    assert moved[1].endswith(".iops") and moved[2:5] == ["Before:  95.00", "After:   80.00", "Change:  -15.8%"]
    searched = replace(compared(replace(outcome, moves=())), hunted=(replace(worse, scenario="hunt late"),))
    assert commit_lines(searched, "blklab patch").splitlines()[1] == "Figure:  hunt late: random reads use both disks"

# SPDX-License-Identifier: GPL-2.0-only
"""What goes when results outgrow a limit, and what never does."""

from pathlib import Path

import pytest

from harness.cli import main
from harness.record.index import plan_pruning, prune
from harness.record.store import RunFolder
from lab.base.errors import EXIT_MISUSE, EXIT_PASS
from tests.unit.record_samples import matrix_of, run_of

NEW = "7.2.12+deb14-amd64"


def planned(root: Path, keep: int | None = 0, matrices: int | None = None) -> list[str]:
    return [one.path for one in plan_pruning(root, keep, matrices).removals]


def names(root: Path, *runs: RunFolder) -> list[str]:
    return [str(run.path.relative_to(root)) for run in runs]


def test_the_oldest_go_first_and_no_more_than_need_be(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, [95.0], day=day) for day in range(1, 6)]
    assert planned(tmp_path) == names(tmp_path, *runs[:4]), "the newest stays"
    whole = plan_pruning(tmp_path, 0, None)
    one = whole.total // 5
    assert planned(tmp_path, keep=whole.total) == []
    assert planned(tmp_path, keep=whole.total - one) == names(tmp_path, runs[0])


def test_the_newest_of_each_kernel_stays(tmp_path: Path) -> None:
    old, _, _ = run_of(tmp_path, [95.0]), run_of(tmp_path, [95.0], release=NEW, day=2), run_of(tmp_path, [95.0], day=3)
    assert planned(tmp_path) == names(tmp_path, old)


def test_what_a_matrix_refers_to_stays_until_the_matrix_goes(tmp_path: Path) -> None:
    first, second, _ = (run_of(tmp_path, [95.0], day=day) for day in (1, 2, 3))
    matrix = matrix_of(tmp_path, first)
    assert planned(tmp_path) == names(tmp_path, second)
    assert planned(tmp_path, matrices=1) == names(tmp_path, second)
    assert planned(tmp_path, matrices=0) == [f"matrix/{matrix.path.name}", *names(tmp_path, first, second)]


def test_a_baseline_stays_with_its_run(tmp_path: Path) -> None:
    base, other = run_of(tmp_path, [95.0]), run_of(tmp_path, [95.0], day=2)
    run_of(tmp_path, [95.0], day=3, baseline=base.facts.run_id)
    assert planned(tmp_path) == names(tmp_path, other)


def test_a_run_that_was_stopped_goes_and_one_that_goes_on_stays(tmp_path: Path) -> None:
    stopped = run_of(tmp_path, [95.0], finish=False)
    goes_on = run_of(tmp_path, [95.0], day=2, finish=False)
    with goes_on.held():
        assert planned(tmp_path) == names(tmp_path, stopped)


def test_what_somebody_took_up_meanwhile_is_kept(tmp_path: Path) -> None:
    first, second, _ = (run_of(tmp_path, [95.0], day=day) for day in (1, 2, 3))
    planned = plan_pruning(tmp_path, 0, None).removals
    with first.held():
        removed = prune(tmp_path, planned)
    assert [one.path for one in removed] == names(tmp_path, second)
    assert first.path.is_dir()
    assert not second.path.exists()
    assert not list(tmp_path.glob(".gone*"))


def test_the_command_lists_first_and_removes_with_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [run_of(tmp_path, [95.0], day=day) for day in (1, 2)]
    words = ["store", "index", "--results", str(tmp_path), "--keep", "1k"]
    assert main(words) == EXIT_PASS
    shown = capsys.readouterr()
    assert f"to delete  {names(tmp_path, runs[0])[0]}" in shown.out
    assert "nothing was deleted; add --yes to delete these runs" in shown.err
    assert "remain, more than 1k: the latest run of its scenario" in shown.err
    assert runs[0].path.is_dir()
    assert main([*words, "--yes"]) == EXIT_PASS
    assert "deleted  " in capsys.readouterr().out
    assert not runs[0].path.exists()
    assert main(["store", "index", "--results", str(tmp_path)]) == EXIT_PASS
    assert capsys.readouterr().out.startswith("1 run of 1 scenario")


@pytest.mark.parametrize("words", [["--yes"], ["--keep", "many"], ["--matrices", "-1"]])
def test_misuse(tmp_path: Path, words: list[str]) -> None:
    assert main(["store", "index", "--results", str(tmp_path), *words]) == EXIT_MISUSE

# SPDX-License-Identifier: GPL-2.0-only
"""``blklab patch`` runs the kept searches of functions that a series touches; boots and builds are made up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.hunt.finds import Attempt, KeptFind, finds_in, write_find
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS, CannotJudge
from lab.kernels.model import Kernel
from tests.unit.series_samples import SAME, Measuring, patched, series_of, small_tree
from tests.unit.tree_samples import git

FOUND, NOTHING = Attempt(35, "hang: task a"), Attempt(164)
KEPT = KeptFind(
    *("hunt/planted-sleep", "null-blk", "source:6.12", "hang: x", ("blk_timeout",), (), "few", 1, 35, 164),
)


@pytest.mark.parametrize(
    "case",
    [
        (FOUND, NOTHING, EXIT_FAIL, "WORSE  late", "late: worse: 164 seeds of few: nothing found -> hang: task a"),
        (Attempt(164, "", ("oops: b",)), NOTHING, EXIT_FAIL, "WORSE  late", "nothing found -> oops: b"),
        (FOUND, FOUND, EXIT_PASS, "SAME  ", ""),
        (NOTHING, None, EXIT_PASS, "SAME  ", ""),
        (None, None, EXIT_CANNOT_JUDGE, "CANNOT JUDGE  late", "nothing found -> it has no function"),
    ],
    ids=["series", "another fault", "both", "neither", "not searched"],
)
def test_a_kept_search_that_finds_a_fault_in_the_series_alone_is_worse(
    case: tuple[Attempt | None, Attempt | None, int, str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The base is searched only where the series fails; of two finds one is of a function that is not touched."""
    series, base, code, verdict, line = case
    tree, hunts = small_tree(tmp_path), tmp_path / "hunts"
    hunts.mkdir()
    write_find(hunts / "late.yaml", KEPT)
    write_find(hunts / "other.yaml", replace(KEPT, functions=("helper",)))
    monkeypatch.setattr("harness.hunt.finds.HUNTS", hunts)
    sha = git(tree, "rev-parse", "HEAD")
    path = series_of(tmp_path, patched(tree, "block/tags.c", "depth = 0", "depth = 1"))
    sides: dict[bool, Attempt | None] = {True: base, False: series}
    searched: list[bool] = []

    def tried(_: Any, kernel: Kernel, kept: KeptFind, *__: Any, **___: Any) -> Attempt:
        assert kept == KEPT
        searched.append(kernel.digest == sha)
        if (result := sides[searched[-1]]) is None:
            raise CannotJudge("it has no function")
        return result

    Measuring(tmp_path, monkeypatch, SAME, SAME)
    monkeypatch.setattr("harness.patch.study.try_find", tried)
    words = ["--base", f"{tree}@{sha}", "--scenario", "fair-tags", "--results", str(tmp_path / "results")]
    assert main(["patch", str(path), "--no-profile", *words]) == code
    said = capsys.readouterr()
    assert verdict in said.out
    assert line in said.out
    assert searched == [False, True][: 1 + (series is not None and series != NOTHING)]
    assert "hunt late: up to 164 seeds of few\n" in said.err
    assert "hunt other" not in said.err


def test_finds_are_chosen_by_their_functions() -> None:
    assert [*finds_in(["null_take_cell", "x"])] == ["planted-list"]
    assert finds_in(["x"]) == {}

# SPDX-License-Identifier: GPL-2.0-only
"""Two kernels side by side, and a figure over runs: what is no difference, what is one, and what is worth a mark."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from harness.base.plain import identity
from harness.cli import main
from harness.grid.lines import GridLine, KernelSide
from harness.grid.timeline import FigureSeries, history, text
from harness.judge.cells import CellResult, Ensemble
from harness.judge.difference import LARGE_BECAUSE, null_evidence
from harness.judge.visible import unseen
from harness.patch.report import summary
from harness.patch.study import outcomes
from harness.record.index import IndexedRun, indexed_runs, pairs, side
from harness.record.store import load_run, read_boot, save_boot
from harness.report.format import percent
from harness.report.terminal.grid import Compared, print_comparison
from harness.scenario.model import Scenario
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_MISUSE, EXIT_PASS, CannotJudge, Misuse
from lab.topology.model import Processors
from tests.unit.analysis_samples import cell
from tests.unit.record_samples import MODEL, matrix_of, run_of
from tests.unit.store_samples import facts
from tests.unit.test_patch import compared
from tests.unit.test_timeline import Kernels

SLOW = null_evidence()["rate, several roles, below 1,000 IOPS"].single
NEW = "7.2.12+deb14-amd64"
FOUR = Processors(cpus=4)


def test_one_seed_a_side_shows_a_figure_that_is_47_times_larger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_of(tmp_path, [2.0])
    run_of(tmp_path, [94.0], release=NEW)
    code, out = compare(capsys, "6.1", NEW, "--results", str(tmp_path))
    assert code == EXIT_FAIL
    assert "1 with a difference of more than 5 %, 0 less, 5 undecided" in out
    shown = " ".join(out.split())
    assert f"one seed a side: marked above what seed and layout move: iops 5 % to {percent(SLOW)}" in shown
    assert "one configuration: " not in shown
    assert [line for line in out.splitlines() if line != line.rstrip()] == []


def test_the_reason_of_the_threshold_quotes_no_measurement() -> None:
    """A figure measured once would be believed long after the kernels have moved on."""
    assert not any(letter.isdecimal() for letter in LARGE_BECAUSE)


def test_one_seed_a_side_shows_a_loss_of_46_per_cent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 150,940 IOPS 81,257 were left, and compare printed a question mark."""
    run_of(tmp_path, [150_940.0])
    run_of(tmp_path, [81_257.0], release=NEW)
    code, out = compare(capsys, "6.1", NEW, "--results", str(tmp_path))
    (row,) = (line.split() for line in out.splitlines() if line.endswith("none together.fast.iops"))
    assert (code, row[1:3]) == (EXIT_FAIL, ["-46.2%", "*"])


def compare(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["compare", *words])
    return code, capsys.readouterr().out


def test_two_kernels_of_one_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_of(tmp_path, [95.0, 96.0])
    run_of(tmp_path, [80.0, 82.0], release=NEW)
    code, out = compare(capsys, "debian:6.1", NEW, "--results", str(tmp_path))
    assert code == EXIT_FAIL
    (row,) = (line for line in out.splitlines() if "none together.fast.iops" in line)
    profiles = [line.split() for line in out.splitlines() if "blklab profile" in line]
    assert [words[-1] for words in profiles] == ["none.together"]
    assert [load_run(Path(folder)).facts.kernel.release for folder in profiles[0][-3:-1]] == ["6.1.0-18-amd64", NEW]
    assert " ".join(row.split()) == "95.50 95.00 .. 96.00 -15.2% * 81.00 80.00 .. 82.00 none together.fast.iops"
    assert "differences of more than 5 % are marked: " in " ".join(out.split())
    code, out = compare(capsys, "6.1", "7.2", "--results", str(tmp_path), "--marked")
    assert "red together.fast.iops" not in out
    code, out = compare(capsys, "6.1", "7.2", "--results", str(tmp_path), "--metric", "bw")
    assert "none together.fast.bw" in out


def test_a_cell_on_several_cpus_is_shown_by_its_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """profile counts on one CPU only."""
    arms = {name: replace(arm, topology=replace(arm.topology, processors=FOUR)) for name, arm in MODEL.arms.items()}
    model = replace(MODEL, arms=arms)
    runs = [
        run_of(tmp_path, values, release=release, model=replace(model, digest=identity(model)))
        for release, values in (("6.1.0-18-amd64", [95.0, 96.0]), (NEW, [80.0, 82.0]))
    ]
    _, out = compare(capsys, "6.1", NEW, "--results", str(tmp_path))
    assert f"  cache lines and locks: blklab sharing {runs[0].path} {runs[1].path} none.together" in out.splitlines()
    assert "blklab profile" not in out


def test_the_page_has_both_sides_and_the_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = run_of(tmp_path, [95.0, 96.0])
    run_of(tmp_path, [80.0, 82.0], release=NEW)
    page = tmp_path / "pages" / "differences.html"
    assert compare(capsys, "6.1", "7.2", "--results", str(tmp_path), "--out", str(page))[0] == EXIT_FAIL
    text = page.read_text()
    assert "<title>What differs between Linux 6.1 and 7.2?" in text
    # (80 + 82) / (95 + 96) - 1
    assert "-15.2" in text
    assert "with a difference of more than 5 %, " in text and "<details open><summary>IOPS" in text
    again = run_of(tmp_path, [95.0, 97.0], day=2)
    compare(capsys, str(old.path), str(again.path), "--out", str(page))
    days = [run.facts.started[5:16].replace("T", " ") for run in (old, again)]
    assert f"<title>What differs between Linux 6.1 {days[0]} and 6.1 {days[1]}?" in page.read_text()
    assert main(["compare", "--history", "made-up", "--out", str(page)]) == EXIT_MISUSE


def test_a_figure_that_neither_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_of(tmp_path, [95.0, 96.0])
    assert main(["compare", "6.1", "6.1", "--metric", "resync.bw", "--results", str(tmp_path)]) == EXIT_CANNOT_JUDGE
    assert "neither side measured resync.bw" in capsys.readouterr().err


def test_alike_is_0_and_undecided_is_125(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = run_of(tmp_path, [95.0, 96.0]), run_of(tmp_path, [95.5, 97.0], day=2)
    assert compare(capsys, str(one.path), str(two.path))[0] == EXIT_PASS
    single = run_of(tmp_path, [95.5 / (1 + SLOW / 2)], day=3, release="6.1.0-19-amd64")
    assert compare(capsys, str(one.path), str(single.path))[0] == EXIT_CANNOT_JUDGE


def test_seeds_that_only_one_side_has_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = run_of(tmp_path, [95.0, 96.0, 40.0]), run_of(tmp_path, [95.5, 97.0], day=2)
    code, out = compare(capsys, str(one.path), str(two.path))
    assert (code, "40.0" in out) == (EXIT_PASS, False)


def test_what_was_made_otherwise_is_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = run_of(tmp_path, [95.0, 96.0]), run_of(tmp_path, [50.0, 51.0], release=NEW)
    for boot in two.path.glob("boots/*"):
        record = read_boot(boot)
        save_boot(replace(record, fingerprint={**record.fingerprint, "qemu": "another"}))
    code, out = compare(capsys, str(one.path), str(two.path))
    assert code == EXIT_CANNOT_JUDGE
    assert "qemu differs, not only the kernel" in out


def test_folders_meet_series_by_series(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for root in (before, after):
        run_of(root, [95.0, 96.0], release="6.1.0-18-amd64" if root is before else "6.1.0-19-amd64")
        run_of(root, [95.0, 96.0], release=NEW)
    found = pairs(side(str(before), before), side(str(after), before))
    assert [(before.series, after.series) for before, after in found] == [("6.1", "6.1"), ("7.2", "7.2")]


def test_a_matrix_stands_for_its_runs_alone(tmp_path: Path) -> None:
    old, new = run_of(tmp_path, [95.0, 96.0]), run_of(tmp_path, [50.0, 51.0], day=2)
    one, two = matrix_of(tmp_path, old), matrix_of(tmp_path, new)
    (pair,) = pairs(side(str(one.path), tmp_path), side(str(two.path), tmp_path))
    assert [run.path for run in pair] == [str(old.path), str(new.path)]


def test_a_kernel_s_newest_run_is_taken(tmp_path: Path) -> None:
    run_of(tmp_path, [95.0])
    newest = run_of(tmp_path, [95.0], day=2)
    other = run_of(tmp_path, [95.0], release=NEW)
    (pair,) = pairs(side("6.1", tmp_path), side(NEW, tmp_path))
    assert [run.path for run in pair] == [str(newest.path), str(other.path)]


def test_nothing_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_of(tmp_path, [95.0])
    run_of(tmp_path, [95.0], release=NEW, model=replace(MODEL, name="other"))
    with pytest.raises(Misuse, match=r"5\.10 is not a folder"):
        side("5.10", tmp_path)
    with pytest.raises(CannotJudge, match="no scenario in common"):
        pairs(side("6.1", tmp_path), side("7.2", tmp_path))
    assert compare(capsys, "6.1", "6.1", "--metric", "iop", "--results", str(tmp_path))[0] == EXIT_MISUSE


def test_what_both_runs_cannot_show_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The CPU was busy while two jobs took turns: neither side contains their waiting."""
    idle = {("together", "guest", "cpu.idle"): 0.05}
    cells = [cell(arm, 1, 95.0) for arm in ("none", "red")]
    cells = [replace(it, figures={**it.figures, **idle}) for it in cells]
    hidden = unseen(run_of(tmp_path, [95.0]).scenario, cells)
    says = "in none, together the CPU was 95% busy, and 2 jobs took turns"
    assert hidden.endswith(says)
    print_comparison(Console(width=200), [Compared("sample", "base", "series", (), unseen=hidden)])
    assert f"  not visible: {hidden}\n" in capsys.readouterr().out


def test_compare_patch_and_timeline_say_what_their_cells_cannot_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each gives the cells of all its kernels to the function of a report."""
    seen: list[int] = []

    def hidden(scenario: Scenario, cells: Iterable[CellResult]) -> str:
        seen.append(len([*cells]))
        return "HIDDEN"

    for place in ("harness.commands.compare", "harness.patch.study", "harness.grid.timeline"):
        monkeypatch.setattr(f"{place}.unseen", hidden)
    base, series = run_of(tmp_path, [95.0, 96.0]), run_of(tmp_path, [94.0, 95.0], release=NEW)
    assert "not visible: HIDDEN" in compare(capsys, "6.1", NEW, "--results", str(tmp_path))[1]
    found = outcomes(base, series)
    result = compared(found)
    assert "  not visible in sample: HIDDEN" in [*summary(result)]
    made = Kernels([20.0, 95.0])
    assert "\nnot visible: HIDDEN\n" in text(made.timeline())
    assert seen == [8, 8, 6]


FAST = "none together.fast.iops"


def found(*levels: float, spread: float = 0.0) -> list[tuple[float, float]]:
    """The medians around each change; a run has a seed at, above and below its level."""
    run = IndexedRun("", "", facts(MODEL, ()), "PASS", 0, None, 0)
    values = {
        place: Ensemble({1: level * (1 - spread), 2: level, 3: level * (1 + spread)})
        for place, level in enumerate(levels)
    }
    line = GridLine("together.fast.iops", values, dict.fromkeys(values, KernelSide(run.kernel, ())), exact=False)
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

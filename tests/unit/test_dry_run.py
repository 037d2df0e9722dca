# SPDX-License-Identifier: GPL-2.0-only
"""``--dry-run``: boots and time, without a boot or a download."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli import main
from harness.grid.measure import boots_of
from harness.limits.cost import boot_seconds
from harness.record.index import IndexedRun, indexed_runs
from harness.report.format import duration
from harness.report.terminal.scenario import Estimate, total
from harness.scenario.load import read_scenario
from lab.base.cache import Cache
from lab.base.errors import EXIT_MISUSE, EXIT_PASS, CannotJudge, Misuse
from lab.kernels.resolve import resolve
from tests.unit.record_samples import MODEL, run_of


@pytest.fixture
def earlier(tmp_path: Path) -> IndexedRun:
    """Four boots that took 40 s."""
    run_of(tmp_path, [95.0, 96.0])
    (run,) = indexed_runs(tmp_path)
    return replace(run, seconds=40.0)


@pytest.fixture
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host without QEMU, cache and runs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("BLKLAB_CACHE", "/proc/nothing")
    return tmp_path / "results"


def test_a_run_is_only_counted(nothing_here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "shared-queue", "--kernel", "debian:6.1", "--results", str(nothing_here), "--dry-run"]
    assert main(words) == EXIT_PASS
    shown = capsys.readouterr()
    seconds = 8 * boot_seconds(read_scenario("shared-queue"))
    assert f"\n8 boots, at most {duration(seconds)} on an idle host (no earlier run to go by)\n" in shown.out
    assert "shared-queue: longest loads, host time in a boot at most: lopsided " in shown.out, (
        "the load that takes most of the time"
    )
    assert shown.err == "blklab: nothing was booted or downloaded\n"
    assert not nothing_here.exists()
    more = ["--arm", "shared", "--seeds", "3", "--verify", "--base", "debian:7.2"]
    assert main([*words, *more]) == EXIT_PASS
    assert "2 cells (scenario x kernel), 12 boots" in capsys.readouterr().out
    assert main([*words, "--arm", "nosuch"]) == EXIT_MISUSE


def test_a_kernel_that_cannot_be_had_is_told_as_the_run_tells_it(
    nothing_here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder without a kernel, a tree that is half built, and a form that does not exist: the words of resolve()."""
    empty, tree = tmp_path / "empty", tmp_path / "tree"
    empty.mkdir()
    (tree / "scripts").mkdir(parents=True)
    (tree / "Kbuild").touch()
    specs = {f"path:{empty}": Misuse, f"path:{tree}": CannotJudge, "path:/nothing": Misuse, "nonsense:1": Misuse}
    for spec, kind in specs.items():
        with pytest.raises(kind) as raised:
            resolve(spec, Cache(tmp_path / "cache"))
        words = ["run", "shared-queue", "--kernel", spec, "--results", str(nothing_here), "--dry-run"]
        assert main(words) == raised.value.exit_code
        shown = capsys.readouterr()
        assert raised.value.message in shown.err and shown.out == ""
    assert not nothing_here.exists() and not (tmp_path / "cache").exists()


def test_a_matrix_is_only_counted(nothing_here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["matrix", "shared-queue", "wall/nvme-63-tags", "--results", str(nothing_here), "--dry-run", "--kernels"]
    assert main([*words, "debian:6.1 debian:7.2"]) == EXIT_PASS
    boots = sum(boots_of(read_scenario(name), None) for name in words[1:3])
    assert f"4 cells (scenario x kernel), at most {2 * boots} boots, at most " in capsys.readouterr().out
    assert main([*words, "debian:6.1 debian:7.2", "--hunt", "30"]) == EXIT_PASS
    shown = capsys.readouterr()
    assert f"4 cells (scenario x kernel), at most {2 * boots} boots" in shown.out
    assert "not in this estimate: kept searches, 30 min and the boots begun by then" in shown.err
    assert main([*words, "debian:6.1 debian:7.2", "--shard", "1/2"]) == EXIT_PASS
    assert f"2 cells (scenario x kernel), at most {boots} boots" in capsys.readouterr().out
    assert main([*words, "debian:6.1 .. debian:7.2"]) == EXIT_MISUSE
    assert not nothing_here.exists()


def test_a_matrix_checks_each_kernel_as_a_run_does(
    nothing_here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake ends it; a kernel that cannot be had boots nothing, and the others are counted."""
    tree, words = tmp_path / "tree", ["matrix", "shared-queue", "--results", str(nothing_here), "--dry-run"]
    (tree / "scripts").mkdir(parents=True)
    (tree / "Kbuild").touch()
    assert main([*words, "--kernels", f"debian:6.1 path:{tmp_path}/nosuch"]) == EXIT_MISUSE
    assert "nosuch" in capsys.readouterr().err
    assert main([*words, "--kernels", f"debian:6.1 path:{tree}"]) == EXIT_PASS
    shown = capsys.readouterr()
    assert "\n8 boots, " in shown.out and f"path:{tree}: " in shown.err


def test_the_time_is_that_of_stored_runs_of_the_same_kernel(earlier: IndexedRun) -> None:
    kernel = replace(earlier.kernel, spec="debian:7.2")
    other = replace(earlier, facts=replace(earlier.facts, kernel=kernel), seconds=80.0)
    another = replace(earlier, facts=replace(earlier.facts, scenario="another"))
    assert Estimate(MODEL, "debian:6.1", 8).seconds([earlier, other]) == 80.0
    assert Estimate(MODEL, "debian:7.2", 8).seconds([earlier, other]) == 160.0
    assert Estimate(MODEL, "debian:5.10", 8).seconds([earlier, other]) == 120.0
    assert Estimate(MODEL, "debian:6.1", 8).seconds([another]) is None
    assert Estimate(MODEL, "debian:6.1", 8).seconds([replace(earlier, seconds=None)]) is None
    unknown = Estimate(MODEL, "debian:6.1", 2)
    assert unknown.words([earlier]) == "about 20 s"
    assert unknown.words([]) == f"at most {duration(2 * boot_seconds(MODEL))}"
    both = total([Estimate(MODEL, "debian:6.1", 2), replace(unknown, scenario=replace(MODEL, name="x"))], [earlier])
    assert both.startswith("2 cells (scenario x kernel), 4 boots, about 20 s as earlier runs took and at most ")

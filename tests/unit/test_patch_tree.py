# SPDX-License-Identifier: GPL-2.0-only
"""``blklab patch`` inside a kernel tree, and kernels named there; the tree stays as it was."""

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.base.checkout import results_root
from harness.cli import main
from harness.commands.boots import bench_of
from harness.commands.options import config_file, kernel_specs
from harness.limits.entries import load_scenario
from harness.patch.choice import Coverage
from harness.patch.report import commit_lines
from harness.patch.series import read_series
from harness.patch.study import MeasuredSeries, Outcomes, SeriesKernel
from harness.patch.work import change_of, write_change
from harness.run.plan import expand
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_LAB_BROKEN, EXIT_MISUSE, EXIT_PASS, LabBroken, Misuse
from lab.kernels.kconfig import lacking
from lab.kernels.model import Kernel, Release
from lab.kernels.resolve import demand
from tests.unit.kernel_samples import elf
from tests.unit.series_samples import SAME, SLOWER, Measuring, by_function, patched, series_of, small_tree
from tests.unit.tree_samples import commit, git

ME = ("git", "-c", "user.name=me", "-c", "user.email=me@localhost")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return small_tree(tmp_path)


def edit(tree: Path, old: str = "depth = 0", new: str = "depth = 1") -> None:
    path = tree / "block/tags.c"
    path.write_text(path.read_text().replace(old, new))


def state(folder: Path) -> dict[str, int]:
    """Every file with the time of its last change, those of git too."""
    return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*")}


# The change


def test_what_is_not_committed_is_the_change_where_there_is_no_upstream_branch(tree: Path) -> None:
    edit(tree)
    before = state(tree)
    change = change_of(tree / "block", None)
    assert (change.top, change.base) == (tree, git(tree, "rev-parse", "HEAD"))
    assert change.title == f"what is not committed on {change.base[:12]}"
    assert "-\ttags->depth = 0;\n+\ttags->depth = 1;\n" in change.diff
    assert state(tree) == before


def test_the_change_begins_at_the_merge_base_with_the_upstream_branch(tree: Path) -> None:
    base = git(tree, "rev-parse", "HEAD")
    git(tree, "branch", "theirs")
    git(tree, "checkout", "-q", "-b", "mine", "--track", "theirs")
    edit(tree)
    commit(tree, "block: one")
    edit(tree, "quantum = 8", "quantum = 4")
    change = change_of(tree, None)
    assert (change.base, change.title) == (base, "block: one, and what is not committed")
    assert "depth = 1" in change.diff and "quantum = 4" in change.diff
    git(tree, "checkout", "-q", "--detach")
    detached = change_of(tree, None)
    assert detached.base == git(tree, "rev-parse", "HEAD") and "depth = 1" not in detached.diff


@pytest.mark.parametrize(("named", "title"), [("HEAD~1..HEAD", "second"), ("HEAD~2..", "second, and 1 earlier commit")])
def test_a_range_is_what_its_commits_change(tree: Path, named: str, title: str) -> None:
    patched(tree, "block/tags.c", "depth = 0", "depth = 1", "first")
    patched(tree, "block/tags.c", "depth = 1", "depth = 2", "second")
    edit(tree, "quantum = 8", "quantum = 4")
    change = change_of(tree, named)
    assert (change.base, change.title) == (git(tree, "rev-parse", named.partition("..")[0]), title)
    assert "depth = 2" in change.diff and "quantum" not in change.diff.replace("* quantum", "")


def test_a_linked_work_tree_has_its_own_change(tree: Path, tmp_path: Path) -> None:
    git(tree, "worktree", "add", "-q", str(tmp_path / "linked"))
    edit(tmp_path / "linked")
    assert change_of(tmp_path / "linked/block", None).top == tmp_path / "linked"
    with pytest.raises(Misuse, match=r"nothing in .* differs"):
        change_of(tree, None)


def test_a_base_is_a_revision_of_the_tree_and_does_not_go_with_a_range(tree: Path) -> None:
    patched(tree, "block/tags.c", "depth = 0", "depth = 1", "first")
    change = change_of(tree, None, "HEAD~1")
    assert (change.base, change.title) == (git(tree, "rev-parse", "HEAD~1"), "first")
    with pytest.raises(Misuse, match="does not go with the range"):
        change_of(tree, "HEAD~1..", "HEAD")


def test_a_folder_without_a_kernel_has_no_change(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "Makefile").write_text("all:\n")
    with pytest.raises(Misuse, match="is not in a git work tree of the kernel"):
        change_of(tmp_path, None)


def test_what_is_no_range(tree: Path) -> None:
    for named, said in (
        ("HEAD..HEAD", "changes nothing"),
        ("gone..HEAD", "no commit gone"),
    ):
        with pytest.raises(Misuse, match=said):
            change_of(tree, named)


def test_a_tree_in_the_middle_of_a_rebase_or_a_merge_is_refused(tree: Path) -> None:
    git(tree, "branch", "theirs")
    patched(tree, "block/tags.c", "depth = 0", "depth = 1", "mine")
    git(tree, "checkout", "-q", "theirs")
    patched(tree, "block/tags.c", "depth = 0", "depth = 2", "theirs")
    subprocess.run([*ME, "-C", str(tree), "rebase", "-q", "@{-1}"], check=False, capture_output=True)
    with pytest.raises(Misuse, match="in the middle of a rebase"):
        change_of(tree, None)
    git(tree, "rebase", "--abort")
    subprocess.run([*ME, "-C", str(tree), "merge", "-q", "@{-1}"], check=False, capture_output=True)
    with pytest.raises(Misuse, match=r"block/tags\.c in .* is unmerged"):
        change_of(tree, None)


def test_an_untracked_file_is_named_and_refused_where_the_change_needs_it(tree: Path) -> None:
    (tree / "block/new.c").write_text("int new;\n")
    (tree / "notes.txt").write_text("notes\n")
    edit(tree)
    assert change_of(tree, None).left_out == ("block/new.c",)
    (tree / "block/Makefile").write_text("obj-y += tags.o new.o\n")
    git(tree, "add", "-N", "block/Makefile")
    with pytest.raises(Misuse, match=r"needs files that git does not track: block/new\.c"):
        change_of(tree, None)
    git(tree, "add", "-N", "block/new.c")
    assert "+int new;" in change_of(tree, None).diff


def test_the_patch_of_a_change_is_read_as_a_series_of_one_and_is_the_same_file_again(
    tree: Path, tmp_path: Path
) -> None:
    edit(tree)
    change = change_of(tree, None)
    path = write_change(change, tmp_path)
    (patch,) = read_series(path)
    assert patch.title == change.title and patch.diff == change.diff
    assert write_change(change, tmp_path) == path


# The command


def test_patch_without_a_series_says_what_would_be_measured_and_writes_nothing_into_the_tree(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    coverage = Coverage("6.12", {}, by_function({"fair-tags.even.b": frozenset({"blk_timeout"})}))
    monkeypatch.setattr("harness.commands.boots.load_coverage", lambda _: coverage)
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("lab.kernels.tree.built", lambda *_: pytest.fail("nothing is built"))
    monkeypatch.chdir(tree / "block")
    edit(tree)
    before = state(tree)
    assert main(["patch", "--seeds", "1", "--dry-run", "--results", str(tmp_path / "results")]) == EXIT_PASS
    said = capsys.readouterr()
    head = git(tree, "rev-parse", "HEAD")[:12]
    assert f"blklab: what is not committed on {head}, against {head}, in {tree}\n" in said.err
    assert "fair-tags: 1 load executes blk_timeout" in said.out
    assert f"2 cells (scenario x kernel), {2 * len(load_scenario('fair-tags').arms)} boots, " in said.out
    assert state(tree) == before


def test_the_change_in_a_tree_is_measured_against_its_base_and_ends_with_lines_for_a_commit_message(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = git(tree, "rev-parse", "HEAD")
    Measuring(tmp_path, monkeypatch, SAME, SLOWER)
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tree / "block")
    edit(tree)
    before = state(tree)
    monkeypatch.setenv("BLKLAB_CONFIG", "")
    (tmp_path / "own").write_text("CONFIG_X86_64=y\n")
    words = ["patch", "--scenario", "fair-tags", "--no-profile", "--config", str(tmp_path / "own")]
    assert main([*words, "--results", str(tmp_path / "results")]) == EXIT_FAIL
    out, err = capsys.readouterr()
    boots = 2 * len(expand(load_scenario("fair-tags")))
    assert "blklab: builds 2 kernels, unless they are in the cache: unknown, unknown\n" in err
    assert f"blklab: 2 cells (scenario x kernel), {boots} boots, at most " in err
    assert "blklab: fair-tags: worse: " in err
    assert f"\n{base[:12]} -> {base[:12]} with what is not committed on {base[:12]}\n" in out
    lines = out.splitlines()[-8:]
    assert lines[0].startswith("Verdict: WORSE  ") and lines[-1].endswith(f" fair-tags --config {tmp_path / 'own'}")
    said = [line[9:] for line in lines[2:5]]
    assert said == ["PASS 0.9550 [0.9500 .. 0.9600]", "FAIL 0.8100 [0.8000 .. 0.8200]", "-15.2%"]
    assert state(tree) == before


def test_a_series_comes_from_standard_input_or_several_files(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mails = [
        patched(tree, "block/tags.c", "depth = 0", "depth = 1", "first"),
        patched(tree, "block/tags.c", "depth = 1", "depth = 2", "second"),
    ]
    files = [series_of(tmp_path, mail, name=f"{number}.mbox") for number, mail in enumerate(mails)]
    assert [patch.title for patch in read_series(*files)] == ["first", "second"]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO("".join(mails).encode())))
    (first, _) = read_series(Path("-"))
    assert (first.title, first.place(3)) == ("first", "standard input:3")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"no patch\n")))
    assert main(["patch", "-", "--dry-run", "--results", str(tmp_path / "results")]) == EXIT_MISUSE
    assert "blklab: standard input has no patch" in capsys.readouterr().err


def test_the_lines_for_a_commit_message_are_eight() -> None:
    folder = Path("/kernel")
    version, config = Release.parse("6.12.7"), {"CONFIG_BLOCK": "y"}
    kernel = Kernel("tree:/linux", "6.12.7", version, "", folder / "bzImage", None, folder, config, "k" * 64)
    steps = [SeriesKernel(commit, commit, kernel) for commit in ("base", "change")]
    said = commit_lines(MeasuredSeries(steps[0], steps[1], tuple[Outcomes, ...]()), "blklab patch HEAD~1..HEAD")
    lines = said.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        *("Verdict", "Figure", "Before", "After", "Change", "Kernel", "Config", "Repeat")
    ]
    assert lines[1:3] == ["Figure:  none of both kernels differs", "Before:  -"]
    assert lines[-1] == "Repeat:  blklab patch HEAD~1..HEAD"


# Kernels named inside a tree


def test_a_tree_and_its_commits_are_named_by_a_point_and_a_revision(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = git(tree, "rev-parse", "HEAD")[:12]
    patched(tree, "block/tags.c", "depth = 0", "depth = 1")
    monkeypatch.chdir(tree / "block")
    assert demand(".") == f"tree:{tree}" and demand("HEAD~1") == f"tree:{tree}@{first}"
    assert kernel_specs(". HEAD~1 debian:6.1") == f"tree:{tree} tree:{tree}@{first} debian:6.1"
    assert demand("distro") == "distro"
    with pytest.raises(Misuse, match="is not a kernel that blklab knows"):
        demand("gone")


def test_outside_of_a_tree_a_point_is_no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Misuse, match="is not in a git work tree of the kernel"):
        demand(".")


def finish_build(folder: Path, when: float | None = None) -> None:
    (folder / "include/config").mkdir(parents=True)
    (folder / "include/config/kernel.release").write_text("6.12.7\n")
    (folder / "vmlinux").write_bytes(elf())
    (folder / ".config").write_text("CONFIG_X86_64=y\n")
    (folder / "modules.order").write_text("")
    if when is not None:
        os.utime(folder / "vmlinux", (when, when))


def test_a_finished_build_of_the_tree_is_used_as_it_is(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "Kbuild").write_text("")
    monkeypatch.chdir(tree / "block")
    assert demand(".") == f"tree:{tree}"
    finish_build(tmp_path / "objects")
    monkeypatch.setenv("KBUILD_OUTPUT", str(tmp_path / "objects"))
    before = state(tree)
    assert demand(".") == f"path:{tmp_path / 'objects'}"
    assert config_file("own") == tmp_path / "objects/.config"
    assert state(tree) == before
    monkeypatch.delenv("KBUILD_OUTPUT")
    assert demand(".") == f"tree:{tree}"
    # In the folder of an out-of-tree build "." is that, too.
    (tmp_path / "objects/source").symlink_to(tree)
    monkeypatch.chdir(tmp_path / "objects")
    assert demand(".") == f"path:{tmp_path / 'objects'}"
    edit(tree)
    assert change_of(Path.cwd(), None).top == tree


def test_a_build_that_is_older_than_its_sources_is_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    oldest = min(path.stat().st_mtime for path in tree.rglob("*") if path.is_file())
    finish_build(tree, oldest - 10)
    monkeypatch.chdir(tree)
    with pytest.raises(Misuse, match=r"the build in .*linux is older than ") as caught:
        demand(".")
    assert f"--kernel tree:{tree}" in caught.value.remedy
    (tree / ".config").unlink()
    with pytest.raises(Misuse, match=r"no \.config here"):
        config_file("own")
    with pytest.raises(Misuse, match=r"there is no configuration /nowhere/\.config"):
        config_file("/nowhere/.config")


def test_a_kernel_that_its_user_built_is_told_what_it_lacks() -> None:
    version = Release.parse("6.12.7")
    config = {"CONFIG_64BIT": "y", "CONFIG_BLK_DEV_NULL_BLK": "y", "CONFIG_MD": "m", "CONFIG_HZ_1000": "y"}
    kernel = Kernel("path:/linux", "6.12.7", version, "", Path("vmlinux"), None, Path("modules"), config, "k" * 64)
    lines = lacking(kernel).splitlines()
    assert {"CONFIG_BLK_DEV_NULL_BLK=m", "CONFIG_CONFIGFS_FS=y", "CONFIG_NR_CPUS=8"} <= {*lines}
    assert not {"CONFIG_64BIT=y", "CONFIG_MD=y", "CONFIG_HZ_250=y", "CONFIG_IOSCHED_CFQ=y"} & {*lines}
    assert lacking(replace(kernel, spec="debian:6.12")) == ""


def test_a_change_that_no_scenario_can_execute_is_not_judged(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "Documentation").mkdir()
    (tree / "Documentation/block.rst").write_text("Block\n")
    commit(tree, "documentation")
    (tree / "Documentation/block.rst").write_text("Block layer\n")
    monkeypatch.chdir(tree / "Documentation")
    monkeypatch.setattr("harness.patch.study.tree.built", lambda *_, **__: pytest.fail("nothing is built"))
    before = state(tree)
    assert main(["patch", "--results", str(tmp_path / "results")]) == EXIT_CANNOT_JUDGE
    assert "no scenario executes what the series touches" in capsys.readouterr().err
    assert state(tree) == before


def test_without_a_kernel_the_one_that_is_taken_is_named_inside_a_tree(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise LabBroken("far enough")

    monkeypatch.setattr("harness.commands.boots.announce", stop)
    monkeypatch.setattr("harness.commands.boots.ready_qemu", stop)
    monkeypatch.setattr("harness.commands.matrix.specs", stop)
    for words, kernels in (
        (["run"], "the kernel is the one of this host's distribution; --kernel ."),
        (["timeline"], "the kernels are debian:5.10 .. debian:7.3; --kernels ."),
        (["matrix"], "the kernels are debian:5.10 debian:6.1 debian:6.12 debian:7.2; --kernels ."),
    ):
        for folder, told in ((tree / "block", True), (tmp_path, False)):
            monkeypatch.chdir(folder)
            monkeypatch.setattr("harness.commands.matrix.bench_of", stop if words == ["matrix"] else bench_of)
            assert main([*words, "fair-tags", "--results", str(tmp_path / "results")]) == EXIT_LAB_BROKEN
            assert (f"{kernels} is the tree {tree}\n" in capsys.readouterr().err) == told


def test_an_installed_blklab_keeps_no_results_in_a_kernel_tree(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel has no Makefile. Elsewhere results go to the current folder."""
    monkeypatch.delenv("BLKLAB_RESULTS", raising=False)
    monkeypatch.setattr("harness.base.checkout.CHECKOUT", tmp_path / "site-packages/blklab/checkout")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tree / "block")
    assert results_root(None) == tmp_path / "data/blklab/results"
    assert results_root("own") == Path("own")
    monkeypatch.chdir(tmp_path)
    assert results_root(None) == tmp_path / "results"

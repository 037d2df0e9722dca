# SPDX-License-Identifier: GPL-2.0-only
"""`blklab patch` on linux-source-6.12: published fixes are better, a harmful change is worse, and it says where.

`blklab matrix --changed` chooses as it does.
"""

import re
from pathlib import Path

import pytest

from harness.cli import main
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS
from lab.base.units import silent
from lab.kernels import tree
from lab.kernels.mutants import MUTANTS
from tests.vm.kernel_history import make_history
from tests.vm.kernel_patches import source_file, without_priority
from tests.vm.marks import building

pytestmark = building()
FIXES = {
    "plug-merge-oldest": "page-cache-writes",
    "plug-merge-last-only": "striped-batches",
    "shared-tag-stall": "last-tag",
}
"""Mutants that restore a published bug, and the scenario that must be chosen for its fix."""
_HUNK = re.compile(r"^@@ -(\S+) \+(\S+) @@")


def mail(folder: Path, diff: str, subject: str) -> Path:
    path = folder / "series.mbox"
    head = f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nFrom: a <a@example.org>\nSubject: [PATCH] {subject}\n"
    path.write_text(f"{head}\nText.\n---\n{diff}-- \n2.39.5\n\n")
    return path


def diff_of(mutant: str) -> str:
    text = (MUTANTS / f"{mutant}.patch").read_text()
    return text[text.index("diff --git") :]


def reversed_diff(diff: str) -> str:
    """What takes the change back: the fix."""
    lines, added, removed = list[str](), list[str](), list[str]()
    for line in (*diff.splitlines(keepends=True), ""):
        if line.startswith(("--- ", "+++ ")) or line[:1] not in ("+", "-"):
            lines += [*added, *removed, _HUNK.sub(r"@@ -\2 +\1 @@", line)]
            added, removed = [], []
        elif line.startswith("+"):
            removed.append("-" + line[1:])
        else:
            added.append("+" + line[1:])
    return "".join(lines)


def patch(path: Path, base: str, *words: str) -> int:
    results = ["--results", str(path.parent / "results")]
    return main(["patch", str(path), "--base", base, "--seeds", "1", "--most", "2", "--jobs", "1", *results, *words])


@pytest.mark.parametrize("mutant", FIXES)
def test_a_published_fix_is_better(mutant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fix = mail(tmp_path, reversed_diff(diff_of(mutant)), f"fix {mutant}")
    assert patch(fix, f"source:6.12+{mutant}") == EXIT_PASS
    said = capsys.readouterr().out
    assert re.search(rf"^BETTER  {FIXES[mutant]}, \d claims of 2 scenarios judged on both, ", said, re.MULTILINE)
    assert f"Subject: Re: [PATCH] fix {mutant}" in said


def test_a_harmful_change_is_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    series = mail(tmp_path, diff_of("stripe-swapped-chunks"), "simplify the chunk arithmetic")
    assert patch(series, "source:6.12", "--no-profile") == EXIT_FAIL
    assert re.search(r"^WORSE  striped-batches, ", capsys.readouterr().out, re.MULTILINE)


def changed(file: str, old: str, new: str) -> str:
    """A diff of one line of the packaged source."""
    text = source_file(tree.source_of("6.12", Cache.default(), tell=silent), file).splitlines()
    at = text.index(old)
    return "\n".join(
        (
            f"diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n@@ -{at},3 +{at},4 @@",
            *(f" {line}" for line in text[at - 1 : at + 1]),
            f"+{new}",
            f" {text[at + 1]}\n",
        )
    )


def test_a_change_that_does_not_compile_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    series = mail(tmp_path, changed("block/blk-mq.c", "	plug->rq_count++;", "	nonsense;"), "count")
    line = series.read_text().splitlines().index("+\tnonsense;") + 1
    assert patch(series, "source:6.12", "--scenario", "last-tag") == EXIT_CANNOT_JUDGE
    said = capsys.readouterr().err
    assert re.search(
        rf"series\.mbox:{line}: .* does not build: block/blk-mq\.c:\d+:\d+: error: 'nonsense' undeclared", said
    )


def test_a_change_that_does_not_boot_is_worse_and_shows_the_console(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = "\t\tinit_llist_head(&per_cpu(blk_cpu_done, i));"
    series = mail(tmp_path, changed("block/blk-mq.c", last, '\tpanic("checked");'), "check at boot")
    assert patch(series, "source:6.12", "--scenario", "last-tag", "--arm", "one-tag", "--no-profile") == EXIT_FAIL
    said = capsys.readouterr().out
    assert re.search(
        r"series\.mbox:1: last-tag: worse: arm one-tag, seed 1: boots -> the guest never said ready: .*checked", said
    )


def test_each_patch_is_measured_against_the_one_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harmless = changed("block/blk-ioc.c", "#include <linux/slab.h>", "/* harmless */")
    harmful = without_priority(tree.source_of("6.12", Cache.default(), tell=silent)).partition("\n\n")[2]
    mails = [mail(tmp_path, diff, subject).read_text() for diff, subject in ((harmless, "one"), (harmful, "two"))]
    series = tmp_path / "series.mbox"
    series.write_text("".join(mails))
    words = ("--scenario", "ioprio", "--arm", "strict", "--no-profile", "--each")
    assert patch(series, "source:6.12", *words) == EXIT_FAIL
    said = capsys.readouterr().out
    assert re.findall(r"^(SAME|WORSE|BETTER) ", said, re.MULTILINE) == ["SAME", "WORSE", "WORSE"]
    assert re.search(
        r"ioprio: worse: real-time class: best effort gets .*: PASS 0\.0\d+ -> FAIL 0\.\d+$", said, re.MULTILINE
    )


def test_a_matrix_of_what_changed_between_two_commits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tree.source_of("6.12", Cache.default(), tell=silent)
    mutant, clone = tmp_path / "without-priority.patch", tmp_path / "linux.git"
    mutant.write_text(without_priority(source))
    objects = source.path / "objects"
    made = make_history(clone, objects, source.git_tree, mutant, count=2, culprit=1, broken=())
    words = ["--tree", str(clone), "--changed", "..".join(made.commits), "--seeds", "1", "--jobs", "1"]
    words += ["--kernels", " ".join(f"tree:{clone}@{commit}" for commit in made.commits)]
    assert main(["matrix", *words, "--results", str(tmp_path / "results")]) == EXIT_FAIL
    said = capsys.readouterr()
    assert "touches 1 function: set_task_ioprio\n" in said.err
    assert re.search(r"^ioprio +PASS +FAIL\b", said.out, re.MULTILINE), said.out

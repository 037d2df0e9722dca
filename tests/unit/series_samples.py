# SPDX-License-Identifier: GPL-2.0-only
"""A small tree in the kernel's style, and series of patches on it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.patch.series import Branch
from harness.record.store import RunFolder
from harness.run.plan import Request
from lab.kernels.model import Kernel, Release
from lab.kernels.tree import KernelSource, read_source
from tests.unit.record_samples import run_of
from tests.unit.tree_samples import commit, git, write_source

HEADER = """\
/* A header. */
#define TAGS 4

static inline bool may_queue(int depth)
{
	return depth < TAGS;
}
"""
SOURCE = """\
// A file in the kernel's style.
#include "blk.h"

static const int quantum = 8;

struct tags {
	int depth;
};

static int __must_check helper(struct tags *tags)
{
	return tags->depth * quantum;
}

static int __get_tag(struct tags *tags)
{
	if (!may_queue(tags->depth))
		return -1;
	return helper(tags);
}

int blk_get_tag(struct tags *tags,
		int flags)
{
	return __get_tag(tags);
}

void blk_timeout(struct tags *tags)
{
	tags->depth = 0;
}
"""


def small_tree(tmp_path: Path) -> Path:
    """A repository with two files of C, in the kernel's style."""
    folder = write_source(tmp_path / "linux")
    (folder / "block/blk.h").write_text(HEADER)
    (folder / "block/tags.c").write_text(SOURCE)
    commit(folder, "base")
    return folder


def patched(tree: Path, file: str, old: str, new: str, subject: str = "change") -> str:
    """The text of git format-patch for one replacement on the branch's tip."""
    path = tree / file
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    commit(tree, subject)
    return git(tree, "format-patch", "-1", "--stdout") + "\n"


def series_of(tmp_path: Path, *mails: str, name: str = "series.mbox") -> Path:
    path = tmp_path / name
    path.write_text("".join(mails))
    return path


def branch_of(tree: Path, tmp_path: Path) -> Branch:
    return Branch(read_source(f"{tree}@{git(tree, 'rev-list', '--max-parents=0', 'HEAD')}"), tmp_path / "branch")


def by_function(executed: Mapping[str, Collection[str]]) -> dict[str, frozenset[str]]:
    """The loads of each function, of the functions of each load."""
    loads: dict[str, set[str]] = {}
    for load, functions in executed.items():
        for function in functions:
            loads.setdefault(function, set()).add(load)
    return {function: frozenset(of) for function, of in loads.items()}


def built() -> Kernel:
    folder = Path("made-up")
    return Kernel("tree:x", "6.12.7", Release.parse("6.12.7"), "made up", folder, None, folder, {}, "k" * 64)


SAME, SLOWER = (95.0, 96.0), (80.0, 82.0)


class Measuring:
    """What stands for the builds and boots of ``blklab patch``.

    ``rates`` are the IOPS of the kernels in the order in which they are measured; ``commits`` are what was measured.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *rates: Sequence[float]) -> None:
        self._folder, self._runs = folder, dict[str, RunFolder]()
        self.begin(*rates)
        bench = SimpleNamespace(measure=self._measure, lab=None, store=SimpleNamespace(root=folder))
        monkeypatch.setattr("harness.commands.patch.bench_of", lambda *_, **__: bench)
        monkeypatch.setattr("harness.patch.study.tree.built", self._built)

    def begin(self, *rates: Sequence[float]) -> None:
        """Forget what was measured."""
        self._rates = rates
        self._runs.clear()

    @property
    def commits(self) -> list[str]:
        return [*self._runs]

    def _built(self, source: KernelSource, *_: object, **__: object) -> Kernel:
        return replace(built(), digest=source.revision)

    def _measure(self, request: Request) -> SimpleNamespace:
        digest, number = request.kernel.digest, len(self._runs)
        if digest not in self._runs:
            self._runs[digest] = run_of(self._folder / "runs", self._rates[number], day=number + 1)
        return SimpleNamespace(folder=self._runs[digest])

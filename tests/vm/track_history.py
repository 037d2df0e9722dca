# SPDX-License-Identifier: GPL-2.0-only
"""A git history over linux-source-6.12 for ``blklab track``: two nights, with what must be reported written down.

python -m tests.vm.track_history FOLDER     writes it, and prints the head of each night
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.track.state import Trend
from lab.base.cache import Cache
from lab.base.units import silent
from lab.kernels.mutants import MUTANTS
from lab.kernels.tree import source_of
from tests.vm.kernel_history import Git

SCENARIOS = ("fair-tags", "page-cache-writes", "elevator-submit")
_HERE = "\t/*\n\t * If the plug has a cached request for this queue, try to use it.\n"
_LOOP = """\
	/* 75 turns of two instructions in each submission. */
	for (int turn = 0; turn < 75; turn++)
		barrier();

"""
_BROKEN = "\n#error change 4 does not build\n"
_UNUSED = """
int sort_unused(int first, int second);
int sort_unused(int first, int second)
{
	return first * 3 + second;
}
EXPORT_SYMBOL(sort_unused);
"""


@dataclass(frozen=True)
class Wanted:
    """What the alarm of a commit must say: its trend, and a claim or figure of a scenario whose name ends so."""

    trend: Trend
    scenario: str
    moves: str


@dataclass(frozen=True)
class Change:
    """One commit: a ``mutant`` is applied or ``removed``, and in each file an old text replaced by a new one, which is
    added at the end where the old one is empty. ``side``: by a merge of a branch of one commit.
    """

    subject: str
    put: Mapping[str, tuple[str, str]]
    mutant: str = ""
    removed: bool = False
    side: bool = False
    wanted: Wanted | None = None


def _comment(file: str, number: int) -> Change:
    return Change(f"{file}: a comment", {file: ("", f"\n/* change {number} */\n")})


NIGHTS: tuple[tuple[Change, ...], ...] = (
    (
        _comment("block/bio.c", 1),
        Change(
            "block: share all tags",
            {},
            mutant="no-fair-tags",
            # shared.even: each of two queues gets half of the tags by the fair share, and what it takes without it.
            wanted=Wanted(Trend.WORSE, "fair-tags", ""),
        ),
        _comment("lib/sort.c", 3),
        Change("block: break the build", {"block/blk-core.c": ("", _BROKEN)}),
        Change("block: mend the build", {"block/blk-core.c": (_BROKEN, "")}),
        Change("lib: a function that nothing calls", {"lib/sort.c": ("", _UNUSED)}),
    ),
    (
        _comment("drivers/md/dm-linear.c", 7),
        Change(
            "block: merge nothing in the plug",
            {},
            mutant="no-plug-merge",
            # All bios of a plug become requests of their own.
            wanted=Wanted(Trend.WORSE, "page-cache-writes", ""),
        ),
        Change("Merge a comment", {"block/elevator.c": ("", "\n/* on the side */\n")}, side=True),
        Change(
            "block: count turns",
            {"block/blk-mq.c": (_HERE, _LOOP + _HERE)},
            # 150 instructions more for each of the 15,458 (none) or 17,594 (mq-deadline) of a read: 0.9 to 1.0 %.
            wanted=Wanted(Trend.WORSE, "elevator-submit", "cpu.per_io"),
        ),
        _comment("block/ioctl.c", 11),
        Change(
            "Revert block: share all tags",
            {},
            mutant="no-fair-tags",
            removed=True,
            wanted=Wanted(Trend.BETTER, "fair-tags", ""),
        ),
    ),
)


@dataclass(frozen=True)
class Written:
    """``commits`` of each night, oldest first, after the commit ``base``."""

    folder: Path
    base: str
    commits: tuple[tuple[str, ...], ...]

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(night[-1] for night in self.commits)


def write(folder: Path, cache: Cache) -> Written:
    """A bare repository in ``folder``, whose branch ``main`` is at the head of the last night."""
    source = source_of("6.12", cache, tell=silent)
    git = Git(folder)
    git.run("init", "--quiet", "--bare", "--initial-branch=main")
    (folder / "objects/info/alternates").write_text(f"{source.path / 'objects'}\n")
    git.run("read-tree", source.git_tree)
    base = tip = git.run("commit-tree", source.git_tree, "-m", "base")
    nights, number = [], 0
    for night in NIGHTS:
        made = []
        for change in night:
            number += 1
            _apply(git, change)
            parents = ["-p", tip]
            if change.side:
                side = git.run("commit-tree", git.run("write-tree"), *parents, "-m", "on the side", date=number)
                parents += ["-p", side]
            tip = git.run("commit-tree", git.run("write-tree"), *parents, "-m", change.subject, date=number)
            made.append(tip)
        nights.append(tuple(made))
    git.run("update-ref", "refs/heads/main", tip)
    return Written(folder, base, tuple(nights))


def _apply(git: Git, change: Change) -> None:
    if change.mutant:
        patch = MUTANTS / f"{change.mutant}.patch"
        git.run("apply", "--cached", *["--reverse"] * change.removed, str(patch))
    for path, (old, new) in change.put.items():
        before = git.show(path)
        assert not old or before.count(old) == 1, f"{path} has {before.count(old)} times {old!r}"
        git.put(path, before.replace(old, new) if old else before + new)


if __name__ == "__main__":
    written = write(Path(sys.argv[1]), Cache.default())
    print(written.base, *written.heads, sep="\n")

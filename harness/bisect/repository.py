# SPDX-License-Identifier: GPL-2.0-only
"""A kernel's git history, read and searched without changing the user's tree.

The search happens in a bare clone that borrows the objects of the user's repository
(``git clone --shared``), so its bisection and its revert leave no trace there.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.base.errors import LabBroken, Misuse
from lab.base.process import Finished, run
from lab.base.units import shortened
from lab.kernels.git import commit_of
from lab.kernels.tree import KernelSource

_FIELDS = "%H%x00%P%x00%an <%ae>%x00%aI%x00%s"
_CONFLICT = 1


def is_commit(name: str) -> bool:
    """Whether it is a commit's hash, in full."""
    return re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", name) is not None


@dataclass(frozen=True)
class Commit:
    """``author`` is a name with an address, ``date`` ISO 8601; ``files`` are those that it changes."""

    sha: str
    parents: tuple[str, ...]
    author: str
    date: str
    subject: str
    files: tuple[str, ...]

    @property
    def short(self) -> str:
        return f'{self.sha[:12]} ("{self.subject}")'


@dataclass(frozen=True)
class BisectStep:
    """The next commit to ``test``, or the ``culprit``, or the commits ``left`` if the rest is skipped."""

    test: str = ""
    culprit: str = ""
    left: tuple[str, ...] = ()


def demand_repository(source: Path) -> None:
    if run(["git", "-C", str(source), "rev-parse", "--git-common-dir"], accept=(0, 128)).returncode:
        raise Misuse(f"{source} is no git repository", remedy="TREE=DIR, a clone of the kernel's history")


class Repository:
    """The clone in ``folder`` of the repository at ``source``, created if missing."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.source, self.folder = source, folder
        if not (folder / "HEAD").is_file():
            demand_repository(source)
            run(["git", "clone", "--quiet", "--bare", "--shared", "--no-tags", str(source), str(folder)])

    def resolve(self, rev: str) -> str:
        """The commit ``rev`` of the user's repository. Raises Misuse."""
        return commit_of(self.source, rev)

    def kernel_source(self, commit: str) -> KernelSource:
        """What the kernel of a commit is built of, named as that of the user's tree."""
        spec = f"tree:{self.source}"
        return KernelSource(self.folder, f"{spec}@{commit}", f"{spec} at {commit[:12]}", revision=commit)

    def has(self, commit: str) -> bool:
        return not self.git("cat-file", "-e", f"{commit}^{{commit}}", accept=(0, 1, 128)).returncode

    def merge_base(self, first: str, second: str) -> str:
        """Empty without a common ancestor."""
        return self.text("merge-base", first, second, accept=(0, 1)).strip()

    def dropped(self, before: str, now: str) -> tuple[str, ...]:
        """Commits of ``before`` that ``now`` has neither as they were nor as a commit of the same patch."""
        listing = self.text("cherry", now, before).splitlines()
        return tuple(sha for mark, sha in map(str.split, listing) if mark == "+")

    def contains(self, commit: str, ancestor: str) -> bool:
        """Whether ``ancestor`` is the commit or one before it."""
        return not self.git("merge-base", "--is-ancestor", ancestor, commit, accept=(0, 1)).returncode

    def demand_line(self, good: str, bad: str) -> None:
        """Raises Misuse if ``bad`` does not contain ``good``."""
        if not self.contains(bad, good):
            raise Misuse(f"{good[:12]} is no ancestor of {bad[:12]}", remedy="GOOD must be a commit that BAD contains")

    def commit(self, sha: str) -> Commit:
        words = self.text("show", "--no-patch", f"--format={_FIELDS}", sha).strip("\n").split("\0")
        sha, parents, author, date, subject = words
        listing = self.text("diff-tree", "--no-commit-id", "--name-only", "-r", "-m", "--first-parent", "-z", sha)
        files = tuple(dict.fromkeys(name for name in listing.split("\0") if name))
        return Commit(sha, tuple(parents.split()), author, date, shortened(subject), files)

    def suspects(self, good: Iterable[str], bad: str, *, first_parent: bool = False) -> tuple[str, ...]:
        """Commits that ``bad`` has and no ``good`` one has, oldest first."""
        options = ["--first-parent"] if first_parent else []
        listing = self.text("rev-list", "--topo-order", "--reverse", *options, bad, *(f"^{sha}" for sha in good))
        return tuple(listing.split())

    def next_step(self, bad: Sequence[str], good: Sequence[str], skipped: Sequence[str]) -> BisectStep:
        """The next step of git bisect for these answers; no state is kept in git."""
        self.git("bisect", "reset", accept=(0, 1, 128))
        # git bisect start needs a HEAD that is a commit, and that of the user's repository may name no branch.
        self.git("update-ref", "--no-deref", "HEAD", bad[0])
        said = self.git("bisect", "start", "--no-checkout", bad[0], *good)
        for word, commits in (("bad", bad[1:]), ("skip", skipped)):
            for sha in commits:
                said = self.git("bisect", word, sha, accept=(0, 2))
        text = said.stdout.decode(errors="replace")
        if "is the first bad commit" in text:
            return BisectStep(culprit=text.split()[0])
        if "only 'skip'ped commits left" in text:
            return BisectStep(left=tuple(filter(is_commit, text.split())))
        head = self.git("rev-parse", "--verify", "--quiet", "BISECT_HEAD", accept=(0, 1)).stdout.decode().strip()
        if not head:
            raise LabBroken(f"git bisect did not say what to test next: {text.strip()}")
        return BisectStep(test=head)

    def reverted(self, culprit: str, onto: str) -> str | None:
        """A commit that is ``onto`` with ``culprit`` reverted; None if the revert does not apply.

        git merge-tree takes a merge base of one's own from 2.40 on only, so these three get a history in
        which the culprit is the base of the other two.
        """
        known = self.commit(culprit)
        about = f"Revert {culprit}", known.date
        base = self.committed(f"{culprit}^{{tree}}", *about)
        ours, theirs = (self.committed(f"{sha}^{{tree}}", *about, base) for sha in (onto, known.parents[0]))
        merged = self.git("merge-tree", "--write-tree", ours, theirs, accept=(0, 1))
        if merged.returncode == _CONFLICT:
            return None
        return self.committed(merged.stdout.decode().split()[0], *about, onto)

    def committed(self, tree: str, message: str, when: str, *parents: str) -> str:
        """The same commit id each time, so that what was measured on it before is found."""
        who = {"NAME": "blklab", "EMAIL": "blklab@localhost", "DATE": when}
        stamps = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
        before = [word for parent in parents for word in ("-p", parent)]
        return self.text("commit-tree", tree, *before, "-m", message or "no subject", extra=stamps).strip()

    def text(self, *arguments: str, **settings: Any) -> str:
        """What ``git`` prints, with the same arguments."""
        return self.git(*arguments, **settings).stdout.decode(errors="replace")

    def git(self, *arguments: str, extra: Mapping[str, str] | None = None, **settings: Any) -> Finished:
        """A command of git in the clone, with ``extra`` variables and ``settings`` of ``lab.base.process.run``."""
        return run(["git", "-C", str(self.folder), *arguments], env={**os.environ, **(extra or {})}, **settings)

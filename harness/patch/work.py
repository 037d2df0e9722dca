# SPDX-License-Identifier: GPL-2.0-only
"""The change in a work tree of the kernel: commits, or what is not committed, as the text of one patch.

git only reads there: its index is not refreshed, and no object is written.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from harness.base.files import write_atomic
from harness.patch.series import Patch
from harness.patch.sources import UNCOMMITTED
from harness.report.format import plural
from lab.base.digest import digest_bytes
from lab.base.errors import Misuse
from lab.base.process import run
from lab.base.reading import read_regular
from lab.kernels.git import commit_of, kernel_tree
from lab.yaml.strict import names

_REBASE = ("rebase-merge", "rebase-apply")
_SOURCE = re.compile(r"(?:.*/)?(?:[^/]+\.[chS]|Kconfig|Makefile|Kbuild)")
_FORM = (
    "--binary",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
_SHOWN = 5
_RECENT = "-100"


@dataclass(frozen=True)
class WorkChange:
    """``diff`` leads from the commit ``base`` to the change, whose ``title`` is for people, in the work tree ``top``.

    ``left_out``: files of source that git does not track, which no diff has.
    """

    top: Path
    base: str
    title: str
    diff: str = field(repr=False)
    left_out: tuple[str, ...] = ()


def is_range(text: str) -> bool:
    return ".." in text and not Path(text).exists()


def change_of(folder: Path, named: str | None, against: str | None = None) -> WorkChange:
    """The range ``named``, or HEAD and what is not committed ``against`` a revision: without one the merge base with
    the upstream branch, else HEAD. ``folder`` is inside the tree.

    Raises Misuse outside of a kernel's work tree, in the middle of a merge or a rebase, for an empty change, and where
    the change needs a file that git does not track.
    """
    top = kernel_tree(folder)
    if top is None:
        raise Misuse(
            f"{folder} is not in a git work tree of the kernel", remedy="cd into the tree, or blklab patch SERIES"
        )
    if named is not None:
        if against:
            raise Misuse(f"--base does not go with the range {named}", remedy="omit one of them")
        return _of_range(top, named)
    _demand_settled(top)
    base, beyond = (commit_of(top, against), "") if against else _base(top)
    diff = _git(top, "diff", *_FORM, base)
    if not diff:
        remedy = "name a range, such as HEAD~1..HEAD"
        raise Misuse(f"nothing in {top} differs from {base[:12]}{beyond}", remedy=remedy)
    committed = commit_of(top, "HEAD") != base
    title = _subject(top, "HEAD") if committed else f"{UNCOMMITTED} on {base[:12]}"
    if committed and _git(top, "diff", *_FORM, "HEAD"):
        title += f", and {UNCOMMITTED}"
    untracked = tuple(
        name
        for name in _git(top, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
        if _SOURCE.fullmatch(name)
    )
    if needed := [name for name in untracked if _uses(diff, name)]:
        raise Misuse(
            f"the change needs files that git does not track: {names(needed)}", remedy=f"git add -N {needed[0]}"
        )
    return WorkChange(top, base, title, diff, untracked[:_SHOWN])


def review_range(tracking: Path) -> str:
    """The range of the commits that ``b4 review`` made of a series, by its tracking file. Raises Misuse."""
    try:
        series = json.loads(read_regular(tracking))["series"]
        return f"{series['first-patch-commit']}~1..b4/review/{series['change-id']}~1"
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Misuse(f"{tracking} is no tracking file of b4: {error!r}", remedy="unset B4_TRACKING_FILE") from error


def range_of(top: Path, patch: Patch, commits: str = "") -> str | None:
    """The range of the commit that makes the change of ``patch``, of the range ``commits`` or the last ones of HEAD."""
    (wanted,) = _patch_ids(top, patch.diff.encode(errors="surrogateescape")) or [("", "")]
    log = _git(top, "log", "-p", "--no-merges", *_FORM, *([commits] if commits else [_RECENT, "HEAD"]))
    among = dict(_patch_ids(top, log.encode(errors="surrogateescape")))
    commit = among.get(wanted[0])
    return f"{commit}~1..{commit}" if commit else None


def _patch_ids(top: Path, text: bytes) -> list[tuple[str, str]]:
    """What git patch-id prints: the id of each change, and its commit where the text names that."""
    done = run(["git", "-C", str(top), "patch-id", "--stable"], stdin=text)
    return [(words[0], words[1]) for line in done.stdout.decode().splitlines() if len(words := line.split()) > 1]


def write_change(change: WorkChange, results: Path) -> Path:
    """The file of the patch below the folder of the results, the same one for the same change."""
    path = results / "changes" / f"{digest_bytes((change.base + change.diff).encode())[:12]}.patch"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, f"Subject: {change.title}\n\n{change.diff}".encode(errors="surrogateescape"))
    return path


def _of_range(top: Path, named: str) -> WorkChange:
    dots = "..." if "..." in named else ".."
    old, new = (commit_of(top, side or "HEAD") for side in named.split(dots, 1))
    if dots == "...":
        old = _git(top, "merge-base", old, new).strip()
    diff = _git(top, "diff", *_FORM, old, new)
    if not diff:
        raise Misuse(f"{named} changes nothing", remedy="OLD..NEW, where NEW has the change")
    count = int(_git(top, "rev-list", "--count", f"{old}..{new}"))
    title = _subject(top, new) + (f", and {plural(count - 1, 'earlier commit')}" if count > 1 else "")
    return WorkChange(top, old, title, diff)


def _demand_settled(top: Path) -> None:
    """Raises Misuse in the middle of a rebase and where files are unmerged: the tree is no version."""
    for name in _REBASE:
        if (top / _git(top, "rev-parse", "--git-path", name).strip()).is_dir():
            raise Misuse(f"{top} is in the middle of a rebase", remedy="git rebase --continue, or name a range")
    if unmerged := _git(top, "ls-files", "--unmerged", "-z").partition("\0")[0].partition("\t")[2]:
        raise Misuse(f"{unmerged} in {top} is unmerged", remedy="resolve the conflict and git add it, or name a range")


def _base(top: Path) -> tuple[str, str]:
    """The commit that the change is compared with, and what that is beyond HEAD."""
    upstream = _git(top, "rev-parse", "--verify", "--quiet", "@{upstream}^{commit}").strip()
    merged = _git(top, "merge-base", "HEAD", upstream).strip() if upstream else ""
    return (merged, ", the merge base with its upstream branch") if merged else (commit_of(top, "HEAD"), ", its HEAD")


def _uses(diff: str, untracked: str) -> bool:
    """Whether the added lines name the file: its object in a Makefile, itself in an #include or a Kconfig."""
    path = Path(untracked)
    word = f"{path.stem}.o" if path.suffix in (".c", ".S") else path.name
    added = (line for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++"))
    return any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", line) for line in added)


def _subject(top: Path, commit: str) -> str:
    return _git(top, "show", "--no-patch", "--format=%s", commit).strip()


def _git(top: Path, *words: str) -> str:
    done = run(["git", "--no-optional-locks", "-C", str(top), "--no-pager", *words], accept=(0, 1, 128))
    return done.stdout.decode(errors="surrogateescape")

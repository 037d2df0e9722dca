# SPDX-License-Identifier: GPL-2.0-only
"""A git history over a kernel's source: most commits harmless, some that do not build, one that carries a mutant."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_WHO = {
    f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in (("NAME", "A"), ("EMAIL", "a@b"))
}
_TOUCHED = ("block/bio.c", "Documentation/block/index.rst", "lib/sort.c", "drivers/md/dm-linear.c", "block/elevator.c")
_ENDS = {".rst": "\n.. change {number}\n"}
_COMMENT = "\n/* change {number} */\n"
_BROKEN_FILE, _BROKEN = "block/blk-core.c", "\n#error change {number} does not build\n"


@dataclass(frozen=True)
class History:
    """``commits`` are oldest first; ``culprit`` is a place among them."""

    repository: Path
    commits: tuple[str, ...]
    culprit: int


def make_history(
    folder: Path,
    objects: Path,
    tree: str,
    mutant: Path,
    *,
    count: int,
    culprit: int,
    broken: tuple[int, ...] = (),
    removed: bool = False,
) -> History:
    """A bare repository in ``folder`` on the git ``tree`` that the store ``objects`` has; ``mutant`` is a patch.

    With ``removed`` all commits before the culprit have the patch, and the culprit removes it.
    """
    git = Git(folder)
    git.run("init", "--quiet", "--bare", "--initial-branch=main")
    (folder / "objects" / "info" / "alternates").write_text(f"{objects}\n")
    git.run("read-tree", tree)
    if removed:
        git.run("apply", "--cached", str(mutant))
    mended: str | None = None
    commits: list[str] = []
    for number in range(count):
        if mended is not None:
            git.put(_BROKEN_FILE, mended)
            mended = None
        if number == culprit:
            git.run("apply", "--cached", *["--reverse"] * removed, str(mutant))
        elif number in broken:
            mended = git.show(_BROKEN_FILE)
            git.put(_BROKEN_FILE, mended + _BROKEN.format(number=number))
        else:
            path = _TOUCHED[number % len(_TOUCHED)]
            git.put(path, git.show(path) + _ENDS.get(Path(path).suffix, _COMMENT).format(number=number))
        parents = ["-p", commits[-1]] if commits else []
        commits.append(git.run("commit-tree", git.run("write-tree"), *parents, "-m", f"change {number}", date=number))
    git.run("update-ref", "refs/heads/main", commits[-1])
    return History(folder, tuple(commits), culprit)


class Git:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)

    def show(self, path: str) -> str:
        return self.run("cat-file", "blob", f":{path}", strip=False)

    def put(self, path: str, text: str) -> None:
        blob = self.run("hash-object", "-w", "--stdin", stdin=text)
        self.run("update-index", "--cacheinfo", f"100644,{blob},{path}")

    def run(self, *words: str, stdin: str = "", date: int = 0, strip: bool = True) -> str:
        done = subprocess.run(
            ["git", f"--git-dir={self._folder}", *words],
            cwd=self._folder,
            env=self._environment(date),
            input=stdin.encode(errors="surrogateescape"),
            capture_output=True,
            check=True,
        )
        text = done.stdout.decode(errors="surrogateescape")
        return text.strip() if strip else text

    def _environment(self, date: int) -> Mapping[str, str]:
        when = {f"GIT_{role}_DATE": f"{1_600_000_000 + date} +0000" for role in ("AUTHOR", "COMMITTER")}
        return {**os.environ, **_WHO, **when, "GIT_INDEX_FILE": str(self._folder / "index")}

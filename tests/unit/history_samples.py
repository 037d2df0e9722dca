# SPDX-License-Identifier: GPL-2.0-only
"""Small git histories, and an oracle that knows by a file's text what a commit is."""

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self

from harness.bisect.notebook import ClaimSeen, Observation, State
from harness.bisect.repository import Repository
from harness.scenario.model import Status

THAT = "the neighbour keeps its throughput"
_WHO = {
    f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in (("NAME", "A"), ("EMAIL", "a@b"))
}


def git(folder: Path, *words: str, date: int = 0) -> str:
    when = {f"GIT_{role}_DATE": f"{1_600_000_000 + date} +0000" for role in ("AUTHOR", "COMMITTER")}
    environment = {**os.environ, **_WHO, **when, "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(["git", "-C", str(folder), *words], env=environment, capture_output=True, check=True)
    return done.stdout.decode().strip()


def history(folder: Path, changes: Iterable[Mapping[str, str]]) -> list[str]:
    """A repository with a commit for each mapping from files to their new text; the commits, oldest first."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    return [commit(folder, number, files) for number, files in enumerate(changes)]


def commit(folder: Path, number: int, files: Mapping[str, str]) -> str:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", f"change {number}", date=number)
    return git(folder, "rev-parse", "HEAD")


def line(count: int, culprit: int, broken: tuple[int, ...] = ()) -> list[dict[str, str]]:
    """Commits that touch a file each; ``culprit`` turns the verdict, ``broken`` ones do not build."""
    changes = []
    for number in range(count):
        word = "does not build" if number in broken else "bad" if number >= culprit else "good"
        changes.append({f"drivers/f{number}.c": str(number), "verdict": word})
    return changes


class TextOracle:
    """Reads ``verdict`` of a commit in ``clone``: good, bad, or what keeps it from being tested.

    ``nudge`` is added to the ratios in another layout; at 0.5 and above the claim holds.
    """

    def __init__(self, clone: Path, setting: str = "s", before: Callable[[str], None] = lambda _: None) -> None:
        self.clone, self.setting, self._before = clone, setting, before
        self.nudge = 0.0
        self.measured: list[str] = []
        self.prepared: list[str] = []

    def measure(self, commit: str, *, once: bool = False, moved: bool = False) -> Observation:
        self._before(commit)
        self.measured.append(commit)
        word = git(self.clone, "show", f"{commit}:verdict")
        if word not in ("good", "bad"):
            return Observation(commit, self.setting, untestable=word)
        values = (1.0, 0.99) if word == "good" else (0.02, 0.03)
        values = (values[0] + self.nudge * moved, values[1] + self.nudge * moved)
        status = Status.PASS if min(values) >= 0.5 else Status.FAIL
        return Observation(commit, self.setting, (ClaimSeen(THAT, "a / b", status, values),), run=f"run-{commit[:7]}")

    def kernel(self, commit: str) -> None:
        self.prepared.append(commit)


class Bisected:
    """A history with its clone, the search's state and what it told; the ends are the first and the last commit."""

    def __init__(self, folder: Path, commits: list[str], bad: str = "") -> None:
        self.folder, self.commits = folder, commits
        self.state = State("t", str(folder / "tree"), commits[0], bad or commits[-1])
        self.repository = Repository(folder / "tree", folder / "clone.git")
        self.told: list[str] = []

    @classmethod
    def of(cls, folder: Path, changes: Iterable[Mapping[str, str]]) -> Self:
        return cls(folder, history(folder / "tree", changes))

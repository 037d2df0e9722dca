# SPDX-License-Identifier: GPL-2.0-only
"""The result of a bisection and its evidence."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from harness.bisect.notebook import Answer, CommitWord, Observation, Question
from harness.bisect.repository import Commit, Repository

PARENT, ITSELF, REVERT = "the parent", "the commit", "the bad end with the commit reverted"
MOVED = "in another layout"


@dataclass(frozen=True)
class MeasuredCommit:
    """A measured commit, in the order of the search."""

    commit: Commit
    seen: Observation
    answer: Answer


def checks(
    repository: Repository, culprit: Commit, bad: str, word: Callable[[str, str], CommitWord]
) -> Iterator[tuple[str, CommitWord | None]]:
    """Each check with the ``word`` of its commit; a revert that does not apply has none."""
    reverted = repository.reverted(culprit.sha, bad)
    for what, sha in ((PARENT, culprit.parents[0]), (ITSELF, culprit.sha), (REVERT, reverted)):
        yield what, word(sha, what) if sha else None


@dataclass(frozen=True)
class Shift:
    """The median ``ratio`` of a claim on a ``side``, and the one in another layout of the same code."""

    side: str
    that: str
    ratio: float
    moved: float


def shifts(question: Question, side: str, plain: Observation, moved: Observation) -> Iterator[Shift]:
    """A shift for each ratio that both have."""
    elsewhere = {claim.that: median(claim.values) for claim in question.ratios(moved)}
    for claim in question.ratios(plain):
        if claim.that in elsewhere:
            yield Shift(side, claim.that, median(claim.values), elsewhere[claim.that])


@dataclass(frozen=True)
class Finding:
    """``culprit`` is None if it is one of those ``left``. ``checks`` are the results of the verification.

    ``confidence`` is the posterior probability of the culprit, or of those left, None where figures do not scatter;
    ``cost`` counts measurements besides the ends. ``layout`` has the ratios of the culprit and its parent in another
    layout of the same code; empty where none was measured.
    """

    question: Question
    steps: tuple[MeasuredCommit, ...]
    culprit: Commit | None
    left: tuple[Commit, ...] = ()
    checks: tuple[tuple[str, CommitWord | None], ...] = ()
    confidence: float | None = None
    cost: int = 0
    layout: tuple[Shift, ...] = ()

    @property
    def cautions(self) -> tuple[str, ...]:
        return tuple(_warnings(self.culprit)) if self.culprit else ()

    @property
    def verified(self) -> bool:
        """The parent is good and the commit bad, in another layout too; a revert that applies is good."""
        words = dict(self.checks)
        return (
            self.culprit is not None
            and words.get(PARENT) is CommitWord.GOOD
            and words.get(ITSELF) is CommitWord.BAD
            and words.get(REVERT) in (None, CommitWord.GOOD)
            and words.get(f"{PARENT} {MOVED}") in (None, CommitWord.GOOD)
            and words.get(f"{ITSELF} {MOVED}") in (None, CommitWord.BAD)
        )


_MODELS = {
    "drivers/block/null_blk": "null_blk",
    "drivers/target/": "LIO, the target of the lab's SCSI disks",
    "drivers/scsi/scsi_debug.c": "scsi_debug",
    "drivers/nvme/target/": "the NVMe target",
}
_NO_CODE = ("Documentation/", "MAINTAINERS", "CREDITS", ".mailmap", "LICENSES/")
_OUR_ARCHITECTURE = "arch/x86/"


def _warnings(commit: Commit) -> Iterator[str]:
    if len(commit.parents) > 1:
        yield "it is a merge: its parents pass, so the merge itself is wrong, or one side was skipped"
    if commit.files and all(name.startswith(_NO_CODE) or name.endswith((".rst", ".txt")) for name in commit.files):
        yield "it touches documentation only and cannot be the cause: check the skipped commits and the ends"
    elif commit.files and all(_is_foreign(name) for name in commit.files):
        yield "it touches only architectures that were not tested and cannot be the cause"
    models = [what for path, what in _MODELS.items() if any(name.startswith(path) for name in commit.files)]
    if models:
        yield (
            f"it changes {', '.join(models)}, which the lab's own devices use: calibrate both sides"
            " (blklab check calibration) before calling it a regression of the block layer"
        )


def _is_foreign(name: str) -> bool:
    return name.startswith("arch/") and not name.startswith(_OUR_ARCHITECTURE)

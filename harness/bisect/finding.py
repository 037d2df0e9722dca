# SPDX-License-Identifier: GPL-2.0-only
"""The result of a bisection and its evidence."""

from dataclasses import dataclass

from harness.bisect.question import Answer, Question
from harness.bisect.repository import Commit
from harness.bisect.state import CommitWord, Observation

PARENT, ITSELF, REVERT = "the parent", "the commit", "the bad end with the commit reverted"


@dataclass(frozen=True)
class MeasuredCommit:
    """A measured commit, in the order of the search."""

    commit: Commit
    seen: Observation
    answer: Answer


@dataclass(frozen=True)
class Finding:
    """``culprit`` is None if it is one of those ``left``. ``checks`` are the results of the verification.

    ``confidence`` is the posterior probability of the culprit, or of those left, None where figures do not scatter;
    ``cost`` counts measurements besides the ends.
    """

    question: Question
    steps: tuple[MeasuredCommit, ...]
    culprit: Commit | None
    left: tuple[Commit, ...] = ()
    checks: tuple[tuple[str, CommitWord | None], ...] = ()
    cautions: tuple[str, ...] = ()
    confidence: float | None = None
    cost: int = 0

    @property
    def verified(self) -> bool:
        """The parent is good and the commit bad; a revert that applies is good."""
        words = dict(self.checks)
        return (
            self.culprit is not None
            and words.get(PARENT) is CommitWord.GOOD
            and words.get(ITSELF) is CommitWord.BAD
            and words.get(REVERT) in (None, CommitWord.GOOD)
        )

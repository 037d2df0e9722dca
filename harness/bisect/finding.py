# SPDX-License-Identifier: GPL-2.0-only
"""The result of a bisection and its evidence."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.bisect.question import Answer, Question
from harness.bisect.repository import Commit, Repository
from harness.bisect.state import CommitWord, Observation

PARENT, ITSELF, REVERT = "the parent", "the commit", "the bad end with the commit reverted"


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

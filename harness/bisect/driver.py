# SPDX-License-Identifier: GPL-2.0-only
"""A bisection from its two ends to a culprit that was verified, resumable at every step.

git chooses the commits, an oracle measures them. What it measured is on disk before the next one
is chosen, and is taken up again as long as nothing but the kernel would differ.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.bisect.culprit import warnings
from harness.bisect.question import Answer, Question
from harness.bisect.repository import Commit, Repository
from harness.bisect.state import Observation, State, Word, load_state, save_state
from lab.errors import BlklabError, Misuse

Tell = Callable[[str], None]


class Oracle(Protocol):
    """What a commit is measured by. ``setting`` digests all that the figures depend on besides the kernel."""

    setting: str

    def measure(self, commit: str) -> Observation:
        """Raises LabBroken when nothing can be said of any commit."""

    def prepare(self, commit: str) -> None:
        """Build it ahead, in another thread; what goes wrong is met again by ``measure``."""


@dataclass(frozen=True)
class Step:
    """One measured commit, in the order of the search."""

    commit: Commit
    seen: Observation
    answer: Answer


@dataclass(frozen=True)
class Finding:
    """``culprit`` is None when only skipped commits are ``left``. ``checks`` says what verification gave."""

    question: Question
    steps: tuple[Step, ...]
    culprit: Commit | None
    left: tuple[Commit, ...] = ()
    checks: tuple[tuple[str, Word | None], ...] = ()
    cautions: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        """The parent is good and the commit bad; a revert that applies is good."""
        words = dict(self.checks)
        return (
            self.culprit is not None
            and words.get(PARENT) is Word.GOOD
            and words.get(ITSELF) is Word.BAD
            and words.get(REVERT) in (None, Word.GOOD)
        )


PARENT, ITSELF, REVERT = "the parent", "the commit", "the bad end with the commit reverted"


class Bisection:
    """Works in ``folder``; ``ahead`` is how many commits are built before it is known that they are wanted."""

    def __init__(
        self, repository: Repository, oracle: Oracle, wanted: State, folder: Path, tell: Tell, *, ahead: int = 0
    ) -> None:
        self._repository, self._oracle, self._folder, self._tell = repository, oracle, folder, tell
        self._state = load_state(folder, wanted)
        self._ahead = ahead
        self._steps: dict[str, Step] = {}

    def run(self) -> Finding:
        """Raises CannotJudge when the ends do not differ, Misuse when they are no line of history, LabBroken."""
        good, bad = self._state.good, self._state.bad
        if not self._repository.is_ancestor(good, bad):
            raise Misuse(f"{good[:12]} is no ancestor of {bad[:12]}", remedy="GOOD must be a commit that BAD contains")
        question = Question.between(self._measured(good, "good end"), self._measured(bad, "bad end"))
        self._note(good, question)
        self._note(bad, question)
        with ThreadPoolExecutor(max_workers=1) as builder:
            culprit, left = self._search(question, builder)
        found = None if not culprit else self._repository.commit(culprit)
        return Finding(
            question,
            tuple(self._steps.values()),
            found,
            tuple(self._repository.commit(sha) for sha in left),
            tuple(self._checks(found, question)) if found else (),
            tuple(warnings(found)) if found else (),
        )

    def _search(self, question: Question, builder: ThreadPoolExecutor) -> tuple[str, tuple[str, ...]]:
        known: dict[Word, list[str]] = {
            Word.GOOD: [self._state.good],
            Word.BAD: [self._state.bad],
            Word.SKIP: [],
        }
        while True:
            step = self._repository.next_step(known[Word.BAD], known[Word.GOOD], known[Word.SKIP])
            if not step.test:
                return step.culprit, step.left
            left = len(self._repository.suspects(known[Word.GOOD], known[Word.BAD][-1]))
            building = self._build_ahead(step.test, known, builder)
            self._measured(step.test, f"{left} suspects left")
            for future in building:
                future.cancel()
            known[self._note(step.test, question).word].append(step.test)

    def _build_ahead(
        self, test: str, known: dict[Word, list[str]], builder: ThreadPoolExecutor
    ) -> list["Future[None]"]:
        """Start to build what either answer would want next."""
        if not self._ahead or self._known(test):
            return []
        wanted = [
            self._repository.next_step([*known[Word.BAD], test], known[Word.GOOD], known[Word.SKIP]).test,
            self._repository.next_step(known[Word.BAD], [*known[Word.GOOD], test], known[Word.SKIP]).test,
        ]
        fresh = [sha for sha in wanted if sha and self._known(sha) is None]
        return [builder.submit(self._prepare, sha) for sha in fresh[: self._ahead]]

    def _prepare(self, commit: str) -> None:
        # The commit may never be wanted; if it is, the same goes wrong again and is reported then.
        with suppress(BlklabError):
            self._oracle.prepare(commit)

    def _known(self, commit: str) -> Observation | None:
        seen = self._state.observations.get(commit)
        return seen if seen is not None and seen.setting == self._oracle.setting else None

    def _measured(self, commit: str, why: str) -> Observation:
        seen = self._known(commit)
        if seen is not None:
            self._tell(f"{commit[:12]}: as measured before ({why})")
            return seen
        self._tell(f"{commit[:12]}: measuring ({why})")
        seen = self._oracle.measure(commit)
        self._state = self._state.with_observation(seen)
        save_state(self._folder, self._state)
        return seen

    def _note(self, commit: str, question: Question) -> Answer:
        seen = self._state.observations[commit]
        answer = question.answer(seen)
        self._steps[commit] = Step(self._repository.commit(commit), seen, answer)
        self._tell(f"{commit[:12]}: {answer.word}" + (f", {answer.reason}" if answer.reason else ""))
        return answer

    def _checks(self, culprit: Commit, question: Question) -> Iterable[tuple[str, Word | None]]:
        """Each is measured, or was on the way; a revert that does not apply has no word."""
        for what, sha in ((PARENT, culprit.parents[0]), (ITSELF, culprit.sha)):
            yield what, question.answer(self._measured(sha, what)).word
        reverted = self._repository.reverted(culprit.sha, self._state.bad)
        yield REVERT, question.answer(self._measured(reverted, REVERT)).word if reverted else None

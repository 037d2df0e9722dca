# SPDX-License-Identifier: GPL-2.0-only
"""A bisection under the virtual clock, from two ends to a verified culprit, resumable at every step.

git chooses the commits, an oracle measures each of them once.
"""

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.bisect.finding import ITSELF, MOVED, PARENT, Finding, MeasuredCommit, Shift, checks, shifts
from harness.bisect.notebook import Answer, CommitWord, Notebook, Observation, Oracle, Question, State
from harness.bisect.repository import Commit, Repository
from lab.base.errors import BlklabError
from lab.base.units import Tell


class Bisection:
    """Works in ``folder``; ``ahead`` is the number of commits built speculatively."""

    def __init__(
        self, repository: Repository, oracle: Oracle, wanted: State, folder: Path, tell: Tell, *, ahead: int = 0
    ) -> None:
        self._repository, self._oracle, self._wanted, self._tell = repository, oracle, wanted, tell
        self._notes = Notebook(folder, wanted, oracle, tell)
        self._ahead = ahead
        self._steps: dict[str, MeasuredCommit] = {}

    def run(self) -> Finding:
        """Raises CannotJudge if the ends do not differ, Misuse if ``bad`` does not contain ``good``, LabBroken."""
        good, bad = self._wanted.good, self._wanted.bad
        self._repository.demand_line(good, bad)
        ends = self._notes.measured(good, "good end"), self._notes.measured(bad, "bad end")
        question = Question.between(*ends)
        for end in ends:
            self._note(end, question)
        with ThreadPoolExecutor(max_workers=1) as builder:
            culprit, left = self._search(question, builder)
        finding = Finding(question, tuple(self._steps.values()), None, tuple(map(self._repository.commit, left)))
        return self._check(finding, self._repository.commit(culprit)) if culprit else finding

    def _check(self, finding: Finding, culprit: Commit) -> Finding:
        """A verdict repeats exactly, so it is measured again where only the layout of the code differs."""
        answers = partial(self._word, question=finding.question)
        words = list(checks(self._repository, culprit, self._wanted.bad, answers))
        layout = list[Shift]()
        for side, sha in ((PARENT, culprit.parents[0]), (ITSELF, culprit.sha)):
            what = f"{side} {MOVED}"
            plain, moved = self._notes.measured(sha, what), self._notes.measured(sha, what, moved=True)
            words.append((what, finding.question.answer(moved).word))
            layout += shifts(finding.question, side, plain, moved)
        return replace(finding, culprit=culprit, checks=tuple(words), layout=tuple(layout))

    def _search(self, question: Question, builder: ThreadPoolExecutor) -> tuple[str, tuple[str, ...]]:
        good, bad, skipped = [self._wanted.good], [self._wanted.bad], list[str]()
        known = {CommitWord.GOOD: good, CommitWord.BAD: bad, CommitWord.SKIP: skipped}
        while test := (step := self._repository.next_step(bad, good, skipped)).test:
            left = len(self._repository.suspects(good, bad[-1]))
            building = self._build_ahead(test, (([*bad, test], good, skipped), (bad, [*good, test], skipped)), builder)
            try:
                seen = self._notes.measured(test, f"{left} suspects left")
            finally:
                for future in building:
                    future.cancel()
            known[self._note(seen, question).word].append(test)
        return step.culprit, step.left

    def _build_ahead(
        self, test: str, answers: Iterable[tuple[list[str], list[str], list[str]]], builder: ThreadPoolExecutor
    ) -> list["Future[None]"]:
        """Build the commit to measure now, and start builds of the commits that either answer needs next.

        One builder goes from commit to commit: a step takes it seconds, and a second one's first build minutes.
        """
        if not self._ahead or self._notes.known(test):
            return []
        self._prepare(test)
        wanted = [self._repository.next_step(*known).test for known in answers]
        fresh = [sha for sha in wanted if sha and self._notes.known(sha) is None]
        return [builder.submit(self._prepare, sha) for sha in fresh[: self._ahead]]

    def _prepare(self, commit: str) -> None:
        # If the commit is needed, the same error occurs again and is reported then.
        with suppress(BlklabError):
            self._oracle.prepare(commit)

    def _note(self, seen: Observation, question: Question) -> Answer:
        answer = question.answer(seen)
        self._steps[seen.commit] = MeasuredCommit(self._repository.commit(seen.commit), seen, answer)
        self._tell(f"{seen.commit[:12]}: {answer.word}" + (f", {answer.reason}" if answer.reason else ""))
        return answer

    def _word(self, commit: str, why: str, question: Question) -> CommitWord:
        return question.answer(self._notes.measured(commit, why)).word

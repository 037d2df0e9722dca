# SPDX-License-Identifier: GPL-2.0-only
"""A bisection by ratios that scatter: a posterior over the commits decides what to measure and when to stop.

It goes along first parents, which is one line, and from a merge that it finds into what was merged.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.bisect.finding import Finding, MeasuredCommit, checks
from harness.bisect.notebook import CommitWord, Notebook, Observation, Oracle, State
from harness.bisect.posterior import CONFIDENCE, Ends, Found, Posterior, search
from harness.bisect.question import Answer, Question
from harness.bisect.repository import Commit, Repository
from lab.base.errors import CannotJudge
from lab.base.units import Tell

_ANEW = 3
"""Further searches after a refuted culprit, with the measurements that refute it."""
_APART = 4.0
"""Standard errors by which the means of the ends must differ."""


class NoisyBisection:
    """Works in ``folder``, which keeps every measured ratio; the posterior is computed from all of them."""

    def __init__(self, repository: Repository, oracle: Oracle, wanted: State, folder: Path, tell: Tell) -> None:
        self._repository, self._oracle, self._wanted, self._tell = repository, oracle, wanted, tell
        self._notes = Notebook(folder, wanted, oracle, tell)
        self._met = dict.fromkeys((wanted.good, wanted.bad))
        self._cost = 0

    def run(self) -> Finding:
        """Raises CannotJudge if the ends do not differ, Misuse if ``bad`` does not contain ``good``, LabBroken."""
        good, bad = self._wanted.good, self._wanted.bad
        self._repository.demand_line(good, bad)
        before, since = self._notes.measured(good, "good end"), self._notes.measured(bad, "bad end")
        question = Question.scattered(before, since)
        ends = _apart(question, before, since)
        self._tell(f"the ends are {ends.good:.4g} and {ends.bad:.4g}, {ends.apart:.1f} standard deviations apart")
        finding = self._found(ends, question)
        for _ in range(_ANEW):
            if finding.culprit is None or finding.verified:
                break
            self._tell("the checks contradict it: they are counted, and the search continues")
            finding = self._found(ends, question)
        return finding

    def _found(self, ends: Ends, question: Question) -> Finding:
        sha, left, confidence = self._descend(ends, question)
        culprit = self._repository.commit(sha) if sha else None

        def word(commit: str, _: str) -> CommitWord:
            return self._word(commit, ends, question)

        return Finding(
            question,
            tuple(self._steps(ends, question)),
            culprit,
            tuple(self._repository.commit(suspect) for suspect in left),
            tuple(checks(self._repository, culprit, self._wanted.bad, word)) if culprit else (),
            confidence,
            self._cost,
        )

    def _descend(self, ends: Ends, question: Question) -> tuple[str, Sequence[str], float]:
        """The culprit, or the commits left, and the confidence."""
        excluded, tip, confidence = [self._wanted.good], self._wanted.bad, 1.0
        line = self._repository.suspects(excluded, tip, first_parent=True)
        while True:
            found = self._search(line, ends, question)
            confidence *= found.confidence
            if found.culprit is None or found.confidence < CONFIDENCE:
                return "", [line[place] for place in found.suspects], confidence
            culprit = self._repository.commit(line[found.culprit])
            merged = () if culprit.sha in excluded else self._merged(culprit, excluded)
            if not merged:
                return culprit.sha, (), confidence
            self._tell(f"{culprit.sha[:12]} is a merge: continuing in its {len(merged)} merged commits")
            line = (*merged, culprit.sha)
            excluded += [culprit.parents[0], culprit.sha]

    def _merged(self, culprit: Commit, excluded: Sequence[str]) -> Sequence[str]:
        """The first-parent commits merged by a merge of two, oldest first; none for any other commit."""
        match culprit.parents:
            case (ours, theirs):
                return self._repository.suspects([*excluded, ours], theirs, first_parent=True)
            case _:
                return ()

    def _search(self, line: Sequence[str], ends: Ends, question: Question) -> Found:
        """Search a ``line`` whose last commit is bad; earlier measurements are counted first."""
        posterior = Posterior.of(ends, len(line))
        for place, commit in enumerate(line[:-1]):
            for ratio in _values(self._notes.known(commit), question):
                posterior = posterior.measured(place, ratio)

        def measure(place: int) -> Sequence[float]:
            return self._ratios(line[place], question)

        return search(posterior, measure)

    def _ratios(self, commit: str, question: Question) -> Sequence[float]:
        """The ratios of one more measurement; none for a commit that could not be tested."""
        self._met[commit] = None
        known = self._notes.known(commit)
        if known and known.untestable:
            return ()
        seen = self._notes.once_more(commit)
        self._cost += 1
        fresh = _values(seen, question)[len(_values(known, question)) :]
        shown = ", ".join(f"{value:.4g}" for value in fresh) or f"skipped, {seen.untestable or 'nothing was measured'}"
        self._tell(f"{commit[:12]}: {shown}")
        return fresh

    def _word(self, commit: str, ends: Ends, question: Question) -> CommitWord:
        """Good or bad, with the confidence that a culprit needs."""
        posterior = Posterior.of(ends, 2)
        for ratio in _values(self._notes.known(commit), question):
            posterior = posterior.measured(0, ratio)
        found = search(posterior, lambda _: self._ratios(commit, question))
        if found.culprit is None:
            return CommitWord.SKIP
        return CommitWord.GOOD if found.culprit else CommitWord.BAD

    def _steps(self, ends: Ends, question: Question) -> Iterator[MeasuredCommit]:
        for sha in self._met:
            seen = self._notes.known(sha)
            if seen is not None:
                yield MeasuredCommit(self._repository.commit(sha), seen, _answer(seen, ends, question))


def _answer(seen: Observation, ends: Ends, question: Question) -> Answer:
    values = _values(seen, question)
    if not values:
        return Answer(CommitWord.SKIP, seen.untestable or "nothing was measured")
    mean = math.fsum(values) / len(values)
    return Answer(CommitWord.GOOD if abs(mean - ends.good) < abs(mean - ends.bad) else CommitWord.BAD)


def _values(seen: Observation | None, question: Question) -> Sequence[float]:
    claims = seen.claims if seen else ()
    return next((claim.values for claim in claims if claim.that == question.claims[0]), ())


def _apart(question: Question, good: Observation, bad: Observation) -> Ends:
    before, since = _values(good, question), _values(bad, question)
    try:
        ends = Ends.of(before, since)
    except ValueError as error:
        raise CannotJudge(f'the ends say nothing of "{question.claims[0]}": {error}') from error
    errors = ends.apart / math.sqrt(1 / len(before) + 1 / len(since))
    if errors < _APART:
        raise CannotJudge(
            f'the ends are not apart: "{question.claims[0]}" is {ends.good:.4g} and {ends.bad:.4g} in the mean,'
            f" {errors:.1f} standard errors of {_APART:.0f}",
            remedy="a window or a load that shows the change more clearly",
        )
    return ends

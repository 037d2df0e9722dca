# SPDX-License-Identifier: GPL-2.0-only
"""A bisection, from two ends to a verified culprit, resumable at every step.

Under the virtual clock git chooses the commits, and each is measured once. Where ratios scatter, a posterior over the
commits decides what to measure and when to stop. It goes along first parents, which is one line, and from a merge that
it finds into what was merged. Of the suspects of a line, oldest first, exactly one is the culprit: before it ratios
scatter about the good mean, from it on about the bad one, both with one deviation, which a few measurements tell: by
Student's distribution (W. S. Gosset, "The probable error of a mean", 1908). Each ratio turns the probabilities by
Bayes' rule; the next commit to measure is the one that halves them, which for two alternatives tells most (M. Horstein,
"Sequential transmission using noiseless feedback", 1963; R. Waeber, P. Frazier, S. Henderson, "Bisection search with
noisy responses", 2013).
"""

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

from harness.bisect.finding import ITSELF, MOVED, PARENT, Finding, MeasuredCommit, Shift, checks, shifts
from harness.bisect.notebook import Answer, CommitWord, Notebook, Observation, Oracle, Question, State
from harness.bisect.repository import Commit, Repository
from lab.base.errors import BlklabError, CannotJudge
from lab.base.units import Tell


class _Search:
    """Works in ``folder``, which keeps every measurement."""

    def __init__(self, repository: Repository, oracle: Oracle, wanted: State, folder: Path, tell: Tell) -> None:
        self._repository, self._oracle, self._wanted, self._tell = repository, oracle, wanted, tell
        self._notes = Notebook(folder, wanted, oracle, tell)

    def _ends(self) -> tuple[Observation, Observation]:
        """The good and the bad one. Raises Misuse if the bad one does not contain the good one."""
        self._repository.demand_line(self._wanted.good, self._wanted.bad)
        return self._notes.observe(self._wanted.good, "good end"), self._notes.observe(self._wanted.bad, "bad end")


class Bisection(_Search):
    """By answers that repeat; ``ahead`` is the number of commits built speculatively."""

    def __init__(
        self, repository: Repository, oracle: Oracle, wanted: State, folder: Path, tell: Tell, *, ahead: int = 0
    ) -> None:
        super().__init__(repository, oracle, wanted, folder, tell)
        self._ahead = ahead
        self._steps: dict[str, MeasuredCommit] = {}

    def run(self) -> Finding:
        """Raises CannotJudge if the ends do not differ, Misuse if ``bad`` does not contain ``good``, LabBroken."""
        ends = self._ends()
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
            plain, moved = self._notes.observe(sha, what), self._notes.observe(sha, what, moved=True)
            words.append((what, finding.question.answer(moved).word))
            layout += shifts(finding.question, plain, moved)
        return replace(finding, culprit=culprit, checks=tuple(words), layout=tuple(layout))

    def _search(self, question: Question, builder: ThreadPoolExecutor) -> tuple[str, tuple[str, ...]]:
        good, bad, skipped = [self._wanted.good], [self._wanted.bad], list[str]()
        known = {CommitWord.GOOD: good, CommitWord.BAD: bad, CommitWord.SKIP: skipped}
        while test := (step := self._repository.next_step(bad, good, skipped)).test:
            left = len(self._repository.suspects(good, bad[-1]))
            building = self._build_ahead(test, (([*bad, test], good, skipped), (bad, [*good, test], skipped)), builder)
            try:
                seen = self._notes.observe(test, f"{left} suspects left")
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
            self._oracle.kernel(commit)

    def _note(self, seen: Observation, question: Question) -> Answer:
        answer = question.answer(seen)
        self._steps[seen.commit] = MeasuredCommit(self._repository.commit(seen.commit), seen, answer)
        self._tell(f"{seen.commit[:12]}: {answer.word}" + (f", {answer.reason}" if answer.reason else ""))
        return answer

    def _word(self, commit: str, why: str, question: Question) -> CommitWord:
        return question.answer(self._notes.observe(commit, why)).word


CONFIDENCE = 0.99
_LEAST_MEASURED = 2


@dataclass(frozen=True)
class Ends:
    """Means of the ratio on the good and the bad end, and the standard deviation of a measurement.

    ``freedom`` are the degrees of freedom by which the deviation is known.
    """

    good: float
    bad: float
    deviation: float
    freedom: int

    @classmethod
    def of(cls, good: Sequence[float], bad: Sequence[float]) -> "Ends":
        """From two or more measurements of each end. Raises ValueError for fewer, or without any scatter."""
        if len(good) < _LEAST_MEASURED or len(bad) < _LEAST_MEASURED:
            raise ValueError("each end needs at least two measurements")
        squares = sum(statistics.variance(values) * (len(values) - 1) for values in (good, bad))
        freedom = len(good) + len(bad) - 2
        deviation = math.sqrt(squares / freedom)
        if deviation == 0:
            raise ValueError("the ends do not scatter: one measurement a commit decides")
        return cls(statistics.fmean(good), statistics.fmean(bad), deviation, freedom)

    @property
    def apart(self) -> float:
        """Distance of the ends in standard deviations."""
        return abs(self.good - self.bad) / self.deviation


@dataclass(frozen=True)
class Posterior:
    """``chances[i]`` is the probability that suspect ``i`` is the culprit; they add up to 1."""

    ends: Ends
    chances: tuple[float, ...]

    @classmethod
    def of(cls, ends: Ends, suspects: int) -> "Posterior":
        return cls(ends, (1 / suspects,) * suspects)

    def updated(self, place: int, ratio: float) -> "Posterior":
        before = self._likelihood(ratio, self.ends.good)
        since = self._likelihood(ratio, self.ends.bad)
        # Suspect ``place`` is bad already if the culprit is at it or before it.
        weights = [chance * (since if at <= place else before) for at, chance in enumerate(self.chances)]
        total = math.fsum(weights)
        if total == 0:
            # Too far from both ends to favour either.
            return self
        return replace(self, chances=tuple(weight / total for weight in weights))

    def next_place(self, untestable: Collection[int] = ()) -> int | None:
        """The suspect whose measurement halves the probability; None if no measurement can change it."""
        sums = list(accumulate(self.chances))
        # The last one is bad by assumption.
        places = [place for place in range(len(sums) - 1) if place not in untestable]
        return min(places, key=lambda place: abs(sums[place] - 0.5), default=None)

    def likeliest(self, untestable: Collection[int] = ()) -> tuple[range, float]:
        """The likeliest suspect and its probability, together with untestable neighbours."""
        ends = [
            place for place in range(len(self.chances)) if place not in untestable or place == len(self.chances) - 1
        ]
        groups = [range(before + 1, end + 1) for before, end in pairwise((-1, *ends))]
        weighed = [(math.fsum(self.chances[group.start : group.stop]), group) for group in groups]
        chance, commit = max(weighed, key=lambda pair: pair[0])
        return commit, chance

    def _likelihood(self, ratio: float, mean: float) -> float:
        """By Student's distribution, without the factor that both means share."""
        square, freedom = ((ratio - mean) / self.ends.deviation) ** 2, self.ends.freedom
        return float((1 + square / freedom) ** (-(freedom + 1) / 2))


Measure = Callable[[int], Sequence[float]]
"""Ratios measured at a suspect; none if it cannot be tested."""


def search(posterior: Posterior, measure: Measure) -> tuple[range, float]:
    """Measure the most informative suspect until one has ``CONFIDENCE``; the likeliest suspects, as ``likeliest``."""
    untestable = set[int]()
    while True:
        suspects, chance = posterior.likeliest(untestable)
        place = posterior.next_place(untestable)
        if chance >= CONFIDENCE or place is None:
            return suspects, chance
        ratios = measure(place)
        if not ratios:
            untestable.add(place)
        for ratio in ratios:
            posterior = posterior.updated(place, ratio)


_ANEW = 3
"""Further searches after a refuted culprit, with the measurements that refute it."""
_APART = 4.0
"""Standard errors by which the means of the ends must differ."""


class NoisyBisection(_Search):
    """By ratios that scatter; the posterior is computed from all that were measured."""

    def __init__(self, repository: Repository, oracle: Oracle, wanted: State, folder: Path, tell: Tell) -> None:
        super().__init__(repository, oracle, wanted, folder, tell)
        self._met = dict.fromkeys((wanted.good, wanted.bad))
        self._cost = 0

    def run(self) -> Finding:
        """Raises CannotJudge if the ends do not differ, Misuse if ``bad`` does not contain ``good``, LabBroken."""
        before, since = self._ends()
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
        word = partial(self._word, ends=ends, question=question)
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
            suspects, chance = self._search(line, ends, question)
            confidence *= chance
            if len(suspects) > 1 or chance < CONFIDENCE:
                return "", [line[place] for place in suspects], confidence
            culprit = self._repository.commit(line[suspects[0]])
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

    def _search(self, line: Sequence[str], ends: Ends, question: Question) -> tuple[range, float]:
        """Search a ``line`` whose last commit is bad; earlier measurements are counted first."""
        posterior = Posterior.of(ends, len(line))
        for place, commit in enumerate(line[:-1]):
            for ratio in _values(self._notes.known(commit), question):
                posterior = posterior.updated(place, ratio)

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

    def _word(self, commit: str, _why: str, *, ends: Ends, question: Question) -> CommitWord:
        """Good or bad, with the confidence that a culprit needs."""
        suspects, _ = self._search([commit, self._wanted.bad], ends, question)
        if len(suspects) > 1:
            return CommitWord.SKIP
        return CommitWord.GOOD if suspects[0] else CommitWord.BAD

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

# SPDX-License-Identifier: GPL-2.0-only
"""One search of a range for all that moved in it.

What has the same answers goes on together, so a commit is built once, and a scenario that moved is measured on it once.
git chooses the commits. A figure that still differs before or after its culprit is searched there too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from harness.bisect.notebook import CommitWord
from harness.bisect.repository import Repository
from harness.grid.lines import Kind, Move, Trend
from harness.track.moves import BOOTS, BUILDS, answer, differs, moves, word_before
from harness.track.runs import CommitRuns
from lab.base.errors import CannotJudge


@dataclass(frozen=True)
class Suspicion:
    """A move with the answers of commits, those of the good and the bad end first."""

    move: Move
    answers: tuple[tuple[str, CommitWord], ...]

    def told(self, word: CommitWord) -> list[str]:
        """The commits of this answer; the first good and bad ones are the ends."""
        return [commit for commit, each in self.answers if each is word]


@dataclass(frozen=True)
class Cause:
    """The ``culprit`` of a move, or the commits ``left``. ``move`` is what that commit alone changes."""

    move: Move
    culprit: str = ""
    left: tuple[str, ...] = ()


@dataclass
class RangeSearch:
    """Searches the commits of ``repository`` between a good and a bad one."""

    repository: Repository
    runs: CommitRuns
    causes: list[Cause] = field(default_factory=list)
    _asked: set[tuple[object, ...]] = field(default_factory=set)
    _skipped: set[str] = field(default_factory=set)

    def run(self, between: Iterable[tuple[Move, str, str]]) -> Sequence[Cause]:
        """Each move with its good end, empty where that is not known, and its bad end, which contains the good one."""
        waiting = list[Suspicion]()
        for move, good, bad in between:
            if good:
                waiting += self._new(move, good, bad)
            else:
                self.causes.append(Cause(move))
        while waiting:
            families: dict[tuple[tuple[str, CommitWord], ...], list[Suspicion]] = {}
            for suspicion in waiting:
                families.setdefault(suspicion.answers, []).append(suspicion)
            largest = max(families.values(), key=len)
            waiting = [each for each in waiting if each not in largest] + self._step(largest)
        return self.causes

    def _new(self, move: Move, good: str, bad: str) -> Iterator[Suspicion]:
        key = (move.key, good, bad)
        if good != bad and key not in self._asked:
            self._asked.add(key)
            yield Suspicion(move, ((good, CommitWord.GOOD), (bad, CommitWord.BAD)))

    def _step(self, family: Sequence[Suspicion]) -> list[Suspicion]:
        """The family after one more commit; none where its search is over."""
        bad, good, skipped = map(family[0].told, (CommitWord.BAD, CommitWord.GOOD, CommitWord.SKIP))
        step = self.repository.next_step(bad, good, skipped)
        if not step.test:
            return [more for each in family for more in self._ended(each, step.culprit, step.left)]
        left = len(self.repository.suspects(good, bad[-1]))
        names = ", ".join(dict.fromkeys(each.move.scenario or BUILDS for each in family))
        self.runs.tell(f"{step.test[:12]}: {left} suspects left of {names}")
        answers = family[0].answers
        return [Suspicion(each.move, (*answers, (step.test, self._word(each, step.test)))) for each in family]

    def _word(self, suspicion: Suspicion, commit: str) -> CommitWord:
        move = suspicion.move
        try:
            if move.kind in _SHOWN:
                return CommitWord.BAD if _shows(self.runs, commit, move) else CommitWord.GOOD
            ends = (self.runs.seen(end, move.scenario) for end, _ in suspicion.answers[:2])
            return answer(move, self.runs.seen(commit, move.scenario), *ends)
        except CannotJudge as error:
            if commit not in self._skipped:
                self.runs.tell(f"{commit[:12]}: skipped, {error.message}")
            self._skipped.add(commit)
            return CommitWord.SKIP

    def _ended(self, suspicion: Suspicion, culprit: str, left: Sequence[str]) -> Iterator[Suspicion]:
        move = suspicion.move
        if not culprit:
            self.causes.append(Cause(move, left=tuple(left)))
            return
        parent, (good, bad) = self.repository.commit(culprit).parents[0], [end for end, _ in suspicion.answers[:2]]
        if move.kind in _SHOWN:
            self.causes.append(Cause(move, culprit))
            return
        name = move.scenario
        try:
            before, after = self.runs.seen(parent, name), self.runs.seen(culprit, name)
        except CannotJudge:
            self.causes.append(Cause(move, culprit))
            return
        own = differs(move, before, after)
        self.causes.append(Cause(own or move, culprit))
        if move.kind is Kind.BOOT and move.before == BOOTS:
            # What does not boot at the bad end hid what moved before.
            for hidden in moves(self.runs.seen(good, name), before):
                yield from self._new(hidden, good, parent)
            return
        for first, last in ((good, parent), (culprit, bad)):
            if self.repository.contains(last, first) and first != last:
                rest = differs(move, self.runs.seen(first, name), self.runs.seen(last, name))
                yield from self._new(rest, first, last) if rest else ()


_SHOWN = (Kind.BUILD, Kind.HUNT)
"""Kinds of moves that a commit shows or not, without a comparison."""


def _shows(runs: CommitRuns, commit: str, move: Move, *, moved: int = 0) -> bool:
    """Whether the commit does not build, or a kept search finds on it what it finds at the end that a move leads to."""
    if move.kind is Kind.BUILD:
        return bool(runs.builds(commit))
    return bool(runs.hunted(commit, move.name, moved=moved)) is (move.trend is Trend.WORSE)


_LAYOUTS = 3
VERIFIED_IN = 2
"""Scenarios of an alarm that the checks of its culprit measure; the others moved with them."""


@dataclass(frozen=True)
class Verdict:
    """The words of the ``checks``, and the moves that pass all of them. ``why``: what contradicts the culprit."""

    checks: Mapping[str, str]
    moves: tuple[Move, ...]
    why: str = ""


def verify(repository: Repository, runs: CommitRuns, culprit: str, head: str, of: Sequence[Move]) -> Verdict:
    """The parent must be good, the commit bad, in another layout too, and ``head`` with the commit reverted good."""
    parent, revert = repository.commit(culprit).parents[0], repository.reverted(culprit, head)
    names = list(dict.fromkeys(move.scenario for move in of))[:VERIFIED_IN]
    checks: dict[str, str] = {"parent": "good", "culprit": "bad"}
    left = [move for move in of if move.scenario in names]
    tests: Sequence[tuple[str, Callable[[Move], bool] | None]] = (
        ("differ", partial(_differ, runs, parent, culprit)),
        ("another layout", partial(_layout, runs, parent, culprit)),
        ("revert", partial(_reverted, runs, revert, head) if revert else None),
    )
    for what, holds in tests:
        if holds is None:
            checks[what] = "does not apply"
            continue
        try:
            passing = [move for move in left if holds(move)]
        except CannotJudge as error:
            checks[what] = f"cannot be measured: {error.message}"
            return Verdict(checks, tuple(left), f"{what} {checks[what]}")
        if not passing:
            return Verdict(checks, (), _CONTRADICTIONS[what])
        left = passing
        if what != "differ":
            checks[what] = "the same" if what == "another layout" else "good"
    return Verdict(checks, tuple(left))


_CONTRADICTIONS = {
    "differ": "the commit and its parent do not differ by more than layout moves",
    "another layout": "in another layout of the same code the commit and its parent do not differ",
    "revert": "with the commit reverted it stays",
}


def _differ(runs: CommitRuns, parent: str, culprit: str, move: Move) -> bool:
    if move.kind in _SHOWN:
        return _shows(runs, culprit, move) and not _shows(runs, parent, move)
    return differs(move, runs.seen(parent, move.scenario), runs.seen(culprit, move.scenario)) is not None


def _layout(runs: CommitRuns, parent: str, culprit: str, move: Move) -> bool:
    """Whether other layouts of the same code show it: of a figure, whether they leave the commit and its parent further
    apart than they move either. Where tasks starve, any layout moves a figure by more than the thresholds.
    """
    if move.kind is Kind.BUILD:
        return True
    if move.kind is Kind.HUNT:
        return _shows(runs, culprit, move, moved=1) and not _shows(runs, parent, move, moved=1)
    if move.kind is not Kind.FIGURE:
        ends = (runs.seen(sha, move.scenario, moved=1) for sha in (parent, culprit))
        other = differs(replace(move, scenario=f"{move.scenario}.word"), *ends)
        return other is not None and other.trend is move.trend
    before, after = (
        [runs.seen(sha, move.scenario, moved=moved).reading(move) for moved in range(_LAYOUTS)]
        for sha in (parent, culprit)
    )
    low, high = ([each for each in side if isinstance(each, float)] for side in (before, after)[:: move.sign])
    if len(low) < _LAYOUTS or len(high) < _LAYOUTS:
        return False
    return min(high) - max(low) > max(max(side) - min(side) for side in (low, high))


def _reverted(runs: CommitRuns, revert: str, head: str, move: Move) -> bool:
    if move.kind in _SHOWN:
        return not _shows(runs, revert, move)
    seen = runs.seen(revert, move.scenario)
    if move.kind is not Kind.FIGURE:
        return seen.reading(move) == word_before(move)
    # Another commit may have moved the figure too: the revert must move it back by more than the threshold.
    back = differs(move, runs.seen(head, move.scenario), seen)
    return back is not None and back.sign == -move.sign

# SPDX-License-Identifier: GPL-2.0-only
"""The claims that separate the good end from the bad end, and their answer for a commit in between."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness.bisect.notebook import ClaimSeen, CommitWord, Observation
from harness.scenario.model import Status
from lab.base.errors import CannotJudge

_HELD, _FAILED = str(Status.PASS), str(Status.FAIL)


@dataclass(frozen=True)
class Answer:
    """``reason``: why a commit is skipped."""

    word: CommitWord
    reason: str = ""


@dataclass(frozen=True)
class Question:
    """The claims that separate the good end from the bad end."""

    claims: tuple[str, ...]

    @classmethod
    def between(cls, good: Observation, bad: Observation) -> "Question":
        """The claims that hold on the good end and fail on the bad one, with ranges that do not overlap.

        Raises CannotJudge, saying what is wrong with the ends.
        """
        told, before, since = _told(good, bad), _by_name(good), _by_name(bad)
        apart = tuple(that for that in told if _apart(before[that], since[that]))
        if not apart:
            raise CannotJudge(
                f"the ranges of the ends overlap: {_shown(told[0], good, bad)}", remedy="use more seeds: SEEDS=8"
            )
        return cls(apart)

    @classmethod
    def scattered(cls, good: Observation, bad: Observation) -> "Question":
        """Of the claims that hold on the good end and fail on the bad one, the one with the largest distance.

        Raises CannotJudge, saying what is wrong with the ends.
        """
        before, since = _by_name(good), _by_name(bad)
        told = max(_told(good, bad), key=lambda that: _distance(before[that].values, since[that].values))
        return cls((told,))

    def answer(self, seen: Observation) -> Answer:
        if seen.untestable:
            return Answer(CommitWord.SKIP, seen.untestable)
        claims = [claim for claim in seen.claims if claim.that in self.claims]
        without = [claim for claim in claims if not claim.values]
        if without:
            # A crash is not the regression that is searched.
            return Answer(CommitWord.SKIP, f"{without[0].status}: not measured: {without[0].that}")
        statuses = {claim.status for claim in claims}
        if statuses == {_HELD}:
            return Answer(CommitWord.GOOD)
        if statuses == {_FAILED}:
            return Answer(CommitWord.BAD)
        listing = "; ".join(f"{claim.status} {claim.that}" for claim in claims)
        return Answer(CommitWord.SKIP, f"some claims are good and some bad: {listing}")

    def ratios(self, seen: Observation) -> list[ClaimSeen]:
        return [claim for claim in seen.claims if claim.that in self.claims and claim.values]


def _told(good: Observation, bad: Observation) -> tuple[str, ...]:
    """Claims that hold on the good end and fail on the bad one. Raises CannotJudge when there is none."""
    for name, end in (("good", good), ("bad", bad)):
        if end.untestable:
            raise CannotJudge(f"the {name} end {end.commit[:12]} cannot be tested: {end.untestable}")
    before, since = _by_name(good), _by_name(bad)
    told = tuple(that for that in before if (before[that].status, since[that].status) == (_HELD, _FAILED))
    if told:
        return told
    turned = [that for that in before if (before[that].status, since[that].status) == (_FAILED, _HELD)]
    if turned:
        raise CannotJudge(
            f"the good end fails and the bad one passes: {_shown(turned[0], good, bad)}",
            remedy="exchange GOOD and BAD to find the commit that fixed it",
        )
    listing = "; ".join(_shown(that, good, bad) for that in before)
    raise CannotJudge(f"no claim holds on the good end and fails on the bad one: {listing}")


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Distance of the means in standard deviations; -1 without values."""
    if not one or not other:
        return -1
    means = statistics.fmean(one), statistics.fmean(other)
    deviation = math.hypot(statistics.pstdev(one), statistics.pstdev(other))
    return abs(means[0] - means[1]) / deviation if deviation else math.inf


def _by_name(seen: Observation) -> dict[str, ClaimSeen]:
    return {claim.that: claim for claim in seen.claims}


def _apart(one: ClaimSeen, other: ClaimSeen) -> bool:
    if not one.values or not other.values:
        return False
    return max(one.values) < min(other.values) or max(other.values) < min(one.values)


def _shown(that: str, good: Observation, bad: Observation) -> str:
    before, since = _by_name(good)[that], _by_name(bad)[that]
    return f'"{that}": good {before.status} {_range(before)}, bad {since.status} {_range(since)}'


def _range(claim: ClaimSeen) -> str:
    return f"{min(claim.values):.4g} .. {max(claim.values):.4g}" if claim.values else "(not measured)"

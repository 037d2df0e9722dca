# SPDX-License-Identifier: GPL-2.0-only
"""The probability of each commit of a line of history to be the one that changes a noisy ratio.

Of ``n`` suspects, oldest first, exactly one is the culprit: before it ratios scatter about the good mean,
from it on about the bad one, both normally with one deviation; where that is known by a few measurements
only, by Student's distribution (W. S. Gosset, "The probable error of a mean", 1908). Each measured ratio turns the
probabilities by Bayes' rule; the next commit to measure is the one that halves them, which for two
alternatives tells most (M. Horstein, "Sequential transmission using noiseless feedback", 1963;
R. Waeber, P. Frazier, S. Henderson, "Bisection search with noisy responses", 2013).
"""

import math
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

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
    freedom: float = math.inf

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

    def measured(self, place: int, ratio: float) -> "Posterior":
        """The posterior after measuring ``ratio`` at suspect ``place``."""
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
        chance, found = max(weighed, key=lambda pair: pair[0])
        return found, chance

    def _likelihood(self, ratio: float, mean: float) -> float:
        square, freedom = ((ratio - mean) / self.ends.deviation) ** 2, self.ends.freedom
        if math.isinf(freedom):
            return math.exp(-square / 2)
        return float((1 + square / freedom) ** (-(freedom + 1) / 2))


@dataclass(frozen=True)
class Found:
    """One of ``suspects``, with the probability ``confidence`` after ``cost`` measurements."""

    posterior: Posterior
    suspects: range
    confidence: float
    cost: int

    @property
    def culprit(self) -> int | None:
        """None if untestable commits leave several suspects."""
        return self.suspects[0] if len(self.suspects) == 1 else None


Measure = Callable[[int], Sequence[float]]
"""Ratios measured at a suspect; none if it cannot be tested."""


def search(posterior: Posterior, measure: Measure, *, confidence: float = CONFIDENCE, most: int = 10_000) -> Found:
    """Measure the most informative suspect until ``confidence`` is reached, at most ``most`` times."""
    cost, untestable = 0, set[int]()
    while True:
        suspects, chance = posterior.likeliest(untestable)
        place = posterior.next_place(untestable)
        if chance >= confidence or place is None or cost >= most:
            return Found(posterior, suspects, chance, cost)
        ratios = measure(place)
        cost += 1
        if not ratios:
            untestable.add(place)
        for ratio in ratios:
            posterior = posterior.measured(place, ratio)

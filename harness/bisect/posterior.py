# SPDX-License-Identifier: GPL-2.0-only
"""Where a change of a noisy ratio lies, as a probability for each commit of a line of history.

Of ``n`` suspects, oldest first, exactly one is the culprit: before it ratios scatter about the good mean,
from it on about the bad one, both normally with one deviation. Each measured ratio turns the
probabilities by Bayes' rule; the next commit to measure is the one that halves them, which for two
alternatives tells most (M. Horstein, "Sequential transmission using noiseless feedback", 1963;
R. Waeber, P. Frazier, S. Henderson, "Bisection search with noisy responses", 2013).
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

CONFIDENCE = 0.99
_LEAST_MEASURED = 2


@dataclass(frozen=True)
class Ends:
    """Means of the ratio on the good and the bad end, and the deviation of a single measurement."""

    good: float
    bad: float
    deviation: float

    @classmethod
    def of(cls, good: Sequence[float], bad: Sequence[float]) -> "Ends":
        """From what was measured there, at least twice each. Raises ValueError for fewer, or no deviation at all."""
        if len(good) < _LEAST_MEASURED or len(bad) < _LEAST_MEASURED:
            raise ValueError("each end must be measured twice at least")
        squares = sum(statistics.variance(values) * (len(values) - 1) for values in (good, bad))
        deviation = math.sqrt(squares / (len(good) + len(bad) - 2))
        if deviation == 0:
            raise ValueError("the ends do not scatter: one measurement a commit decides")
        return cls(statistics.fmean(good), statistics.fmean(bad), deviation)

    @property
    def apart(self) -> float:
        """Distance of the ends in deviations."""
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
        """After ``ratio`` came out at suspect ``place``."""
        before = self._likelihood(ratio, self.ends.good)
        since = self._likelihood(ratio, self.ends.bad)
        # Suspect ``place`` is bad already if the culprit is at it or before it.
        weights = [chance * (since if at <= place else before) for at, chance in enumerate(self.chances)]
        total = math.fsum(weights)
        if total == 0:
            # So far from both ends that neither can be told: it says nothing.
            return self
        return replace(self, chances=tuple(weight / total for weight in weights))

    @property
    def next_place(self) -> int:
        """The suspect whose measurement halves the probability."""
        sums = list(accumulate(self.chances))
        # The last one is bad for certain, and would tell nothing.
        return min(range(max(1, len(sums) - 1)), key=lambda place: abs(sums[place] - 0.5))

    @property
    def culprit(self) -> int:
        return max(range(len(self.chances)), key=lambda place: self.chances[place])

    @property
    def confidence(self) -> float:
        return self.chances[self.culprit]

    def _likelihood(self, ratio: float, mean: float) -> float:
        return math.exp(-(((ratio - mean) / self.ends.deviation) ** 2) / 2)


@dataclass(frozen=True)
class Found:
    """``cost`` counts measurements; ``sure`` is whether the confidence was reached within what was allowed."""

    posterior: Posterior
    cost: int
    sure: bool


def search(
    posterior: Posterior, measure: Callable[[int], float], *, confidence: float = CONFIDENCE, most: int = 10_000
) -> Found:
    """Measure where it tells most until the culprit is as sure as ``confidence``, ``most`` times at most."""
    cost = 0
    while posterior.confidence < confidence and cost < most:
        place = posterior.next_place
        posterior = posterior.measured(place, measure(place))
        cost += 1
    return Found(posterior, cost, posterior.confidence >= confidence)

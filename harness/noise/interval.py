# SPDX-License-Identifier: GPL-2.0-only
"""An interval for the true ratio from one ratio of each round of boots.

Rounds are independent, and the logarithm of the quotient of two figures that are disturbed alike scatters evenly
about its true value, whatever the noise's distribution is. Then the means of all subsets of ``n`` values cut the
line into 2^n pieces of which each holds the true value with the same probability (J. A. Hartigan, "Using subsample
values as typical values", JASA 64, 1969): the interval of the permutation test by signs, without a search.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.scenario.model import Bound

MOST_BATCHES = 10
"""More values than this are added up in batches of neighbours, as even as can be, which also takes drift in."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Interval:
    """The true ratio lies below ``low`` with a probability of ``level`` at most, and above ``high`` with the same.

    ``centre`` is the geometric mean of ``rounds`` values (the mean where one of them is not positive).
    """

    low: float
    high: float
    centre: float
    level: float
    rounds: int

    def within(self, bound: Bound) -> bool:
        return bound.holds(self.low) and bound.holds(self.high)

    def outside(self, bound: Bound) -> bool:
        """Whether no value of the interval lies within ``bound``."""
        below = bound.low is not None and (self.high <= bound.low if bound.low_open else self.high < bound.low)
        above = bound.high is not None and (self.low >= bound.high if bound.high_open else self.low > bound.high)
        return below or above


def finest_level(rounds: int) -> float:
    """The least probability of an error on one side that so many values can prove."""
    return 0.5 ** min(rounds, MOST_BATCHES)


def interval(values: Sequence[float], level: float) -> Interval | None:
    """None when there are too few values for ``level``."""
    steps = math.floor(level / finest_level(len(values)) + _ROUNDING)
    if not values or not steps:
        return None
    positive = all(value > 0 for value in values)
    scattered = [math.log(value) for value in values] if positive else list(values)
    means = sorted(_subset_means(scattered))
    ends = means[steps - 1], means[-steps], math.fsum(scattered) / len(scattered)
    # Not by a rounding error beyond values that are all the same, as counts may be.
    low, high, centre = (min(max(math.exp(end) if positive else end, min(values)), max(values)) for end in ends)
    return Interval(low, high, centre, steps * finest_level(len(values)), len(values))


def _subset_means(values: Sequence[float]) -> list[float]:
    sums, counts = [0.0], [0]
    for batch in _batches(values):
        added, size = math.fsum(batch), len(batch)
        sums += [total + added for total in sums]
        counts += [count + size for count in counts]
    return [total / count for total, count in zip(sums[1:], counts[1:], strict=True)]


def _batches(values: Sequence[float]) -> list[Sequence[float]]:
    number = min(len(values), MOST_BATCHES)
    edges = [at * len(values) // number for at in range(number + 1)]
    return [values[start:end] for start, end in pairwise(edges)]


_LEAST = 2


@dataclass(frozen=True)
class Scatter:
    """Deviations of the logarithm of a ratio: 0.05 is five per cent."""

    boots: float
    windows: float

    def of_rounds(self, windows: int) -> float:
        """What rounds of so many windows scatter by."""
        return math.hypot(self.boots, self.windows / math.sqrt(windows))


def scatter(rounds: Sequence[Sequence[float]]) -> Scatter | None:
    """From the ratio of each window of each round, by the analysis of variance of one way.

    None with fewer than two rounds or two windows in each, or with a ratio that has no logarithm.
    """
    if len(rounds) < _LEAST or any(len(windows) < _LEAST or min(windows) <= 0 for windows in rounds):
        return None
    logs = [[math.log(ratio) for ratio in windows] for windows in rounds]
    within = statistics.fmean(statistics.variance(windows) for windows in logs)
    size = statistics.fmean(len(windows) for windows in logs)
    between = statistics.variance([statistics.fmean(windows) for windows in logs]) - within / size
    return Scatter(math.sqrt(max(0.0, between)), math.sqrt(within))

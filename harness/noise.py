# SPDX-License-Identifier: GPL-2.0-only
"""Intervals of a ratio and the stopping rule of the wall clock; pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, stdev

from harness.scenario.model import Bound, Status

MOST_BATCHES = 10
"""More values than this are added up in batches of neighbours, as even as can be, which also takes drift in."""


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
    # Exact: the finest level is a power of 1/2.
    steps = math.floor(level / finest_level(len(values)))
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
    sums, counts, number = [0.0], [0], min(len(values), MOST_BATCHES)
    for start, end in pairwise(at * len(values) // number for at in range(number + 1)):
        added, size = math.fsum(values[start:end]), end - start
        sums += [total + added for total in sums]
        counts += [count + size for count in counts]
    return [total / count for total, count in zip(sums[1:], counts[1:], strict=True)]


_LEAST = 2


@dataclass(frozen=True)
class Scatter:
    """Deviations of the logarithm of a ratio: 0.05 is five per cent."""

    boots: float
    windows: float


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


ERROR = 0.025
"""Probability of a wrong PASS, and of a wrong FAIL, over all looks: the interval of 95 per cent."""

FEWEST_ROUNDS = 6
"""Five rounds prove nothing at that level: their finest is 1/32."""

MOST_ROUNDS = 64

_PARTS = (4, 2, 1)
"""A look at a quarter, at half and at all of the rounds, unless that is too early for any."""

_POWER = 0.8


@dataclass(frozen=True)
class Look:
    """After ``rounds`` boots a side, with a probability of ``level`` for an error on one side."""

    rounds: int
    level: float


@dataclass(frozen=True)
class Rule:
    """``looks`` in order; ``error`` is what their levels add up to at most."""

    error: float
    looks: tuple[Look, ...]


@dataclass(frozen=True)
class Decision:
    """PASS, FAIL, or DONE when no look decided.

    ``interval`` is that of the look that decided, else of the last one that was reached (None before the first).
    ``more`` is how many more rounds would decide by the scatter seen: None when decided, or when
    ``MOST_ROUNDS`` would not do.
    """

    status: Status
    interval: Interval | None
    more: int | None = None


def stopping_rule(rounds: int) -> Rule:
    """Looks at a quarter, half and all of ``rounds``; with fewer than six there is none, so nothing is decided.

    They share the error evenly, but that six rounds need 1/64 to prove anything.
    """
    at = [rounds // part for part in _PARTS if rounds // part >= FEWEST_ROUNDS]
    left, looks = ERROR, []
    for place, number in enumerate(at):
        finest = finest_level(number)
        level = math.floor(max(left / (len(at) - place), finest) / finest) * finest
        looks.append(Look(number, level))
        left -= level
    return Rule(ERROR, tuple(looks))


def decide(rule: Rule, values: Sequence[float], bound: Bound) -> Decision:
    """What the ratios of the rounds so far say of ``bound``: the first look at which the interval clears it."""
    seen: Interval | None = None
    for look in rule.looks:
        if look.rounds > len(values):
            break
        seen = interval(values[: look.rounds], look.level)
        if seen is None:
            continue
        if seen.within(bound):
            return Decision(Status.PASS, seen)
        if seen.outside(bound):
            return Decision(Status.FAIL, seen)
    return Decision(Status.DONE, seen, more_rounds(values, bound))


def more_rounds(values: Sequence[float], bound: Bound) -> int | None:
    """Rounds beyond ``values`` after which four runs of five would decide, were truth and scatter as seen."""
    positive = all(value > 0 for value in values)
    edges = [edge for edge in (bound.low, bound.high) if edge is not None and (edge > 0 or not positive)]
    if len(values) < 2 or not edges:  # noqa: PLR2004
        return max(1, FEWEST_ROUNDS - len(values))
    scale = math.log if positive else float
    scattered = [scale(value) for value in values]
    away = min(abs(math.fsum(scattered) / len(scattered) - scale(edge)) for edge in edges)
    for rounds in range(max(FEWEST_ROUNDS, len(values) + 1), MOST_ROUNDS + 1):
        margin = NormalDist().inv_cdf(1 - stopping_rule(rounds).looks[-1].level) + NormalDist().inv_cdf(_POWER)
        if margin * stdev(scattered) <= away * math.sqrt(rounds):
            return rounds - len(values)
    return None

# SPDX-License-Identifier: GPL-2.0-only
"""When a noisy measurement may end, fixed before its first boot.

Whoever looks after every boot and stops at the first favourable look errs far more often than the level of one
look says. So the rule names its looks in advance and gives each a share of the error that the whole may have:
the shares add up to it, which keeps the promise whatever the looks have to do with each other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, stdev

from harness.noise.interval import Interval, finest_level, interval
from harness.scenario.model import Bound, Status

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
        level = _provable(max(left / (len(at) - place), finest_level(number)), number)
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


def _provable(share: float, rounds: int) -> float:
    finest = finest_level(rounds)
    return math.floor(share / finest + 1e-9) * finest

# SPDX-License-Identifier: GPL-2.0-only
"""How often a bisection of noisy ratios finds the true culprit, and at what cost: histories with known truth."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from harness.bisect.posterior import CONFIDENCE, Ends, Posterior, search

Measure = Callable[[int], float]


@dataclass(frozen=True)
class Tried:
    """``found`` is the share of trials that named the culprit, ``runs`` the mean number of measurements."""

    strategy: str
    found: float
    runs: float


def repeated(suspects: int, repeats: int, measure: Measure) -> tuple[int, int]:
    """Plain bisection with ``repeats`` measurements a step, their mean against the middle: culprit and cost."""
    low, high, cost = 0, suspects - 1, 0
    while low < high:
        middle = (low + high) // 2
        mean = sum(measure(middle) for _ in range(repeats)) / repeats
        cost += repeats
        # Ratios of the simulation are 0 before the culprit and ``shift`` from it on.
        low, high = (low, middle) if mean > 0 else (middle + 1, high)
    return low, cost


def by_posterior(suspects: int, ends: Ends, measure: Measure) -> tuple[int, int]:
    """The search by its posterior: culprit and cost."""
    found = search(Posterior.of(ends, suspects), lambda place: (measure(place),))
    return found.suspects[0], found.cost


def compare(suspects: int, shift: float, repeats: int, trials: int, seed: int = 1) -> tuple[Tried, Tried]:
    """Both strategies on the same ``trials`` histories; ``shift`` is the size of the change in deviations."""
    ends = Ends(-shift / 2, shift / 2, 1.0)
    right, cost = [0, 0], [0, 0]
    for trial in range(trials):
        truth = random.Random(f"{seed} {trial}").randrange(suspects)  # noqa: S311
        for which in range(2):
            noise = random.Random(f"{seed} {trial} {which}")  # noqa: S311
            measure = _history(truth, shift, noise)
            found, runs = repeated(suspects, repeats, measure) if which == 0 else by_posterior(suspects, ends, measure)
            right[which] += found == truth
            cost[which] += runs
    names = (f"{repeats} repeats a step", f"posterior to {CONFIDENCE:.0%}")
    plain, sure = (Tried(names[which], right[which] / trials, cost[which] / trials) for which in range(2))
    return plain, sure


def _history(truth: int, shift: float, noise: random.Random) -> Measure:
    return lambda place: noise.gauss(shift / 2 if place >= truth else -shift / 2, 1.0)

# SPDX-License-Identifier: GPL-2.0-only
"""Success rate and cost of bisecting noisy ratios, on simulated histories with a known culprit."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from harness.bisect.posterior import CONFIDENCE, Ends, Posterior, search

Measure = Callable[[int], float]
Strategy = Callable[[Measure], tuple[int, int]]
"""The named culprit, and the number of measurements."""


@dataclass(frozen=True)
class Tried:
    """``found`` is the share of ``trials`` that named the culprit, ``runs`` the mean number of measurements."""

    strategy: str
    found: float
    runs: float
    trials: int

    @property
    def error(self) -> float:
        """Standard error of ``found``; for a share of 0 or 1 as if one more trial had the other result."""
        share = min(max(self.found, 1 / (self.trials + 1)), self.trials / (self.trials + 1))
        return math.sqrt(share * (1 - share) / self.trials)


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


@dataclass(frozen=True)
class Histories:
    """Histories of ``suspects`` commits, one of which changes the ratio by ``shift`` deviations."""

    suspects: int
    shift: float
    seed: int

    def history(self, trial: int, name: str) -> tuple[int, Measure]:
        """The culprit, the same for every strategy, and the measurements for strategy ``name``."""
        truth = random.Random(f"{self.seed} {trial}").randrange(self.suspects)  # noqa: S311
        noise = random.Random(f"{self.seed} {trial} {name}")  # noqa: S311
        return truth, lambda place: noise.gauss(self.shift / 2 if place >= truth else -self.shift / 2, 1.0)


def compare(suspects: int, shift: float, repeats: int, trials: int, seed: int = 1) -> tuple[Tried, Tried]:
    """Both strategies on the same histories; ``shift`` is the size of the change in deviations.

    Repetition is tried ten times as often: it costs next to nothing, and fails often enough to be counted.
    """
    ends, histories = Ends(-shift / 2, shift / 2, 1.0), Histories(suspects, shift, seed)
    plain = _tried(
        f"{repeats} repeats a step", lambda measure: repeated(suspects, repeats, measure), histories, trials * 10
    )
    sure = _tried(
        f"posterior to {CONFIDENCE:.0%}", lambda measure: by_posterior(suspects, ends, measure), histories, trials
    )
    return plain, sure


def _tried(name: str, strategy: Strategy, histories: Histories, trials: int) -> Tried:
    right, cost = 0, 0
    for trial in range(trials):
        truth, measure = histories.history(trial, name)
        found, runs = strategy(measure)
        right += found == truth
        cost += runs
    return Tried(name, right / trials, cost / trials, trials)

# SPDX-License-Identifier: GPL-2.0-only
"""Error rates of the stopping rule in simulated runs with a known true ratio.

Two arms are booted in turn (A B B A ...). The logarithm of a figure is the true value plus a deviation of its boot,
a deviation of its window and a drift of the host; some windows run at half speed.
"""

import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.noise.stopping import FEWEST_ROUNDS, decide, stopping_rule
from harness.scenario.model import Bound, Status

BOUND = Bound(">= 1", 1.0, None)


@dataclass(frozen=True)
class Noise:
    """Deviations of the logarithm: 0.05 is five per cent. ``drift`` is per boot.

    A share ``stolen`` of the windows runs at half its speed.
    """

    name: str
    boot: float
    window: float
    drift: float = 0.0
    stolen: float = 0.0


@dataclass(frozen=True)
class RehearsalPlan:
    """``rounds`` at most, each a boot of either arm with ``windows`` windows; ``trials`` runs under ``seed``."""

    rounds: int = 12
    windows: int = 3
    trials: int = 1000
    seed: int = 1


@dataclass(frozen=True)
class RehearsalOutcome:
    """The share of the trials with each verdict, and the mean number of rounds."""

    verdicts: Mapping[Status, float]
    rounds: float


Rounds = Sequence[Sequence[float]]
"""The ratio of each window of each round."""

Verdict = tuple[Status, int]
"""The status that a rule gives, and after how many rounds."""


def by_the_rule(rounds: Rounds) -> Verdict:
    values = [math.exp(statistics.fmean(math.log(ratio) for ratio in windows)) for windows in rounds]
    decision = decide(stopping_rule(len(values)), values, BOUND)
    seen = decision.interval
    return decision.status, seen.rounds if seen is not None else len(values)


def windows_for_boots(rounds: Rounds) -> Verdict:
    """Counts every window of six rounds as a boot: mean and two standard errors."""
    first = rounds[:FEWEST_ROUNDS]
    return _two_errors([ratio for windows in first for ratio in windows]), len(first)


def after_every_boot(rounds: Rounds) -> Verdict:
    """Checks mean and two standard errors after every round from the fifth on, and stops once they decide."""
    for number in range(5, len(rounds)):
        values = [statistics.fmean(windows) for windows in rounds[:number]]
        status = _two_errors(values)
        if status is not Status.DONE:
            return status, number
    return _two_errors([statistics.fmean(windows) for windows in rounds]), len(rounds)


RULES: Mapping[str, Callable[[Rounds], Verdict]] = {
    "the rule": by_the_rule,
    "windows counted as boots": windows_for_boots,
    "a look after every boot": after_every_boot,
}


def rehearse(rule: Callable[[Rounds], Verdict], noise: Noise, truth: float, plan: RehearsalPlan) -> RehearsalOutcome:
    """``truth`` is the true ratio; the claim is that it is at least 1."""
    counted: Counter[Status] = Counter()
    spent = 0
    for trial in range(plan.trials):
        dice = random.Random(f"{plan.seed} {noise.name} {truth} {trial}")  # noqa: S311
        status, rounds = rule(list(_rounds(noise, truth, plan, dice)))
        counted[status] += 1
        spent += rounds
    shares = {status: counted[status] / plan.trials for status in (Status.PASS, Status.FAIL, Status.DONE)}
    return RehearsalOutcome(shares, spent / plan.trials)


def _rounds(noise: Noise, truth: float, plan: RehearsalPlan, dice: random.Random) -> Iterator[list[float]]:
    for number in range(plan.rounds):
        first, second = (_boot(noise, plan.windows, noise.drift * (2 * number + at), dice) for at in range(2))
        one, other = (second, first) if number % 2 else (first, second)
        yield [truth * math.exp(mine - yours) for mine, yours in zip(one, other, strict=True)]


def _boot(noise: Noise, windows: int, drift: float, dice: random.Random) -> list[float]:
    own = dice.gauss(0, noise.boot) + drift
    half = math.log(0.5)
    return [own + dice.gauss(0, noise.window) + (half if dice.random() < noise.stolen else 0.0) for _ in range(windows)]


def _two_errors(values: Sequence[float]) -> Status:
    margin = 2 * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    if mean - margin >= 1:
        return Status.PASS
    return Status.FAIL if mean + margin < 1 else Status.DONE

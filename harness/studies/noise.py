# SPDX-License-Identifier: GPL-2.0-only
"""The page of noise: the stopping rule of the wall clock, and its error rates in simulated runs.

Two arms are booted in turn (A B B A ...). The logarithm of a figure is the true value plus a deviation of its boot,
a deviation of its window and a drift of the host; some windows run at half speed.
"""

import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.noise import ERROR, FEWEST_ROUNDS, decide, stopping_rule
from harness.report import markdown
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
        upper, lower = (second, first) if number % 2 else (first, second)
        yield [truth * math.exp(mine - yours) for mine, yours in zip(upper, lower, strict=True)]


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


NOISES = (
    Noise("quiet: 1 % a boot, 1 % a window", 0.01, 0.01),
    Noise("busy: 5 %, 5 %", 0.05, 0.05),
    Noise("loud: 15 %, 15 %", 0.15, 0.15),
    Noise("busy, and 2 % slower with each boot", 0.05, 0.05, drift=-0.02),
    Noise("busy, and a tenth of the windows at half speed", 0.05, 0.05, stolen=0.1),
)
TRUTHS = (1.1, 1.0, 0.95, 0.8, 0.5)
"""True ratios; the claim is that the ratio is at least 1."""


def page(plan: RehearsalPlan) -> str:
    """The page in Markdown; the same ``plan`` gives the same page."""
    return "\n".join((*_introduction(plan), *_rates(plan), "", *_others(plan), ""))


def _introduction(plan: RehearsalPlan) -> Iterator[str]:
    looks = ", ".join(f"after {look.rounds} ({look.level:.2%})" for look in stopping_rule(plan.rounds).looks)
    yield from markdown.head("Judgement on the wall clock", "Generated by: blklab check evidence noise")
    yield (
        "Figures of the wall clock scatter between windows, and more between boots, because what differs between two"
        " boots (memory layout, thread placement) is the same in all windows of a boot. Therefore:"
    )
    yield ""
    yield from (
        "- A round boots every arm once, and the next round in the reverse order (A B B A), so that a drift of the host"
        " affects all arms alike. In each window of a boot the loads run after a ramp, in alternating order.",
        "- A round gives one value of each ratio: the geometric mean over its windows, of loads or roles of one boot or"
        " of two adjacent boots. Windows of one boot are not independent and never count as several boots.",
        "- The interval is Hartigan's: the means of all subsets of n values divide the line into 2^n intervals of equal"
        " probability. It assumes that both sides of a ratio are disturbed alike, and no distribution.",
        f"- The interval is computed only at looks that `run.json` fixes before the first boot, for {plan.rounds}"
        f" rounds {looks}; the error levels per side add up to at most {ERROR:.1%}. Fewer than {FEWEST_ROUNDS} boots a"
        " side decide nothing.",
        "- PASS: the interval is within the bound. FAIL: it is outside. Otherwise DONE, with the number of additional"
        " boots after which four of five runs would decide if ratio and scatter stay as measured. That needs a new run:"
        " extending a run until it decides would exceed the error level.",
        "- The error level holds for each claim. A run of many claims errs in one of them more often than that.",
    )
    yield ""


def _rates(plan: RehearsalPlan) -> Iterator[str]:
    error = math.sqrt(ERROR * (1 - ERROR) / plan.trials)
    yield (
        f"Simulated runs with a known true ratio, {plan.trials} of each kind: two arms, {plan.rounds} rounds at most,"
        f" {plan.windows} windows a boot, the claim `>= 1`. At a true ratio of 1 or more a FAIL is a false alarm (1 is"
        f" the worst case, at most {ERROR:.1%} by design); below 1 a PASS is wrong, and a DONE is a miss. The standard"
        f" error of a share of {ERROR:.1%} is {error:.1%}."
    )
    yield ""
    rows = [
        (noise.name, f"{truth:g}", *_shares(rehearse(by_the_rule, noise, truth, plan)))
        for noise in NOISES
        for truth in TRUTHS
    ]
    yield from markdown.table(("noise", "true ratio", "PASS", "FAIL", "DONE", "boots a side"), rows)


def _others(plan: RehearsalPlan) -> Iterator[str]:
    yield (
        "Other rules on the same boots, by mean and two standard errors, with the true ratio at the bound. They should"
        " decide five per cent of the runs, two and a half per cent either way:"
    )
    yield ""
    rows = [
        (name, noise.name, *_shares(rehearse(rule, noise, 1.0, plan))[:2])
        for name, rule in RULES.items()
        for noise in NOISES
    ]
    yield from markdown.table(("rule", "noise", "PASS", "FAIL"), rows)


def _shares(outcome: RehearsalOutcome) -> tuple[str, ...]:
    shares = [f"{outcome.verdicts[status]:.1%}" for status in (Status.PASS, Status.FAIL, Status.DONE)]
    return (*shares, f"{outcome.rounds:.1f}")

# SPDX-License-Identifier: GPL-2.0-only
"""The page on judgement under noise: its rule, and how often that errs where the truth is known."""

import math
from collections.abc import Iterable, Iterator, Sequence

from harness.noise.stopping import ERROR, FEWEST_ROUNDS, stopping_rule
from harness.scenario.model import Status
from harness.studies.noise.rehearsal import RULES, Noise, Outcome, Plan, by_the_rule, rehearse

NOISES = (
    Noise("quiet: 1 % a boot, 1 % a window", 0.01, 0.01),
    Noise("busy: 5 %, 5 %", 0.05, 0.05),
    Noise("loud: 15 %, 15 %", 0.15, 0.15),
    Noise("busy, and 2 % slower with each boot", 0.05, 0.05, drift=-0.02),
    Noise("busy, and a tenth of the windows at half speed", 0.05, 0.05, stolen=0.1),
)
TRUTHS = (1.1, 1.0, 0.95, 0.8, 0.5)
"""True ratios under the claim that it is at least 1."""


def page(plan: Plan) -> str:
    """Deterministic: the same ``plan`` gives the same page."""
    return "\n".join((*_introduction(plan), *_rates(plan), "", *_others(plan), ""))


def _introduction(plan: Plan) -> Iterator[str]:
    looks = ", ".join(f"after {look.rounds} ({look.level:.2%})" for look in stopping_rule(plan.rounds).looks)
    yield "<!-- SPDX-License-Identifier: GPL-2.0-only -->"
    yield "<!-- Made by: blklab check pages -->"
    yield "# Judgement on the wall clock"
    yield ""
    yield (
        "Figures of the wall clock scatter: from window to window, and from boot to boot by more, for what differs"
        " between two boots (memory layout, placement of threads) stays for all windows of a boot. So:"
    )
    yield ""
    yield from (
        "- A round boots every arm once, the next round in the opposite order (A B B A), so that a drift of the host"
        " falls on all arms alike. Inside a boot the loads run in each of its `windows`, there and back, after a ramp.",
        "- A round gives one value of each ratio: the geometric mean over its windows, of the loads or roles of one"
        " boot or of two neighbouring boots. Windows of one boot are not independent and never count as several boots.",
        "- The interval is Hartigan's: the means of all subsets of n values cut the line into 2^n pieces of equal"
        " probability. It assumes that what disturbs the two sides of a ratio is alike, and no distribution.",
        f"- It is looked at only at times fixed in `run.json` before the first boot, with {plan.rounds} rounds"
        f" {looks}; the levels, by side, add up to no more than {ERROR:.1%}. Less than {FEWEST_ROUNDS} boots a side"
        " decide nothing.",
        "- PASS when the interval lies within the bound, FAIL when it lies outside, else DONE with the number of more"
        " boots after which four runs of five would decide, were the ratio and its scatter as seen. Such a run is a"
        " new one: to go on with the old one until it pleases would break the promise.",
        "- Each claim keeps its own promise. A run of many claims errs in one of them more often than each.",
    )
    yield ""


def _rates(plan: Plan) -> Iterator[str]:
    error = math.sqrt(ERROR * (1 - ERROR) / plan.trials)
    yield (
        f"Made-up runs with known truth, {plan.trials} of each kind: two arms, {plan.rounds} rounds at most,"
        f" {plan.windows} windows a boot, the claim `>= 1`. With the truth at 1 or above a FAIL is a false alarm (1"
        f" is the worst case: at most {ERROR:.1%} is promised); below it a PASS is wrong, and a DONE a miss that"
        f" says so. The standard error of a share of {ERROR:.1%} is {error:.1%}."
    )
    yield ""
    rows = [
        (noise.name, f"{truth:g}", *_shares(rehearse(by_the_rule, noise, truth, plan)))
        for noise in NOISES
        for truth in TRUTHS
    ]
    yield from _table(("noise", "true ratio", "PASS", "FAIL", "DONE", "boots a side"), rows)


def _others(plan: Plan) -> Iterator[str]:
    yield (
        "Other ways of looking at such boots, by mean and two standard errors, with the truth at the bound. Five per"
        " cent of them should decide, two and a half either way:"
    )
    yield ""
    rows = [
        (name, noise.name, *_shares(rehearse(rule, noise, 1.0, plan))[:2])
        for name, rule in RULES.items()
        for noise in NOISES
    ]
    yield from _table(("rule", "noise", "PASS", "FAIL"), rows)


def _shares(outcome: Outcome) -> tuple[str, ...]:
    shares = [f"{outcome.verdicts[status]:.1%}" for status in (Status.PASS, Status.FAIL, Status.DONE)]
    return (*shares, f"{outcome.rounds:.1f}")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)

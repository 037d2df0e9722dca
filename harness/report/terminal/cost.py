# SPDX-License-Identifier: GPL-2.0-only
"""Which loads a boot spends host time on, and which could have a shorter window."""

from collections.abc import Iterator, Sequence

from harness.limits.cost import SHORT, LoadCost, costs
from harness.report.format import duration, figure, percent
from harness.scenario.model import Scenario

_MOST = 3
_SHARE = 0.2
"""Of the time of all loads: what takes less is left out."""


def cost_lines(scenario: Scenario, arms: Sequence[str] = ()) -> Iterator[str]:
    """A line for each load that dominates the time of a boot, longest first; empty on the wall clock."""
    return map(_line, dominant(scenario, arms).values())


def dominant(scenario: Scenario, arms: Sequence[str] = ()) -> dict[str, LoadCost]:
    """The loads that take most, longest first, each in the arm where it takes longest: the first one, and those with
    a large share."""
    longest = {cost.load: cost for cost in sorted(costs(scenario, arms), key=lambda cost: cost.seconds)}
    ordered = sorted(longest.values(), key=lambda cost: -cost.seconds)
    least = _SHARE * sum(cost.seconds for cost in ordered)
    chosen = (cost for cost in ordered[:_MOST] if cost is ordered[0] or cost.seconds >= least)
    return {cost.load: cost for cost in chosen}


def _line(cost: LoadCost) -> str:
    busy = f"CPU busy for {percent(cost.busy)} of {cost.window:g} s at most"
    busy = busy if cost.bounded else f"nothing bounds it: the CPU may be busy for all of {cost.window:g} s"
    line = f"{cost.load} in {cost.arm}: at most {duration(cost.seconds)} of host time a boot; {busy}"
    if less := cost.shorter:
        ios = figure(less.iops * SHORT)
        line += f". runtime: {1000 * SHORT:g}ms takes {duration(less.seconds)} and has up to {ios} I/Os"
    return line

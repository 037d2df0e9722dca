# SPDX-License-Identifier: GPL-2.0-only
"""The boots of a run, a matrix or a patch, an estimate of their time, and the loads that take most of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness.limits.cost import SHORT, LoadCost, boot_seconds, costs
from harness.record.index import IndexedRun, indexed_runs
from harness.report.format import duration, figure, percent, plural
from harness.report.terminal.printing import console_of, figures, plain_table, print_wide
from harness.scenario.model import Scenario

_MOST = 3
"""Scenarios whose loads are listed."""
_MOST_LOADS = 3
_SHARE = 0.2
"""Of the time of all loads: what takes less is left out."""


@dataclass(frozen=True)
class Estimate:
    """A scenario on the kernel that ``spec`` names. On the wall clock ``boots`` is a maximum.

    ``arms`` are those that boot, all when none is named.
    """

    scenario: Scenario
    spec: str
    boots: int
    arms: tuple[str, ...] = ()

    @property
    def at_most(self) -> bool:
        return self.scenario.timing.by_rule

    def seconds(self, runs: Sequence[IndexedRun]) -> float | None:
        """Host time from stored runs of the scenario, preferably on the same kernel; None without any."""
        usable = [run for run in runs if run.scenario == self.scenario.name and run.seconds and run.boots]
        alike = [run for run in usable if run.spec == self.spec] or usable
        return self.boots * median((run.seconds or 0) / run.boots for run in alike) if alike else None

    @property
    def modelled(self) -> float:
        """Host time from bounds and windows at most, one boot after another."""
        return self.boots * boot_seconds(self.scenario, self.arms)

    def words(self, runs: Sequence[IndexedRun]) -> str:
        """``about 8.4 s``, or where no run is stored ``at most 40 s``."""
        seconds = self.seconds(runs)
        return f"at most {duration(self.modelled)}" if seconds is None else f"about {duration(seconds)}"


def print_estimates(estimates: Sequence[Estimate], root: Path) -> None:
    """Print a row for each estimate, and the sum. ``root`` holds the stored runs."""
    runs = indexed_runs(root)
    table = plain_table("scenario", "kernel", figures("boots"), figures("time"))
    for estimate in estimates:
        boots = f"{'<= ' if estimate.at_most else ''}{estimate.boots}"
        table.add_row(estimate.scenario.name, estimate.spec, boots, estimate.words(runs))
    print_wide(console_of(), table)
    print(total(estimates, runs))
    for line in dominant(estimates):
        print(f"  {line}")


def total(estimates: Sequence[Estimate], runs: Sequence[IndexedRun]) -> str:
    """Cells, boots, and the time of those with stored runs and of the others."""
    stored = [seconds for estimate in estimates if (seconds := estimate.seconds(runs)) is not None]
    others = [estimate.modelled for estimate in estimates if estimate.seconds(runs) is None]
    boots = plural(sum(estimate.boots for estimate in estimates), "boot")
    most = "at most " if any(estimate.at_most for estimate in estimates) else ""
    parts = [f"about {duration(sum(stored))} by stored runs"] if stored else []
    parts += [f"at most {duration(sum(others))} on an idle host, by bounds and windows"] if others else []
    return f"{plural(len(estimates), 'cell')}, {most}{boots}, {' and '.join(parts)}"


def dominant(estimates: Sequence[Estimate]) -> Iterator[str]:
    """The loads that take most of the time, of few scenarios."""
    scenarios = {estimate.scenario.name: estimate for estimate in estimates}
    for name, estimate in scenarios.items() if len(scenarios) <= _MOST else ():
        yield from (f"{name}: {line}" for line in cost_lines(estimate.scenario, estimate.arms))


def cost_lines(scenario: Scenario, arms: Sequence[str] = ()) -> Iterator[str]:
    """A line for each load that dominates the time of a boot, longest first; empty on the wall clock."""
    return map(_cost_line, dominant_costs(scenario, arms).values())


def dominant_costs(scenario: Scenario, arms: Sequence[str] = ()) -> dict[str, LoadCost]:
    """The loads that take most, longest first, each in the arm where it takes longest: the first one, and those with
    a large share."""
    longest = {cost.load: cost for cost in sorted(costs(scenario, arms), key=lambda cost: cost.seconds)}
    ordered = sorted(longest.values(), key=lambda cost: -cost.seconds)
    least = _SHARE * sum(cost.seconds for cost in ordered)
    chosen = (cost for cost in ordered[:_MOST_LOADS] if cost is ordered[0] or cost.seconds >= least)
    return {cost.load: cost for cost in chosen}


def _cost_line(cost: LoadCost) -> str:
    busy = f"CPU busy for {percent(cost.busy)} of {cost.window:g} s at most"
    busy = busy if cost.bounded else f"nothing bounds it: the CPU may be busy for all of {cost.window:g} s"
    line = f"{cost.load} in {cost.arm}: at most {duration(cost.seconds)} of host time a boot; {busy}"
    if less := cost.shorter:
        ios = figure(less.iops * SHORT)
        line += f". runtime: {1000 * SHORT:g}ms takes {duration(less.seconds)} and has at least {ios} I/Os"
    return line

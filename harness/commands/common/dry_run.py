# SPDX-License-Identifier: GPL-2.0-only
"""``--dry-run``: the boots of a run or a matrix and an estimate of their time."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness.commands.common.options import tell
from harness.record.index import IndexedRun, indexed_runs
from harness.report.format import duration, plural
from harness.report.terminal.printing import console_of, figures, plain_table, print_wide
from harness.scenario.model import Clock, Scenario


@dataclass(frozen=True)
class Estimate:
    """A scenario on the kernel that ``spec`` names. On the wall clock ``boots`` is a maximum."""

    scenario: Scenario
    spec: str
    boots: int

    @property
    def at_most(self) -> bool:
        return self.scenario.clock is Clock.WALL

    def seconds(self, runs: Sequence[IndexedRun]) -> float | None:
        """Host time from stored runs of the scenario, preferably on the same kernel; None without any."""
        usable = [run for run in runs if run.scenario == self.scenario.name and run.seconds and run.boots]
        alike = [run for run in usable if run.spec == self.spec] or usable
        return self.boots * median((run.seconds or 0) / run.boots for run in alike) if alike else None


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="print the boots and the estimated time; boot and download nothing"
    )


def print_estimates(estimates: Sequence[Estimate], root: Path) -> None:
    """Print a row for each estimate, and the sum. ``root`` holds the stored runs."""
    runs = indexed_runs(root)
    table = plain_table("scenario", "kernel", figures("boots"), figures("time"))
    times = []
    for estimate in estimates:
        times.append(estimate.seconds(runs))
        boots = f"{'<= ' if estimate.at_most else ''}{estimate.boots}"
        table.add_row(estimate.scenario.name, estimate.spec, boots, _shown(times[-1]))
    print_wide(console_of(), table)
    known = [seconds for seconds in times if seconds is not None]
    unknown = len(times) - len(known)
    total = "unknown (no stored run)" if not known else f"about {duration(sum(known))}"
    lacking = f", without {plural(unknown, 'cell')} of unknown time" if known and unknown else ""
    boots = plural(sum(estimate.boots for estimate in estimates), "boot")
    most = "at most " if any(estimate.at_most for estimate in estimates) else ""
    print(f"{plural(len(estimates), 'cell')}, {most}{boots}, {total}{lacking}")
    tell("nothing was booted or downloaded")


def _shown(seconds: float | None) -> str:
    return "unknown" if seconds is None else duration(seconds)

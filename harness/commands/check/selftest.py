# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check selftest``: guests that fail on purpose, each with the status it must end with."""

import argparse
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from harness.commands.common.boots import bench_of, kernel_of
from harness.commands.common.options import SCENARIOS, add_each_kernel, add_results, kernels_of, tell
from harness.limits.load import load_scenario
from harness.run.bench import unwatched
from harness.scenario.load import find_scenarios
from harness.studies.selftest import SelftestTrial, run_selftests
from lab.base.errors import EXIT_LAB_BROKEN, EXIT_PASS

_FOLDER = SCENARIOS / "selftest"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, such as must-oops (default: all)")
    add_each_kernel(parser)
    add_results(parser)


def execute(options: argparse.Namespace) -> int:
    names = options.names or list(find_scenarios(_FOLDER))
    scenarios = [load_scenario(name, search=_FOLDER) for name in names]
    # Several run at once: their progress would be one display.
    bench = replace(bench_of(options), watch=unwatched)
    kernels = [kernel_of(spec) for spec in kernels_of(options)]
    trials = []
    for kernel in kernels:
        for trial in run_selftests(bench, scenarios, kernel):
            word = "ok" if trial.passed else "NOT as declared: " + "; ".join(trial.missing)
            tell(f"{trial.scenario} on {trial.kernel}: {trial.verdict.status}, {word}")
            trials.append(trial)
    _print(trials)
    return EXIT_PASS if all(trial.passed for trial in trials) else EXIT_LAB_BROKEN


def _print(trials: list[SelftestTrial]) -> None:
    table = Table("selftest", "kernel", "must end as", "ended as", "")
    for trial in trials:
        table.add_row(
            trial.scenario,
            trial.kernel,
            f"{trial.wanted.status} ({trial.wanted.exit_code})",
            f"{trial.verdict.status} ({trial.verdict.exit_code})",
            "ok" if trial.passed else "NOT ok",
        )
    Console().print(table)

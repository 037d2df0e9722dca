# SPDX-License-Identifier: GPL-2.0-only
"""``blklab selftest``: the lab proves that it can tell a failing kernel from a failing lab."""

import argparse

from rich.console import Console
from rich.table import Table

from harness.commands.command import SCENARIOS, add_results, results_root, tell
from harness.limits.load import load_scenario
from harness.record.store import Store
from harness.scenario.load import find_scenarios
from harness.studies.selftest import Trial, run_selftests
from lab.base.cache import Cache
from lab.base.errors import EXIT_LAB_BROKEN, EXIT_PASS
from lab.kernels.resolve import DEFAULT, resolve
from lab.session import open_lab

NAME = "selftest"
HELP = "run the scenarios that break their own guests, and check that each ends as it must"
_FOLDER = SCENARIOS / "selftest"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, such as must-oops (default: all)")
    parser.add_argument(
        "--kernel", action="append", metavar="SPEC", help="as for run; may be repeated (default: distro)"
    )
    add_results(parser)


def execute(options: argparse.Namespace) -> int:
    names = options.names or list(find_scenarios(_FOLDER))
    scenarios = [load_scenario(name, search=_FOLDER) for name in names]
    store, cache = Store(results_root(options.results)), Cache.default()
    store.check()
    lab = open_lab(cache, tell)
    kernels = [resolve(spec, cache, tell=tell) for spec in options.kernel or [DEFAULT]]
    trials = []
    for kernel in kernels:
        for trial in run_selftests(lab, scenarios, kernel, store):
            word = "ok" if trial.passed else "NOT as it must be: " + "; ".join(trial.missing)
            tell(f"{trial.scenario} on {trial.kernel}: {trial.verdict.status}, {word}")
            trials.append(trial)
    _print(trials)
    return EXIT_PASS if all(trial.passed for trial in trials) else EXIT_LAB_BROKEN


def _print(trials: list[Trial]) -> None:
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

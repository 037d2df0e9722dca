# SPDX-License-Identifier: GPL-2.0-only
"""``blklab field-reports``: the page that holds the reports' ratios beside those of the newest runs."""

import argparse
import sys

from harness.commands.command import SCENARIOS, add_page, add_results, results_root, write_page
from harness.limits.load import load_scenario
from harness.record.judging import judge_run, newest_runs
from harness.record.store import RunFolder, Store
from harness.scenario.load import find_scenarios
from harness.scenario.model import Scenario
from harness.studies.field_reports import Measured, page, unexplained
from harness.studies.sensitivity.measure import kept
from lab.base.errors import EXIT_FAIL, EXIT_PASS, Misuse

NAME = "field-reports"
HELP = "write docs/field-reports.md from the newest run of each scenario on each kernel"


def configure(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    add_page(parser, "field-reports.md")


def execute(options: argparse.Namespace) -> int:
    store = Store(results_root(options.results))
    wanted = [load_scenario(name, search=SCENARIOS) for name in find_scenarios(SCENARIOS)]
    runs = [measured for scenario in wanted if scenario.reproduces for measured in newest_on_kernels(store, scenario)]
    if not runs:
        raise Misuse(
            f"{store.root} holds no run of a scenario that reproduces a report, as it is now",
            remedy="blklab run sas-multipath --kernel debian:6.1, say, then again",
        )
    sensitivities = [found for scenario in wanted for found in kept(store, scenario)]
    write_page(options.out, page(runs, "blklab field-reports", sensitivities))
    print(f"blklab: {len(runs)} runs are in {options.out}", file=sys.stderr)
    for text in unexplained(runs):
        print(f"blklab: off by more than a fifth, and the scenario does not say why: {text}", file=sys.stderr)
    return EXIT_FAIL if unexplained(runs) else EXIT_PASS


def newest_on_kernels(store: Store, scenario: Scenario) -> list[Measured]:
    """The newest judged run on each kernel series of the scenario as its file is today."""
    return [_measured(run, series) for series, run in newest_runs(store, scenario).items()]


def _measured(run: RunFolder, series: str) -> Measured:
    facts = run.facts
    return Measured(run.scenario, judge_run(run), facts.kernel.release, series, facts.qemu, facts.run_id)

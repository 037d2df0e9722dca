# SPDX-License-Identifier: GPL-2.0-only
"""``blklab io-cost``: the page that holds the cost of an I/O on every kernel that was measured."""

import argparse

from harness.commands.command import SCENARIOS, add_page, add_results, results_root, tell, write_page
from harness.commands.field_reports import newest_on_kernels
from harness.limits.load import load_scenario
from harness.record.store import Store
from harness.studies.io_cost import cost_page
from lab.base.errors import EXIT_PASS, Misuse
from lab.kernels.release import Release

NAME = "io-cost"
HELP = "write docs/io-cost.md from the newest run of the scenario io-cost on each kernel"


def configure(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    add_page(parser, "io-cost.md")


def execute(options: argparse.Namespace) -> int:
    store = Store(results_root(options.results))
    runs = newest_on_kernels(store, load_scenario(NAME, search=SCENARIOS))
    if not runs:
        raise Misuse(
            f"{store.root} holds no run of {NAME} as it is now", remedy=f"blklab run {NAME} --kernel debian:6.1, say"
        )
    runs.sort(key=lambda run: Release.parse(run.release))
    write_page(options.out, cost_page(runs, f"blklab {NAME}"))
    tell(f"{len(runs)} runs are in {options.out}")
    return EXIT_PASS

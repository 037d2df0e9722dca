# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check sensitivity``: how far the reproduced ratios depend on fitted parameters."""

import argparse

from rich.console import Console
from rich.table import Table

from harness.commands.common.boots import kernel_of, lab_of_host, scenario_of, store_of, watched
from harness.commands.common.options import add_jobs, add_kernel, add_results, add_scenario, tell
from harness.studies.sensitivity import FACTORS, Sensitivity, keep, measure
from lab.base.errors import EXIT_PASS


def configure(parser: argparse.ArgumentParser) -> None:
    add_scenario(parser)
    add_kernel(parser)
    add_results(parser)
    add_jobs(parser)


def execute(options: argparse.Namespace) -> int:
    scenario, store = scenario_of(options), store_of(options)
    kernel, lab = kernel_of(options.kernel), lab_of_host()
    with watched() as listener:
        found = measure(lab, scenario, kernel, store, listener=listener, at_once=options.jobs)
    path = keep(store, found)
    _print(found)
    tell(f"stored in {path}; blklab check pages includes it in field-reports.md")
    return EXIT_PASS


def _print(found: Sensitivity) -> None:
    table = Table("parameter", *(f"x {factor:g}" for factor in FACTORS), "ratio", box=None, pad_edge=False)
    for of, that, figures in found.table():
        table.add_row(of, *figures, that)
    Console().print(table)

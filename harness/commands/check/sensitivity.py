# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check sensitivity``: how far the reproduced ratios depend on fitted parameters."""

import argparse

from rich.console import Console
from rich.table import Table

from harness.commands.common.options import (
    SCENARIOS,
    add_jobs,
    add_kernel,
    add_results,
    add_scenario,
    results_root,
    tell,
)
from harness.limits.load import load_scenario
from harness.record.store import Store
from harness.report.format import figure
from harness.report.terminal.progress import progress
from harness.studies.sensitivity import FACTORS, Sensitivity, keep, measure
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS
from lab.kernels.resolve import resolve
from lab.session import open_lab


def configure(parser: argparse.ArgumentParser) -> None:
    add_scenario(parser)
    add_kernel(parser)
    add_results(parser)
    add_jobs(parser)


def execute(options: argparse.Namespace) -> int:
    scenario = load_scenario(options.scenario, search=SCENARIOS)
    store = Store(results_root(options.results))
    store.check()
    cache = Cache.default()
    kernel = resolve(options.kernel, cache, tell=tell)
    lab = open_lab(cache, tell)
    with progress(Console(stderr=True)) as listener:
        found = measure(lab, scenario, kernel, store, listener=listener, at_once=options.jobs)
    path = keep(store, found)
    _print(found)
    tell(f"stored in {path}; blklab check pages includes it in field-reports.md")
    return EXIT_PASS


def _print(found: Sensitivity) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("parameter", *(f"x {factor:g}" for factor in FACTORS), "ratio"):
        table.add_column(column)
    for of in found.parameters:
        for that in dict.fromkeys(row.that for row in found.rows):
            ratios = found.of(of, that)
            shown = ("-" if (ratio := ratios.get(factor)) is None else figure(ratio) for factor in FACTORS)
            table.add_row(of, *shown, that)
    Console().print(table)

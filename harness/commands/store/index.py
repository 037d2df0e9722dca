# SPDX-License-Identifier: GPL-2.0-only
"""``blklab store index``: rebuild the index of all runs, list runs, delete the oldest."""

import argparse

from rich.table import Table
from rich.text import Text

from harness.base.checkout import results_root
from harness.commands.common.options import add_results, kept_bytes, mib, number, tell
from harness.record.index import FILE, IndexedRun, indexed_runs
from harness.record.retention import plan_pruning, prune
from harness.report.format import STYLES, duration, plural
from harness.report.terminal.printing import console_of, plain_table, print_wide
from lab.base.errors import EXIT_PASS, Misuse


def configure(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    parser.add_argument("--list", action="store_true", help="list the runs, oldest first")
    parser.add_argument("--keep", metavar="SIZE", help="show the oldest runs to delete until SIZE is left (2G)")
    parser.add_argument(
        "--matrices", type=number(0), metavar="N", help="also show all but the newest N matrices and their runs"
    )
    parser.add_argument("--yes", action="store_true", help="delete them")
    parser.set_defaults(needs={"yes": ("keep", "matrices")})


def execute(options: argparse.Namespace) -> int:
    limit = kept_bytes(options.keep)
    root = results_root(options.results)
    if not root.is_dir():
        raise Misuse(f"{root} is not a folder", remedy="name the folder of the runs with --results")
    runs = indexed_runs(root, rebuild=True)
    scenarios = {run.scenario for run in runs}
    size = sum(run.size for run in runs)
    print(f"{plural(len(runs), 'run')} of {plural(len(scenarios), 'scenario')}, {mib(size)}, in {root / FILE}")
    if options.list:
        print_wide(console_of(), _table(runs))
    if limit is not None or options.matrices is not None:
        _prune(options, limit)
    return EXIT_PASS


def _prune(options: argparse.Namespace, limit: int | None) -> None:
    root = results_root(options.results)
    plan = plan_pruning(root, limit, options.matrices)
    removed = set(prune(root, plan.removals)) if options.yes else set()
    for removal in plan.removals:
        word = "to delete" if not options.yes else "deleted" if removal in removed else "in use"
        print(f"  {word}  {removal.path}  {mib(removal.size)}  {removal.why}")
    freed = sum(removal.size for removal in (removed if options.yes else plan.removals))
    print(f"{mib(plan.total)} before, {mib(plan.total - freed)} after")
    if limit is not None and plan.left > limit:
        kept = "; ".join(plan.pinned) or "no other run can be deleted"
        tell(f"{mib(plan.left)} remain, more than {options.keep}: {kept}")
    if plan.removals and not options.yes:
        tell("nothing was deleted; add --yes to delete these runs")


def _table(runs: tuple[IndexedRun, ...]) -> Table:
    table = plain_table("started", "scenario", "kernel", "status", "took", "run")
    for run in runs:
        took = "" if run.seconds is None else duration(run.seconds)
        status = Text(run.status, STYLES.get(run.status, ""))
        table.add_row(run.started[:16], run.scenario, run.release, status, took, run.run_id)
    return table

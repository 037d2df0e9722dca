# SPDX-License-Identifier: GPL-2.0-only
"""``blklab history``: a scenario's figures over dated runs and over kernel versions, and where they changed."""

import argparse

from rich.console import Console

from harness.commands.command import add_results, results_root, tell
from harness.record.index import open_index
from harness.scenario.metric_names import METRICS
from harness.studies.history.collect import history
from harness.studies.history.text import print_history
from lab.base.errors import EXIT_PASS, Misuse
from lab.yaml.strict import nearest

NAME = "history"
HELP = "a scenario's figures over the days and over kernel versions, with their change points"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", help="a scenario that was run")
    parser.add_argument("--metric", default="iops", metavar="NAME", help="iops (default), lat.p99 ... as in claims")
    parser.add_argument("--arm", action="append", default=[], metavar="NAME", help="only this arm (may be repeated)")
    add_results(parser)


def execute(options: argparse.Namespace) -> int:
    if options.metric not in METRICS:
        raise Misuse(f"no figure is called {options.metric}{nearest(options.metric, METRICS)}", remedy="iops, lat.p99")
    root = results_root(options.results)
    opened = open_index(root)
    if opened.remade:
        tell(f"{root}: the index was made anew: {opened.remade}")
    try:
        found = history(opened.index, options.scenario, options.metric)
        known = {run.scenario for run in opened.index.runs()}
    finally:
        opened.index.close()
    if options.scenario not in known:
        raise Misuse(
            f"{root} has no run of {options.scenario}{nearest(options.scenario, known)}",
            remedy="blklab index --list shows what was run",
        )
    print_history(Console(), found, frozenset(options.arm))
    return EXIT_PASS

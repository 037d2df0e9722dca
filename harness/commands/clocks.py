# SPDX-License-Identifier: GPL-2.0-only
"""``blklab clocks``: the page that holds ratios of the virtual clock beside those of the wall clock."""

import argparse
import sys
from collections.abc import Iterator

from harness.commands.command import SCENARIOS, add_page, add_results, results_root, write_page
from harness.judging import judge_run, newest_runs
from harness.report.clocks import Pair, page, rows
from harness.scenario.load import find_scenarios, load_scenario
from harness.store import Store
from lab.errors import EXIT_PASS, Misuse

NAME = "clocks"
HELP = "write docs/clocks.md: scenarios that exist on both clocks, one ratio beside the other"
_WALL = SCENARIOS / "wall"


def configure(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    add_page(parser, "clocks.md")


def execute(options: argparse.Namespace) -> int:
    store = Store(results_root(options.results))
    pairs = list(pairs_of(store))
    if not pairs:
        raise Misuse(
            f"{store.root} holds no scenario that was run on both clocks on one kernel, as it is now",
            remedy="blklab run lvm-shared-bus and blklab run wall/lvm-shared-bus, say, then again",
        )
    write_page(options.out, page(pairs, "blklab clocks"))
    print(f"blklab: {len(pairs)} pairs are in {options.out}", file=sys.stderr)
    for pair in pairs:
        for row in rows(pair):
            if row.agree is False:
                print(f"blklab: {pair.scenario} on {pair.series}: {row.that}: {row.virtual}, wall {row.wall}")
    return EXIT_PASS


def pairs_of(store: Store) -> Iterator[Pair]:
    """The newest runs of the scenarios of the wall clock that share their file's name with one of the virtual clock."""
    for name in find_scenarios(_WALL):
        if not (SCENARIOS / f"{name}.yaml").is_file():
            continue
        virtual = newest_runs(store, load_scenario(name, search=SCENARIOS))
        wall = newest_runs(store, load_scenario(f"wall/{name}", search=SCENARIOS))
        for series in virtual.keys() & wall.keys():
            run = wall[series]
            yield Pair(name, series, judge_run(virtual[series]), judge_run(run), run.facts.qemu)

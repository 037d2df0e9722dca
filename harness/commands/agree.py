# SPDX-License-Identifier: GPL-2.0-only
"""``blklab agree``: ratios that exist on both clocks, side by side."""

import argparse

from harness.commands.command import SCENARIOS, WALL, add_page, add_results, results_root, tell, write_page
from harness.limits.load import load_scenario
from harness.record.store import Store
from harness.scenario.load import find_scenarios
from harness.studies.agreement.collect import both_clocks, on_the_wall
from harness.studies.agreement.page import page
from lab.base.errors import EXIT_FAIL, EXIT_PASS, Misuse

NAME = "agree"
HELP = "the ratios that exist on both clocks, from the newest runs: exit 1 where they differ and no scenario says why"


def configure(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    add_page(parser, "agreement.md")


def execute(options: argparse.Namespace) -> int:
    store = Store(results_root(options.results))
    paths = [*find_scenarios(SCENARIOS).values(), *find_scenarios(WALL).values()]
    wanted = [load_scenario(str(path), search=SCENARIOS) for path in paths]
    rows = [row for scenario in wanted for row in both_clocks(store, scenario, search=SCENARIOS)]
    if not rows:
        raise Misuse(
            f"{store.root} holds no run of a scenario with agrees:, nor of its twin",
            remedy="blklab list names the scenarios of the wall clock; run one, then again",
        )
    claims = [row for scenario in wanted for row in on_the_wall(store, scenario)]
    text = page(rows, claims, "blklab agree")
    write_page(options.out, text)
    print(text, end="")
    unexplained = [row for row in rows if row.unexplained]
    for row in unexplained:
        tell(f"the clocks differ, and {row.scenario} does not say why: {row.that} on {row.series}")
    return EXIT_FAIL if unexplained else EXIT_PASS

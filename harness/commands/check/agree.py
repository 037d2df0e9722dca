# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check agree``: ratios that were measured on both clocks, side by side."""

import argparse
from dataclasses import dataclass

from harness.commands.common.options import SCENARIOS, WALL, add_results, results_root, tell
from harness.limits.load import load_scenario
from harness.record.store import Store
from harness.scenario.load import find_scenarios
from harness.studies.agreement import both_clocks, on_the_wall, page
from lab.base.errors import EXIT_FAIL, EXIT_PASS, Misuse


@dataclass(frozen=True)
class Page:
    """``unexplained``: deviations that no scenario explains; one of them makes the exit status 1."""

    text: str
    unexplained: tuple[str, ...] = ()


def configure(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    parser.epilog = "Exit status: 1 when the clocks differ and the scenario does not explain why."


def execute(options: argparse.Namespace) -> int:
    found = agreement(Store(results_root(options.results)), "blklab check agree")
    print(found.text, end="")
    for reason in found.unexplained:
        tell(reason)
    return EXIT_FAIL if found.unexplained else EXIT_PASS


def agreement(store: Store, command: str) -> Page:
    """The newest runs on both clocks; ``command`` generates the page. Raises Misuse when there are none."""
    paths = [*find_scenarios(SCENARIOS).values(), *find_scenarios(WALL).values()]
    wanted = [load_scenario(str(path), search=SCENARIOS) for path in paths]
    rows = [row for scenario in wanted for row in both_clocks(store, scenario, search=SCENARIOS)]
    if not rows:
        raise Misuse(
            f"{store.root} holds no run of a scenario with agrees: or of its counterpart",
            remedy="run a scenario of the wall clock (blklab list shows them) and its counterpart",
        )
    unexplained = (
        f"the clocks differ and {row.scenario} does not explain why: {row.that} on {row.series}"
        for row in rows
        if row.unexplained
    )
    text = page(rows, [row for scenario in wanted for row in on_the_wall(store, scenario)], command)
    return Page(text, tuple(unexplained))

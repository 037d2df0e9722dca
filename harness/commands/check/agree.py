# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check agree``: ratios that were measured on both clocks, side by side."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from harness.commands.common.options import SCENARIOS, WALL, add_results, results_root, tell
from harness.limits.load import load_scenario
from harness.record.store import Store
from harness.scenario.load import find_scenarios
from harness.studies.agreement import BothClocks, OnTheWall, both_clocks, on_the_wall, page
from lab.base.errors import EXIT_FAIL, EXIT_PASS, Misuse


@dataclass(frozen=True)
class AgreementPage:
    rows: tuple[BothClocks, ...]
    claims: tuple[OnTheWall, ...]

    def text(self, command: str) -> str:
        return page(self.rows, self.claims, command)


def configure(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    parser.epilog = "Exit status: 1 when the clocks differ and the scenario does not explain why."


def execute(options: argparse.Namespace) -> int:
    found = agreement(Store(results_root(options.results)))
    print(found.text("blklab check agree"), end="")
    unexplained = list(apart(found))
    for reason in unexplained:
        tell(reason)
    return EXIT_FAIL if unexplained else EXIT_PASS


def agreement(store: Store) -> AgreementPage:
    """The newest runs on both clocks. Raises Misuse when there are none."""
    paths = [*find_scenarios(SCENARIOS).values(), *find_scenarios(WALL).values()]
    wanted = [load_scenario(str(path), search=SCENARIOS) for path in paths]
    rows = [row for scenario in wanted for row in both_clocks(store, scenario, search=SCENARIOS)]
    if not rows:
        raise Misuse(
            f"{store.root} holds no run of a scenario with agrees: or of its counterpart",
            remedy="run a scenario of the wall clock (blklab list shows them) and its counterpart",
        )
    return AgreementPage(tuple(rows), tuple(row for scenario in wanted for row in on_the_wall(store, scenario)))


def apart(found: AgreementPage) -> Iterator[str]:
    """A sentence for each ratio that differs without an explanation."""
    for row in found.rows:
        if row.unexplained:
            yield f"the clocks differ and {row.scenario} does not explain why: {row.that} on {row.series}"

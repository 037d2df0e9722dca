# SPDX-License-Identifier: GPL-2.0-only
"""``blklab list``."""

import argparse
import sys

from harness.commands.command import SCENARIOS, WALL
from harness.scenario.load import find_scenarios, load_scenario
from lab.base.errors import EXIT_MISUSE, EXIT_PASS, InputErrors
from lab.topology.load import catalogue

NAME = "list"
HELP = "the scenarios that there are, or the topologies"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topologies", action="store_true", help="the topologies of the catalogue instead")


def execute(options: argparse.Namespace) -> int:
    if options.topologies:
        _print_titles({topology.name: topology.title for topology in catalogue()})
        return EXIT_PASS
    titles, code = {}, EXIT_PASS
    for name in [*find_scenarios(SCENARIOS), *(f"{WALL.name}/{name}" for name in find_scenarios(WALL))]:
        try:
            titles[name] = load_scenario(name, search=SCENARIOS).title
        except InputErrors as error:
            print(error, file=sys.stderr)
            code = EXIT_MISUSE
    _print_titles(titles)
    return code


def _print_titles(titles: dict[str, str]) -> None:
    width = max(map(len, titles), default=0)
    for name, title in titles.items():
        print(f"{name:{width}}  {title}")

# SPDX-License-Identifier: GPL-2.0-only
"""``blklab show``: what a scenario builds, in words and in the lines that a kernel developer would type."""

import argparse

from harness.commands.command import SCENARIOS
from harness.report.explain import describe_scenario
from harness.scenario.load import load_scenario
from lab.errors import EXIT_PASS

NAME = "show"
HELP = "what a scenario builds and claims, in words and in exact modprobe, configfs and fio lines"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", help="a name that blklab list shows, or the path of a scenario file")
    parser.add_argument("--arm", action="append", default=[], metavar="NAME", help="only this arm (may be repeated)")


def execute(options: argparse.Namespace) -> int:
    scenario = load_scenario(options.scenario, search=SCENARIOS)
    print(describe_scenario(scenario, tuple(options.arm)))
    return EXIT_PASS

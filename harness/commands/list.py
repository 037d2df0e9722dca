# SPDX-License-Identifier: GPL-2.0-only
"""``blklab list``."""

import argparse
import sys

from harness.commands.command import SCENARIOS
from harness.scenario.load import find_scenarios, load_scenario
from harness.scenario.model import Clock
from lab.errors import EXIT_MISUSE, EXIT_PASS, InputErrors

NAME = "list"
HELP = "the scenarios that there are"


def configure(parser: argparse.ArgumentParser) -> None:
    """It takes no options."""


def execute(options: argparse.Namespace) -> int:
    code = EXIT_PASS
    names = find_scenarios(SCENARIOS)
    width = max(map(len, names), default=0)
    for name in names:
        try:
            scenario = load_scenario(name, search=SCENARIOS)
            note = " (wall clock)" if scenario.clock is Clock.WALL else ""
            print(f"{name:{width}}  {scenario.title}{note}")
        except InputErrors as error:
            print(error, file=sys.stderr)
            code = EXIT_MISUSE
    return code

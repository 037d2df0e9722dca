# SPDX-License-Identifier: GPL-2.0-only
"""``blklab doctor``."""

import argparse
import sys

from harness.commands.doctor import doctor

NAME = "doctor"
HELP = "what this host offers, what is missing, and what to do about it"


def configure(parser: argparse.ArgumentParser) -> None:
    """It takes no options."""


def execute(options: argparse.Namespace) -> int:
    return doctor(sys.stdout)

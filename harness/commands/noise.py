# SPDX-License-Identifier: GPL-2.0-only
"""``blklab noise``: how often the rule for the wall clock errs, by made-up runs whose truth is known."""

import argparse

from harness.commands.command import add_page, write_page
from harness.noise.stopping import FEWEST_ROUNDS, MOST_ROUNDS
from harness.studies.noise.page import page
from harness.studies.noise.rehearsal import Plan
from lab.base.errors import EXIT_PASS, Misuse

NAME = "noise"
HELP = "false alarms and misses of the rule for scenarios on the wall clock; writes docs/results/noise.md"


def configure(parser: argparse.ArgumentParser) -> None:
    plan = Plan()
    parser.add_argument("--boots", type=int, default=plan.rounds, metavar="N", help=f"a side (default: {plan.rounds})")
    parser.add_argument("--trials", type=int, default=plan.trials, metavar="N", help="runs of each kind")
    add_page(parser, "noise.md")


def execute(options: argparse.Namespace) -> int:
    if not FEWEST_ROUNDS <= options.boots <= MOST_ROUNDS:
        raise Misuse(f"--boots {options.boots}", remedy=f"a number from {FEWEST_ROUNDS} to {MOST_ROUNDS}")
    if options.trials < 1:
        raise Misuse(f"--trials {options.trials}", remedy="1 or more")
    text = page(Plan(rounds=options.boots, trials=options.trials))
    write_page(options.out, text)
    print(text, end="")
    return EXIT_PASS

# SPDX-License-Identifier: GPL-2.0-only
"""``blklab judge``: the verdict of a run again, from its raw artefacts alone."""

import argparse
import sys
from pathlib import Path

from harness.commands.exporting import add_exports, check_exports, export, report_console
from harness.commands.reporting import print_run
from harness.record.judging import rejudge

NAME = "judge"
HELP = "judge a run again from its raw artefacts, and say whether its stored verdict is the same"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run folder, such as results/shared-queue/latest")
    add_exports(parser)


def execute(options: argparse.Namespace) -> int:
    check_exports(options)
    rejudged = rejudge(options.run)
    print_run(report_console(options), rejudged.run, rejudged.verdict)
    export(options, rejudged.run.scenario, rejudged.verdict, rejudged.run.facts)
    if rejudged.agrees is None:
        print("blklab: this run had not been judged before", file=sys.stderr)
    else:
        word = "the same as" if rejudged.agrees else "NOT the same as"
        print(f"blklab: {word} the stored verdict", file=sys.stderr)
    return rejudged.verdict.exit_code

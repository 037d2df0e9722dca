# SPDX-License-Identifier: GPL-2.0-only
"""``blklab judge``: recompute a verdict from raw artefacts."""

import argparse
import sys
from pathlib import Path

from harness.commands.exporting import add_exports, check_exports, export, report_console
from harness.commands.reporting import print_run
from harness.record.judging import rejudge

NAME = "judge"
HELP = "recompute the verdict of a run from its raw artefacts and compare it with the stored one"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run folder, such as results/shared-queue/latest")
    add_exports(parser)


def execute(options: argparse.Namespace) -> int:
    check_exports(options)
    rejudged = rejudge(options.run)
    print_run(report_console(options), rejudged.run, rejudged.verdict)
    export(options, rejudged.run, rejudged.verdict)
    if not rejudged.before:
        print("blklab: this run has no stored verdict", file=sys.stderr)
    elif not rejudged.differences:
        print("blklab: the stored verdict is identical", file=sys.stderr)
    for difference in rejudged.differences:
        print(f"blklab: verdict.json: {difference}", file=sys.stderr)
    return rejudged.exit_code

# SPDX-License-Identifier: GPL-2.0-only
"""``blklab judge``: judge a stored run again, from its raw files alone."""

import argparse

from harness.commands.command import add_run, tell
from harness.commands.exporting import add_exports, check_exports, export, show_run
from harness.record.judging import rejudge


def configure(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_exports(parser)


def execute(options: argparse.Namespace) -> int:
    check_exports(options)
    rejudged = rejudge(options.run)
    show_run(options, rejudged.run, rejudged.verdict)
    export(options, rejudged.run.scenario, rejudged.verdict, rejudged.run.facts)
    if rejudged.agrees is None:
        tell("this run had no stored verdict")
    else:
        tell(f"{'the same as' if rejudged.agrees else 'NOT the same as'} the stored verdict")
    return rejudged.verdict.exit_code

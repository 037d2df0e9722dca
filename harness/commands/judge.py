# SPDX-License-Identifier: GPL-2.0-only
"""``blklab judge``: recompute a verdict from raw artefacts."""

import argparse

from harness.commands.common.options import add_run, tell
from harness.commands.common.output import add_exports, check_exports, export, show_run
from harness.record.judging import rejudge


def configure(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_exports(parser)


def execute(options: argparse.Namespace) -> int:
    check_exports(options)
    rejudged = rejudge(options.run)
    show_run(options, rejudged.run, rejudged.verdict)
    export(options, rejudged.run, rejudged.verdict)
    if not rejudged.before:
        tell("this run has no stored verdict")
    elif not rejudged.differences:
        tell("the stored verdict is identical" + ("" if rejudged.worded else " (its sentences are another version's)"))
    for difference in rejudged.differences:
        tell(f"verdict.json: {difference}")
    return rejudged.exit_code

# SPDX-License-Identifier: GPL-2.0-only
"""``blklab report``: a run as one HTML page."""

import argparse
from pathlib import Path

from harness.commands.reporting import surroundings
from harness.files import write_atomic
from harness.judging import judge_run
from harness.report.page.run import run_page
from harness.store import load_run
from lab.errors import EXIT_PASS

NAME = "report"
HELP = "write a run as one self-contained HTML page, and print its path"
PAGE = "report.html"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run folder, such as results/shared-queue/latest")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page (default: report.html in the folder)")


def execute(options: argparse.Namespace) -> int:
    run = load_run(options.run)
    target = options.out or run.path / PAGE
    write_atomic(target, run_page(run, judge_run(run), surroundings(run)).encode())
    print(target)
    return EXIT_PASS

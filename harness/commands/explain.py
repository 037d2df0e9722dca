# SPDX-License-Identifier: GPL-2.0-only
"""``blklab explain``: what limited each load of a run, from its raw artefacts, and the proof of it."""

import argparse
from pathlib import Path

from rich.console import Console

from harness.analysis.bottleneck import Bottleneck
from harness.judging import Unexplained, explain_run
from harness.report.bottleneck import bottleneck_table, sentences
from harness.store import load_run
from lab.errors import EXIT_PASS, CannotJudge

NAME = "explain"
HELP = "name what limits each load of a run, and prove it"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run folder, such as results/shared-queue/latest")


def execute(options: argparse.Namespace) -> int:
    run = load_run(options.run)
    explained = explain_run(run)
    found = [one for one in explained if isinstance(one, Bottleneck)]
    unknown = [one for one in explained if isinstance(one, Unexplained)]
    if not found:
        why = f": {unknown[0].reason}" if unknown else ": nothing was measured"
        raise CannotJudge(f"{options.run} cannot be explained{why}", remedy="run the scenario again")
    console = Console(soft_wrap=False)
    console.print(f"{run.facts.scenario} on Linux {run.facts.kernel.release}\n", highlight=False)
    console.print(bottleneck_table(found), highlight=False)
    console.print()
    for sentence in sentences(found):
        console.print(sentence, highlight=False)
    for one in unknown:
        console.print(f"{one.arm}.{one.load} cannot be explained: {one.reason}", highlight=False)
    return EXIT_PASS

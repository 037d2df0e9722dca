# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check speed``: starts and runs, warm, cold and by other means, as ratios."""

import argparse
import os
import shlex
from pathlib import Path

from harness.commands.common.options import CHECKOUT, SCENARIOS, add_kernel, number, results_root, tell, write_page
from harness.scenario.load import load_scenario
from harness.studies import speed
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS, no_such_folder
from lab.guest.payload import busybox
from lab.kernels.resolve import resolve
from lab.session import open_lab

COMMAND = "make bench"
_ROUNDS = 5
_WORK = ("run shared-queue", "run io-cost --arm null-blk-none")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", type=Path, metavar="DIR", help="compare runs with another checkout of blklab")
    parser.add_argument("--rounds", type=number(1), default=_ROUNDS, metavar="N", help=f"default: {_ROUNDS}")
    parser.add_argument(
        "--work",
        action="append",
        metavar="WORDS",
        help=f"a command of blklab to measure (may be repeated; default: {', '.join(_WORK)})",
    )
    add_kernel(parser)
    parser.add_argument(
        "--out",
        type=Path,
        default=results_root(None) / "evidence",
        metavar="DIR",
        help="folder of speed.md (default: evidence/ below the results)",
    )


def execute(options: argparse.Namespace) -> int:
    if options.base is not None and not options.base.is_dir():
        raise no_such_folder(options.base, "checkout")
    cache = Cache.default()
    lab, kernel = open_lab(cache, tell), resolve(options.kernel, cache, tell=tell)
    small = load_scenario("must-pass", search=SCENARIOS / "selftest")
    loads = [os.getloadavg()[0]]
    tables = {"Starts": speed.measured(speed.starts(lab, kernel, small, busybox(cache, tell)), options.rounds, tell)}
    for text in options.work or _WORK:
        loads.append(os.getloadavg()[0])
        words = shlex.split(text)
        words += ["--kernel", options.kernel] if words[0] == "run" else []
        base = options.base.absolute() if options.base else None
        tables[f"blklab {text}"] = speed.measured(speed.runs(words, CHECKOUT, base), options.rounds, tell)
    write_page(
        options.out / "speed.md", speed.page(tables, speed.facts_of(lab, kernel, options.rounds, loads), COMMAND)
    )
    tell(f"written to {options.out / 'speed.md'}")
    return EXIT_PASS

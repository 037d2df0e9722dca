# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check executed``: measure which load executes which functions; writes scenarios/executed.json."""

import argparse
from pathlib import Path

from harness.base.checkout import EXECUTED
from harness.commands.common.boots import bench_of, every_scenario, kernel_of
from harness.commands.common.options import add_arms, add_jobs, add_results, kernel_spec, tell
from harness.limits.load import load_scenario
from harness.run.plan import Request
from harness.studies.executed import Executed, load_executed, observe, save_executed
from lab.base.errors import EXIT_PASS, CannotJudge
from lab.kernels.packaged import DEFAULT

FOLDER = "executed"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help="only these (default: all of the virtual clock)"
    )
    parser.add_argument(
        "--kernel", type=kernel_spec, default=DEFAULT, metavar="SPEC", help=f"a build from source (default: {DEFAULT})"
    )
    parser.add_argument("--out", type=Path, default=EXECUTED, metavar="FILE", help="default: scenarios/executed.json")
    add_arms(parser)
    add_jobs(parser)
    add_results(parser)


def execute(options: argparse.Namespace) -> int:
    named = [load_scenario(name) for name in options.scenarios] or every_scenario()
    bench, kernel = bench_of(options, FOLDER), kernel_of(options.kernel)
    known = load_executed(options.out)
    executed = known if known and known.kernel == kernel.origin else Executed(kernel.origin, {}, {})
    for scenario in named:
        try:
            loads = observe(bench, Request(scenario, kernel, arms=tuple(options.arm)))
        except CannotJudge as error:
            tell(f"{scenario.name}: {error.message}")
            continue
        executed = executed.with_scenario(scenario, loads)
        save_executed(options.out, executed)
        tell(f"{scenario.name}: {len(loads)} loads, {len(frozenset().union(*loads.values()))} functions")
    return EXIT_PASS

# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check selftest``: guests that fail on purpose, each with the status it must end with."""

import argparse
from dataclasses import replace

from harness.base.checkout import SCENARIOS
from harness.commands.common.boots import bench_of, kernel_of
from harness.commands.common.options import add_each_kernel, add_results, kernels_of
from harness.limits.load import load_scenario
from harness.run.bench import unwatched
from harness.scenario.load import find_scenarios
from harness.studies.selftest import run_selftests
from lab.base.errors import EXIT_LAB_BROKEN, EXIT_PASS

_FOLDER = SCENARIOS / "selftest"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, such as must-oops (default: all)")
    add_each_kernel(parser)
    add_results(parser)


def execute(options: argparse.Namespace) -> int:
    names = options.names or list(find_scenarios(_FOLDER))
    scenarios = [load_scenario(name, search=_FOLDER) for name in names]
    # Several run at once: their progress would be one display.
    bench = replace(bench_of(options), watch=unwatched)
    passed = True
    for kernel in [kernel_of(spec) for spec in kernels_of(options)]:
        for scenario, verdict, wrong in run_selftests(bench, scenarios, kernel):
            word = f"NOT as declared: {'; '.join(wrong)}" if wrong else "ok"
            print(f"{scenario.name} on {kernel.spec}: {verdict.status} ({verdict.exit_code}), {word}", flush=True)
            passed = passed and not wrong
    return EXIT_PASS if passed else EXIT_LAB_BROKEN

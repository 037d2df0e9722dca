# SPDX-License-Identifier: GPL-2.0-only
"""``blklab timeline``: scenarios over kernel versions, and the releases between which their figures change."""

import argparse
from pathlib import Path

from harness.commands.common import options as shared
from harness.commands.common.boots import add_kernels, arms_of, bench_of, kernel_of, specs
from harness.run.plan import expand as cells
from harness.scenario.load import load_scenario
from harness.studies.overview.collection import of_sweeps
from harness.studies.overview.set import set_page
from harness.studies.timeline.lines import METRICS
from harness.studies.timeline.measure import STEP, timeline
from harness.studies.timeline.sweep import Sweeper, sweep
from harness.studies.timeline.text import text
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_PASS
from lab.session import ready_qemu

KERNELS = "debian:5.10 .. debian:7.3"


def configure(parser: argparse.ArgumentParser) -> None:
    shared.add_scenario(parser, nargs="+")
    add_kernels(parser, KERNELS)
    shared.add_seeds(parser)
    shared.add_arms(parser)
    shared.add_metrics(parser, help=f"figures besides the claims (may be repeated; default: {', '.join(METRICS)})")
    parser.add_argument(
        "--step",
        type=shared.number(1),
        default=STEP,
        metavar="N",
        help=f"measure every Nth kernel first (default: {STEP}; 1: all)",
    )
    shared.add_jobs(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write one HTML page of all claims and kernels")
    shared.add_results(parser)


def execute(options: argparse.Namespace) -> int:
    metrics = shared.metrics_of(options, METRICS)
    scenarios = [load_scenario(name) for name in options.scenario]
    for scenario in scenarios:
        cells(scenario, options.seeds, arms_of(options.arm, scenario, scenarios) or None)
    ready_qemu(Cache.default(), shared.tell)
    named = specs(options.kernels or [KERNELS], Cache.default())
    bench, timelines = bench_of(options), []
    for scenario in scenarios:
        sweeper = Sweeper(bench, kernel_of, options.seeds, arms_of(options.arm, scenario, scenarios))
        timelines.append(timeline(sweeper, sweep(scenario, named), metrics, shared.tell, options.step))
    report = "\n".join(map(text, timelines))
    print(report, end="")
    if options.out:
        head = report.partition("\n\n")[0].replace("\n", ". ")
        collection = of_sweeps(bench.store.root, [it.sweep for it in timelines], head)
        shared.write_page(options.out, set_page(collection))
    return EXIT_CANNOT_JUDGE if any(len(it.sweep.points) < 2 for it in timelines) else EXIT_PASS  # noqa: PLR2004

# SPDX-License-Identifier: GPL-2.0-only
"""``blklab timeline``: scenarios over kernel versions, and the releases between which their figures change."""

from collections.abc import Sequence
from pathlib import Path

from harness.commands.boots import arms_of, bench_of, kernel_of, specs
from harness.commands.options import (
    ARMS,
    JOBS,
    METRIC,
    RESULTS,
    SCENARIO,
    SEEDS,
    kernels,
    metrics_of,
    number,
    tell,
    write_page,
)
from harness.commands.parser import Command, option
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


def _timeline(
    *,
    scenario: Sequence[str],
    kernels: Sequence[str] | None,
    seeds: int | None,
    arms: Sequence[str],
    metrics: Sequence[str],
    step: int,
    jobs: int,
    out: Path | None,
    results: str | None,
) -> int:
    figures = metrics_of(metrics, METRICS)
    scenarios = [load_scenario(name) for name in scenario]
    arms_by_scenario = [arms_of(arms, each, scenarios) for each in scenarios]
    for each, own in zip(scenarios, arms_by_scenario, strict=True):
        cells(each, seeds, own or None)
    ready_qemu(Cache.default(), tell)
    named = specs(kernels or [KERNELS], Cache.default())
    bench = bench_of(results, jobs)
    timelines = [
        timeline(Sweeper(bench, kernel_of, seeds, own), sweep(each, named), figures, tell, step)
        for each, own in zip(scenarios, arms_by_scenario, strict=True)
    ]
    report = "\n".join(map(text, timelines))
    print(report, end="")
    if out:
        head = report.partition("\n\n")[0].replace("\n", ". ")
        write_page(out, set_page(of_sweeps(bench.store.root, [each.sweep for each in timelines], head)))
    return EXIT_CANNOT_JUDGE if any(len(each.sweep.points) < 2 for each in timelines) else EXIT_PASS  # noqa: PLR2004


COMMANDS = {
    "timeline": Command(
        _timeline,
        (
            SCENARIO.but(nargs="+"),
            kernels(KERNELS),
            SEEDS,
            ARMS,
            METRIC.but(help=f"figures besides the claims (may be repeated; default: {', '.join(METRICS)})"),
            option(
                "--step",
                type=number(1),
                default=STEP,
                metavar="N",
                help=f"measure every Nth kernel first (default: {STEP}; 1: all)",
            ),
            JOBS,
            option("--out", type=Path, metavar="FILE", help="also write one HTML page of all claims and kernels"),
            RESULTS,
        ),
    )
}

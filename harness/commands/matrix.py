# SPDX-License-Identifier: GPL-2.0-only
"""``blklab matrix`` and ``blklab timeline``: scenarios on several kernels, and on successive ones."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.base.checkout import results_root
from harness.commands.boots import (
    arms_of,
    bench_of,
    chosen_by,
    distinct,
    kernel_of,
    kernels_of,
    print_dry_run,
    refuse_ranges,
    specs,
    tell_default,
    watched,
)
from harness.commands.options import (
    ARMS,
    DASK,
    DRY_RUN,
    JOBS,
    METRIC,
    RESULTS,
    SCENARIO,
    SEEDS,
    kernel_specs,
    kernels,
    metrics_of,
    number,
    tell,
    words_of,
    write_page,
)
from harness.commands.parser import Command, flag, option
from harness.grid.cluster import elsewhere
from harness.grid.lines import METRICS, GridRow
from harness.grid.measure import MatrixPlan, Sweeper, cells_of, merge, parts, read_shard, run_matrix
from harness.grid.page import of_rows, set_page
from harness.grid.timeline import STEP, text, timeline
from harness.hunt.matrix import HuntCell, hunt_matrix, keep_hunts, kept_hunts
from harness.patch.choice import choice_lines
from harness.patch.sources import Sources
from harness.record.grid import GridFolder
from harness.record.store import Store
from harness.report.terminal.grid import print_matrix
from harness.report.terminal.printing import console_of, folded, plain_table, print_wide
from harness.report.terminal.scenario import Estimate
from harness.run.plan import expand as cells
from harness.scenario.load import find_scenarios
from harness.scenario.model import Scenario
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS, CannotJudge, LabBroken, Misuse
from lab.kernels.debian import expand
from lab.kernels.git import commit_of, is_repository
from lab.kernels.resolve import check, resolve
from lab.session import ready_qemu
from lab.yaml.strict import shown_path

KERNELS = "debian:5.10 debian:6.1 debian:6.12 debian:7.2"
SERIES = "debian:5.10 .. debian:7.3"
_WHOLE = (1, 1)


def _matrix(
    *,
    scenarios: Sequence[str],
    changed: str | None,
    tree: Path,
    kernels: Sequence[str] | None,
    seeds: int | None,
    shard: tuple[int, int],
    merge: Sequence[Path] | None,
    hunt: int | None,
    dask: str | None,
    jobs: int,
    results: str | None,
    refresh: bool,
    dry_run: bool,
) -> int:
    words = words_of(tree=tree if changed else None, changed=changed, kernels=kernels, seeds=seeds, hunt=hunt)
    words += ["--merge", *map(str, merge)] if merge else []
    words += ["--shard", "/".join(map(str, shard))] if shard != _WHOLE else []
    command = ("blklab", "matrix", *scenarios, *words)
    if merge:
        return _merge(merge, results, command)
    chosen = _changed(tree, changed) if changed else _scenarios(scenarios)
    named = " ".join(kernels or ()).split() or kernel_specs(os.environ.get("KERNELS") or KERNELS).split()
    if not kernels:
        tell_default(f"the kernels are {' '.join(named)}", "--kernels")
    if dry_run:
        return print_dry_run(_estimates(chosen, named, seeds, shard), results)
    bench = bench_of(results, jobs)
    cache = bench.lab.cache
    get = partial(resolve, cache=cache, refresh=refresh, tell=tell)
    plan = MatrixPlan(chosen, kernels_of(specs(named, cache), get), seeds, shard, command)
    try:
        with elsewhere(dask, tell) as cluster, watched() as listener:
            bench = replace(bench, cluster=cluster)
            folder = run_matrix(bench, plan, listener)
            hunts = [*hunt_matrix(bench, plan.kernels, hunt, shard, tell)] if hunt else []
    except (LabBroken, KeyboardInterrupt):
        tell("interrupted: run the same command again to resume")
        raise
    return _print(folder, hunts)


def _merge(folders: Sequence[Path], results: str | None, command: tuple[str, ...]) -> int:
    merged = parts(folders)
    hunts = [each for part in merged for each in kept_hunts(part.path)]
    return _print(merge(Store(results_root(results)), merged, command), hunts)


def _estimates(
    scenarios: Sequence[Scenario], named: Sequence[str], seeds: int | None, shard: tuple[int, int]
) -> list[Estimate]:
    checked = kernels_of(expand(" ".join(named), refuse_ranges), check)
    unresolved = {spec: lacking or CannotJudge("not resolved") for spec, lacking in checked.items()}
    by_name = {scenario.name: scenario for scenario in scenarios}
    cells = cells_of(MatrixPlan(tuple(scenarios), unresolved, seeds, shard))
    mine = [cell for cell in cells if cell.shard == shard[0] and not checked[cell.kernel.spec]]
    return [Estimate(by_name[cell.scenario], cell.kernel.spec, cell.boots) for cell in mine]


def _scenarios(named: Sequence[str]) -> tuple[Scenario, ...]:
    refs = [name for words in named for name in words.split()] or find_scenarios()
    return tuple(scenario for _, scenario in distinct(refs).values())


def _changed(tree: Path, changed: str) -> tuple[Scenario, ...]:
    """All that execute what differs. Raises CannotJudge where none does, Misuse."""
    old, dots, new = changed.partition("..")
    if not (old and dots and new) or new.startswith("."):
        raise Misuse(
            f"--changed {changed} needs two commits",
            remedy="blklab matrix --tree DIR --changed v6.12..HEAD --kernels tree:DIR@HEAD",
        )
    if not is_repository(tree):
        raise Misuse(f"{tree} is no git repository", remedy="--tree DIR, a clone of the kernel's history")
    commits = [commit_of(tree, revision) for revision in (old, new)]
    choice = chosen_by(Sources(tree, *commits))
    for line in choice_lines(choice, len(choice.candidates)):
        tell(line)
    if not choice.candidates:
        raise CannotJudge(f"no scenario executes what {changed} touches", remedy="name scenarios")
    return tuple(candidate.scenario for candidate in choice.candidates)


def _print(folder: GridFolder, hunts: Sequence[HuntCell]) -> int:
    """A kernel that fails a search fails where the find calls it good."""
    console, status = console_of(), folder.grid.exit_code
    print_matrix(console, folder.grid)
    if hunts:
        keep_hunts(folder.path, hunts)
        table = plain_table("find", "kernel", "search", folded("of its seeds"))
        for each in hunts:
            table.add_row(each.find, each.kernel, each.status, each.says)
        console.print()
        print_wide(console, table)
    console.print(f"record  {shown_path(folder.path / 'matrix.json')}", soft_wrap=True)
    fails = status <= EXIT_CANNOT_JUDGE and any(each.failed for each in hunts)
    return EXIT_FAIL if fails else status


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
    scenarios = [each for _, each in distinct(scenario).values()]
    arms_by_scenario = [arms_of(arms, each, scenarios) for each in scenarios]
    for each, own in zip(scenarios, arms_by_scenario, strict=True):
        cells(each, seeds, own or None)
    if not kernels:
        tell_default(f"the kernels are {SERIES}", "--kernels")
    named = specs(kernels or [SERIES], Cache.default(), lenient=not kernels)
    ready_qemu(Cache.default(), tell)
    bench = bench_of(results, jobs)
    timelines = [
        timeline(Sweeper(bench, kernel_of, seeds, own), GridRow.of(each, named), tell, figures, step)
        for each, own in zip(scenarios, arms_by_scenario, strict=True)
    ]
    report = "\n".join(map(text, timelines))
    print(report, end="")
    if out:
        head = report.partition("\n\n")[0].replace("\n", ". ")
        write_page(out, set_page(of_rows([each.row for each in timelines], head)))
    return EXIT_CANNOT_JUDGE if any(len(each.row.runs) < 2 for each in timelines) else EXIT_PASS  # noqa: PLR2004


COMMANDS = {
    "matrix": Command(
        _matrix,
        (
            option(
                "scenarios", nargs="*", metavar="SCENARIO", help="names or files (default: all of the virtual clock)"
            ),
            option(
                "--changed",
                metavar="REV..REV",
                help="the scenarios that execute what differs between two commits of --tree, as blklab patch chooses"
                " them",
            ),
            option("--tree", type=Path, metavar="DIR", help="a git repository of the kernel, for --changed"),
            kernels(KERNELS),
            SEEDS,
            option(
                "--hunt",
                type=number(1),
                metavar="MINUTES",
                help="also make the kept searches of hunts/ on each kernel, and begin none after so long",
            ),
            option("--shard", type=read_shard, default=_WHOLE, metavar="I/N", help="only part I of N of the cells"),
            option("--merge", nargs="+", type=Path, metavar="DIR", help="boot nothing: merge the results of shards"),
            DASK,
            JOBS,
            RESULTS,
            flag("--refresh", "use the newest package of each kernel"),
            DRY_RUN,
        ),
        "Exit status: 0 when everything that could be judged passes, 1 fail, 125 cannot judge, 128 and above broken.",
        needs={"tree": ("changed",), "changed": ("tree",)},
        alone={
            "merge": (
                "scenarios",
                "changed",
                "kernels",
                "seeds",
                "hunt",
                "shard",
                "dask",
                "jobs",
                "refresh",
                "dry_run",
            ),
            "changed": ("scenarios",),
        },
    ),
    "timeline": Command(
        _timeline,
        (
            SCENARIO.but(nargs="+"),
            kernels(SERIES),
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
    ),
}

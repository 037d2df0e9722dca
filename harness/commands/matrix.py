# SPDX-License-Identifier: GPL-2.0-only
"""``blklab matrix``: run scenarios on several kernels; the same command resumes an interrupted matrix."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.base.checkout import results_root
from harness.commands.common import options as shared
from harness.commands.common.boots import (
    add_kernels,
    bench_of,
    chosen_by,
    every_scenario,
    kernel_specs,
    kernels,
    refuse_ranges,
    specs,
)
from harness.commands.common.dry_run import Estimate, add_dry_run, print_estimates
from harness.limits.load import load_scenario
from harness.matrix.cluster import elsewhere
from harness.matrix.driver import MatrixPlan, cells_of, read_shard, run_matrix
from harness.matrix.merge import merge, parts
from harness.patch.choice import choice_lines
from harness.patch.sources import Sources
from harness.record.matrices import MatrixFolder
from harness.record.store import Store
from harness.report.terminal.matrix import print_matrix
from harness.report.terminal.printing import console_of
from harness.report.terminal.progress import progress
from harness.scenario.load import find_scenarios
from harness.scenario.model import Scenario
from lab.base.errors import EXIT_PASS, CannotJudge, LabBroken, Misuse
from lab.kernels.debian import expand
from lab.kernels.git import commit_of, is_repository
from lab.kernels.resolve import check, resolve
from lab.yaml.strict import shown_path

KERNELS = "debian:5.10 debian:6.1 debian:6.12 debian:7.2"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help="names or files (default: all of the virtual clock)"
    )
    parser.add_argument(
        "--changed",
        metavar="REV..REV",
        help="the scenarios that execute what differs between two commits of --tree, as blklab patch chooses them",
    )
    parser.add_argument("--tree", type=Path, metavar="DIR", help="a git repository of the kernel, for --changed")
    add_kernels(parser, KERNELS)
    shared.add_seeds(parser)
    parser.add_argument("--shard", type=read_shard, default=(1, 1), metavar="I/N", help="only part I of N of the cells")
    parser.add_argument(
        "--merge", nargs="+", type=Path, metavar="DIR", help="boot nothing: merge the results of shards"
    )
    shared.add_dask(parser)
    shared.add_jobs(parser)
    shared.add_results(parser)
    parser.add_argument("--refresh", action="store_true", help="use the newest package of each kernel")
    add_dry_run(parser)
    boots = ("scenarios", "changed", "kernels", "seeds", "shard", "dask", "jobs", "refresh", "dry_run")
    parser.set_defaults(
        needs={"tree": ("changed",), "changed": ("tree",)}, alone={"merge": boots, "changed": ("scenarios",)}
    )
    parser.epilog = (
        "Exit status: 0 when everything that could be judged passes, 1 fail, 125 cannot judge, 128 and above broken."
    )


def execute(options: argparse.Namespace) -> int:
    store = Store(results_root(options.results))
    if options.merge:
        return _print(merge(store, parts(options.merge), _command(options)))
    scenarios = _changed(options) if options.changed else _scenarios(options.scenarios)
    if options.dry_run:
        return _dry_run(options, scenarios, store)
    bench = bench_of(options)
    cache = bench.lab.cache
    get = partial(resolve, cache=cache, refresh=options.refresh, tell=shared.tell)
    found = kernels(specs(_named(options), cache), get)
    plan = MatrixPlan(scenarios, found, options.seeds, options.shard, _command(options))
    try:
        with elsewhere(options.dask, shared.tell) as cluster, progress(console_of(stderr=True)) as listener:
            folder = run_matrix(replace(bench, cluster=cluster), plan, listener)
    except (LabBroken, KeyboardInterrupt):
        shared.tell("interrupted: run the same command again to resume")
        raise
    return _print(folder)


def _dry_run(options: argparse.Namespace, scenarios: Sequence[Scenario], store: Store) -> int:
    checked = kernels(expand(" ".join(_named(options)), refuse_ranges), check)
    unresolved = {spec: lacking or CannotJudge("not resolved") for spec, lacking in checked.items()}
    by_name = {scenario.name: scenario for scenario in scenarios}
    cells = cells_of(MatrixPlan(tuple(scenarios), unresolved, options.seeds, options.shard))
    mine = [cell for cell in cells if cell.shard == options.shard[0] and not checked[cell.kernel.spec]]
    print_estimates([Estimate(by_name[cell.scenario], cell.kernel.spec, cell.boots) for cell in mine], store.root)
    return EXIT_PASS


def _scenarios(named: Sequence[str]) -> tuple[Scenario, ...]:
    refs = [name for words in named for name in words.split()] or list(find_scenarios())
    found = {scenario.name: scenario for scenario in (load_scenario(ref) for ref in refs)}
    return tuple(found.values())


def _changed(options: argparse.Namespace) -> tuple[Scenario, ...]:
    """All that execute what differs. Raises CannotJudge where none does, Misuse."""
    old, dots, new = options.changed.partition("..")
    if not (old and dots and new) or new.startswith("."):
        raise Misuse(
            f"--changed {options.changed} needs two commits",
            remedy="blklab matrix --tree DIR --changed v6.12..HEAD --kernels tree:DIR@HEAD",
        )
    if not is_repository(options.tree):
        raise Misuse(f"{options.tree} is no git repository", remedy="--tree DIR, a clone of the kernel's history")
    commits = [commit_of(options.tree, revision) for revision in (old, new)]
    choice = chosen_by(Sources(options.tree, *commits), every_scenario())
    for line in choice_lines(choice, len(choice.candidates)):
        shared.tell(line)
    if not choice.candidates:
        raise CannotJudge(f"no scenario executes what {options.changed} touches", remedy="name scenarios")
    return tuple(one.scenario for one in choice.candidates)


def _named(options: argparse.Namespace) -> Sequence[str]:
    return " ".join(options.kernels or ()).split() or kernel_specs(os.environ.get("KERNELS") or KERNELS).split()


def _print(folder: MatrixFolder) -> int:
    console = console_of()
    print_matrix(console, folder.record)
    console.print(f"record  {shown_path(folder.path / 'matrix.json')}", soft_wrap=True)
    return folder.record.exit_code


def _command(options: argparse.Namespace) -> tuple[str, ...]:
    words = ["blklab", "matrix", *options.scenarios]
    words += shared.words_of(options, *(("tree", "changed") if options.changed else ()), "kernels", "seeds")
    words += ["--merge", *map(str, options.merge)] if options.merge else []
    if options.shard != (1, 1):
        words += ["--shard", "/".join(map(str, options.shard))]
    return tuple(words)

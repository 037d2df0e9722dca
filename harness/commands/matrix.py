# SPDX-License-Identifier: GPL-2.0-only
"""``blklab matrix``: scenarios x kernels, side by side, begun again wherever it was stopped."""

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from harness.commands.command import SCENARIOS, add_results, results_root, tell
from harness.commands.kernels import add_kernels, kernels, specs
from harness.limits.load import load_scenario
from harness.matrix.cluster import connect, nobody_waits
from harness.matrix.driver import run_matrix
from harness.matrix.jobs import MOST_JOBS, document, hosted_jobs
from harness.matrix.merge import merge, parts
from harness.matrix.plan import Plan, Shard, read_shard
from harness.record.matrices import MatrixFolder
from harness.record.store import Store
from harness.report.terminal.matrix import print_matrix
from harness.report.terminal.matrix_progress import matrix_progress
from harness.run.boots import Turns
from harness.scenario.load import find_scenarios
from harness.scenario.model import Scenario
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS, LabBroken, Misuse
from lab.qemu.probe import find_qemu
from lab.session import open_lab

NAME = "matrix"
HELP = "scenarios x kernels: exit 0 when all that could be judged pass, 1 fail, 125 cannot judge, 128 and above broken"
KERNELS = "debian:5.10 debian:6.1 debian:6.12 debian:7.2"
JOBS_PER_KERNEL = 3
_MOST_SEEDS = 64


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help="names or files (default: all that list shows)"
    )
    add_kernels(parser, KERNELS)
    parser.add_argument("--seeds", type=int, metavar="N", help="as many as this instead of what the scenarios say")
    parser.add_argument(
        "--shard", type=read_shard, default=Shard(), metavar="I/N", help="only part I of N of the cells"
    )
    parser.add_argument(
        "--merge", nargs="+", type=Path, metavar="DIR", help="measure nothing: put together what shards left in these"
    )
    parser.add_argument(
        "--emit-jobs",
        nargs="?",
        type=int,
        const=JOBS_PER_KERNEL,
        metavar="N",
        help=f"measure nothing: print N jobs a kernel (default: {JOBS_PER_KERNEL}) as JSON, for hosted runners",
    )
    parser.add_argument("--dask", metavar="ADDRESS", help="boot on the cluster of this scheduler (tcp://host:8786)")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="boots side by side (default: one a core)")
    add_results(parser)
    parser.add_argument("--refresh", action="store_true", help="take the newest package of each kernel")


def execute(options: argparse.Namespace) -> int:
    _check(options)
    store = Store(results_root(options.results))
    if options.merge:
        return _print(merge(store, parts(options.merge), _command(options)))
    scenarios = _scenarios(options.scenarios)
    if options.emit_jobs is not None:
        jobs = hosted_jobs(scenarios, _specs(options.kernels, Cache.default()), options.seeds, options.emit_jobs)
        print(json.dumps(document(jobs)))
        return EXIT_PASS
    store.check()
    find_qemu()
    cache = Cache.default()
    lab = open_lab(cache, tell)
    found = kernels(_specs(options.kernels, cache), cache, refresh=options.refresh)
    plan = Plan(scenarios, found, options.seeds, options.shard, options.jobs, _command(options))
    try:
        with _elsewhere(options.dask) as elsewhere, matrix_progress(Console(stderr=True)) as listener:
            folder = run_matrix(lab, plan, store, listener, elsewhere)
    except (LabBroken, KeyboardInterrupt):
        tell("the matrix was stopped; begun again, the same command goes on where it was")
        raise
    return _print(folder)


@contextmanager
def _elsewhere(address: str | None) -> Iterator[Turns | None]:
    """Turns on the cluster of that scheduler, None for this host."""
    if address is None:
        yield None
        return
    cluster = connect(address, tell)
    try:
        yield Turns(cluster.lanes(), boot=cluster.run_job)
    finally:
        nobody_waits(cluster)


def _check(options: argparse.Namespace) -> None:
    if options.emit_jobs is not None and not 1 <= options.emit_jobs <= MOST_JOBS:
        raise Misuse(f"--emit-jobs {options.emit_jobs}", remedy=f"a number from 1 to {MOST_JOBS}")
    if options.seeds is not None and not 1 <= options.seeds <= _MOST_SEEDS:
        raise Misuse(f"--seeds {options.seeds}", remedy=f"a number from 1 to {_MOST_SEEDS}")
    if options.jobs < 0:
        raise Misuse(f"--jobs {options.jobs}", remedy="0 (one a core) or more")


def _scenarios(named: Sequence[str]) -> tuple[Scenario, ...]:
    refs = [name for words in named for name in words.split()] or list(find_scenarios(SCENARIOS))
    found = {scenario.name: scenario for scenario in (load_scenario(ref, search=SCENARIOS) for ref in refs)}
    return tuple(found.values())


def _specs(named: Sequence[str] | None, cache: Cache) -> tuple[str, ...]:
    return specs(" ".join(named or ()).split() or (os.environ.get("KERNELS") or KERNELS).split(), cache)


def _print(folder: MatrixFolder) -> int:
    console = Console()
    print_matrix(console, folder.record)
    path = folder.path / "matrix.json"
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    console.print(f"record  {shown}", soft_wrap=True, highlight=False)
    return folder.record.exit_code


def _command(options: argparse.Namespace) -> tuple[str, ...]:
    words = ["blklab", "matrix", *options.scenarios]
    for named in options.kernels or ():
        words += ["--kernels", named]
    words += ["--seeds", str(options.seeds)] if options.seeds is not None else []
    words += ["--merge", *map(str, options.merge)] if options.merge else []
    if options.shard.of > 1:
        words += ["--shard", f"{options.shard.number}/{options.shard.of}"]
    return tuple(words)

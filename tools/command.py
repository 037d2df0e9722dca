# SPDX-License-Identifier: GPL-2.0-only
"""What the commands of the tools share: parser, messages and exit codes of blklab, and runs of scenarios on kernels.

Runs are stored ones, or measured where one is missing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial

from harness import cli
from harness.base.checkout import results_root
from harness.base.plain import identity
from harness.commands.boots import bench_of, kernel_of
from harness.commands.options import tell
from harness.commands.parser import Command, Parser, option
from harness.record.store import RunFolder, Store, load_run
from harness.run.plan import Request
from harness.scenario.model import Scenario
from lab.base.errors import BlklabError, CannotJudge, Misuse
from lab.kernels.model import Kernel, series_of
from lab.kernels.resolve import demand
from lab.kernels.tree import base_spec

FURTHER = "debian:6.1 debian:7.2 debian:5.10 ubuntu:4.18"
"""Kernels for what the source leaves open."""


def source(spec: str) -> str:
    if not demand(spec).startswith(("source:", "tree:", "mutant:")):
        raise Misuse(f"--source {spec} is no source", remedy="source:6.12, tree:PATH or tree:PATH@REV")
    return spec


SOURCE = option(
    type=source,
    default=base_spec,
    metavar="SPEC",
    help="source to build: source:6.12 (default), tree:PATH or tree:PATH@REV",
)


def command(name: str) -> str:
    """What a maintainer types to run the tool ``name``."""
    return f"scripts/run --dev python -m tools.{name}"


def tool(name: str, described: str, options: type[Command]) -> Callable[..., int]:
    """A main function: it takes the words of a command line, by default those of the process."""

    def build(_: Sequence[str]) -> Parser:
        parser = Parser(prog=f"python -m tools.{name}", description=described)
        parser.take(options)
        return parser

    return partial(cli.main, build=build)


FOLDER = "controls"
"""The folder below the results for runs of mutants and of the kernels that they are compared with."""
NOT_MEASURED = "not measured"
Measure = Callable[[Scenario, str, Sequence[str], int | None], RunFolder]
"""From a scenario, a kernel's spec, arms (none: all) and seeds (None: the scenario's) to their run.

Raises CannotJudge with the reason.
"""


def measuring(results: str | None, jobs: int, folder: str, *, boots: bool = True) -> Measure:
    """Runs of a folder of the results; without ``boots`` only stored ones. Raises LabBroken."""
    if not boots:
        return stored_runs(Store(results_root(results) / folder), again="the same without --stored")
    bench, kernel = bench_of(results, jobs, folder=folder), cache(_kernel)

    def measure(scenario: Scenario, spec: str, arms: Sequence[str], seeds: int | None) -> RunFolder:
        return bench.measure(Request(scenario, kernel(spec), seeds, tuple(arms))).folder

    return measure


def _kernel(spec: str) -> Kernel:
    """The kernel. Raises CannotJudge where it cannot be had: the others are measured."""
    try:
        return kernel_of(spec)
    except Misuse:
        raise
    except BlklabError as error:
        tell(f"{spec}: {error}")
        raise CannotJudge(f"{spec}: {error.message}", remedy=error.remedy) from None


def current_runs(store: Store, scenario: Scenario) -> Iterator[RunFolder]:
    """Judged runs of the scenario as its file is today, newest first; those of a reworded one get the current text."""
    wanted = identity(scenario)
    for path in reversed(store.runs(scenario.name)):
        with suppress(Misuse):
            run = load_run(path)
            if identity(run.scenario) == wanted:
                yield replace(run, scenario=scenario)


def newest_runs(store: Store, scenario: Scenario, *, built: bool) -> dict[str, RunFolder]:
    """The newest run on each kernel series, none of a mutant: on a package, else (``built``) on a build."""
    runs = [run for run in current_runs(store, scenario) if not run.facts.kernel.mutant]
    packages, builds = ([run for run in runs if run.facts.kernel.built is kind] for kind in (False, True))
    return {series_of(run.facts.kernel.release): run for run in reversed((*packages, *(builds if built else ())))}


def stored_runs(store: Store, *, again: str) -> Measure:
    """The newest run on the kernel of the spec, with as many seeds.

    Without a number of seeds one with fewer than the scenario's will do. ``again`` measures what is missing.
    """

    def measure(scenario: Scenario, spec: str, arms: Sequence[str], seeds: int | None) -> RunFolder:
        own = (run for run in current_runs(store, scenario) if run.facts.kernel.spec == spec)
        runs = [run for run in own if {*(arms or scenario.arms)} <= {*run.facts.arms}]
        whole = (run for run in runs if len(run.facts.seeds) >= (seeds or scenario.seeds))
        if run := next(whole, runs[0] if runs and seeds is None else None):
            return run
        raise CannotJudge(NOT_MEASURED, remedy=again)

    return measure

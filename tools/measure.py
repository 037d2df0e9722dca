# SPDX-License-Identifier: GPL-2.0-only
"""Runs of scenarios on kernels: stored ones, or measured where one is missing."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache

from harness.base.checkout import results_root
from harness.base.plain import identity
from harness.commands.boots import bench_of, kernel_of
from harness.commands.options import tell
from harness.record.judging import Altered
from harness.record.store import RunFolder, Store, load_run
from harness.run.plan import Request
from harness.scenario.model import Scenario
from lab.base.errors import BlklabError, CannotJudge, Misuse
from lab.kernels.model import Kernel

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


def stored_runs(store: Store, *, again: str) -> Measure:
    """The newest run of the scenario as its file is today, on the kernel of the spec, with as many seeds.

    Without a number of seeds one with fewer than the scenario's will do. ``again`` measures what is missing.
    """

    def measure(scenario: Scenario, spec: str, arms: Sequence[str], seeds: int | None) -> RunFolder:
        wanted, runs = identity(scenario), list[RunFolder]()
        for path in reversed(store.runs(scenario.name)):
            with suppress(Misuse, Altered):
                run = load_run(path)
                same = run.facts.kernel.spec == spec and identity(run.scenario) == wanted
                if same and {*(arms or scenario.arms)} <= {*run.facts.arms}:
                    runs.append(run)
                    if len(run.facts.seeds) >= (seeds or scenario.seeds):
                        return run
        if seeds is None and runs:
            return runs[0]
        raise CannotJudge(NOT_MEASURED, remedy=again)

    return measure

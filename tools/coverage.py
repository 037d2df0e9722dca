# SPDX-License-Identifier: GPL-2.0-only
"""Measures which load of which scenario executes which functions of the kernel; writes scenarios/executed.json."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from harness.base.checkout import EXECUTED
from harness.base.files import write_atomic
from harness.commands.boots import bench_of, every_scenario, kernel_of
from harness.commands.options import ARMS, JOBS, KERNEL, RESULTS, SOME_SCENARIOS, tell
from harness.commands.parser import Command, option
from harness.limits.entries import load_scenario
from harness.patch.choice import REMAKE, SCHEMA, Coverage, load_coverage, scenario_of
from harness.profile.model import DEVICE_MODELS
from harness.run.bench import Bench
from harness.run.plan import Request, expand, guest_job
from harness.scenario.model import Scenario
from lab.base.errors import EXIT_PASS, CannotJudge
from lab.base.record import Outcome
from lab.guest.steps.device import Module
from lab.kernels.tree import DEFAULT
from lab.observers import executed
from lab.session import PreparedJob
from lab.symbols import Symbols, image_symbols, source_name, twin_symbols
from tools.command import tool

FIRST_MODULE = 0xFFFFFFFFC0000000  # Documentation/arch/x86/x86_64/mm.rst: module mapping space, with nokaslr


def loaded_modules(prepared: PreparedJob) -> frozenset[str]:
    """The modules that the job loads, less those that are built in."""
    wanted = {step.name.replace("-", "_") for step in prepared.steps if isinstance(step, Module)}
    files = {path.name.partition(".")[0].replace("-", "_") for path in prepared.kernel.modules.rglob("*.ko*")}
    return frozenset(wanted & files)


def executed_functions(windows: Mapping[str, bytes], symbols: Symbols) -> Mapping[str, frozenset[str]]:
    """The functions by load, of a job that is ``executed``; without symbols of modules, modules are left out.

    A function that the compiler inlined into another counts as that one.
    """
    end = float("inf") if any(symbol.module for symbol in symbols.functions) else FIRST_MODULE

    def names(text: str) -> frozenset[str]:
        executed = (symbols.function_at(at) for line in text.splitlines() if (at := int(line, 16)) < end)
        return frozenset(source_name(symbol.name) for symbol in executed if symbol)

    return {load: names(data.decode()) for load, data in windows.items()}


def observe(bench: Bench, request: Request) -> Mapping[str, frozenset[str]]:
    """Boot every arm of the request once and return what its loads execute, without arms that this kernel cannot run.

    Arms in which another plugin counts (several CPUs) are left out: QEMU would have to load both. Raises what a run and
    a profile raise.
    """
    scenario = request.scenario
    arms = tuple(name for name in request.arms or scenario.arms if not scenario.arms[name].topology.processors.observed)
    if not arms:
        return {}
    plan = bench.plan(replace(request, seeds=1, arms=arms))
    plan = replace(plan, jobs={cell: executed(bench.lab, prepared) for cell, prepared in plan.jobs.items()})
    run = bench.run(plan).folder
    jobs = {arm.name: guest_job(scenario, arm, seed) for arm, seed in expand(scenario, 1)}
    observed: dict[str, frozenset[str]] = {}
    for cell in run.facts.cells:
        record = None if cell.skip else run.boot(cell)
        if record is None or record.outcome is not Outcome.BYE:
            continue
        prepared = plan.jobs[cell.arm, cell.seed]
        if loaded_modules(prepared) - DEVICE_MODELS:
            symbols = twin_symbols(bench.lab, prepared, jobs[cell.arm])
        else:
            symbols = image_symbols(bench.lab, prepared)
        loads = executed_functions(prepared.plugin.windows(run.boot_folder(cell)), symbols)
        observed |= {f"{scenario.name}.{cell.arm}.{load}": functions for load, functions in loads.items()}
    return observed


def with_scenario(coverage: Coverage, scenario: Scenario, loads: Mapping[str, frozenset[str]]) -> Coverage:
    """``coverage`` with ``loads`` instead of the scenario's earlier ones."""
    others = {load for load in coverage.loads if scenario_of(load) != scenario.name}
    executed = {function: of & others for function, of in coverage.executed.items()}
    for load, functions in loads.items():
        executed |= {function: executed.get(function, frozenset()) | {load} for function in functions}
    return Coverage(coverage.kernel, {**coverage.digests, scenario.name: scenario.digest}, executed)


def save_coverage(path: Path, coverage: Coverage) -> None:
    numbers = {name: number for number, name in enumerate(sorted(coverage.loads))}
    groups: dict[str, list[str]] = {}
    for function, loads in sorted((function, loads) for function, loads in coverage.executed.items() if loads):
        groups.setdefault(_ranges(sorted(numbers[load] for load in loads)), []).append(function)
    document = {
        "schema": SCHEMA,
        "made by": REMAKE,
        "kernel": coverage.kernel,
        "digests": dict(sorted(coverage.digests.items())),
        "loads": [*numbers],
        "functions": {places: " ".join(functions) for places, functions in sorted(groups.items())},
    }
    write_atomic(path, (json.dumps(document, indent=1) + "\n").encode())


def _ranges(places: Sequence[int]) -> str:
    """``0-3,7``."""
    runs = [[place for _, place in run] for _, run in groupby(enumerate(places), lambda pair: pair[1] - pair[0])]
    return ",".join("-".join(map(str, dict.fromkeys((run[0], run[-1])))) for run in runs)


class MeasureCoverage(Command):
    scenarios: Sequence[str] = SOME_SCENARIOS
    kernel: str = KERNEL.but(default=DEFAULT, help=f"a build from source (default: {DEFAULT})")
    out: Path = option(type=Path, default=EXECUTED, metavar="FILE", help="default: scenarios/executed.json")
    arms: Sequence[str] = ARMS
    jobs: int = JOBS
    results: str | None = RESULTS

    def __call__(self) -> int:
        named = [load_scenario(name) for name in self.scenarios] or every_scenario()
        bench, built = bench_of(self.results, self.jobs, folder="executed"), kernel_of(self.kernel)
        known = load_coverage(self.out)
        same = known and (self.scenarios or known.kernel == built.origin)
        coverage = known if known and same else Coverage(built.origin, {}, {})
        if built.origin not in coverage.kernel:
            coverage = replace(coverage, kernel=f"{coverage.kernel}; of some scenarios {built.origin}")
        for scenario in named:
            try:
                loads = observe(bench, Request(scenario, built, arms=tuple(self.arms)))
            except CannotJudge as error:
                tell(f"{scenario.name}: {error.message}")
                continue
            coverage = with_scenario(coverage, scenario, loads)
            save_coverage(self.out, coverage)
            tell(f"{scenario.name}: {len(loads)} loads, {len(frozenset().union(*loads.values()))} functions")
        return EXIT_PASS


main = tool("coverage", "Measure which load executes which functions of the kernel.", MeasureCoverage)


if __name__ == "__main__":
    sys.exit(main())

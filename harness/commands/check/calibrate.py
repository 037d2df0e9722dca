# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check calibrate``: the device models of a kernel against their closed forms."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from harness.commands.common.boots import kernel_of, lab_of_host, watched
from harness.commands.common.options import SCENARIOS, add_each_kernel, add_jobs, add_results, kernels_of, results_root
from harness.limits.load import load_scenario
from harness.record.store import Store
from harness.run.bench import Run
from harness.run.plan import Request
from harness.run.runner import run_scenario
from harness.scenario.load import find_scenarios
from harness.scenario.model import Scenario
from harness.studies.calibration import FOLDER, Calibration, keep, models_of, print_calibration, print_kernels, qemu_of
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_LAB_BROKEN, EXIT_PASS
from lab.kernels.model import Kernel
from lab.session import Lab

_COMMAND = ("blklab", "check", "calibrate", "--kernel")


def configure(parser: argparse.ArgumentParser) -> None:
    add_each_kernel(parser)
    add_results(parser)
    add_jobs(parser)
    parser.epilog = "The errors are stored with the results; later reports name models that deviate."


def execute(options: argparse.Namespace) -> int:
    folder = SCENARIOS / FOLDER
    scenarios = [load_scenario(name, search=folder) for name in find_scenarios(folder)]
    root, lab = results_root(options.results), lab_of_host()
    calibrations, codes = [], []
    for spec in kernels_of(options):
        kernel = kernel_of(spec)
        runs = [_run(lab, scenario, kernel, root, options.jobs) for scenario in scenarios]
        models = tuple(model for run in runs for model in models_of(run.folder, run.verdict))
        qemu = next(filter(None, (qemu_of(run.folder) for run in runs)), "")
        calibration = Calibration(kernel.release, kernel.digest, qemu, (*_COMMAND, spec), models)
        keep(root, calibration)
        print_calibration(Console(), calibration)
        calibrations.append(calibration)
        codes += [run.verdict.exit_code for run in runs]
    if len(calibrations) > 1:
        print_kernels(Console(), calibrations)
    return worst_code(codes)


def worst_code(codes: Iterable[int]) -> int:
    """The exit status of several runs: a broken lab, then a failed kernel, then a run that could not be judged."""
    found = set(codes)
    broken = [code for code in found if code >= EXIT_LAB_BROKEN]
    if broken:
        return max(broken)
    if EXIT_FAIL in found:
        return EXIT_FAIL
    return EXIT_PASS if found <= {EXIT_PASS} else EXIT_CANNOT_JUDGE


def _run(lab: Lab, scenario: Scenario, kernel: Kernel, root: Path, jobs: int) -> Run:
    request = Request(scenario, kernel, command=(*_COMMAND, kernel.spec))
    with watched() as listener:
        return run_scenario(lab, request, Store(root / FOLDER), listener, jobs)

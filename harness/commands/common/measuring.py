# SPDX-License-Identifier: GPL-2.0-only
"""Runs for studies: stored ones, or what is missing measured."""

import argparse
from collections.abc import Sequence
from functools import cache as remembered

from harness.base.checkout import results_root
from harness.commands.common.boots import bench_of, kernel_of
from harness.commands.common.options import kernel_spec, tell
from harness.record.store import RunFolder, Store
from harness.run.plan import Request
from harness.scenario.model import Scenario
from harness.studies.evidence.scorer import Measure, stored_runs
from lab.base.errors import BlklabError, CannotJudge, Misuse
from lab.kernels.model import Kernel
from lab.kernels.packaged import base_spec

FURTHER = "debian:6.1 debian:7.2 debian:5.10 ubuntu:4.18"
"""Kernels for what the source leaves open."""


def add_source(parser: argparse.ArgumentParser) -> None:
    text = "source to build: source:6.12 (default), tree:PATH or tree:PATH@REV"
    parser.add_argument("--source", type=kernel_spec, default=base_spec(), metavar="SPEC", help=text)


def measuring(options: argparse.Namespace, folder: str, *, boots: bool = True) -> Measure:
    """Runs of a folder of the results; without ``boots`` only stored ones. Raises LabBroken."""
    if not boots:
        return stored_runs(Store(results_root(options.results) / folder), again="the same without --stored")
    bench, kernel = bench_of(options, folder), remembered(_kernel)

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

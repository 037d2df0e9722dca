# SPDX-License-Identifier: GPL-2.0-only
"""Runs for studies: stored ones, or what is missing measured."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache as remembered

from harness.commands.common.boots import kernel_of, lab_of_host, store_of, watched
from harness.commands.common.options import results_root, tell
from harness.record.store import RunFolder, Store
from harness.run.plan import Request
from harness.run.runner import measured
from harness.scenario.model import Scenario
from harness.studies.evidence.scorer import Measure, stored
from lab.base.errors import BlklabError, CannotJudge, Misuse
from lab.kernels.model import Kernel


@contextmanager
def measuring(options: argparse.Namespace, folder: str, *, boots: bool = True) -> Iterator[Measure]:
    """Runs of a folder of the results; without ``boots`` only stored ones. Raises what boots raise."""
    if not boots:
        yield stored(Store(results_root(options.results) / folder), again="the same without --stored")
        return
    store, lab, kernel = store_of(options, folder), lab_of_host(), remembered(_kernel)
    with watched() as listener:

        def measure(scenario: Scenario, spec: str, arms: Sequence[str], seeds: int | None) -> RunFolder:
            request = Request(scenario, kernel(spec), seeds, tuple(arms))
            return measured(lab, request, store, listener, options.jobs)

        yield measure


def _kernel(spec: str) -> Kernel:
    """The kernel. Raises CannotJudge where it cannot be had: the others are measured."""
    try:
        return kernel_of(spec)
    except Misuse:
        raise
    except BlklabError as error:
        tell(f"{spec}: {error}")
        raise CannotJudge(f"{spec}: {error.message}", remedy=error.remedy) from None

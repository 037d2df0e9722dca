# SPDX-License-Identifier: GPL-2.0-only
"""What commands that boot begin with."""

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager

from rich.console import Console

from harness.commands.common.options import SCENARIOS, results_root, tell
from harness.limits.load import load_scenario
from harness.record.store import RunFolder, Store
from harness.report.terminal.progress import progress
from harness.run.events import Listener
from harness.scenario.load import find_scenarios
from harness.scenario.model import Scenario
from lab.base.cache import Cache
from lab.base.errors import CannotJudge
from lab.kernels.model import Kernel
from lab.kernels.resolve import resolve
from lab.qemu.probe import find_qemu
from lab.session import Lab, open_lab


def store_of(options: argparse.Namespace, folder: str = "") -> Store:
    """The results, which can be written. Raises LabBroken."""
    store = Store(results_root(options.results) / folder)
    store.check()
    return store


def lab_of_host(*, cold: bool = False) -> Lab:
    return open_lab(Cache.default(), tell, cold=cold)


def kernel_of(spec: str, *, refresh: bool = False) -> Kernel:
    """The kernel, in the cache. QEMU is looked for before anything is downloaded."""
    find_qemu()
    return resolve(spec, Cache.default(), refresh=refresh, tell=tell)


def kernel_again(run: RunFolder) -> Kernel:
    """The kernel of a stored run. Raises CannotJudge when its spec names another one now."""
    facts = run.facts.kernel
    kernel = kernel_of(facts.spec)
    if kernel.digest != facts.digest:
        raise CannotJudge(
            f"{facts.spec} is {kernel.origin} now, the run's kernel was {facts.origin}",
            remedy="run the scenario again on the kernel that can be had",
        )
    return kernel


def mutants_of(source: str) -> Callable[[str], Kernel]:
    """From the name of a mutant of ``source`` (empty: the source itself) to its kernel."""
    return lambda mutant: kernel_of(f"{source}+{mutant}" if mutant else source)


def scenario_of(options: argparse.Namespace) -> Scenario:
    return load_scenario(options.scenario, search=SCENARIOS)


def every_scenario() -> list[Scenario]:
    """Those of the virtual clock."""
    return [load_scenario(name, search=SCENARIOS) for name in find_scenarios(SCENARIOS)]


def watched() -> AbstractContextManager[Listener]:
    """A listener that shows progress on standard error."""
    return progress(Console(stderr=True))

# SPDX-License-Identifier: GPL-2.0-only
"""Which functions of the kernel each load of a boot executes, with what was executed since the load before it.

A plugin of QEMU notes the executed blocks; results and digest are those of any boot. A function that the compiler
inlined into another counts as that one.
"""

import threading
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lab.base.record import BootRecord
from lab.guest.steps.device import Module
from lab.native.programs import EXECUTED, plugin
from lab.profile import FIRST_MODULE, WINDOW, Symbol, window_files, window_marker
from lab.session import Lab, PhaseSeen, PreparedJob, run_job, sampler_of


def run_observed(
    lab: Lab,
    prepared: PreparedJob,
    folder: Path,
    *,
    phase_seen: PhaseSeen,
    abort: threading.Event | None = None,
) -> BootRecord:
    """``run_job`` with the plugin, which leaves its files in ``folder`` for ``functions_of``."""
    library = str(plugin(lab.cache, lab.qemu.version, EXECUTED))
    words = (library, *window_marker(lab.cache, sampler_of(prepared.steps)), f"output={WINDOW}")
    return run_job(lab, replace(prepared, plugin=words), folder, phase_seen=phase_seen, abort=abort)


def loaded_modules(prepared: PreparedJob) -> frozenset[str]:
    """The modules that the job loads, less those that are built in."""
    wanted = {step.name.replace("-", "_") for step in prepared.steps if isinstance(step, Module)}
    files = {path.name.partition(".")[0].replace("-", "_") for path in prepared.kernel.modules.rglob("*.ko*")}
    return frozenset(wanted & files)


def functions_of(prepared: PreparedJob, folder: Path, symbols: Sequence[Symbol]) -> Mapping[str, frozenset[str]]:
    """The functions by load. ``symbols`` are sorted; without those of modules, modules are left out.

    Raises CannotJudge where no load has a sampled window.
    """
    starts = [symbol.address for symbol in symbols]
    end = float("inf") if any(symbol.module for symbol in symbols) else FIRST_MODULE

    def names(text: str) -> frozenset[str]:
        places = (bisect_right(starts, at) - 1 for line in text.splitlines() if (at := int(line, 16)) < end)
        return frozenset(source_name(symbols[place].name) for place in places if place >= 0)

    return {load: names(path.read_text()) for load, path in window_files(prepared, folder).items()}


def source_name(symbol: str) -> str:
    """The function's name in the source: gcc appends .isra.0, .constprop.0, .part.0 or .cold to that of a copy."""
    return symbol.partition(".")[0]

# SPDX-License-Identifier: GPL-2.0-only
"""docs/results/io-cost.md: CPU time of one I/O by device, elevator and engine, kernel by kernel."""

from collections.abc import Iterator, Mapping, Sequence

from harness.judge.cells import ensemble_of
from harness.judge.ensemble import Ensemble
from harness.judge.thresholds import LARGE
from harness.metrics.figures import PER_IO
from harness.report import markdown
from harness.report.format import limits, plural
from harness.report.words import LEGEND, against
from harness.scenario.model import Arm
from harness.studies.field_reports import Measured

_NOT_MEASURED = "-"
_PREFACE = """\
Under the virtual clock a nanosecond is one guest instruction. The devices of the scenario `io-cost` complete at once
and the CPU is always busy, so the time of a 4k read is what executes for it: fio, system calls, the block layer, the
elevator, the driver, the timer interrupt that completes it, and the target for NVMe over TCP. Every run has this
figure as `cpu.per_io`, in ratios and in CSV; with modelled disks (tcmu) it includes their handler.

Distribution kernels differ in configuration and compiler as well as in code (7.2 is built with lazy preemption). A
difference between two of them is not a regression of the block layer unless two builds of one configuration show it.
Instructions are not cycles: caches, branches and locks cost nothing here. [profiles.md](profiles.md)
lists the functions that the differences between neighbouring kernels consist of.

Only the members of the md mirror have memory, because md reads its superblocks back: their cost is included. Below
NVMe, dm and md an elevator works on the requests of the members.

Each cell: nanoseconds for one read, the range over the seeds, and the change from the first kernel. `-`: not measured.
"""


def cost_page(runs: Sequence[Measured], command: str) -> str:
    """The page in Markdown. ``runs`` are of one scenario, each on another kernel; the first is the reference."""
    lines = [
        *markdown.head("CPU time of one I/O", f"Generated from results by: {command}"),
        _PREFACE,
        f"Marks of a change: {LEGEND}. Differences of {100 * LARGE.share:g} % or more are marked: {LARGE.because}.",
        "",
    ]
    for title, arms in _devices(runs).items():
        lines += [f"## {title}", "", *_table(runs, arms), ""]
    kernels = ", ".join(f"{run.release} ({plural(len(run.verdict.seeds), 'seed')})" for run in runs)
    again = f"`blklab run {runs[0].scenario.name} --kernel debian:SERIES` repeats a column."
    lines.append(f"Kernels: {kernels}. {runs[0].qemu}. {again}")
    return "\n".join(lines) + "\n"


def _devices(runs: Sequence[Measured]) -> Mapping[str, list[Arm]]:
    """The arms of each topology, by its title."""
    found: dict[str, list[Arm]] = {}
    for arm in runs[-1].scenario.arms.values():
        found.setdefault(arm.topology.title, []).append(arm)
    return found


def _table(runs: Sequence[Measured], arms: Sequence[Arm]) -> Iterator[str]:
    columns = ("engine", "elevator", *(run.series for run in runs))
    yield from markdown.table(columns, _rows(runs, arms), numbers=len(runs))


def _rows(runs: Sequence[Measured], arms: Sequence[Arm]) -> Iterator[Sequence[str]]:
    for load in runs[-1].scenario.loads.values():
        role = next(iter(load.roles))
        for arm in arms:
            found = [ensemble_of(run.verdict.cells, arm.name, (load.name, role, PER_IO)) for run in runs]
            cells = (_cell(ensemble, found[0]) for ensemble in found)
            yield load.name, arm.queue.get("scheduler", _NOT_MEASURED), *cells


def _cell(ensemble: Ensemble | None, first: Ensemble | None) -> str:
    if ensemble is None:
        return _NOT_MEASURED
    between = limits(ensemble)
    cost = f"{ensemble.median:,.0f}" + (f" [{between}]" if between else "")
    return cost if first is None or first is ensemble else f"{cost} ({against(ensemble, first, exact=True)})"

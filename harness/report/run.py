# SPDX-License-Identifier: GPL-2.0-only
"""The report of a run folder."""

from collections.abc import Iterable

from rich.console import Console

from harness.analysis.verdict import Verdict
from harness.report.terminal import Effort, Surroundings, print_verdict
from harness.store import RunFolder
from lab.record import BootRecord

PHASES = ("boot", "setup", "measure", "send")


def print_run(console: Console, run: RunFolder, verdict: Verdict) -> None:
    """Report ``verdict`` with everything that the run's folder knows about how it came about."""
    facts = run.facts
    records = (run.boot(cell) for cell in facts.cells if not cell.skip)
    around = Surroundings(
        kernel=facts.kernel.release,
        origin=facts.kernel.origin,
        qemu=facts.qemu,
        effort=effort([record for record in records if record is not None], run.elapsed()),
        command=facts.command,
        folder=str(run.path),
    )
    print_verdict(console, run.scenario, verdict, around)


def effort(records: Iterable[BootRecord], elapsed: float | None) -> Effort:
    """Host seconds by phase, summed over boots."""
    boots, phases = 0, dict[str, float]()
    for record in records:
        boots += 1
        for phase, seconds in record.wall.items():
            phases[phase] = phases.get(phase, 0.0) + seconds
    known = [phase for phase in PHASES if phase in phases]
    return Effort(boots, elapsed, {phase: phases[phase] for phase in (*known, *sorted(phases.keys() - set(PHASES)))})

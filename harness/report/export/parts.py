# SPDX-License-Identifier: GPL-2.0-only
"""A verdict as test formats need it, a part for each claim, control and boot; and its figures as CSV."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.judge.cells import CellResult
from harness.judge.claims import AS_IT_MUST, ControlVerdict, EntryVerdict, Judgement
from harness.judge.operands import arms_needed
from harness.judge.verdict import Verdict
from harness.record.store import RunFacts, RunFolder
from harness.report.format import value
from harness.scenario.metric_names import unit
from harness.scenario.model import KnownFailure, Scenario, Status
from lab.base.record import Outcome

CLAIMS, CONTROLS, BOOTS = "claims", "controls", "boots"
GROUPS = (CLAIMS, CONTROLS, BOOTS)


@dataclass(frozen=True)
class Export:
    """A judged run. ``seconds`` is the host time of each boot by arm and seed."""

    scenario: Scenario
    verdict: Verdict
    facts: RunFacts
    seconds: Mapping[tuple[str, int], float] = field(default_factory=dict)


def exported(run: RunFolder, verdict: Verdict) -> Export:
    """The run with the time of its boots."""
    seconds: dict[tuple[str, int], float] = {}
    for cell, record in run.boots():
        key = cell.arm, cell.seed
        seconds[key] = seconds.get(key, 0.0) + sum(record.wall.values())
    return Export(run.scenario, verdict, run.facts, seconds)


@dataclass(frozen=True)
class JudgedPart:
    """``word`` is a status, XFAIL or XPASS; ``counts``: it enters the status of the run.

    ``reason`` is a sentence, or empty; ``facts`` are lines on what was measured. ``hung``: a guest hung and left no
    figure. ``judgement`` is None for a boot. ``seconds`` of host time are those of a boot, 0 for the rest.
    """

    group: str
    name: str
    word: str
    counts: bool = True
    reason: str = ""
    facts: tuple[str, ...] = ()
    hung: bool = False
    judgement: Judgement | None = None
    known: KnownFailure | None = None
    seconds: float = 0.0


def parts(export: Export) -> Iterator[JudgedPart]:
    """All parts, in the order of GROUPS and of the scenario's file."""
    verdict = export.verdict
    for claim in verdict.claims:
        name = f"{claim.that} ({claim.aside})" if claim.draft else claim.that
        facts = (f"{value(claim.judgement)}, expected {claim.expect}", claim.ratio)
        hung = _hung(claim, claim.judgement, verdict)
        more = hung, claim.judgement, claim.known
        yield JudgedPart(CLAIMS, name, claim.word, not claim.optional, claim.sentence, facts, *more)
    for control in verdict.controls:
        yield _control(control, verdict)
    for cell in verdict.cells:
        yield replace(_boot(cell), seconds=export.seconds.get((cell.arm, cell.seed), 0.0))
    for cell in verdict.base_incidents:
        yield _boot(cell, "BASE kernel, ")


def _control(control: ControlVerdict, verdict: Verdict) -> JudgedPart:
    judgement = control.judgement
    if judgement is None:
        return JudgedPart(CONTROLS, control.that, str(Status.SKIP), reason=control.sentence, facts=(control.ratio,))
    facts = [f"{value(judgement)}, must be {control.expect}", control.ratio]
    if judgement.status is Status.PASS:
        facts.insert(0, AS_IT_MUST)
    hung = _hung(control, judgement, verdict)
    return JudgedPart(CONTROLS, control.that, control.word, True, control.says, tuple(facts), hung, judgement)


def _boot(cell: CellResult, whose: str = "") -> JudgedPart:
    facts = (f"digest {cell.digest}",) if cell.digest else ()
    name = f"{whose}arm {cell.arm}, seed {cell.seed}"
    hung = cell.outcome is Outcome.HANG
    return JudgedPart(BOOTS, name, str(cell.status), reason="; ".join(cell.reasons), facts=facts, hung=hung)


def _hung(of: EntryVerdict, judgement: Judgement, verdict: Verdict) -> bool:
    """Whether a ratio has no value because a guest hung in one of its arms."""
    if judgement.status is not Status.FAIL or judgement.ensemble is not None:
        return False
    arms = arms_needed([of.entry.ratio])
    return any(cell.arm in arms and cell.outcome is Outcome.HANG for cell in verdict.cells)


_FORMULA = ("=", "+", "-", "@", "\t")
COLUMNS = ("scenario", "run", "kernel", "arm", "load", "role", "metric", "seed", "value", "unit")


def csv_table(export: Export) -> str:
    """RFC 4180 with a header, lines ended by LF; ``unit`` is empty for a count or a share.

    Rows of the BASE kernel come last, with its own run and release. A text that a spreadsheet would take for a
    formula starts with an apostrophe.
    """
    verdict, facts = export.verdict, export.facts
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in _rows(verdict.cells):
        writer.writerow(_safe(export.scenario.name, facts.run_id, facts.kernel.release, *row))
    if facts.base:
        for row in _rows(verdict.base or ()):
            writer.writerow(_safe(export.scenario.name, facts.baseline, facts.base.release, *row))
    return out.getvalue()


def _safe(*row: object) -> tuple[object, ...]:
    """The row without formulas (OWASP, "CSV Injection"); figures stay as they are."""
    return tuple(f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in row)


def _rows(cells: Sequence[CellResult]) -> Iterator[tuple[object, ...]]:
    """Values as floats, which csv writes by repr: reading them back gives the same figures."""
    for cell in cells:
        for (load, role, metric), figure in sorted(cell.figures.items()):
            yield cell.arm, load, role, metric, cell.seed, figure, unit(metric)

# SPDX-License-Identifier: GPL-2.0-only
"""A verdict as test formats need it: a part for each claim, control and boot."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from harness.judge.cells import CellResult
from harness.judge.claims import AS_IT_MUST, NOT_RUN, ClaimVerdict, ControlVerdict, Judgement
from harness.judge.operands import figure_of, operands
from harness.judge.verdict import Verdict
from harness.record.store import RunFacts, RunFolder
from harness.report.format import value
from harness.scenario.model import KnownFailure, Ratio, Scenario, Status
from harness.scenario.ratio import NUMBER
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
    for cell in run.facts.cells:
        if not cell.skip and (record := run.boot(cell)) is not None:
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


def parts(export: Export) -> tuple[JudgedPart, ...]:
    """All parts, in the order of GROUPS and of the scenario's file."""
    return tuple(_parts(export))


def _parts(export: Export) -> Iterator[JudgedPart]:
    scenario, verdict = export.scenario, export.verdict
    for claim, judged in zip(scenario.claims, verdict.claims, strict=True):
        yield _claim(judged, hung=_hung(claim.ratio, judged.judgement, verdict))
    for control, tried in zip(scenario.controls, verdict.controls, strict=True):
        yield _control(tried, hung=_hung(control.ratio, tried.judgement, verdict))
    for cell in verdict.cells:
        yield replace(_boot(cell), seconds=export.seconds.get((cell.arm, cell.seed), 0.0))
    for cell in verdict.base_incidents:
        yield _boot(cell, "BASE kernel, ")


def _claim(claim: ClaimVerdict, *, hung: bool) -> JudgedPart:
    return JudgedPart(
        CLAIMS,
        f"{claim.that} ({claim.aside})" if claim.draft else claim.that,
        claim.word,
        not claim.optional,
        claim.sentence,
        _facts(claim.judgement, f"expected {claim.expect}", claim.ratio),
        hung,
        claim.judgement,
        claim.known,
    )


def _control(control: ControlVerdict, *, hung: bool) -> JudgedPart:
    if control.judgement is None:
        reason = control.sentence or NOT_RUN
        return JudgedPart(CONTROLS, control.that, str(Status.SKIP), reason=reason, facts=(control.ratio,))
    failed = control.judgement.status is Status.PASS
    facts = _facts(control.judgement, f"must be {control.expect}", control.ratio)
    return JudgedPart(
        CONTROLS,
        control.that,
        str(control.judgement.status),
        reason=AS_IT_MUST if failed else control.judgement.reason,
        facts=(AS_IT_MUST, *facts) if failed else facts,
        hung=hung,
        judgement=control.judgement,
    )


def _boot(cell: CellResult, whose: str = "") -> JudgedPart:
    facts = (f"digest {cell.digest}",) if cell.digest else ()
    name = f"{whose}arm {cell.arm}, seed {cell.seed}"
    hung = cell.outcome is Outcome.HANG
    return JudgedPart(BOOTS, name, str(cell.status), reason="; ".join(cell.reasons), facts=facts, hung=hung)


def _facts(judgement: Judgement, bound: str, ratio: str) -> tuple[str, ...]:
    return (f"{value(judgement)}, {bound}", ratio)


def _hung(ratio: Ratio, judgement: Judgement | None, verdict: Verdict) -> bool:
    """Whether a ratio has no value because a guest hung in one of its arms."""
    if judgement is None or judgement.status is not Status.FAIL or judgement.ensemble is not None:
        return False
    arms = {figure_of(operand).arm for operand in operands(ratio) if operand.kind != NUMBER}
    return any(cell.arm in arms and cell.outcome is Outcome.HANG for cell in verdict.cells)

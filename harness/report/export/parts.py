# SPDX-License-Identifier: GPL-2.0-only
"""What a verdict judged, part by part, as formats of tests see it: claims, controls, boots."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.judge.cells import CellResult
from harness.judge.claims import NOT_RUN, ClaimVerdict, ControlVerdict, Judgement
from harness.judge.operands import figure_of, operands
from harness.judge.verdict import Verdict
from harness.report.format import value
from harness.scenario.model import KnownFailure, Ratio, Scenario, Status
from harness.scenario.ratio import NUMBER
from lab.base.record import Outcome

CLAIMS, CONTROLS, BOOTS = "claims", "controls", "boots"
GROUPS = (CLAIMS, CONTROLS, BOOTS)


@dataclass(frozen=True)
class Part:
    """``word`` is a status, XFAIL or XPASS; ``counts`` tells whether it enters the status of the run.

    ``reason`` is a sentence, or empty; ``facts`` are lines on what was measured. ``hung`` tells that
    a guest that never finished is behind it. ``judgement`` is None for what has no ratio.
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


def parts(scenario: Scenario, verdict: Verdict) -> tuple[Part, ...]:
    """All of them, in the order of GROUPS and of the scenario's file."""
    return tuple(_parts(scenario, verdict))


def _parts(scenario: Scenario, verdict: Verdict) -> Iterator[Part]:
    for claim, judged in zip(scenario.claims, verdict.claims, strict=True):
        yield _claim(judged, hung=_hung(claim.ratio, judged.judgement, verdict))
    for control, red in zip(scenario.controls, verdict.controls, strict=True):
        yield _control(red, hung=_hung(control.ratio, red.judgement, verdict))
    for cell in verdict.cells:
        yield _boot(cell)
    for cell in verdict.base_incidents:
        yield _boot(cell, "BASE kernel, ")


def _claim(claim: ClaimVerdict, *, hung: bool) -> Part:
    return Part(
        CLAIMS,
        claim.that,
        claim.word,
        not claim.optional,
        claim.sentence,
        _facts(claim.judgement, f"expected {claim.expect}", claim.ratio),
        hung,
        claim.judgement,
        claim.known,
    )


def _control(control: ControlVerdict, *, hung: bool) -> Part:
    if control.judgement is None:
        reason = control.sentence or NOT_RUN
        return Part(CONTROLS, control.that, str(Status.SKIP), reason=reason, facts=(control.ratio,))
    return Part(
        CONTROLS,
        control.that,
        str(control.judgement.status),
        reason=control.sentence,
        facts=_facts(control.judgement, f"must be {control.expect}", control.ratio),
        hung=hung,
        judgement=control.judgement,
    )


def _boot(cell: CellResult, whose: str = "") -> Part:
    facts = (f"digest {cell.digest}",) if cell.digest else ()
    name = f"{whose}arm {cell.arm}, seed {cell.seed}"
    hung = cell.outcome is Outcome.HANG
    return Part(BOOTS, name, str(cell.status), reason="; ".join(cell.reasons), facts=facts, hung=hung)


def _facts(judgement: Judgement, bound: str, ratio: str) -> tuple[str, ...]:
    return (f"{value(judgement)}, {bound}", ratio)


def _hung(ratio: Ratio, judgement: Judgement | None, verdict: Verdict) -> bool:
    """Whether a ratio has no value because a guest hung under an arm that it names."""
    if judgement is None or judgement.status is not Status.FAIL or judgement.ensemble is not None:
        return False
    arms = {figure_of(operand).arm for operand in operands(ratio) if operand.kind != NUMBER}
    return any(cell.arm in arms and cell.outcome is Outcome.HANG for cell in verdict.cells)

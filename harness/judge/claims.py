# SPDX-License-Identifier: GPL-2.0-only
"""Claims and controls, judged over the whole ensemble of seeds, and why a claim failed.

A claim that is known to fail on the kernel under test may fail (XFAIL). If it holds (XPASS), the run fails: the file
is out of date, and its entry would excuse the next failure too. ``Judgement.status`` never changes, so a bisection can
look past the file.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.judge.cells import (
    Ensemble,
    Evidence,
    Unavailable,
    above_bound,
    arms_needed,
    ratio_ensemble,
    window_values,
)
from harness.judge.difference import claim_layouts, kind, null_evidence
from harness.judge.visible import cannot_show
from harness.limits.entries import UNPROVEN, killers
from harness.noise import FEWEST_ROUNDS, MOST_ROUNDS, Decision, Interval, Rule, Scatter, decide, scatter
from harness.scenario.model import Bound, Claim, Condition, Control, KnownFailure, Ratio, Reproduction, Status, is_in
from harness.scenario.ratio import BASELINE, FIGURE, NUMBER
from lab.base.record import Outcome

NOT_RUN = "not run"
WITHIN_LAYOUT = "within layout"
XFAIL, XPASS = "XFAIL", "XPASS"
FAR_OFF = 0.2
"""A reproduced ratio that is off the report's figure by more than this share is marked, and needs a reason."""
AS_IT_MUST = "negative control: fails, as it must"
HELD = "negative control: did not fail: this ratio does not show the fault"


@dataclass(frozen=True)
class Judgement:
    """One ratio against its bound. ``ensemble`` is None when there was nothing to compute.

    ``reason`` says why in a sentence; it is empty for a plain PASS or FAIL. ``interval`` is that of the
    true ratio on the wall clock, None without noise and before the rule looked first. ``open`` tells
    that more boots of the same run may still decide; ``scatter`` is what its boots and windows scatter by.
    """

    status: Status
    ensemble: Ensemble | None
    reason: str = ""
    interval: Interval | None = None
    open: bool = False
    scatter: Scatter | None = None


@dataclass(frozen=True)
class JudgedCondition:
    """A condition and its figure. ``value`` is None where it was not measured."""

    ratio: str
    expect: str
    value: Ensemble | None
    holds: bool

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.ratio} not measured"
        low, high = f"{self.value.low:.3g}", f"{self.value.high:.3g}"
        return f"{self.ratio} = {low if low == high else f'{low} .. {high}'}"


@dataclass(frozen=True)
class Diagnosed:
    """A diagnosis and the figures of its conditions. It holds when all of them do, under every seed."""

    that: str
    findings: tuple[JudgedCondition, ...]

    @property
    def holds(self) -> bool:
        return all(finding.holds for finding in self.findings)

    @property
    def ruled_out(self) -> bool:
        """Whether a condition was measured and does not hold."""
        return any(finding.value is not None and not finding.holds for finding in self.findings)


@dataclass(frozen=True)
class EntryVerdict:
    """A claim or a control, and what became of it. ``sentence`` is what that means, for a person."""

    entry: Claim | Control
    judgement: Judgement | None
    sentence: str

    @property
    def that(self) -> str:
        return self.entry.that

    @property
    def ratio(self) -> str:
        return self.entry.ratio.text

    @property
    def expect(self) -> str:
        return self.entry.expect.text

    @property
    def text(self) -> str:
        return self.that

    @property
    def word(self) -> str:
        """What a report calls it: a status, or that it was not run."""
        return NOT_RUN if self.judgement is None else str(self.judgement.status)


@dataclass(frozen=True)
class ClaimVerdict(EntryVerdict):
    """``diagnosed`` has the figures of a failure's diagnoses.

    ``killers`` names what makes the claim fail (``harness.limits.entries``).

    ``known`` is the entry by which the claim is known to fail on this kernel, None without one. A ``draft`` is
    optional too. ``layout`` says why another layout of the same code might decide it otherwise, empty if it cannot.
    """

    judgement: Judgement
    optional: bool
    known: KnownFailure | None = None
    diagnosed: tuple[Diagnosed, ...] = ()
    killers: tuple[str, ...] = ()
    draft: bool = False
    layout: str = ""

    @property
    def text(self) -> str:
        """The claim, and in brackets that it does not count, that nothing is known to make it fail, or its margin."""
        marks = [*filter(None, (self.aside, "" if self.killers else UNPROVEN, WITHIN_LAYOUT if self.layout else ""))]
        return f"{self.that} ({', '.join(marks)})" if marks else self.that

    @property
    def aside(self) -> str:
        """Why it does not count: draft or optional; empty for one that counts."""
        return "draft" if self.draft else "optional" if self.optional else ""

    @property
    def word(self) -> str:
        """A status, or XFAIL or XPASS where a failure was expected."""
        status = self.judgement.status
        return {Status.FAIL: XFAIL, Status.PASS: XPASS}.get(status, str(status)) if self.known else str(status)

    @property
    def counts_as(self) -> Status:
        status = self.judgement.status
        return {Status.FAIL: Status.PASS, Status.PASS: Status.FAIL}.get(status, status) if self.known else status


@dataclass(frozen=True)
class ControlVerdict(EntryVerdict):
    """``judgement`` is None for a control of a mutant that this kernel is not: listed, never counted.

    ``held``: it was measured and did not fail, so the scenario cannot see the fault.
    """

    entry: Control
    held: bool = False

    @property
    def mutant(self) -> str:
        return self.entry.mutant


@dataclass(frozen=True)
class ReproductionVerdict(Reproduction):
    """``ensemble`` is the measured ratio, None when not measured; ``reason`` says why."""

    ensemble: Ensemble | None = None
    reason: str = ""

    @property
    def off(self) -> float | None:
        """By which share our median is above (or below, negative) the report's figure, if there are both."""
        if self.ensemble is None or self.reported is None:
            return None
        return self.ensemble.median / self.reported - 1

    @property
    def mark(self) -> str:
        """What marks it where it is ``FAR_OFF``; empty otherwise."""
        far = self.off is not None and abs(self.off) > FAR_OFF
        return f"{1 + (self.off or 0.0):.2g} times the report's figure" if far else ""


def judge_reproduction(entry: Reproduction, evidence: Evidence, seeds: Sequence[int]) -> ReproductionVerdict:
    """It is shown and never counted: that the hardware of the report was the same is no claim."""
    try:
        ensemble, reason = ratio_ensemble(entry.ratio, evidence, seeds), ""
    except Unavailable as lacking:
        ensemble, reason = None, lacking.reason
    return ReproductionVerdict(**vars(entry), ensemble=ensemble, reason=reason)


def judge_claim(claim: Claim, evidence: Evidence, seeds: Sequence[int], release: str = "") -> ClaimVerdict:
    """``release`` is that of the kernel under test; without one nothing is known to fail."""
    named = killers(evidence.scenario, claim)
    if claim.kernels and not is_in(release, claim.kernels):
        judgement = Judgement(Status.SKIP, None, f"it is made for kernels {claim.kernels}")
        return ClaimVerdict(claim, judgement, judgement.reason, True, killers=named)
    judgement = judge_ratio(claim.ratio, claim.expect, evidence, seeds)
    sentence = judgement.reason
    diagnosed: tuple[Diagnosed, ...] = ()
    if judgement.status is Status.PASS:
        sentence = claim.means
    elif judgement.status is Status.FAIL and judgement.ensemble is not None:
        diagnosed = diagnose(claim.ratio, evidence, seeds)
        sentence = cause(diagnosed) or claim.otherwise
    known = next((entry for entry in claim.known if is_in(release, entry.kernels)), None)
    # A kernel that died or hung is not the failure that somebody knew of.
    if known is not None and judgement.ensemble is not None:
        measured_cause = f"; measured: {cause(diagnosed)}" if diagnosed else ""
        sentence = f"{_expectation(known, judgement.status)}{measured_cause}" or sentence
    else:
        known = None
    layout = "" if claim.draft else near_bound(claim.ratio, claim.expect, judgement, evidence)
    return ClaimVerdict(claim, judgement, sentence, not claim.decides, known, diagnosed, named, claim.draft, layout)


def near_bound(ratio: Ratio, expect: Bound, judgement: Judgement, evidence: Evidence) -> str:
    """Why layout alone might decide a ratio otherwise; empty where its margin is larger, and on the wall clock."""
    if judgement.ensemble is None or judgement.status not in (Status.PASS, Status.FAIL) or evidence.rule is not None:
        return ""
    margin, layout = margin_of(judgement.ensemble, expect), layout_of(ratio, evidence)
    if margin >= layout:
        return ""
    return f"{WITHIN_LAYOUT}: {margin:.2%} from its bound; another layout of the same code may move it by {layout:.2%}"


def margin_of(ensemble: Ensemble, expect: Bound) -> float:
    """By which share the value that is nearest to an end of the bound is from it; infinite where either is zero."""
    ends = [end for end in (expect.low, expect.high) if end is not None]
    pairs = (sorted((value, end)) for value in ensemble.values.values() for end in ends)
    return min((high / low - 1 for low, high in pairs if low > 0), default=math.inf)


def layout_of(ratio: Ratio, evidence: Evidence) -> float:
    """By which share another layout may move the ratio: as measured for a shipped claim, else by kind of figure."""
    shipped = claim_layouts().get(evidence.scenario.measurement_digest, {}).get(ratio.text)
    return shipped[1] if shipped else layout_by_kind(ratio, evidence)


def layout_by_kind(ratio: Ratio, evidence: Evidence) -> float:
    factor = 1.0
    for operand in ratio.operands:
        if operand.kind in (FIGURE, BASELINE):
            cells = evidence.of(operand).items()
            of_arm = (cell.figures for (name, _), cell in cells if name == operand.arm and cell.figures)
            known = null_evidence().get(kind(operand.key, next(of_arm, {})))
            factor *= 1 + (known.layout if known else 0.0)
    return factor - 1


def judge_control(
    control: Control, evidence: Evidence, seeds: Sequence[int], mutant: str = "", release: str = ""
) -> ControlVerdict:
    """A control must fail under every seed: under none is ERROR, under some DONE.

    ``mutant`` and ``release`` are those of the kernel under test; controls of other mutants and kernels are not
    run. A mutant that kills its guest makes a control fail that says so (hangs), if the guest hung.
    """
    if control.kernels and not is_in(release, control.kernels):
        return ControlVerdict(control, None, f"{NOT_RUN}: it is made for kernels {control.kernels}")
    if control.mutant and control.mutant != mutant:
        return ControlVerdict(control, None, f"{NOT_RUN}: needs a kernel with the mutant {control.mutant}")
    judgement = judge_ratio(control.ratio, control.expect, evidence, seeds)
    if judgement.status is Status.PASS:
        return ControlVerdict(control, judgement, AS_IT_MUST)
    if judgement.status is Status.FAIL and judgement.ensemble is not None:
        judgement = Judgement(Status.ERROR, judgement.ensemble, HELD, judgement.interval, scatter=judgement.scatter)
        return ControlVerdict(control, judgement, HELD, held=True)
    if judgement.status is Status.FAIL and control.mutant:
        fails = control.hangs and _hung(control.ratio, evidence, seeds)
        judgement = Judgement(Status.PASS if fails else Status.ERROR, None, judgement.reason)
    return ControlVerdict(control, judgement, judgement.reason)


def _hung(ratio: Ratio, evidence: Evidence, seeds: Sequence[int]) -> bool:
    """Whether all boots behind a ratio that failed hung: an oops has any cause."""
    cells = [evidence.cells[arm, seed] for arm in arms_needed((ratio,)) for seed in seeds]
    return all(cell.outcome is Outcome.HANG for cell in cells if cell.status is Status.FAIL)


def judge_ratio(ratio: Ratio, expect: Bound, evidence: Evidence, seeds: Sequence[int]) -> Judgement:
    """PASS when the bound holds under every seed, FAIL when under none, DONE when they disagree or nothing shows it.

    A draft decides nothing: its reason is what it cannot show.
    On the wall clock the rule decides by the interval of the true ratio instead.
    """
    try:
        ensemble = ratio_ensemble(ratio, evidence, seeds)
    except Unavailable as lacking:
        return Judgement(lacking.status, None, lacking.reason)
    wrong = above_bound(ratio, ensemble, evidence)
    hidden = cannot_show(ratio, evidence, seeds, expect)
    if wrong or (hidden and not evidence.scenario.is_draft):
        return Judgement(Status.ERROR if wrong else Status.DONE, ensemble, wrong or hidden)
    if evidence.rule is not None:
        return _under_noise(evidence.rule, ensemble, expect, _scatter(ratio, evidence, ensemble))
    holding = ensemble.holding(expect)
    if len(holding) == len(seeds):
        return Judgement(Status.PASS, ensemble, hidden)
    if not holding:
        return Judgement(Status.FAIL, ensemble, hidden)
    named = ", ".join(str(seed) for seed in holding)
    return Judgement(
        Status.DONE, ensemble, f"inconclusive: the bound lies inside the ensemble (it holds under seed {named} only)"
    )


def _under_noise(rule: Rule, ensemble: Ensemble, expect: Bound, seen: Scatter | None) -> Judgement:
    values = [*ensemble.values.values()]
    decision = decide(rule, values, expect)
    if decision.status is not Status.DONE:
        return Judgement(decision.status, ensemble, interval=decision.interval, scatter=seen)
    open_still = bool(rule.looks) and len(values) < rule.looks[-1].rounds
    reason = _indecision(decision, len(values))
    return Judgement(Status.DONE, ensemble, reason, decision.interval, open_still, seen)


def _scatter(ratio: Ratio, evidence: Evidence, ensemble: Ensemble) -> Scatter | None:
    try:
        return scatter([window_values(ratio, seed, evidence) for seed in ensemble.values])
    except Unavailable:
        # A window without a value is left out of the mean: nothing counted is not a rate of zero.
        return None


def _indecision(decision: Decision, rounds: int) -> str:
    why = "the interval holds the bound" if decision.interval else f"{FEWEST_ROUNDS} boots a side at least decide"
    if decision.more is None:
        return f"inconclusive: {why}, and not even {MOST_ROUNDS} boots a side would decide by what they scatter"
    return (
        f"inconclusive: {why}; about {decision.more} more boots a side would decide (boots: {rounds + decision.more})"
    )


def _expectation(known: KnownFailure, status: Status) -> str:
    if status is Status.FAIL:
        return f"known to fail on kernels {known.kernels}: {known.because} ({known.link})"
    if status is Status.PASS:
        return (
            f"it holds, yet it is known to fail on kernels {known.kernels} ({known.because}, {known.link}): "
            "the expectation is out of date, narrow its range or remove it"
        )
    return ""


def diagnose(ratio: Ratio, evidence: Evidence, seeds: Sequence[int]) -> tuple[Diagnosed, ...]:
    """The scenario's diagnoses of the windows that the ratio is about, each with its figures."""
    windows = _windows(ratio)
    return tuple(
        Diagnosed(diagnosis.that, tuple(_finding(condition, evidence, seeds) for condition in diagnosis.when))
        for diagnosis in evidence.scenario.diagnoses
        if all(_windows(condition.ratio) <= windows for condition in diagnosis.when)
    )


def cause(diagnosed: Sequence[Diagnosed]) -> str:
    """The diagnoses that hold, with their figures; else that the cause is not known, and what was ruled out."""
    holding = [diagnosis for diagnosis in diagnosed if diagnosis.holds]
    if holding:
        return "; ".join(f"{diagnosis.that} ({', '.join(map(str, diagnosis.findings))})" for diagnosis in holding)
    return "; ".join(_unknown(diagnosed)) if diagnosed else ""


def _unknown(diagnosed: Sequence[Diagnosed]) -> Iterator[str]:
    yield "cause unknown"
    ruled_out = [diagnosis for diagnosis in diagnosed if diagnosis.ruled_out]
    for diagnosis in ruled_out:
        against = [finding for finding in diagnosis.findings if finding.value is not None and not finding.holds]
        yield f"ruled out: {diagnosis.that} ({', '.join(f'{finding}, not {finding.expect}' for finding in against)})"
    for diagnosis in diagnosed:
        if diagnosis not in ruled_out:
            yield f"not measured: {diagnosis.that}"


def _windows(ratio: Ratio) -> set[tuple[str, ...]]:
    """The arms and loads of its figures, and of what the topology allows."""
    return {operand.path[:2] for operand in ratio.operands if operand.kind != NUMBER}


def _finding(condition: Condition, evidence: Evidence, seeds: Sequence[int]) -> JudgedCondition:
    ratio, expect = condition.ratio, condition.expect
    try:
        value = ratio_ensemble(ratio, evidence, seeds)
    except Unavailable:
        return JudgedCondition(ratio.text, expect.text, None, holds=False)
    return JudgedCondition(ratio.text, expect.text, value, len(value.holding(expect)) == len(seeds))

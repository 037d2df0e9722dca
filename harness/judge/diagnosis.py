# SPDX-License-Identifier: GPL-2.0-only
"""Why a claim failed: the diagnoses of a scenario whose conditions hold in the figures of the run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.judge.ensemble import Ensemble
from harness.judge.operands import Evidence, Unavailable, operands, ratio_ensemble
from harness.scenario.model import Condition, Ratio
from harness.scenario.ratio import NUMBER


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
    return {operand.path[:2] for operand in operands(ratio) if operand.kind != NUMBER}


def _finding(condition: Condition, evidence: Evidence, seeds: Sequence[int]) -> JudgedCondition:
    ratio, expect = condition.ratio, condition.expect
    try:
        value = ratio_ensemble(ratio, evidence, seeds)
    except Unavailable:
        return JudgedCondition(ratio.text, expect.text, None, holds=False)
    return JudgedCondition(ratio.text, expect.text, value, len(value.holding(expect)) == len(seeds))

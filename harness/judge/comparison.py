# SPDX-License-Identifier: GPL-2.0-only
"""What differs between two runs of one scenario, figure by figure. Pure.

A difference is real only where the ensembles are apart: with one seed there is no ensemble, and
nothing is said. It is marked only where it is also larger than ``LARGE``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.judge.baseline import compared
from harness.judge.cells import CellResult
from harness.judge.ensemble import Ensemble
from harness.scenario.model import Status

LEAST_SEEDS = 2


@dataclass(frozen=True)
class Threshold:
    """``share`` of the first figure, and why it is as large."""

    share: float
    because: str


LARGE = Threshold(
    0.05,
    "devices belong to the kernel too, and a model of one passes for sound within as much of its closed form; what"
    " configuration and compiler alone move is not known to be less, so only between kernels that were built alike"
    " is a difference the code's",
)


class Difference(StrEnum):
    """NONE: the ensembles overlap. REAL: they are apart. MARKED: and by more than the threshold."""

    NONE = "none"
    REAL = "real"
    MARKED = "marked"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Change:
    """One figure on both sides; a side is None where it was not measured, and ``reason`` says why."""

    arm: str
    load: str
    role: str
    metric: str
    before: Ensemble | None
    after: Ensemble | None
    reason: str = ""

    @property
    def share(self) -> float | None:
        """By which share of the first median the second one is higher (lower, negative)."""
        if self.before is None or self.after is None or not self.before.median:
            return None
        return self.after.median / self.before.median - 1

    def difference(self, threshold: Threshold = LARGE) -> Difference:
        return kind_of(self.before, self.after, threshold)


def kind_of(before: Ensemble | None, after: Ensemble | None, threshold: Threshold = LARGE) -> Difference:
    """How two ensembles of one figure differ."""
    if before is None or after is None or min(len(before.values), len(after.values)) < LEAST_SEEDS:
        return Difference.UNKNOWN
    if not before.separate_from(after):
        return Difference.NONE
    larger = abs(after.median - before.median) > threshold.share * abs(before.median)
    return Difference.MARKED if larger else Difference.REAL


def changes(
    before: Sequence[CellResult], after: Sequence[CellResult], metrics: Sequence[str] = ("iops",)
) -> Iterator[Change]:
    """Each figure of ``metrics`` that either side has, in the order of arms and loads.

    What was made with anything else than its fellow beside the kernel is not compared.
    """
    left = compared(after, before)
    fellows = {(cell.arm, cell.seed) for cell in left}
    right = [cell for cell in after if (cell.arm, cell.seed) in fellows]
    for arm in dict.fromkeys(cell.arm for cell in (*after, *before)):
        one = _ensembles(left, arm, metrics)
        other = _ensembles(right, arm, metrics)
        reason = next(_reasons(arm, left, right), "measured on one side only")
        for key in dict.fromkeys((*other, *one)):
            both = key in one and key in other
            yield Change(arm, *key, one.get(key), other.get(key), "" if both else reason)


def _ensembles(
    cells: Sequence[CellResult], arm: str, metrics: Sequence[str]
) -> Mapping[tuple[str, str, str], Ensemble]:
    values: dict[tuple[str, str, str], dict[int, float]] = {}
    for cell in cells:
        if cell.arm == arm:
            for key, value in cell.figures.items():
                if key[2] in metrics:
                    values.setdefault(key, {})[cell.seed] = value
    return {key: Ensemble(by_seed) for key, by_seed in values.items()}


def _reasons(arm: str, *sides: Sequence[CellResult]) -> Iterator[str]:
    for cells in sides:
        for cell in cells:
            if cell.arm == arm and cell.status is not Status.PASS and cell.reasons:
                yield f"{cell.status}: {'; '.join(cell.reasons)}"

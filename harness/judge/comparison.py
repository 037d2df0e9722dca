# SPDX-License-Identifier: GPL-2.0-only
"""What differs between two runs of one scenario, figure by figure. Pure.

A difference is real only where the ensembles are apart, and marked only where it is also larger than ``LARGE``, or
than what layout alone moves that kind of figure between builds of one configuration. Single values say nothing on the
wall clock; under the virtual clock they differ where they are further apart than any two boots of that kind of figure,
or by ``SINGLE`` where its kind has no null pairs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from harness.judge.cells import CellResult, Ensemble, compared
from harness.judge.thresholds import LARGE, SINGLE, NullEvidence, kind

LEAST_SEEDS = 2


class Difference(Enum):
    """NONE: the ensembles overlap. REAL: they are apart. MARKED: and by more than the threshold. UNKNOWN: too few
    seeds to tell."""

    NONE = auto()
    REAL = auto()
    MARKED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True)
class Change:
    """One figure on both sides; a side is None where it was not measured, and ``reason`` says why.

    ``exact``: measured under the virtual clock. ``evidence`` is that of the figure's kind, where it applies.
    """

    arm: str
    load: str
    role: str
    metric: str
    before: Ensemble | None
    after: Ensemble | None
    reason: str = ""
    exact: bool = False
    evidence: NullEvidence | None = None

    @property
    def figure(self) -> str:
        return f"{self.arm}.{self.load}.{self.role}.{self.metric}"

    @property
    def share(self) -> float | None:
        """The relative change of the median, from before to after."""
        if self.before is None or self.after is None or not self.before.median:
            return None
        return self.after.median / self.before.median - 1

    @property
    def apart(self) -> bool:
        """Whether no value of one side is between those of the other."""
        return self.before is not None and self.after is not None and self.before.separate_from(self.after)

    def difference(self) -> Difference:
        return kind_of(self.before, self.after, exact=self.exact, evidence=self.evidence)


def kind_of(
    before: Ensemble | None, after: Ensemble | None, *, exact: bool = False, evidence: NullEvidence | None = None
) -> Difference:
    """How two ensembles of one figure differ. ``exact``: single values may decide (virtual clock).

    ``evidence`` of other layouts is that of equal seeds: other seeds read other offsets, so any two boots count.
    """
    if before is None or after is None:
        return Difference.UNKNOWN
    low, high = sorted((before.median, after.median))
    if min(len(before.values), len(after.values)) < LEAST_SEEDS:
        apart = high > (1 + evidence.single) * low if evidence else high >= SINGLE * low
        return Difference.MARKED if exact and high > 0 and apart else Difference.UNKNOWN
    if not before.separate_from(after):
        return Difference.NONE
    larger = high - low > LARGE.share * abs(before.median)
    if evidence:
        # Of the smaller side: layouts move some figures by a factor, and a fall is at most all of the larger one.
        same_seeds = before.values.keys() == after.values.keys()
        larger = high > (1 + (evidence.layout if same_seeds or evidence.general else evidence.single)) * low
    return Difference.MARKED if larger else Difference.REAL


def changes(
    before: Sequence[CellResult],
    after: Sequence[CellResult],
    metrics: Sequence[str],
    *,
    exact: bool,
    known: Mapping[str, NullEvidence] | None,
) -> Iterator[Change]:
    """Each figure of ``metrics`` that either side has, in the order of arms and loads.

    Cells that differ in more than the kernel are not compared. ``exact``: measured under the virtual clock. ``known``
    is the evidence by kind of figure.
    """
    left = compared(after, before)
    fellows = {(cell.arm, cell.seed) for cell in left}
    right = [cell for cell in after if (cell.arm, cell.seed) in fellows]
    yield from changes_of_figures(left, right, metrics, exact=exact, known=known)


def changes_of_figures(
    left: Sequence[CellResult],
    right: Sequence[CellResult],
    metrics: Sequence[str],
    *,
    exact: bool,
    known: Mapping[str, NullEvidence] | None,
) -> Iterator[Change]:
    """The same for cells that need not have equal seeds."""
    examples = {cell.arm: cell.figures for cell in reversed(left) if cell.figures}
    for arm in dict.fromkeys(cell.arm for cell in (*right, *left)):
        own = _ensembles(left, arm, metrics)
        other = _ensembles(right, arm, metrics)
        reason = next(_reasons(arm, left, right), "measured on one side only")
        for key in dict.fromkeys((*other, *own)):
            both = key in own and key in other
            proof = (known or {}).get(kind(key, examples[arm])) if both else None
            yield Change(arm, *key, own.get(key), other.get(key), "" if both else reason, exact, proof)


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
            if cell.arm == arm and cell.reasons:
                yield f"{cell.status}: {'; '.join(cell.reasons)}"

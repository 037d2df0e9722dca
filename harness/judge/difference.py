# SPDX-License-Identifier: GPL-2.0-only
"""The one rule by which two sides differ, figure by figure or claim by claim. Pure.

A difference is real only where the ensembles are apart, and marked only where it is also larger than ``LARGE``, or
than what layout alone moves that kind of figure between builds of one configuration. Single values say nothing on the
wall clock; under the virtual clock they differ where they are further apart than any two boots of that kind of figure,
or by ``SINGLE`` where its kind has no null pairs. Sizes are relative to the smaller side, so the rule is symmetric.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from harness import fitted
from harness.judge.cells import CellResult, Ensemble, comparable, ensemble_of
from harness.judge.thresholds import LARGE, NullEvidence, kind, null_evidence, product, widest
from harness.scenario.model import Status
from harness.scenario.registry import TOTAL_IOS, FigureKey, Figures, Noise, figure_of

LEAST_SEEDS = 2


class ArmFigure(NamedTuple):
    """A figure of an arm."""

    arm: str
    load: str
    role: str
    metric: str

    @property
    def key(self) -> FigureKey:
        return self.load, self.role, self.metric


_NO_FIGURE = ArmFigure("", "", "", "")
JUDGED = {Status.PASS, Status.FAIL}


class Significance(Enum):
    """NONE: the ensembles overlap. REAL: they are apart. MARKED: and by more than the threshold. UNKNOWN: too few
    seeds to tell."""

    NONE = auto()
    REAL = auto()
    MARKED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True)
class Precision:
    """How exactly two sides compare. ``exact``: under the virtual clock. ``alike``: kernels of one configuration and
    compiler, or one kernel. ``known`` is the null evidence by kind of figure.
    """

    exact: bool = False
    alike: bool = False
    known: Mapping[str, NullEvidence] = field(default_factory=null_evidence)

    def evidence(self, figures: Iterable[ArmFigure], *sides: Sequence[CellResult]) -> NullEvidence | None:
        """That of a product or quotient of figures: for each the widest of its kinds on the sides.

        A counter of a window moves by what one I/O counts, too, which ends before its end or behind it. This rule was
        made after 77 reads in place of 76 were marked as 238 requests in place of 236 (a null pair of request-size on
        5.10). None on the wall clock and where no kind is known.
        """
        factors = [
            evidence and evidence.coarser(max(_grains(figure, sides), default=0.0))
            for figure in figures
            for evidence in [widest(self.known.get(name) for name in _kinds(figure, sides))]
        ]
        if not self.exact or not any(factors):
            return None
        together = product(factors)
        return together if self.alike else together.between_configurations()


def _figures(arm: str, sides: Sequence[Sequence[CellResult]]) -> Iterator[Figures]:
    for cells in sides:
        yield next((cell.figures for cell in cells if cell.arm == arm and cell.figures), {})


def _kinds(figure: ArmFigure, sides: Sequence[Sequence[CellResult]]) -> Iterator[str]:
    return (kind(figure.key, figures) for figures in _figures(figure.arm, sides))


def _grains(figure: ArmFigure, sides: Sequence[Sequence[CellResult]]) -> Iterator[float]:
    """The share of one I/O in those of the window, for a counter."""
    if figure_of(*figure.key[1:]).noise is Noise.COUNTER:
        totals = (figures.get((figure.load, figure.role, TOTAL_IOS), 0.0) for figures in _figures(figure.arm, sides))
        yield from (1 / total for total in totals if total)


@dataclass(frozen=True)
class Difference:
    """A figure or a claim on two sides; a side is None where it was not measured, and ``reason`` says why.

    ``evidence`` is that of the kind of figure, where it applies. ``statuses`` are those of a claim, which has no
    ``figure`` of its own.
    """

    before: Ensemble | None
    after: Ensemble | None
    exact: bool = False
    evidence: NullEvidence | None = None
    figure: ArmFigure = _NO_FIGURE
    reason: str = ""
    statuses: tuple[Status | None, Status | None] = (None, None)

    @property
    def turned(self) -> bool:
        """Whether a claim that held fails, or the reverse."""
        return {*self.statuses} == JUDGED

    @property
    def share(self) -> float | None:
        """The relative change of the median, from before to after; None from zero."""
        if self.before is None or self.after is None or not self.before.median:
            return None
        return self.after.median / self.before.median - 1

    @property
    def size(self) -> float:
        """The distance of the medians, relative to the smaller one; infinite from or to zero."""
        if self.before is None or self.after is None:
            return 0.0
        distance = abs(self.after.median - self.before.median)
        smaller = min(abs(self.before.median), abs(self.after.median))
        return distance / smaller if smaller else math.inf if distance else 0.0

    @property
    def sign(self) -> int:
        """1 for more, -1 for less, 0 for equal medians and one side."""
        if self.before is None or self.after is None:
            return 0
        return (self.after.median > self.before.median) - (self.after.median < self.before.median)

    @property
    def apart(self) -> bool:
        """Whether no value of one side is between those of the other."""
        return self.before is not None and self.after is not None and self.before.separate_from(self.after)

    @property
    def single(self) -> bool:
        """Whether a side has too few seeds for a range."""
        return any(side is not None and len(side.values) < LEAST_SEEDS for side in (self.before, self.after))

    @property
    def threshold(self) -> float:
        """The size above which a difference is marked.

        That of other layouts holds for equal seeds: other seeds read other offsets, so any two boots count.
        """
        if self.evidence is None:
            return fitted.SINGLE - 1 if self.single else LARGE.share
        seeds = [side.values.keys() for side in (self.before, self.after) if side is not None]
        other_seeds = not self.evidence.general and seeds[:1] != seeds[1:]
        return self.evidence.single if self.single or other_seeds else self.evidence.layout

    @property
    def mark(self) -> Significance:
        if self.before is None or self.after is None or (self.single and not self.exact):
            return Significance.UNKNOWN
        larger = self.size > self.threshold
        if self.single:
            # Without null pairs from that factor on: counts and depths double exactly.
            at_least = self.evidence is None and self.size >= self.threshold
            return Significance.MARKED if larger or at_least else Significance.UNKNOWN
        if not self.apart:
            return Significance.NONE
        return Significance.MARKED if larger else Significance.REAL

    @property
    def marked(self) -> bool:
        return self.mark is Significance.MARKED


def compare_cells(
    before: Sequence[CellResult], after: Sequence[CellResult], metrics: Sequence[str], precision: Precision
) -> Iterator[Difference]:
    """Each figure of ``metrics`` that either side has, in the order of arms and loads.

    Cells that differ in more than the kernel are not compared.
    """
    left = comparable(after, before)
    fellows = {(cell.arm, cell.seed) for cell in left}
    right = [cell for cell in after if (cell.arm, cell.seed) in fellows]
    yield from compare_figures(left, right, metrics, precision)


def compare_figures(
    left: Sequence[CellResult], right: Sequence[CellResult], metrics: Sequence[str], precision: Precision
) -> Iterator[Difference]:
    """The same for cells that need not have equal seeds or jobs."""
    every = (*right, *left)
    for arm in dict.fromkeys(cell.arm for cell in every):
        keys = dict.fromkeys(key for cell in every if cell.arm == arm for key in cell.figures if key[2] in metrics)
        yield from (figure_difference(ArmFigure(arm, *key), left, right, precision) for key in keys)


def figure_difference(
    figure: ArmFigure, left: Sequence[CellResult], right: Sequence[CellResult], precision: Precision
) -> Difference:
    before, after = (ensemble_of(cells, figure.arm, figure.key) for cells in (left, right))
    if before is None or after is None:
        reason = next(_reasons(figure.arm, left, right), "measured on one side only")
        return Difference(before, after, precision.exact, None, figure, reason)
    return Difference(before, after, precision.exact, precision.evidence([figure], left, right), figure)


def _reasons(arm: str, *sides: Sequence[CellResult]) -> Iterator[str]:
    for cells in sides:
        for cell in cells:
            if cell.arm == arm and cell.reasons:
                yield f"{cell.status}: {'; '.join(cell.reasons)}"

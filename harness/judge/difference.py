# SPDX-License-Identifier: GPL-2.0-only
"""The one rule by which two sides differ, figure by figure or claim by claim. Pure.

A difference is real only where the ensembles are apart, and marked only where it is also larger than ``LARGE``, or
than what layout alone moves that kind of figure between builds of one configuration (``tools/thresholds.py`` measures
that). Single values say nothing on the wall clock; under the virtual clock they differ where they are further apart
than any two boots of that kind of figure, or by ``SINGLE`` where its kind has no null pairs. Sizes are relative to the
smaller side, so the rule is symmetric.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import lru_cache, partial, reduce
from pathlib import Path
from typing import NamedTuple

from harness import fitted
from harness.judge.cells import CellResult, Ensemble, comparable, ensemble_of
from harness.scenario.model import Status
from harness.scenario.registry import (
    FUNCTION,
    GUEST,
    HOST,
    IOPS,
    RUNTIME,
    TOTAL_IOS,
    Figure,
    FigureKey,
    Figures,
    Noise,
    figure_of,
    on_several_cpus,
    values_of,
)

DATA = Path(__file__).with_name("thresholds.json")
SHORT_WINDOWS = ", short windows"
SHARED_TAGS = ", shared tags"
"""Lines where CPUs share the tags of a host (it has figures there): which of them use one request's lines is chance.
Made after another layout moved scsi_debug's 5.00 transfers to 16.5 on 6.12.118; arms without such tags: up to 27 %."""
LARGE = fitted.MODELS
LARGE_BECAUSE = (
    "device models are only checked to this precision; only between kernels of one configuration and compiler is a"
    " difference the code's"
)


@dataclass(frozen=True)
class NullEvidence:
    """The largest relative differences of null pairs.

    ``layout``: another layout under the same seed. ``seeds``: two boots of one layout under other seeds.
    ``single``: any two boots. ``pairs`` counts those of ``layout``, ``arms`` those in which boots differ, and
    ``where`` names the figure of the largest ``layout``. ``general``: between kernels of different configuration.
    """

    layout: float
    seeds: float
    single: float
    pairs: int
    arms: int
    where: str
    general: bool = False

    @property
    def suffices(self) -> bool:
        return self.arms >= fitted.LEAST_ARMS

    def usable(self) -> "NullEvidence":
        """With the general thresholds where they are larger and the arms are too few."""
        if self.suffices:
            return self
        return replace(self, layout=max(self.layout, LARGE), single=max(self.single, fitted.SINGLE - 1))

    def coarser(self, grain: float) -> "NullEvidence":
        """Each difference larger by ``grain``."""
        return replace(self, layout=self.layout + grain, seeds=self.seeds + grain, single=self.single + grain)

    def between_configurations(self) -> "NullEvidence":
        """With the general threshold of several seeds, which one seed a side exceeds too."""
        return replace(self, layout=LARGE, single=max(self.single, LARGE), general=True)


def kind(key: FigureKey, figures: Figures) -> str:
    """The kind of a figure of a boot with these ``figures``; empty for properties and shares."""
    load, role, metric = key
    figure, short = figure_of(role, metric), False
    if figure.noise in (Noise.MOVES, Noise.LINES, Noise.EXECUTED):
        name = _counted(figure, key, figures)
    else:
        name = _kind(figure, key, figures)
        short = max((ran for _, ran in values_of(figures, RUNTIME, load)), default=fitted.SHORT) < fitted.SHORT
    if not name or not on_several_cpus(load, figures):
        return name
    return f"{name}, several CPUs{SHORT_WINDOWS if short else ''}"


def _counted(figure: Figure, key: FigureKey, figures: Figures) -> str:
    """The kind of what the plugin counts."""
    of_all = key[1] == GUEST
    sizes = fitted.FEW_MOVED if of_all and figure.noise is Noise.MOVES else ()
    below = next((f" below {most}" for most in sizes if figures.get(key, 0.0) < most), "")
    tags = figure.noise is not Noise.EXECUTED and any(holder == HOST for _, holder, _ in figures)
    return f"{figure.name}{below}, {GUEST if of_all else 'one role'}{SHARED_TAGS if tags else ''}"


def _kind(figure: Figure, key: FigureKey, figures: Figures) -> str:
    load, role, _ = key
    value, iops = figures.get(key, 0.0), [each for _, each in values_of(figures, IOPS, load)]
    company = "one role"
    if len(iops) > 1:
        slow = figures.get((load, role, IOPS), 0.0) < fitted.SLOW
        company = f"several roles{f', below {fitted.SLOW:,} IOPS' if slow else ''}"
    match figure.noise:
        case Noise.NONE | Noise.TICKS:
            return figure.noise
        case Noise.CPU:
            return f"{figure.name}, CPU {'busy' if value * sum(iops) / 1e9 >= fitted.BUSY else 'partly idle'}"
        case Noise.COUNTER:
            return f"counter{f' below {fitted.FEW:,}' if value < fitted.FEW else ''}, {company}"
        case _:
            return f"{figure.noise}, {company}"


ClaimLayouts = Mapping[str, tuple[float, float]]
"""By the ratio of a claim: its figure on the source, and by how much layout moves it.

That is by the kinds of its figures, or ``TWINS`` times what one other layout moved the claim itself, where its
bound is nearer than the kinds say: the most moved figure of a kind says little of one that a rate limits.
"""


@lru_cache
def claim_layouts() -> Mapping[str, ClaimLayouts]:
    """What was measured of the claims of shipped scenarios, by ``Scenario.measurement_digest``."""
    rows = json.loads(DATA.read_text())["claims"].values()
    return {
        row["measured"]: {ratio: (value, layout) for ratio, (value, layout) in row["ratios"].items()} for row in rows
    }


_MOVES = fitted.OF_FUNCTION
_OF_FUNCTION = NullEvidence(_MOVES, _MOVES, _MOVES, 0, fitted.LEAST_ARMS, "")


@lru_cache
def null_evidence(path: Path = DATA) -> Mapping[str, NullEvidence]:
    """What is compared by, by kind of figure: between kernels of one configuration."""
    kinds = json.loads(path.read_text())["kinds"]
    known = {name: NullEvidence(**row).usable() for name, row in kinds.items()}
    return {f"{FUNCTION.name}, {GUEST}": _OF_FUNCTION} | known


_UNKNOWN = NullEvidence(LARGE, LARGE, fitted.SINGLE - 1, 0, 0, "")
"""Of a kind without null pairs, where it meets one that has some."""


def widest(known: Iterable[NullEvidence | None]) -> NullEvidence | None:
    """The evidence of a figure whose kinds may differ; None where no kind has any."""
    evidence = [*known]
    if not any(evidence):
        return None
    wide = (each or _UNKNOWN for each in evidence)
    return reduce(lambda first, second: first if first == second else _combined(max, first, second), wide)


def product(factors: Iterable[NullEvidence | None]) -> NullEvidence:
    """That of a product or quotient of figures."""
    compound = partial(_combined, lambda first, second: (1 + first) * (1 + second) - 1)
    return reduce(compound, (factor or _UNKNOWN for factor in factors))


def _combined(rule: Callable[[float, float], float], first: NullEvidence, second: NullEvidence) -> NullEvidence:
    layout, seeds = rule(first.layout, second.layout), rule(first.seeds, second.seeds)
    return replace(first, layout=layout, seeds=seeds, single=rule(first.single, second.single))


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
            return fitted.SINGLE - 1 if self.single else LARGE
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

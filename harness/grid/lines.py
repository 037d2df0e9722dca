# SPDX-License-Identifier: GPL-2.0-only
"""From the runs of kernels to lines of values, the neighbours between which a line changes, and what changed in words.

Pure."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from harness.judge.cells import CellResult, Ensemble
from harness.judge.claims import Judgement
from harness.judge.difference import ArmFigure, Difference, Precision
from harness.record.grid import GridCell
from harness.record.judging import Run
from harness.record.store import KernelFacts
from harness.scenario.model import Bound, Ratio, Scenario, Status
from harness.scenario.ratio import BASELINE, FIGURE
from harness.scenario.registry import COUNTED, GUEST, figure_of, on_several_cpus
from lab.base.errors import Misuse

METRICS = ("iops", "cpu.per_io", *COUNTED)
_PACKAGES = "debian:"


@dataclass(frozen=True)
class GridRow:
    """One scenario on an ordered list of kernels: a row of a grid, whose cells are decided as they are asked for.

    A place counts kernels from 0. ``configs`` has the configurations of measured kernels, as ``lab.kernels.model``.
    """

    scenario: Scenario
    cells: tuple[GridCell, ...]
    configs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, scenario: Scenario, specs: Sequence[str]) -> "GridRow":
        """Undecided cells. Raises Misuse for fewer than two kernels."""
        if len(specs) < 2:  # noqa: PLR2004
            raise Misuse("one kernel has no neighbour", remedy='two or more: --kernels "debian:6.1 .. debian:7.3"')
        name, clock = scenario.name, scenario.clock
        kernels = (KernelFacts(spec, "", "", "") for spec in specs)
        return cls(scenario, tuple(GridCell(name, scenario.digest, kernel, clock) for kernel in kernels))

    def decided(self, place: int, cell: GridCell, config: Mapping[str, str] | None = None) -> "GridRow":
        configs = self.configs if config is None else {**self.configs, place: config}
        return replace(self, cells=(*self.cells[:place], cell, *self.cells[place + 1 :]), configs=configs)

    @property
    def labels(self) -> tuple[str, ...]:
        """A short name of each kernel."""
        return tuple(label(cell.kernel.spec) for cell in self.cells)

    @property
    def runs(self) -> Mapping[int, Run]:
        """The kernels that were measured, in their order."""
        return {place: cell.result for place, cell in enumerate(self.cells) if cell.result is not None}

    @property
    def missing(self) -> Mapping[int, str]:
        """Why kernels could not be measured."""
        return {place: cell.reason for place, cell in enumerate(self.cells) if cell.status and cell.result is None}

    @property
    def skipped(self) -> tuple[int, ...]:
        """Places that were not asked for."""
        return tuple(place for place, cell in enumerate(self.cells) if cell.status is None)


def label(spec: str) -> str:
    """``6.12`` for debian:6.12, the revision of a tree, the last folder of a path."""
    return spec.removeprefix(_PACKAGES).rpartition("@")[2].rpartition("/")[2]


class KernelSide(NamedTuple):
    """What was measured on one kernel."""

    kernel: KernelFacts
    cells: Sequence[CellResult]


@dataclass(frozen=True)
class GridLine:
    """One claim (``bound`` is what it expects) or one figure over kernels or runs, by their places.

    ``arm`` is empty for a claim, ``name`` its sentence; ``statuses`` are those of a claim, ``unit`` that of a figure.
    ``figures`` are those that it consists of. ``exact``: of the virtual clock.
    """

    name: str
    values: Mapping[int, Ensemble]
    sides: Mapping[int, KernelSide]
    exact: bool
    figures: tuple[ArmFigure, ...] = ()
    arm: str = ""
    bound: Bound | None = None
    statuses: Mapping[int, Status] = field(default_factory=dict)
    unit: str = ""

    @property
    def title(self) -> str:
        return f"{self.arm} {self.name}".strip()

    def difference(self, before: int, after: int) -> Difference:
        """Between two places, by the rule of ``blklab compare``."""
        null, places = None, (before, after)
        if all(place in self.values for place in places):
            old, new = (self.sides[place] for place in places)
            precision = Precision(self.exact, old.kernel.configured_as(new.kernel))
            null = precision.evidence(self.figures, old.cells, new.cells)
        first, second = (self.values.get(place) for place in places)
        left, right = (self.statuses.get(place) for place in places)
        return Difference(first, second, self.exact, null, statuses=(left, right))


class GridChange(NamedTuple):
    """``line`` differs between the places ``before`` and ``after``, between which nothing was measured."""

    line: GridLine
    before: int
    after: int
    difference: Difference


def changes(lines: Sequence[GridLine], places: Sequence[int]) -> Iterator[GridChange]:
    """Every change between neighbours among the measured ``places``, in their order."""
    for before, after in itertools.pairwise(places):
        for line in lines:
            difference = line.difference(before, after)
            if difference.turned or difference.marked:
                yield GridChange(line, before, after, difference)


def lines(row: GridRow, metrics: Sequence[str] = METRICS, *, summed: bool = False) -> tuple[GridLine, ...]:
    """The claims in the order of the file, then the figures of each arm.

    ``summed``: of counts of several CPUs only those of all, for which role's I/Os share a line or a lock is chance.
    """
    sides = {place: KernelSide(run.folder.facts.kernel, run.verdict.cells) for place, run in row.runs.items()}
    figures = figure_lines(sides, metrics, exact=row.scenario.timing.exact, shared=True, summed=summed)
    return (*_claims(row, sides), *figures)


def _claims(row: GridRow, sides: Mapping[int, KernelSide]) -> Iterator[GridLine]:
    for number, claim in enumerate(row.scenario.claims):
        judged = {place: run.verdict.claims[number].judgement for place, run in row.runs.items()}
        line = ratio_line(claim.that, claim.ratio, judged, sides, exact=row.scenario.timing.exact)
        yield replace(line, bound=claim.expect)


def ratio_line(
    name: str, ratio: Ratio, judged: Mapping[int, Judgement], sides: Mapping[int, KernelSide], *, exact: bool
) -> GridLine:
    """A claim, or a control."""
    values = {place: each.ensemble for place, each in judged.items() if each.ensemble is not None}
    statuses = {place: each.status for place, each in judged.items()}
    figures = tuple(ArmFigure(*side.path) for side in ratio.operands if side.kind in (FIGURE, BASELINE))
    return GridLine(name, values, sides, exact, figures, statuses=statuses)


def figure_lines(
    sides: Mapping[int, KernelSide], metrics: Sequence[str], *, exact: bool, shared: bool = False, summed: bool = False
) -> Iterator[GridLine]:
    """A line for each arm, load and role. ``shared``: one, without a role, where all roles of a load have the same."""
    figures: dict[tuple[str, str, str], dict[str, dict[int, dict[int, float]]]] = {}
    for place, side in sides.items():
        for cell in side.cells:
            for (load, role, metric), value in cell.figures.items():
                part = role != GUEST and GUEST in figure_of(role, metric).held_by
                if metric in metrics and not (summed and part and on_several_cpus(load, cell.figures)):
                    roles = figures.setdefault((cell.arm, load, metric), {})
                    roles.setdefault(role, {}).setdefault(place, {})[cell.seed] = value
    for (arm, load, metric), roles in figures.items():
        first = next(iter(roles.values()))
        same = shared and len(roles) > 1 and all(values == first for values in roles.values())
        for role, by_place in {"": first}.items() if same else roles.items():
            held = ArmFigure(arm, load, role or next(iter(roles)), metric)
            name = ".".join(filter(None, (load, role, metric)))
            values = {place: Ensemble(by_seed) for place, by_seed in by_place.items()}
            yield GridLine(name, values, sides, exact, (held,), arm, unit=figure_of(held.role, metric).unit)


class Kind(StrEnum):
    """What can change between two kernels. A build belongs to no scenario; HUNT is what a kept search finds, LOAD the
    IOPS of roles of a load that change in one direction."""

    BUILD = "build"
    BOOT = "boot"
    HUNT = "hunt"
    CLAIM = "claim"
    FIGURE = "figure"
    LOAD = "load"


class Trend(StrEnum):
    """OTHER: the figure has no better direction, or some are better and some worse. OPEN: one side is not known."""

    WORSE = "worse"
    BETTER = "better"
    OTHER = "different"
    OPEN = "cannot judge"


@dataclass(frozen=True)
class Move:
    """One figure (ARM.LOAD.ROLE.METRIC), claim, arm or build that is ``before`` on one kernel and ``after`` on another.

    ``share`` is the relative change of a figure, None from zero and without one. ``sign``: 1 for more, -1 for less.
    ``size`` is its distance relative to the smaller side, ``threshold`` what compare marks from.
    """

    scenario: str
    kind: Kind
    name: str
    before: str
    after: str
    trend: Trend
    share: float | None = None
    sign: int = 0
    size: float = 0.0
    threshold: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.scenario, str(self.kind), self.name

    @property
    def figure(self) -> ArmFigure:
        """That of a move of kind FIGURE."""
        return ArmFigure(*self.name.split(".", 3))

    @property
    def title(self) -> str:
        return f"{self.scenario}: {self.name}" if self.scenario else self.name

    @property
    def arrow(self) -> str:
        """``95.50 -> 81.00 (-15.2 %)``."""
        return f"{self.before} -> {self.after}" + ("" if self.share is None else f" ({100 * self.share:+.1f} %)")

    def __str__(self) -> str:
        return f"{self.trend}: {self.name}: {self.before} -> {self.after}"

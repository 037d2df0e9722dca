# SPDX-License-Identifier: GPL-2.0-only
"""From the measured kernels of a sweep to lines of values, and the neighbours between which a line changes. Pure."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.judge.cells import Ensemble
from harness.judge.difference import ArmFigure, Difference, Precision
from harness.scenario.model import Bound, Status
from harness.scenario.ratio import FIGURE
from harness.scenario.registry import COUNTED, GUEST, figure_of, on_several_cpus
from harness.studies.timeline.sweep import KernelPoint, Sweep

METRICS = ("iops", "cpu.per_io", *COUNTED)


@dataclass(frozen=True)
class TimelineRow:
    """One claim (``bound`` is what it expects) or one figure over kernels, by their places.

    ``arm`` is empty for a claim, ``name`` its sentence; ``statuses`` are those of a claim, ``unit`` that of a figure.
    ``figures`` are those that it consists of, ``points`` the kernels.
    """

    name: str
    values: Mapping[int, Ensemble]
    arm: str = ""
    bound: Bound | None = None
    statuses: Mapping[int, Status] | None = None
    unit: str = ""
    figures: tuple[ArmFigure, ...] = ()
    points: Mapping[int, KernelPoint] = field(default_factory=dict)
    exact: bool = True

    @property
    def title(self) -> str:
        return f"{self.arm} {self.name}".strip()

    def status(self, place: int) -> Status | None:
        return self.statuses.get(place) if self.statuses is not None else None

    def difference(self, before: int, after: int) -> Difference:
        """Between two places."""
        sides = [self.points[place] for place in (before, after) if place in self.points]
        alike = len({each.kernel.build or each.kernel.digest for each in sides}) == 1
        null = Precision(self.exact, alike).evidence(self.figures, *(each.verdict.cells for each in sides))
        statuses = self.status(before), self.status(after)
        return Difference(self.values.get(before), self.values.get(after), self.exact, null, statuses=statuses)


@dataclass(frozen=True)
class ReleaseChange:
    """``line`` differs between the places ``before`` and ``after``, between which nothing was measured."""

    line: TimelineRow
    before: int
    after: int

    @property
    def share(self) -> float | None:
        """None where a value is zero or missing."""
        return self.line.difference(self.before, self.after).share

    @property
    def turned(self) -> bool:
        """Whether a claim that held fails, or the reverse."""
        return self.line.status(self.before) is not self.line.status(self.after)


def lines(sweep: Sweep, metrics: Sequence[str] = METRICS, *, summed: bool = False) -> tuple[TimelineRow, ...]:
    """The claims in the order of the file, then the figures of each arm.

    ``summed``: of counts of several CPUs only those of all, for which role's I/Os share a line or a lock is chance.
    """
    return (*_claims(sweep), *_figures(sweep, metrics, summed=summed))


def changes(rows: Sequence[TimelineRow], places: Sequence[int]) -> tuple[ReleaseChange, ...]:
    """Every change between neighbours among the ``measured`` places, in the order of kernels."""
    pairs = list(itertools.pairwise(places))
    return tuple(ReleaseChange(line, *pair) for pair in pairs for line in rows if differs(line, *pair))


def differs(line: TimelineRow, before: int, after: int) -> bool:
    """Whether a claim turned, or the values differ as ``blklab compare`` marks them."""
    change = line.difference(before, after)
    return change.turned or change.marked


def _claims(sweep: Sweep) -> Iterator[TimelineRow]:
    for claim in sweep.scenario.claims:
        values: dict[int, Ensemble] = {}
        statuses: dict[int, Status] = {}
        for place, point in sweep.points.items():
            for seen in point.verdict.claims:
                if (seen.that, seen.ratio) == (claim.that, claim.ratio.text):
                    statuses[place] = seen.judgement.status
                    if seen.judgement.ensemble is not None:
                        values[place] = seen.judgement.ensemble
        figures = tuple(ArmFigure(*operand.path) for operand in claim.ratio.operands if operand.kind == FIGURE)
        row = TimelineRow(claim.that, values, "", claim.expect, statuses, figures=figures, points=sweep.points)
        yield replace(row, exact=sweep.exact)


def _figures(sweep: Sweep, metrics: Sequence[str], *, summed: bool) -> Iterator[TimelineRow]:
    """A figure that all roles of a load share (such as cpu.per_io) is one line, named without a role."""
    figures: dict[tuple[str, str, str], dict[str, dict[int, dict[int, float]]]] = {}
    for place, point in sweep.points.items():
        for cell in point.verdict.cells:
            for (load, role, metric), value in cell.figures.items():
                part = role != GUEST and GUEST in figure_of(role, metric).held_by
                if metric in metrics and not (summed and part and on_several_cpus(load, cell.figures)):
                    roles = figures.setdefault((cell.arm, load, metric), {})
                    roles.setdefault(role, {}).setdefault(place, {})[cell.seed] = value
    for (arm, load, metric), roles in figures.items():
        first = next(iter(roles.values()))
        shared = len(roles) > 1 and all(values == first for values in roles.values())
        figure = ArmFigure(arm, load, next(iter(roles)), metric)
        for role, by_place in {"": first}.items() if shared else roles.items():
            name = ".".join(filter(None, (load, role, metric)))
            values = {place: Ensemble(by_seed) for place, by_seed in by_place.items()}
            row = TimelineRow(
                name, values, arm, unit=figure_of(figure.role, metric).unit, figures=(figure,), points=sweep.points
            )
            yield replace(row, exact=sweep.exact)

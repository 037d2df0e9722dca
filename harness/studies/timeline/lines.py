# SPDX-License-Identifier: GPL-2.0-only
"""From the measured kernels of a sweep to lines of values, and the neighbours between which a line changes. Pure."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from harness.judge.cells import Ensemble
from harness.judge.thresholds import LARGE, SINGLE, single_share
from harness.scenario.model import Bound, Status
from harness.scenario.ratio import FIGURE
from harness.scenario.registry import COUNTED, GUEST, FigureKey, figure_of, on_several_cpus
from harness.studies.timeline.sweep import KernelPoint, Sweep

METRICS = ("iops", "cpu.per_io", *COUNTED)
_JUDGED = (Status.PASS, Status.FAIL)


@dataclass(frozen=True)
class TimelineRow:
    """One claim (``bound`` is what it expects) or one figure over kernels, by their places.

    ``arm`` is empty for a claim, ``name`` its sentence; ``statuses`` are those of a claim, ``unit`` that of a figure.
    ``alone`` is the share by which two values of one seed must differ, by place: what two boots of the kind of figure
    do.
    """

    name: str
    values: Mapping[int, Ensemble]
    arm: str = ""
    bound: Bound | None = None
    statuses: Mapping[int, Status] | None = None
    unit: str = ""
    alone: Mapping[int, float] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.arm} {self.name}".strip()

    def status(self, place: int) -> Status | None:
        return self.statuses.get(place) if self.statuses is not None else None


@dataclass(frozen=True)
class ReleaseChange:
    """``line`` differs between the places ``before`` and ``after``, between which nothing was measured."""

    line: TimelineRow
    before: int
    after: int

    @property
    def share(self) -> float | None:
        """None where a value is zero or missing."""
        first, second = self.line.values.get(self.before), self.line.values.get(self.after)
        return second.median / first.median - 1 if first and second and first.median else None

    @property
    def turned(self) -> bool:
        """Whether a claim that held fails, or the reverse."""
        return self.line.status(self.before) is not self.line.status(self.after)


def lines(sweep: Sweep, metrics: Sequence[str] = METRICS, *, summed: bool = False) -> tuple[TimelineRow, ...]:
    """The claims in the order of the file, then the figures of each arm.

    ``summed``: of counts of several CPUs only those of all, for which role's I/Os share a line or a lock is chance.
    """
    return (*_claims(sweep), *_figures(sweep.points, metrics, summed=summed))


def changes(rows: Sequence[TimelineRow], places: Sequence[int]) -> tuple[ReleaseChange, ...]:
    """Every change between neighbours among the ``measured`` places, in the order of kernels."""
    pairs = list(itertools.pairwise(places))
    return tuple(ReleaseChange(line, *pair) for pair in pairs for line in rows if differs(line, *pair))


def differs(line: TimelineRow, before: int, after: int) -> bool:
    """Whether a claim turned, or the seeds' ranges are apart and the medians too by more than the threshold."""
    statuses = {line.status(before), line.status(after)}
    if len(statuses) == len(_JUDGED) and statuses == set(_JUDGED):
        return True
    first, second = line.values.get(before), line.values.get(after)
    if first is None or second is None or not first.separate_from(second):
        return False
    least = LARGE.share
    if min(len(first.values), len(second.values)) == 1:
        least = max(line.alone.get(place, SINGLE - 1) for place in (before, after))
    low, high = sorted((first.median, second.median))
    return high > (1 + least) * low


def _alone(points: Mapping[int, KernelPoint], figures: Iterable[tuple[str, FigureKey]]) -> dict[int, float]:
    """What two boots of a product of these figures, each of an arm, differ by, by place."""
    shares: dict[int, float] = {}
    for place, point in points.items():
        by_arm = {cell.arm: cell.figures for cell in point.verdict.cells if cell.figures}
        shares[place] = prod(1 + single_share(key, by_arm.get(arm, {})) for arm, key in figures) - 1
    return shares


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
        alone = _alone(sweep.points, [(side.arm, side.key) for side in claim.ratio.operands if side.kind == FIGURE])
        yield TimelineRow(claim.that, values, "", claim.expect, statuses, alone=alone)


def _figures(points: Mapping[int, KernelPoint], metrics: Sequence[str], *, summed: bool) -> Iterator[TimelineRow]:
    """A figure that all roles of a load share (such as cpu.per_io) is one line, named without a role."""
    figures: dict[tuple[str, str, str], dict[str, dict[int, dict[int, float]]]] = {}
    for place, point in points.items():
        for cell in point.verdict.cells:
            for (load, role, metric), value in cell.figures.items():
                part = role != GUEST and GUEST in figure_of(role, metric).held_by
                if metric in metrics and not (summed and part and on_several_cpus(load, cell.figures)):
                    roles = figures.setdefault((cell.arm, load, metric), {})
                    roles.setdefault(role, {}).setdefault(place, {})[cell.seed] = value
    for (arm, load, metric), roles in figures.items():
        first = next(iter(roles.values()))
        shared = len(roles) > 1 and all(values == first for values in roles.values())
        alone = _alone(points, [(arm, (load, next(iter(roles)), metric))])
        for role, by_place in {"": first}.items() if shared else roles.items():
            name = ".".join(filter(None, (load, role, metric)))
            values = {place: Ensemble(by_seed) for place, by_seed in by_place.items()}
            yield TimelineRow(name, values, arm, unit=figure_of(next(iter(roles)), metric).unit, alone=alone)

# SPDX-License-Identifier: GPL-2.0-only
"""A timeline measured: every third kernel first, then between those that differ, until all changes have neighbours."""

import itertools
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from harness.studies.timeline.lines import ReleaseChange, TimelineRow, changes, differs, lines
from harness.studies.timeline.sweep import Extends, Sweep, label

STEP = 3
"""Of the ordered kernels every third is measured first."""

Differ = Callable[[int, int], bool]


def next_place(
    count: int, measured: AbstractSet[int], missing: AbstractSet[int], differ: Differ, step: int = STEP
) -> int | None:
    """The place (from 0) of the kernel to measure next, None when every difference is between neighbours.

    First the ends and every ``step``-th place, then the middle of each gap whose two sides ``differ``. For one that is
    ``missing`` the kernel next to it is measured: inwards at the ends, upwards elsewhere.
    """
    known = measured | missing
    for place in sorted({0, count - 1, *range(0, count, step)}):
        onwards = range(place, -1, -1) if place == count - 1 else range(place, min(place + step, count))
        candidate = next((nearest for nearest in onwards if nearest not in missing), None)
        if candidate is not None and candidate not in known:
            return candidate
    sides = sorted(measured)
    for before, after in itertools.pairwise(sides):
        between = [place for place in range(before + 1, after) if place not in missing]
        if between and differ(before, after):
            return between[len(between) // 2]
    return None


@dataclass(frozen=True)
class Timeline:
    """``changes`` are in the order of kernels."""

    sweep: Sweep
    lines: tuple[TimelineRow, ...]
    changes: tuple[ReleaseChange, ...]

    @property
    def saved(self) -> int:
        """Boots that the kernels would have taken that were not needed."""
        points = self.sweep.measured
        return round(sum(point.boots for point in points) / len(points) * len(self.sweep.skipped)) if points else 0


def timeline(
    sweeper: Extends, begun: Sweep, metrics: Sequence[str], tell: Callable[[str], None], step: int = STEP
) -> Timeline:
    """Measure what ``next_place`` asks for. Raises what ``extended`` raises."""
    swept = begun
    while True:
        rows = lines(swept, metrics, summed=True)

        def differ(before: int, after: int, rows: Sequence[TimelineRow] = rows) -> bool:
            return any(differs(row, before, after) for row in rows)

        place = next_place(len(swept.specs), swept.points.keys(), swept.missing.keys(), differ, step)
        if place is None:
            return Timeline(swept, rows, changes(rows, sorted(swept.points)))
        tell(f"{label(swept.specs[place])}: kernel {place + 1} of {len(swept.specs)}")
        swept = sweeper.extended(swept, place)
        if place in swept.missing:
            tell(f"{label(swept.specs[place])}: MISS, {swept.missing[place]}")

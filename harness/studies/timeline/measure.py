# SPDX-License-Identifier: GPL-2.0-only
"""A timeline measured: every third kernel first, then between those that differ, until all changes have neighbours."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.studies.timeline.lines import ReleaseChange, TimelineRow, changes, differs, lines
from harness.studies.timeline.order import STEP, next_place
from harness.studies.timeline.sweep import Extends, Sweep, label


@dataclass(frozen=True)
class SweepEffort:
    """``boots`` made now in ``seconds``; ``kept`` boots of earlier runs were used; ``saved`` were not needed."""

    boots: int
    kept: int
    saved: int
    seconds: float


@dataclass(frozen=True)
class Timeline:
    """``changes`` are in the order of kernels."""

    sweep: Sweep
    lines: tuple[TimelineRow, ...]
    changes: tuple[ReleaseChange, ...]

    @property
    def effort(self) -> SweepEffort:
        points = self.sweep.measured
        made = sum(point.made for point in points)
        total = sum(point.boots for point in points)
        saved = round(total / len(points) * len(self.sweep.skipped)) if points else 0
        return SweepEffort(made, total - made, saved, sum(point.seconds for point in points))


def timeline(
    sweeper: Extends, begun: Sweep, metrics: Sequence[str], tell: Callable[[str], None], step: int = STEP
) -> Timeline:
    """Measure what ``next_place`` asks for. Raises what ``extended`` raises."""
    swept = begun
    while True:

        def differ(before: int, after: int, found: Sequence[TimelineRow] = lines(swept, metrics)) -> bool:
            return any(differs(line, before, after) for line in found)

        place = next_place(len(swept.specs), swept.points.keys(), swept.missing.keys(), differ, step)
        if place is None:
            return of(swept, metrics)
        tell(f"{label(swept.specs[place])}: kernel {place + 1} of {len(swept.specs)}")
        swept = sweeper.extended(swept, place)
        if place in swept.missing:
            tell(f"{label(swept.specs[place])}: MISS, {swept.missing[place]}")


def of(swept: Sweep, metrics: Sequence[str]) -> Timeline:
    """The timeline of what is measured. Pure."""
    found = lines(swept, metrics)
    return Timeline(swept, found, changes(found, sorted(swept.points)))

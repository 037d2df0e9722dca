# SPDX-License-Identifier: GPL-2.0-only
"""The ends of a bisection by release, built from source with one configuration: how much of a difference is code."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.bisect.releases import Releases, observed
from harness.report.format import figure as shown
from harness.studies.timeline.sweep import Extends, KernelPoint, Sweep, label
from lab.base.errors import CannotJudge
from lab.kernels.kconfig import Drift, drift


@dataclass(frozen=True)
class ConfigDifference:
    """Medians of one claim or figure at the good and the bad end: of the packages, and with one configuration."""

    that: str
    packages: tuple[float, float]
    built: tuple[float, float]

    @property
    def remains(self) -> float | None:
        """The share of the packages' change (as a factor, on a logarithmic scale) that the builds have as well.

        None where a value is zero or the packages agree.
        """
        if min(*self.packages, *self.built) <= 0 or self.packages[0] == self.packages[1]:
            return None
        return _change(self.built) / _change(self.packages)


@dataclass(frozen=True)
class SameConfig:
    """``points`` are the two builds, ``options`` the differences of the packages' configurations."""

    points: tuple[KernelPoint, KernelPoint]
    differences: tuple[ConfigDifference, ...]
    options: Drift


def same_config(sweeper: Extends, releases: Releases, figure: str) -> SameConfig:
    """Build and measure ``source:SERIES`` of both ends. Raises CannotJudge when one cannot be had or measured."""
    ends = (releases.sweep.specs[0], releases.sweep.specs[-1])
    built = Sweep(releases.sweep.scenario, tuple(f"source:{label(spec)}" for spec in ends))
    for place, spec in enumerate(built.specs):
        built = sweeper.extended(built, place)
        if place in built.missing:
            raise CannotJudge(
                f"no comparison with one configuration: {spec}: {built.missing[place]}",
                remedy="Debian has linux-source-* for few series: name two that have one, or leave out --same-config",
            )
    first, last = built.points[0], built.points[1]
    packages = [releases.sweep.points[place] for place in (0, len(releases.sweep.specs) - 1)]
    told = (_told(releases.sweep, 0, figure), _told(releases.sweep, len(releases.sweep.specs) - 1, figure))
    again = (_told(built, 0, figure), _told(built, 1, figure))
    names = [that for that in releases.question.claims if all(that in values for values in (*told, *again))]
    differences = (
        ConfigDifference(that, (told[0][that], told[1][that]), (again[0][that], again[1][that])) for that in names
    )
    return SameConfig((first, last), tuple(differences), drift(packages[0].config, packages[1].config))


def lines(same: SameConfig) -> Iterator[str]:
    """The report: a line for each claim or figure, then what the ends have in common and what not."""
    good, bad = (point.spec for point in same.points)
    yield f"with one configuration, {good} -> {bad}:"
    for difference in same.differences:
        ends = f"{_arrow(difference.built)} (packages: {_arrow(difference.packages)})"
        if difference.remains is None:
            yield f"  {difference.that}: {ends}"
        else:
            yield f"  {difference.that}: {ends}: {100 * difference.remains:.0f} % of the difference is code"
    if not same.differences:
        yield "  no claim of the question was measured on both"
    yield f"  the rest is configuration or compiler: the packages' configurations differ in {len(same.options.options)}"
    yield f"  options; built: {'; '.join(point.kernel.origin for point in same.points)}"


def _told(swept: Sweep, place: int, figure: str) -> dict[str, float]:
    seen = observed(swept, place, figure, 0.0 if figure else None)
    return {claim.that: statistics.median(claim.values) for claim in seen.claims if claim.values}


def _change(ends: Sequence[float]) -> float:
    return math.log(ends[1] / ends[0])


def _arrow(ends: Sequence[float]) -> str:
    return " -> ".join(map(shown, ends))

# SPDX-License-Identifier: GPL-2.0-only
"""One ratio on both clocks."""

from dataclasses import dataclass

from harness.judge.ensemble import Ensemble
from harness.noise.interval import Interval, interval
from harness.noise.stopping import ERROR

ROUNDING = 0.005
"""Intervals of counts have no width; two ratios are not told apart below half a per cent."""


@dataclass(frozen=True)
class OnTheWall:
    """A claim of a scenario of the wall clock on one kernel series; ``expect`` is its bound as the file has it."""

    scenario: str
    that: str
    series: str
    expect: str
    wall: Ensemble

    @property
    def interval(self) -> Interval | None:
        return of_boots(self.wall)


@dataclass(frozen=True)
class BothClocks:
    """A ratio of ``scenario`` on the wall clock, and of ``twin`` on the virtual one, on one kernel series.

    ``virtual`` and ``wall`` are None where there is no run, or no value; ``because`` is what the scenario says of it,
    ``machine`` what ran the guests of the wall clock.
    """

    scenario: str
    twin: str
    that: str
    series: str
    virtual: Ensemble | None
    wall: Ensemble | None
    because: str = ""
    machine: str = ""

    @property
    def interval(self) -> Interval | None:
        """Of the true ratio on the wall clock, at 95 per cent; None with too few boots."""
        return None if self.wall is None else of_boots(self.wall)

    @property
    def agree(self) -> bool | None:
        """Whether the seeds' range and the interval have a value in common; None when that cannot be said."""
        seen = self.interval
        if seen is None or self.virtual is None:
            return None
        near = ROUNDING * abs(self.virtual.median)
        return seen.low - near <= self.virtual.high and self.virtual.low <= seen.high + near

    @property
    def unexplained(self) -> bool:
        return self.agree is False and not self.because


def of_boots(wall: Ensemble) -> Interval | None:
    """Of the true ratio, at 95 per cent; None with too few boots."""
    return interval([value for _, value in sorted(wall.values.items())], ERROR)

# SPDX-License-Identifier: GPL-2.0-only
"""One ratio on both clocks."""

from dataclasses import dataclass

from harness.judge.ensemble import Ensemble
from harness.noise.interval import Interval, interval
from harness.noise.stopping import ERROR

ROUNDING = 0.005
"""Tolerance of half a per cent, because intervals of counts have no width."""


@dataclass(frozen=True)
class OnTheWall:
    """A claim of a scenario of the wall clock on one kernel series; ``expect`` is the text of its bound."""

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

    ``virtual`` and ``wall`` are None without a run or a value; ``because`` is the scenario's reason for a difference,
    ``machine`` the QEMU of the wall clock.
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
        """The interval of the true ratio on the wall clock, at 95 %; None with too few boots."""
        return None if self.wall is None else of_boots(self.wall)

    @property
    def agree(self) -> bool | None:
        """Whether the range over seeds and the interval overlap; None without either."""
        seen = self.interval
        if seen is None or self.virtual is None:
            return None
        near = ROUNDING * abs(self.virtual.median)
        return seen.low - near <= self.virtual.high and self.virtual.low <= seen.high + near

    @property
    def unexplained(self) -> bool:
        return self.agree is False and not self.because


def of_boots(wall: Ensemble) -> Interval | None:
    """The interval of the true ratio, at 95 %; None with too few boots."""
    return interval([value for _, value in sorted(wall.values.items())], ERROR)

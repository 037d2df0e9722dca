# SPDX-License-Identifier: GPL-2.0-only
"""One ratio on both clocks."""

from dataclasses import dataclass

from harness.analysis.ensemble import Ensemble
from harness.analysis.interval import Interval, interval
from harness.analysis.stopping import ERROR


@dataclass(frozen=True)
class BothClocks:
    """A ratio of ``scenario`` on the wall clock, and of ``twin`` on the virtual one, on one kernel series.

    ``virtual`` and ``wall`` are None where there is no run, or no value; ``because`` is what the scenario says of it.
    """

    scenario: str
    twin: str
    that: str
    series: str
    virtual: Ensemble | None
    wall: Ensemble | None
    because: str = ""

    @property
    def interval(self) -> Interval | None:
        """Of the true ratio on the wall clock, at 95 per cent; None with too few boots."""
        if self.wall is None:
            return None
        return interval([value for _, value in sorted(self.wall.values.items())], ERROR)

    @property
    def agree(self) -> bool | None:
        """Whether the seeds' range and the interval have a value in common; None when that cannot be said."""
        seen = self.interval
        if seen is None or self.virtual is None:
            return None
        return seen.low <= self.virtual.high and self.virtual.low <= seen.high

    @property
    def unexplained(self) -> bool:
        return self.agree is False and not self.because

# SPDX-License-Identifier: GPL-2.0-only
"""Where noise comes from: what differs from boot to boot, and what from window to window inside a boot."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_LEAST = 2


@dataclass(frozen=True)
class Scatter:
    """Deviations of the logarithm of a ratio: 0.05 is five per cent."""

    boots: float
    windows: float

    def of_rounds(self, windows: int) -> float:
        """What rounds of so many windows scatter by."""
        return math.hypot(self.boots, self.windows / math.sqrt(windows))


def scatter(rounds: Sequence[Sequence[float]]) -> Scatter | None:
    """From the ratio of each window of each round, by the analysis of variance of one way.

    None with fewer than two rounds or two windows in each, or with a ratio that has no logarithm.
    """
    if len(rounds) < _LEAST or any(len(windows) < _LEAST or min(windows) <= 0 for windows in rounds):
        return None
    logs = [[math.log(ratio) for ratio in windows] for windows in rounds]
    within = statistics.fmean(statistics.variance(windows) for windows in logs)
    size = statistics.fmean(len(windows) for windows in logs)
    between = statistics.variance([statistics.fmean(windows) for windows in logs]) - within / size
    return Scatter(math.sqrt(max(0.0, between)), math.sqrt(within))

# SPDX-License-Identifier: GPL-2.0-only
"""One value per seed, and what the seeds say together."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from harness.scenario.model import Bound


@dataclass(frozen=True)
class Ensemble:
    """``values`` maps seed to value; there is at least one, and all are finite."""

    values: Mapping[int, float]

    def __post_init__(self) -> None:
        if not self.values or not all(math.isfinite(value) for value in self.values.values()):
            raise ValueError("an ensemble needs finite values")

    @property
    def low(self) -> float:
        return min(self.values.values())

    @property
    def high(self) -> float:
        return max(self.values.values())

    @property
    def median(self) -> float:
        return statistics.median(self.values.values())

    def holding(self, bound: Bound) -> tuple[int, ...]:
        """The seeds whose value lies within ``bound``."""
        return tuple(seed for seed, value in sorted(self.values.items()) if bound.holds(value))

    def separate_from(self, other: "Ensemble") -> bool:
        """Whether the two ranges have no value in common: only then do two kernels differ."""
        return self.high < other.low or other.high < self.low

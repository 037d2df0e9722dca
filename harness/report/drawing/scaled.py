# SPDX-License-Identifier: GPL-2.0-only
"""Figures of a topology as the hardware's, with the lab's behind them where a scale sets them apart."""

from dataclasses import dataclass
from math import floor, log10

from lab.base.units import show_rate, show_time

_DIGITS = 4


@dataclass(frozen=True)
class Scaled:
    """Writes rates and times of the lab. The lab's own figure is left out where it is the hardware's."""

    scale: int

    def rate(self, value: float) -> str:
        """Bytes per second."""
        return self._both(show_rate(_round(value * self.scale)), show_rate(_round(value)))

    def time(self, value: float) -> str:
        """Nanoseconds."""
        return self._both(show_time(_round(value / self.scale)), show_time(_round(value)))

    def _both(self, hardware: str, lab: str) -> str:
        return hardware if self.scale == 1 else f"{hardware} [{lab}]"


def _round(value: float) -> int:
    """Four digits that count: scaled rates are whole bytes per second, and so a little off."""
    return int(round(value, _DIGITS - 1 - floor(log10(value)))) if value >= 1 else 0

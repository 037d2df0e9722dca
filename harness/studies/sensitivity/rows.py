# SPDX-License-Identifier: GPL-2.0-only
"""Reproduced ratios with changed parameters: values only."""

from collections.abc import Mapping
from dataclasses import dataclass

FACTORS = (0.8, 1.0, 1.25)


@dataclass(frozen=True)
class SensitivityRow:
    """The median of one reproduced ratio with the parameters ``of`` at ``factor`` times the fitted value.

    ``ratio`` is None if not measured.
    """

    of: str
    factor: float
    that: str
    ratio: float | None


@dataclass(frozen=True)
class Sensitivity:
    """``digest`` is that of the scenario."""

    scenario: str
    digest: str
    release: str
    rows: tuple[SensitivityRow, ...]

    def of(self, parameter: str, that: str) -> Mapping[float, float | None]:
        return {row.factor: row.ratio for row in self.rows if (row.of, row.that) == (parameter, that)}

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.of for row in self.rows))

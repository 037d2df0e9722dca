# SPDX-License-Identifier: GPL-2.0-only
"""A ratio and its bound as a few characters: ``|x........===|``."""

from harness.judge.claims import Judgement
from harness.scenario.model import Bound

CELLS = 12
LEGEND = "x measured, = allowed"
_EDGE = 9
"""The cell at which the limit of a one-sided bound is: a third of the limit's height remains above it."""
_BAND = (5, 7)
"""The cells of a two-sided bound."""


def gauge(judgement: Judgement | None, bound: Bound) -> str:
    """An x for each seed, or on the wall clock for the centre of the interval; empty without a figure or a scale.

    A one-sided bound is drawn from zero to 4/3 of its limit, a two-sided one with 2.5 of its widths on either side.
    What lies outside is at the edge. An x is on ``=`` exactly where the bound holds.
    """
    scale = _scale(bound)
    if judgement is None or judgement.ensemble is None or scale is None:
        return ""
    start, cell, first, end = scale
    cells = ["=" if first <= number < end else "." for number in range(CELLS)]
    if (seen := judgement.interval) is not None:
        for number in range(_at(seen.low, start, cell), _at(seen.high, start, cell) + 1):
            cells[number] = "-"
    values = [seen.centre] if seen else judgement.ensemble.values.values()
    allowed = range(first, end)
    barred = [number for number in range(CELLS) if number not in allowed]
    for value in values:
        place, wanted = _at(value, start, cell), allowed if bound.holds(value) else barred
        cells[min(wanted, key=lambda number: abs(number - place))] = "x"
    return f"|{''.join(cells)}|"


def _scale(bound: Bound) -> tuple[float, float, int, int] | None:
    """Where the first cell starts, how much a cell is, and which cells are allowed."""
    if bound.low is not None and bound.high is not None:
        cell = (bound.high - bound.low) / (_BAND[1] - _BAND[0])
        return (bound.low - _BAND[0] * cell, cell, *_BAND) if cell > 0 else None
    limit = bound.low if bound.low is not None else bound.high
    if limit is None or limit <= 0:
        return None
    return 0.0, limit / _EDGE, *((_EDGE, CELLS) if bound.low is not None else (0, _EDGE))


def _at(value: float, start: float, cell: float) -> int:
    return max(0, min(CELLS - 1, int((value - start) / cell)))

# SPDX-License-Identifier: GPL-2.0-only
"""Which kernel of an ordered list is measured next. Pure."""

import itertools
from collections.abc import Callable
from collections.abc import Set as AbstractSet

STEP = 3
"""Of the ordered kernels every third is measured first."""

Differ = Callable[[int, int], bool]


def next_place(
    count: int, measured: AbstractSet[int], missing: AbstractSet[int], differ: Differ, step: int = STEP
) -> int | None:
    """The place (from 0) of the kernel to measure next, None when every difference is between neighbours.

    First the ends and every ``step``-th place, then the middle of each gap whose two sides ``differ``. For one that is
    ``missing`` the kernel next to it is measured: inwards at the ends, upwards elsewhere.
    """
    known = measured | missing
    for place in sorted({0, count - 1, *range(0, count, step)}):
        onwards = range(place, -1, -1) if place == count - 1 else range(place, min(place + step, count))
        candidate = next((one for one in onwards if one not in missing), None)
        if candidate is not None and candidate not in known:
            return candidate
    sides = sorted(measured)
    for before, after in itertools.pairwise(sides):
        between = [place for place in range(before + 1, after) if place not in missing]
        if between and differ(before, after):
            return between[len(between) // 2]
    return None

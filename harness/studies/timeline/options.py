# SPDX-License-Identifier: GPL-2.0-only
"""How the configurations of two neighbours differ: a package's new option may be the cause of a change. Pure."""

import re
from collections.abc import Iterator

from harness.studies.timeline.sweep import Sweep, label
from lab.kernels import kconfig

# What decides the cost of an I/O besides the code: preemption, ticks, the block layer, copies, allocation, stacks.
_TELLING = re.compile(
    r"CONFIG_(?!BLK_DEV_)(PREEMPT|HZ_|NO_HZ|BLK_|MQ_IOSCHED|IOSCHED|SLUB|INIT_ON|INIT_STACK|HARDENED_USERCOPY|RANDOMIZE_KST)"
)
_MOST = 6


def differences(sweep: Sweep, pairs: set[tuple[int, int]]) -> Iterator[str]:
    """A line for each pair of places, such as ``6.12 -> 6.16: 219 options differ: PREEMPT_LAZY n -> y``."""
    for before, after in sorted(pairs):
        ends = sweep.points[before], sweep.points[after]
        drifted = kconfig.drift(ends[0].config, ends[1].config).options
        telling = sorted(filter(_TELLING.match, drifted), key=lambda name: not name.startswith("CONFIG_PREEMPT"))
        told = [f"{name.removeprefix('CONFIG_')} {' -> '.join(drifted[name])}" for name in telling]
        more = f" and {len(told) - _MOST} more like these" if len(told) > _MOST else ""
        named = f": {', '.join(told[:_MOST])}{more}" if told else ", none of preemption, the block layer or hardening"
        neighbours = f"{label(sweep.specs[before])} -> {label(sweep.specs[after])}"
        yield f"{neighbours}: {len(drifted)} options differ{named}"

# SPDX-License-Identifier: GPL-2.0-only
"""The figures of a role that a ratio may use."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """``bounded``: the topology sets a bound (``bound.*``)."""

    unit: str
    more_is_better: bool
    bounded: bool = False
    percentile: bool = False


def _counter_unit(counter: str) -> str:
    last = counter.rpartition(".")[2]
    return last if last in ("ms", "sectors") else ""


_PERCENTILES = ("p50", "p90", "p99", "p99.9")
_LATENCIES = {
    "lat": ("mean", "max", *_PERCENTILES),
    "clat": ("mean", "max", *_PERCENTILES),
    "slat": ("mean", "max"),
}

COUNTED_ON = ("disk", "members")
"""The role's block device, and the sum over the LUNs below it."""
COUNTERS = (
    *(f"{way}{count}" for way in ("reads", "writes") for count in ("", ".merged", ".sectors", ".ms")),
    *("busy.ms", "weighted.ms", "merges", "requests", "bios", "sectors"),
)
"""Counters of /proc/diskstats and sums of them: ``requests`` issued, and the ``bios`` merged into them."""

HANDLED = ("members.bw", "members.iops")
"""Bytes and requests per second at the modelled disks (driver tcmu) below a role's devices, within the window only.
fio's own rates include the time after the window in which requests in flight complete."""

MOST_PROCESSORS = 8
INTERRUPTS = "interrupts"
"""Interrupts of the role's controllers; ``interrupts.cpu0`` ... are those taken by one CPU."""
BUSIEST = "paths.busiest"
"""The busiest LUN's share of the requests below a role's devices: 1 for one path in use, 0.5 for two used equally."""
PLACES = ("node", "slot.lanes", "slot.gts")
"""The NUMA node of the role's controllers (QEMU's), and the width and GT/s of their slots."""

METRICS: Mapping[str, Metric] = {
    "iops": Metric("1/s", more_is_better=True, bounded=True),
    "bw": Metric("B/s", more_is_better=True, bounded=True),
    **{
        f"{kind}.{figure}": Metric("ns", more_is_better=False, percentile=figure in _PERCENTILES)
        for kind, figures in _LATENCIES.items()
        for figure in figures
    },
    "lat.mean": Metric("ns", more_is_better=False, bounded=True),
    "resync.bw": Metric("B/s", more_is_better=True),
    "cpu.per_io": Metric("ns", more_is_better=False),
    **{
        f"{where}.{counter}": Metric(_counter_unit(counter), more_is_better=False)
        for where in COUNTED_ON
        for counter in COUNTERS
    },
    BUSIEST: Metric("", more_is_better=False),
    INTERRUPTS: Metric("", more_is_better=False),
    **{f"{INTERRUPTS}.cpu{number}": Metric("", more_is_better=False) for number in range(MOST_PROCESSORS)},
    **{name: Metric("", more_is_better=True) for name in PLACES},
    **{name: Metric("B/s" if name.endswith("bw") else "1/s", more_is_better=True) for name in HANDLED},
}
_UNITS_BY_ENDING = {"runtime": "ns"}
_LATENCY_PREFIXES = tuple(f"{kind}." for kind in _LATENCIES)


def unit(metric: str) -> str:
    """The unit of any measured figure; empty for counts and shares."""
    if metric in METRICS:
        return METRICS[metric].unit
    if metric.startswith(_LATENCY_PREFIXES):
        return "ns"
    return next((unit for ending, unit in _UNITS_BY_ENDING.items() if metric.endswith(ending)), "")

# SPDX-License-Identifier: GPL-2.0-only
"""The figures of a role that a ratio may name, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """``bounded``: the topology says what it allows (``bound.*``)."""

    unit: str
    more_is_better: bool
    bounded: bool = False
    percentile: bool = False


_PERCENTILES = ("p50", "p90", "p99", "p99.9")
_LATENCIES = {
    "lat": ("mean", "max", *_PERCENTILES),
    "clat": ("mean", "max", *_PERCENTILES),
    "slat": ("mean", "max"),
}

METRICS: Mapping[str, Metric] = {
    "iops": Metric("1/s", more_is_better=True, bounded=True),
    "bw": Metric("B/s", more_is_better=True, bounded=True),
    **{
        f"{kind}.{figure}": Metric("ns", more_is_better=False, percentile=figure in _PERCENTILES)
        for kind, figures in _LATENCIES.items()
        for figure in figures
    },
    "lat.mean": Metric("ns", more_is_better=False, bounded=True),
}
_UNITS_BY_ENDING = {".ms": "ms", ".sectors": "sectors", "runtime": "ns"}
_LATENCY_PREFIXES = tuple(f"{kind}." for kind in _LATENCIES)


def unit(metric: str) -> str:
    """The unit of any figure that is measured, be it one for ratios or not; empty for counts and shares."""
    if metric in METRICS:
        return METRICS[metric].unit
    if metric.startswith(_LATENCY_PREFIXES):
        return "ns"
    return next((unit for ending, unit in _UNITS_BY_ENDING.items() if metric.endswith(ending)), "")

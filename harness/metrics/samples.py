# SPDX-License-Identifier: GPL-2.0-only
"""What the sampler saw in a load's window: how much was queued where, and for how long."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.metrics.node import MeasurementError, Node, parse


@dataclass(frozen=True)
class Series:
    """Samples of one small number. ``values`` maps a value to how often it was seen, up to ``LIMIT``.

    ``larger`` counts the samples above it; ``parts`` are the means in equal parts of the window,
    None where a part has no sample. ``ended`` says why samples stopped before the window did, or is empty.
    """

    count: int
    total: int
    max: int
    larger: int
    values: Mapping[int, int]
    parts: tuple[float | None, ...]
    ended: str = ""

    @property
    def mean(self) -> float:
        """Zero where nothing was sampled."""
        return self.total / self.count if self.count else 0.0


_TICK = 10_000_000
"""USER_HZ is 100 on every machine but Alpha and IA-64."""
LIMIT = 4096
"""The largest value that is counted by itself (SERIES_VALUES of lab/native/sampler)."""


@dataclass(frozen=True)
class Samples:
    """``series`` by name: ``inflight[LUN]``, ``device_busy[LUN]``, ``host_busy[HBA]``.

    ``began`` and ``ended`` are CLOCK_MONOTONIC in ns, ``epoch`` is CLOCK_REALTIME at ``began``. ``cost`` is the
    share of the window that sampling itself took, 0 to 1, and ``idle`` that in which the CPUs had nothing to do.
    """

    series: Mapping[str, Series]
    period: int
    began: int
    ended: int
    epoch: int
    missed: int
    cost: float
    idle: float
    cpus: int = 1


def read_samples(data: bytes, file: str) -> Samples:
    """Read ``LOAD.samples.json``. Raises MeasurementError."""
    document = Node(parse(data, file), file, "")
    early, rows = document.node("ended_early"), document.node("series")
    began, ended = document.whole("began"), document.whole("ended")
    if ended < began:
        raise MeasurementError(file, "the window ends before it begins")
    return Samples(
        series={name: _series(rows.node(name), early.text(name) if name in early else "") for name in rows},
        period=document.whole("period"),
        began=began,
        ended=ended,
        epoch=document.whole("epoch"),
        missed=document.whole("missed"),
        cost=document.whole("spent") / max(1, ended - began),
        idle=_idle(document.node("cpu")),
        cpus=max(1, round(document.node("cpu").whole("ticks") * _TICK / max(1, ended - began))),
    )


def _idle(cpu: Node) -> float:
    ticks, idle = cpu.whole("ticks"), cpu.whole("idle")
    if not ticks:
        raise cpu.wrong("ticks", "is zero: the sampler did not see the load begin")
    # The kernel may take iowait back (kernel/sched/cputime.c), and then more is idle than passed.
    return min(1.0, idle / ticks)


def _series(node: Node, ended: str) -> Series:
    histogram = node.node("histogram")
    series = Series(
        count=node.whole("count"),
        total=node.whole("sum"),
        max=node.whole("max"),
        larger=node.whole("larger"),
        values={int(histogram.key_number(key)): histogram.whole(key) for key in histogram},
        parts=tuple(_part(value, node) for value in node.items("parts")),
        ended=ended,
    )
    if series.larger + sum(series.values.values()) != series.count:
        raise node.wrong("histogram", "does not add up to count")
    return series


def _part(value: Any, node: Node) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise node.wrong("parts", "holds something else than numbers")
    return value

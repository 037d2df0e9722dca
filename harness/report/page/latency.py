# SPDX-License-Identifier: GPL-2.0-only
"""Latency distributions from fio's percentiles: a chart for each role, a row for each arm."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.judge.cells import CellResult
from harness.judge.ensemble import Ensemble
from harness.report.drawing.chart import Axis, Tick, logarithmic
from harness.scenario.model import Scenario

WIDTH = 344.0
PERCENTILES = ("p50", "p90", "p99", "p99.9")
_SLOWEST = "max"
_TAIL, _TAIL_NEEDS = "p99.9", 1000
"""With fewer I/Os this percentile is just the maximum."""
_ROW, _TOP, _FOOT, _EDGE = 32.0, 6.0, 22.0, 12.0


@dataclass(frozen=True)
class LatencyRow:
    """Pixels: ``at`` has the recorded PERCENTILES, ``slowest`` the slowest I/O."""

    arm: str
    y: float
    at: Mapping[str, float]
    slowest: float
    words: Mapping[str, str]


@dataclass(frozen=True)
class LatencyChart:
    """One role of one load on a logarithmic axis."""

    load: str
    role: str
    title: str
    width: float
    height: float
    left: float
    right: float
    base: float
    ticks: tuple[Tick, ...]
    rows: tuple[LatencyRow, ...]


Distribution = Mapping[str, Ensemble]
"""Percentile, or ``max`` -> ns of each seed."""


def latency_charts(scenario: Scenario, cells: Sequence[CellResult]) -> Iterator[LatencyChart]:
    for load in scenario.loads.values():
        for role in load.roles:
            found = {arm: distribution(cells, arm, load.name, role) for arm in scenario.arms}
            drawn = {arm: one for arm, one in found.items() if "p50" in one}
            if drawn:
                yield _chart(load.name, role, drawn)


def distribution(cells: Sequence[CellResult], arm: str, load: str, role: str) -> Distribution:
    """Percentiles of the whole latency, with submission; empty if fio counted nothing, or reads and writes apart."""
    found: dict[str, dict[int, float]] = {}
    for cell in cells:
        few = cell.figures.get((load, role, "total_ios"), 0.0) < _TAIL_NEEDS
        for name in (*PERCENTILES, _SLOWEST):
            value = cell.figures.get((load, role, f"lat.{name}"))
            if cell.arm == arm and value and not (few and name == _TAIL):
                found.setdefault(name, {})[cell.seed] = value
    return {name: Ensemble(values) for name, values in found.items()}


def _chart(load: str, role: str, drawn: Mapping[str, Distribution]) -> LatencyChart:
    values = [ensemble.median for one in drawn.values() for ensemble in one.values()]
    axis = logarithmic(values, _EDGE, WIDTH - _EDGE)
    rows = tuple(_row(place, arm, one, axis) for place, (arm, one) in enumerate(drawn.items()))
    base = _TOP + _ROW * len(rows)
    said = "; ".join(f"{row.arm} {', '.join(f'{name} {text}' for name, text in row.words.items())}" for row in rows)
    return LatencyChart(
        load=load,
        role=role,
        title=f"Latency of {role} under load {load}: {said}",
        width=WIDTH,
        height=base + _FOOT,
        left=_EDGE,
        right=WIDTH - _EDGE,
        base=base,
        ticks=tuple(Tick(axis.at(value), time_words(value)) for value in axis.values()),
        rows=rows,
    )


def _row(place: int, arm: str, one: Distribution, axis: Axis) -> LatencyRow:
    at = {name: axis.at(one[name].median) for name in PERCENTILES if name in one}
    return LatencyRow(
        arm=arm,
        y=_TOP + _ROW * place + 22,
        at=at,
        slowest=axis.at(one[_SLOWEST].median) if _SLOWEST in one else max(at.values()),
        words={name: _words(one[name]) for name in (*PERCENTILES, _SLOWEST) if name in one},
    )


def _words(ensemble: Ensemble) -> str:
    low, high = time_words(ensemble.low), time_words(ensemble.high)
    return time_words(ensemble.median) + (f" [{low} .. {high}]" if low != high else "")


def time_words(ns: float) -> str:
    """Three significant digits: ``8.53 ms``, ``412 us``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 1000 * size else f"{ns / size:,.0f} {unit}"
    return f"{ns:.0f} ns"

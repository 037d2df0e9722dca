# SPDX-License-Identifier: GPL-2.0-only
"""docs/clocks.md: scenarios that exist on both clocks, one ratio beside the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.analysis.claims import Judgement
from harness.analysis.ensemble import Ensemble
from harness.analysis.interval import Interval
from harness.analysis.verdict import Verdict
from harness.report.format import figure, spread

_ROUNDING = 0.005
"""Intervals of counts have no width; two ratios are not told apart below half a per cent."""


@dataclass(frozen=True)
class Pair:
    """A scenario on both clocks on one kernel series; ``machine`` is what ran the guests of the wall clock."""

    scenario: str
    series: str
    virtual: Verdict
    wall: Verdict
    machine: str


@dataclass(frozen=True)
class Row:
    """One sentence that both files have. ``agree`` is None where one of the ratios was not measured."""

    that: str
    virtual: str
    wall: str
    agree: bool | None


def page(pairs: Sequence[Pair], command: str) -> str:
    """The page in Markdown; ``command`` made it."""
    lines = [
        "<!-- SPDX-License-Identifier: GPL-2.0-only -->",
        f"<!-- Made from results by: {command} -->",
        "# The same ratio on both clocks",
        "",
        "Virtual: the median over seeds, and their range. Wall: the centre over boots and the interval of the rule"
        " (docs/noise.md), or the range where fewer than six boots a side were made. They agree where the two overlap.",
        "",
    ]
    for pair in pairs:
        lines += [*_section(pair), ""]
    return "\n".join(lines)


def rows(pair: Pair) -> tuple[Row, ...]:
    """A row for each claim, control and reproduction whose sentence is in both files."""
    virtual, wall = dict(_figures(pair.virtual)), dict(_figures(pair.wall))
    return tuple(_row(that, *virtual[that], *wall[that]) for that in virtual if that in wall)


def _section(pair: Pair) -> Iterator[str]:
    yield f"## {pair.scenario} on {pair.series}"
    yield ""
    yield f"Wall clock on {pair.machine}."
    yield ""
    yield "| ratio | virtual | wall | |"
    yield "|---|---|---|---|"
    for row in rows(pair):
        word = "-" if row.agree is None else "agree" if row.agree else "**differ**"
        yield f"| {row.that} | {row.virtual} | {row.wall} | {word} |"


Figure = tuple[Ensemble | None, Interval | None]


def _figures(verdict: Verdict) -> Iterator[tuple[str, Figure]]:
    judged: list[tuple[str, Judgement | None]] = [(claim.that, claim.judgement) for claim in verdict.claims]
    judged += [(control.that, control.judgement) for control in verdict.controls]
    for that, judgement in judged:
        yield that, (judgement.ensemble, judgement.interval) if judgement else (None, None)
    for one in verdict.reproductions:
        yield one.that, (one.ensemble, None)


def _row(
    that: str, virtual: Ensemble | None, _: Interval | None, wall: Ensemble | None, within: Interval | None
) -> Row:
    if virtual is None or wall is None:
        return Row(that, _shown(virtual, None), _shown(wall, within), None)
    low, high = (within.low, within.high) if within else (wall.low, wall.high)
    near = _ROUNDING * virtual.median
    agree = low - near <= virtual.high and virtual.low <= high + near
    return Row(that, _shown(virtual, None), _shown(wall, within), agree)


def _shown(ensemble: Ensemble | None, interval: Interval | None) -> str:
    if ensemble is None:
        return "-"
    if interval is None:
        return spread(ensemble)
    return f"{figure(interval.centre)} [{figure(interval.low)} .. {figure(interval.high)}], {interval.rounds} boots"

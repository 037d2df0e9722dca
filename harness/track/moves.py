# SPDX-License-Identifier: GPL-2.0-only
"""What differs between two runs of one scenario, and which of two ends a third run belongs to.

Figures differ by the one rule of ``blklab compare``, claims where one that held fails or the reverse, arms where they
boot on one side alone.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from harness.bisect.notebook import CommitWord
from harness.grid.lines import Kind, Move, Trend
from harness.judge.cells import CellResult, ensemble_of
from harness.judge.difference import JUDGED, ArmFigure, Difference, compare_cells
from harness.judge.verdict import Verdict
from harness.record.judging import judge_run, precision_of, results_of
from harness.record.store import RunFolder
from harness.report.claims import value
from harness.report.format import figure
from harness.scenario.model import Status
from harness.scenario.registry import FIGURES, FUNCTION, GUEST, IDLE, OF_ROLES, Basis, Noise, figure_of, held_by, named

METRICS = tuple(
    name for name in (*OF_ROLES, *held_by(GUEST)) if name != IDLE and FIGURES[name].noise is not Noise.TICKS
)
"""The share of a busy CPU that is idle is a small remainder, which any change multiplies, and so does one tick more of
a counter that has few."""
BOOTS, BUILDS, _FAILS = "boots", "builds", "fails"
_MOST = 1e9
_DIRECTED = (Noise.RATE, Noise.CPU, Noise.EXECUTED, Noise.MOVES, Noise.LINES)
"""Rates before costs before all other figures: the first of them that has a better direction names a trend."""


@dataclass(frozen=True, eq=False)
class Seen:
    """A run as a tracker reads it. ``profile`` gives figures of its functions, where there are any."""

    run: RunFolder
    profile: Callable[["Seen"], Mapping[ArmFigure, float]] = lambda _: {}

    @cached_property
    def verdict(self) -> Verdict:
        return judge_run(self.run)

    @cached_property
    def cells(self) -> list[CellResult]:
        return results_of(self.run)

    @cached_property
    def profiled(self) -> list[CellResult]:
        """The cells of the first seed with the figures of functions."""
        counts, first = self.profile(self), min((cell.seed for cell in self.cells), default=0)
        return [
            replace(cell, figures={each.key: count for each, count in counts.items() if each.arm == cell.arm})
            for cell in self.cells
            if cell.seed == first
        ]

    @cached_property
    def boots(self) -> Mapping[str, str]:
        """How each arm ends that boots or not because of the kernel."""
        ends: dict[str, str] = {}
        for cell in self.cells:
            if cell.status is Status.PASS:
                ends.setdefault(cell.arm, BOOTS)
            elif cell.kernel_failed:
                ends[cell.arm] = "; ".join(cell.reasons) or str(cell.status)
        return ends

    @cached_property
    def claims(self) -> Mapping[str, tuple[Status, str]]:
        """Status and figure of the claims that count and that no other layout decides."""
        counted = (claim for claim in self.verdict.claims if not (claim.optional or claim.draft or claim.layout))
        return {claim.that: (claim.judgement.status, value(claim.judgement)) for claim in counted}

    def reading(self, move: Move) -> float | str | None:
        """What the run has of it; None where it was not measured."""
        match move.kind:
            case Kind.BOOT:
                end = self.boots.get(move.name)
                return end if end in (None, BOOTS) else _FAILS
            case Kind.CLAIM:
                status = self.claims.get(move.name, (None, ""))[0]
                return str(status) if status in JUDGED else None
            case _:
                cells = self.profiled if function_of(move) else self.cells
                ensemble = ensemble_of(cells, move.figure.arm, move.figure.key)
                return ensemble.median if ensemble else None


def function_of(move: Move) -> tuple[str, ...]:
    """The function whose count it is; none for all other moves."""
    if move.kind is not Kind.FIGURE:
        return ()
    name, row = named(*move.figure[2:])
    return (name,) if row is FUNCTION else ()


@lru_cache(maxsize=1024)
def moves(before: Seen, after: Seen, functions: tuple[str, ...] = ()) -> tuple[Move, ...]:
    """What changed, lost boots first, then claims, then figures by how far they are above their thresholds.

    Last are the counts of ``functions``, for which both are profiled.
    """
    precision = precision_of(before.run, after.run)
    figures = _marked(compare_cells(before.cells, after.cells, METRICS, precision))
    if functions:
        metrics = [FUNCTION.name.replace("NAME", name) for name in functions]
        figures += _marked(compare_cells(before.profiled, after.profiled, metrics, precision))
    return (*_boots(before, after), *_claims(before, after), *(_figure(before, change) for change in figures))


def _marked(changes: Iterable[Difference]) -> list[Difference]:
    marked = (change for change in changes if change.marked)
    return sorted(marked, key=lambda change: -change.size / (change.threshold or 1))


def _boots(before: Seen, after: Seen) -> Iterator[Move]:
    for arm, was in before.boots.items():
        end = after.boots.get(arm)
        if end and (was == BOOTS) != (end == BOOTS):
            trend = Trend.WORSE if was == BOOTS else Trend.BETTER
            yield Move(before.run.facts.scenario, Kind.BOOT, arm, was, end, trend)


def _claims(before: Seen, after: Seen) -> Iterator[Move]:
    for that, (status, shown) in before.claims.items():
        now, figures = after.claims.get(that, (None, ""))
        if now is not None and {status, now} == JUDGED:
            trend = Trend.WORSE if now is Status.FAIL else Trend.BETTER
            scenario = before.run.facts.scenario
            yield Move(scenario, Kind.CLAIM, that, f"{status} {shown}", f"{now} {figures}", trend)


def _figure(before: Seen, change: Difference) -> Move:
    was, now = (figure(side.median) if side else "-" for side in (change.before, change.after))
    scenario, name = before.run.facts.scenario, ".".join(change.figure)
    size = min(change.size, _MOST)  # From zero it is infinite, which JSON has no number for.
    ends = scenario, Kind.FIGURE, name, was, now, _trend(change)
    return Move(*ends, change.share, change.sign, size, change.threshold)


def _trend(change: Difference) -> Trend:
    row = figure_of(*change.figure[2:])
    if row.basis is Basis.COUNT or (row.noise is Noise.NONE and not row.name.startswith("verify")):
        return Trend.OTHER
    return Trend.BETTER if (change.sign > 0) == row.more_is_better else Trend.WORSE


def trend_of(of: Iterable[Move]) -> Trend:
    """That of lost boots and claims, else of the first kind of figure with a direction; both directions are OTHER."""
    ranked: dict[int, set[Trend]] = {}
    for move in of:
        if move.trend is not Trend.OTHER:
            ranked.setdefault(_rank(move), set()).add(move.trend)
    first = ranked[min(ranked)] if ranked else {Trend.OTHER}
    return first.pop() if len(first) == 1 else Trend.OTHER


def _rank(move: Move) -> int:
    if move.kind is not Kind.FIGURE:
        return list(Kind).index(move.kind)
    noise = figure_of(*move.figure[2:]).noise
    return len(Kind) + (_DIRECTED.index(noise) if noise in _DIRECTED else len(_DIRECTED))


def costs(move: Move) -> bool:
    """Whether it counts what the CPU does for each I/O, which each function that changes changes."""
    return move.kind is Kind.FIGURE and figure_of(*move.figure[2:]).noise in (Noise.CPU, Noise.EXECUTED)


def answer(move: Move, seen: Seen, good: Seen, bad: Seen) -> CommitWord:
    """The end that a commit belongs to: of a figure that on whose side of the geometric mean of both its median is."""
    here, first, last = (side.reading(move) for side in (seen, good, bad))
    if here is None or first is None or last is None:
        return CommitWord.SKIP
    if isinstance(here, float) and isinstance(first, float) and isinstance(last, float):
        middle = math.sqrt(first * last) if first * last > 0 else (first + last) / 2
        return CommitWord.GOOD if (here > middle) == (first > middle) else CommitWord.BAD
    return CommitWord.GOOD if here == first else CommitWord.BAD if here == last else CommitWord.SKIP


def word_before(move: Move) -> str:
    """``Seen.reading`` of an arm or a claim before the move."""
    if move.kind is Kind.BOOT:
        return BOOTS if move.before == BOOTS else _FAILS
    return move.before.partition(" ")[0]


def differs(move: Move, before: Seen, after: Seen) -> Move | None:
    """The move between two other runs, None where they do not differ in it."""
    return next((other for other in moves(before, after, function_of(move)) if other.key == move.key), None)

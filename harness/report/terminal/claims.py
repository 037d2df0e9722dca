# SPDX-License-Identifier: GPL-2.0-only
"""Claims and negative controls, a line each: what it does and must do, text, figure, bound and a gauge."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from harness.judge.claims import NOT_RUN, ClaimVerdict, Judgement
from harness.judge.verdict import Verdict
from harness.report.format import STYLES, figure, noise, plural, severity, value
from harness.report.words import state
from harness.scenario.model import Bound, Status

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
    for each in values:
        place, wanted = _at(each, start, cell), allowed if bound.holds(each) else barred
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


_LEAST = 24
"""Characters that a claim's text gets at least; the gauge is left out where it would get fewer."""


@dataclass(frozen=True)
class ClaimLine:
    """``columns`` are what it does and must do, its figure, bound and gauge; ``more`` is shown with -v."""

    word: str
    text: str
    columns: tuple[str, str, str, str, str]
    reason: tuple[str, ...]
    more: tuple[str, ...]


def print_claims(console: Console, verdict: Verdict, width: int, *, full: bool) -> None:
    """Failures first."""
    every = sorted(claim_lines(verdict), key=lambda line: severity(line.word))
    lines = [line for line in every if full or line.word != NOT_RUN]
    heads = ("state", "must")
    states, musts, figures, bounds, gauges = (
        max(map(len, column)) for column in zip(*(line.columns for line in lines), (*heads, "", "", ""), strict=True)
    )
    before = 2 + states + 2 + musts + 2
    text = width - before - (2 + figures) - (2 + bounds) - (2 + gauges)
    if text < _LEAST:
        text, gauges = text + 2 + gauges, 0
    if lines:
        head = f"  {heads[0]:{states}}  {heads[1]:{musts}}"
        _print(console, Text(head + (LEGEND.rjust(width - len(head)) if gauges else ""), "dim"))
    told: set[str] = set()
    for line in lines:
        wrapped = textwrap.wrap(line.text, max(text, _LEAST), break_long_words=False) or [""]
        does, must, number, bound, drawn = line.columns
        row = Text("  ").append(does.ljust(states), _STYLES.get(line.word) or STYLES[line.word])
        row.append(f"  {must:{musts}}  {wrapped[0].ljust(text)}  {number:>{figures}}  {bound:<{bounds}}")
        _print(console, row.append(f"  {drawn}" if gauges else "", "dim"))
        for rest in wrapped[1:]:
            _print(console, Text(" " * before + rest))
        for said in dict.fromkeys((*line.reason, *(line.more if full else ()))):
            if said not in told:
                told.add(said)
                for rest in textwrap.wrap(said, width - before, break_long_words=False):
                    _print(console, Text(" " * before).append(rest, "dim"))
    if hidden := len(every) - len(lines):
        _print(console, Text(f"  {plural(hidden, 'negative control')} not run: made for another kernel (-v)", "dim"))


def claim_lines(verdict: Verdict) -> Iterator[ClaimLine]:
    """In the order of the file. A failure shows what it rests on: the range, and the figures that were divided."""
    for entry in (*verdict.claims, *verdict.controls):
        judgement, shown, drawn = entry.judgement, "-", ""
        why: tuple[str, ...] = (entry.sentence,)
        more: tuple[str, ...] = (entry.ratio,)
        if judgement is None:
            shown = ""
        else:
            reason, sentence, layout = judgement.reason.removeprefix("negative control: "), "", ""
            if isinstance(entry, ClaimVerdict):
                sentence, layout = entry.sentence, entry.layout
                reason = sentence if entry.known or entry.diagnosed else judgement.reason
            if ensemble := judgement.ensemble:
                shown = figure(judgement.interval.centre if judgement.interval else ensemble.median)
            values = f"measured {value(judgement)}: {entry.ratio}"
            why = (values if entry.word != Status.PASS and ensemble else "", reason, layout)
            more = (values, noise(judgement), sentence if sentence != reason else "")
            drawn = gauge(judgement, entry.entry.expect)
        columns = (*state(entry), shown, entry.expect.replace(" .. ", ".."), drawn)
        yield ClaimLine(entry.word, entry.text, columns, tuple(filter(None, why)), tuple(filter(None, more)))


_STYLES = {Status.PASS: "green", NOT_RUN: "dim"}


def _print(console: Console, line: Text) -> None:
    line.rstrip()
    console.print(line, soft_wrap=True)

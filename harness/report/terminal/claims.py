# SPDX-License-Identifier: GPL-2.0-only
"""Claims and negative controls, a line each: word, text, figure, bound and a gauge; those that failed first."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from harness.judge.claims import EntryVerdict, Judgement
from harness.judge.verdict import Verdict
from harness.report.format import STYLES, figure, noise, plural, severity, value
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
    for one in values:
        place, wanted = _at(one, start, cell), allowed if bound.holds(one) else barred
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


HELD = "ok"
_NOT_RUN = "-"
_LEAST = 24
"""Characters that a claim's text gets at least; the gauge is left out where it would get fewer."""


@dataclass(frozen=True)
class ClaimLine:
    """``reason`` says why, where the figure alone does not; ``more`` is shown with -v."""

    status: str
    text: str
    figure: str
    bound: str
    gauge: str
    reason: tuple[str, ...]
    more: tuple[str, ...]

    @property
    def word(self) -> str:
        return HELD if self.status == Status.PASS else self.status


def print_claims(console: Console, verdict: Verdict, width: int, *, full: bool) -> None:
    lines = sorted(claim_lines(verdict), key=lambda line: severity(line.status))
    if not lines:
        return
    hidden = [] if full else [line for line in lines if line.status == _NOT_RUN]
    lines = [line for line in lines if line not in hidden]
    words, figures, bounds, gauges = (
        max((len(column) for column in columns), default=0)
        for columns in zip(*((line.word, line.figure, line.bound, line.gauge) for line in lines), strict=True)
    )
    before = 2 + words + 2
    text = width - before - (2 + figures) - (2 + bounds) - (2 + gauges)
    if text < _LEAST:
        text, gauges = text + 2 + gauges, 0
    _print(console, Text(" " * (width - len(LEGEND)) if gauges else "").append(LEGEND if gauges else "", "dim"))
    told: set[str] = set()
    for line in lines:
        wrapped = textwrap.wrap(line.text, max(text, _LEAST), break_long_words=False) or [""]
        row = Text("  ").append(line.word.ljust(words), _style(line.word)).append("  ")
        row.append(wrapped[0].ljust(text)).append(f"  {line.figure:>{figures}}  {line.bound:<{bounds}}")
        if gauges:
            row.append(f"  {line.gauge}", "dim")
        _print(console, row)
        for rest in wrapped[1:]:
            _print(console, Text(" " * before + rest))
        for said in dict.fromkeys((*line.reason, *(line.more if full else ()))):
            if said in told:
                continue
            told.add(said)
            for rest in textwrap.wrap(said, width - before, break_long_words=False):
                _print(console, Text(" " * before).append(rest, "dim"))
    if hidden:
        count = plural(len(hidden), "negative control")
        _print(console, Text(f"  {count} not run: made for another kernel (-v)", "dim"))


def claim_lines(verdict: Verdict) -> Iterator[ClaimLine]:
    """In the order of the file."""
    for claim in verdict.claims:
        reason = claim.sentence if claim.known or claim.diagnosed else claim.judgement.reason
        yield _line(claim, claim.text, claim.judgement, reason, claim.sentence)
    for control in verdict.controls:
        text, judgement = f"negative control: {control.that}", control.judgement
        if judgement is None:
            yield ClaimLine(_NOT_RUN, text, "", _short(control.expect), "", (control.sentence,), (control.ratio,))
        else:
            yield _line(control, text, judgement, judgement.reason.removeprefix("negative control: "))


def _line(of: EntryVerdict, text: str, judgement: Judgement, reason: str, sentence: str = "") -> ClaimLine:
    """A failure shows what it rests on: the range over the seeds, and the figures that were divided."""
    measured, shown = f"measured {value(judgement)}: {of.ratio}", "-"
    if judgement.ensemble is not None:
        shown = figure(judgement.interval.centre if judgement.interval else judgement.ensemble.median)
    failed = of.word != Status.PASS and judgement.ensemble is not None
    return ClaimLine(
        of.word,
        text,
        shown,
        _short(of.expect),
        gauge(judgement, of.entry.expect),
        tuple(filter(None, (measured if failed else "", reason))),
        tuple(filter(None, (measured, noise(judgement), sentence if sentence != reason else ""))),
    )


def _short(expect: str) -> str:
    return expect.replace(" .. ", "..")


def _style(word: str) -> str:
    return {HELD: "green", _NOT_RUN: "dim"}.get(word) or STYLES[word]


def _print(console: Console, line: Text) -> None:
    line.rstrip()
    console.print(line, soft_wrap=True, highlight=False)

# SPDX-License-Identifier: GPL-2.0-only
"""Two sides, figure by figure, as the kernel test robot prints them: value, %change, value, name."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from harness.judge.comparison import Change, Difference
from harness.judge.ensemble import Ensemble
from harness.judge.thresholds import LARGE, SINGLE
from harness.report.format import figure, limits, percent, plural
from harness.report.terminal.printing import figures, plain_table, print_wide, trimmed
from harness.report.words import LEGEND, MARKS

_STYLES = {Difference.MARKED: "bold", Difference.REAL: "", Difference.NONE: "dim", Difference.UNKNOWN: "dim"}
_SINGLE = f"one seed a side: a figure differs if it is {SINGLE:g} times the other or more (virtual clock only)"


@dataclass(frozen=True)
class Compared:
    """A pair of runs. ``before`` and ``after`` name the two in the head of the table.

    ``profiles`` are the commands that show what the marked figures consist of.
    """

    scenario: str
    before: str
    after: str
    changes: tuple[Change, ...]
    profiles: tuple[str, ...] = ()


def print_comparison(console: Console, pairs: Sequence[Compared], *, marked_only: bool = False) -> None:
    """A table for each pair, then the legend."""
    with trimmed(console):
        for pair in pairs:
            shown = [one for one in pair.changes if not marked_only or one.difference() is Difference.MARKED]
            title = Text(pair.scenario, "bold underline").append(
                f"  {pair.before} -> {pair.after}", "not bold not underline"
            )
            console.print(title, soft_wrap=True, highlight=False)
            if shown:
                print_wide(console, _table(shown))
            lacking = dict.fromkeys((one.arm, one.reason) for one in pair.changes if one.reason)
            for arm, reason in lacking:
                console.print(Text(f"  {arm}: {reason}", "dim"), soft_wrap=True, highlight=False)
            console.print(Text(f"  {_counted(pair.changes)}"), highlight=False)
            for command in pair.profiles:
                console.print(Text(f"  instructions by function: {command}", "dim"), soft_wrap=True, highlight=False)
            console.print()
        changes = [one for pair in pairs for one in pair.changes]
        console.print(Text("\n".join((LEGEND, *_rules(changes))), "dim"), highlight=False)


def _rules(changes: Sequence[Change]) -> Iterator[str]:
    """From which difference on figures are marked, and why."""
    if any(one.evidence is None for one in changes):
        yield f"differences of {100 * LARGE.share:g} % or more are marked: {LARGE.because}"
    if shares := _shares((one.metric, one.evidence.layout) for one in changes if one.evidence):
        yield f"one configuration: marked above what layout alone moves (docs/results/thresholds.md): {shares}"
    alone = [one for one in changes if any(side and len(side.values) == 1 for side in (one.before, one.after))]
    if any(one.evidence is None for one in alone):
        yield _SINGLE
    if shares := _shares((one.metric, one.evidence.single) for one in alone if one.evidence):
        yield f"one seed a side: marked above what seed and layout move: {shares}"


def _shares(thresholds: Iterable[tuple[str, float]]) -> str:
    """Each metric with its thresholds, which depend on the load: the least and the largest."""
    found: dict[str, list[float]] = {}
    for metric, share in thresholds:
        found.setdefault(metric, []).append(share)
    ends = {metric: dict.fromkeys(percent(end(shares)) for end in (min, max)) for metric, shares in found.items()}
    return ", ".join(f"{metric} {' to '.join(shown)}" for metric, shown in ends.items())


def _table(changes: Sequence[Change]) -> Table:
    before, after = (Column("range", no_wrap=True, style="dim") for _ in range(2))
    table = plain_table(figures("before"), before, figures("%change"), "", figures("after"), after, "figure")
    for one in changes:
        kind = one.difference()
        share = Text("-" if one.share is None else f"{one.share:+.1%}", _STYLES[kind])
        name = Text(f"{one.arm} {one.load}.{one.role}.{one.metric}", _STYLES[kind])
        table.add_row(*_side(one.before), share, Text(MARKS[kind], _STYLES[kind]), *_side(one.after), name)
    return table


def _side(ensemble: Ensemble | None) -> tuple[str, str]:
    return ("-", "") if ensemble is None else (figure(ensemble.median), limits(ensemble))


def _counted(changes: Sequence[Change]) -> str:
    kinds = [one.difference() for one in changes]
    marked, real = kinds.count(Difference.MARKED), kinds.count(Difference.REAL)
    unknown = kinds.count(Difference.UNKNOWN)
    large = f"of {100 * LARGE.share:g} % or more, {real} less"
    if any(one.evidence for one in changes):
        large = f"above their thresholds, {real} below"
    said = f"{plural(len(kinds), 'figure')}: {marked} with a difference {large}"
    return said + (f", {unknown} undecided" if unknown else "")

# SPDX-License-Identifier: GPL-2.0-only
"""Lines over kernels, measured from coarse to fine (timeline), and over stored runs (history); as text.

A timeline measures every third kernel first, then between those that differ, until all changes have neighbours.
"""

import itertools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from harness.grid.lines import METRICS, GridChange, GridLine, GridRow, KernelSide, changes, figure_lines, lines
from harness.grid.measure import Sweeper
from harness.judge.difference import LARGE, Difference
from harness.judge.visible import unseen
from harness.record.index import IndexedRun, cells_of
from harness.record.judging import Run
from harness.report.format import duration, figure, plural, spread
from harness.scenario.model import Status
from lab.base.units import Tell
from lab.kernels import kconfig
from lab.kernels.model import by_release

STEP = 3
"""Of the ordered kernels every third is measured first."""

Differ = Callable[[int, int], bool]


def next_place(
    count: int, done: AbstractSet[int], missing: AbstractSet[int], differ: Differ, step: int = STEP
) -> int | None:
    """The place (from 0) of the kernel to measure next, None when every difference is between neighbours.

    First the ends and every ``step``-th place, then the middle of each gap whose two sides ``differ``. For one that is
    ``missing`` the kernel next to it is measured: inwards at the ends, upwards elsewhere.
    """
    known = done | missing
    for place in sorted({0, count - 1, *range(0, count, step)}):
        onwards = range(place, -1, -1) if place == count - 1 else range(place, min(place + step, count))
        candidate = next((nearest for nearest in onwards if nearest not in missing), None)
        if candidate is not None and candidate not in known:
            return candidate
    sides = sorted(done)
    for before, after in itertools.pairwise(sides):
        between = [place for place in range(before + 1, after) if place not in missing]
        if between and differ(before, after):
            return between[len(between) // 2]
    return None


@dataclass(frozen=True)
class Timeline:
    """``changes`` are in the order of kernels."""

    row: GridRow
    lines: tuple[GridLine, ...]
    changes: tuple[GridChange, ...]

    @property
    def saved(self) -> int:
        """Boots that the kernels would have taken that were not needed."""
        boots = [run.boots for run in self.row.runs.values()]
        return round(sum(boots) / len(boots) * len(self.row.skipped)) if boots else 0


def timeline(
    sweeper: Sweeper, row: GridRow, tell: Tell, metrics: tuple[str, ...] = METRICS, step: int = STEP
) -> Timeline:
    """Measure what ``next_place`` asks for. Raises what ``extended`` raises."""
    while True:
        drawn = lines(row, metrics, summed=True)

        def differ(before: int, after: int, drawn: tuple[GridLine, ...] = drawn) -> bool:
            return any(changes(drawn, (before, after)))

        place = next_place(len(row.cells), row.runs.keys(), row.missing.keys(), differ, step)
        if place is None:
            return Timeline(row, drawn, tuple(changes(drawn, [*row.runs])))
        tell(f"{row.labels[place]}: kernel {place + 1} of {len(row.cells)}")
        row = sweeper.extended(row, place)
        if place in row.missing:
            tell(f"{row.labels[place]}: MISS, {row.missing[place]}")


# What decides the cost of an I/O besides the code: preemption, ticks, the block layer, copies, allocation, stacks.
_TELLING = re.compile(
    r"CONFIG_(?!BLK_DEV_)(PREEMPT|HZ_|NO_HZ|BLK_|MQ_IOSCHED|IOSCHED|SLUB|INIT_ON|INIT_STACK|HARDENED_USERCOPY|RANDOMIZE_KST)"
)
_MOST = 6


def options_between(row: GridRow, pairs: Iterable[tuple[int, int]]) -> Iterator[str]:
    """A line for each pair of places, such as ``6.12 -> 6.16: 219 options differ: PREEMPT_LAZY n -> y``."""
    for before, after in sorted(pairs):
        drifted = kconfig.drift(row.configs[before], row.configs[after]).options
        telling = sorted(filter(_TELLING.match, drifted), key=lambda name: not name.startswith("CONFIG_PREEMPT"))
        told = [f"{name.removeprefix('CONFIG_')} {' -> '.join(drifted[name])}" for name in telling]
        more = f" and {len(told) - _MOST} more like these" if len(told) > _MOST else ""
        named = f": {', '.join(told[:_MOST])}{more}" if told else ", none of preemption, the block layer or hardening"
        yield f"{row.labels[before]} -> {row.labels[after]}: {len(drifted)} options differ{named}"


def text(timeline: Timeline) -> str:
    """The whole report."""
    parts = (_head, _changes, _table, _options, _gaps, _end)
    return "".join(f"{line}\n" for part in parts for line in part(timeline))


def _between(change: GridChange, row: GridRow) -> str:
    """``7.0 -> 7.1``, with the kernels between them that could not be measured."""
    missing = [row.labels[place] for place in range(change.before + 1, change.after) if place in row.missing]
    note = f" ({', '.join(missing)} missing)" if missing else ""
    return f"{row.labels[change.before]} -> {row.labels[change.after]}{note}"


def _what(change: GridChange) -> str:
    """``mq-deadline solo.fast.cpu.per_io +58 %``; for a claim that turned, how. From a doubling on as a factor."""
    words, share = change.line.title, change.difference.share
    if change.difference.turned:
        words += f": {' -> '.join(map(str, change.difference.statuses))}"
    if share is None:
        return words
    return f"{words} {f'{100 * share:+.0f} %' if share < 1 else f'x {1 + share:.3g}'}"


def _ends(change: GridChange) -> str:
    """``0.020 -> 0.990, expected >= 0.9``, or ``12,345 -> 19,505 ns``."""
    line = change.line
    sides = (change.difference.before, change.difference.after)
    ends = " -> ".join("?" if side is None else figure(side.median) for side in sides)
    return f"{ends} {line.unit}".rstrip() if line.bound is None else f"{ends}, expected {line.bound.text}"


def _head(timeline: Timeline) -> Iterator[str]:
    row = timeline.row
    yield f"{row.scenario.name}: {row.scenario.title}"
    kernels = f"{plural(len(row.cells), 'kernel')}, {row.labels[0]} to {row.labels[-1]}"
    yield f"{kernels}: {len(row.runs)} measured, {len(row.missing)} missing, {len(row.skipped)} not needed"
    yield ""


def _changes(timeline: Timeline) -> Iterator[str]:
    """The claims of a pair of kernels come before its figures."""
    for change in timeline.changes:
        yield f"  {_between(change, timeline.row)}: {_what(change)}  ({_ends(change)})"
    if not timeline.changes:
        yield "  no change"


_NAME, _WIDTH = 36, 100
"""Characters of a name in the table, and of the whole table: more kernels make another one."""


def _table(timeline: Timeline) -> Iterator[str]:
    """A table: the claims and the figures that change, those that change first, by kernel."""
    row, changed = timeline.row, {change.line.title for change in timeline.changes}
    rows = [line for line in timeline.lines if line.bound is not None or line.title in changed]
    rows.sort(key=lambda line: line.title not in changed)
    columns = [[row.labels[place], *(_value(line, place) for line in rows)] for place in row.runs if rows]
    widths = [2 + max(map(len, column)) for column in columns]
    first = 0
    while first < len(columns):
        last, used = first + 1, _NAME + widths[first]
        while last < len(columns) and used + widths[last] <= _WIDTH:
            used, last = used + widths[last], last + 1
        yield ""
        names = ["median, F: the claim fails", *map(_named, rows)]
        for number, name in enumerate(names):
            head, *rest = textwrap.wrap(name, _NAME, subsequent_indent="  ")
            cells = zip(columns[first:last], widths[first:last], strict=True)
            yield f"  {head:{_NAME}}" + "".join(f"{column[number]:>{width}}" for column, width in cells)
            yield from (f"  {line}" for line in rest)
        first = last


def _named(line: GridLine) -> str:
    """With the bound of a claim or the unit of a figure."""
    after = line.unit if line.bound is None else line.bound.text
    return f"{line.title}, {after}" if after else line.title


def _value(line: GridLine, place: int) -> str:
    shown = figure(line.values[place].median) if place in line.values else "-"
    return f"{shown} F" if line.statuses.get(place) is Status.FAIL else shown


def _options(timeline: Timeline) -> Iterator[str]:
    pairs = {(change.before, change.after) for change in timeline.changes}
    if pairs:
        yield ""
        yield "  configurations of the packages:"
    yield from (f"  {line}" for line in options_between(timeline.row, pairs))


def _gaps(timeline: Timeline) -> Iterator[str]:
    row = timeline.row
    if row.missing or row.skipped:
        yield ""
    for place, reason in row.missing.items():
        yield f"  MISS {row.labels[place]}: {' '.join(reason.split())}"
    if row.skipped:
        yield f"  not measured, as the kernels around agree: {', '.join(row.labels[place] for place in row.skipped)}"


def _end(timeline: Timeline) -> Iterator[str]:
    row, runs = timeline.row, timeline.row.runs
    yield ""
    yield f"{spent(runs.values())}; {timeline.saved} saved by measuring coarsely first"
    yield f"seeds: {_seeds(timeline)}"
    for place, run in runs.items():
        near = [claim for claim in run.verdict.claims if claim.layout]
        yield from (f"{row.labels[place]}, {claim.that}: {claim.layout}" for claim in near)
    cells = [cell for run in runs.values() for cell in run.verdict.cells]
    if hidden := unseen(row.scenario, cells):
        yield f"not visible: {hidden}"


def spent(runs: Iterable[Run]) -> str:
    """``24 boots that took 6 min one after another, 20 of them in earlier runs``."""
    every = [*runs]
    boots, seconds = sum(run.boots for run in every), sum(run.seconds for run in every)
    earlier = boots - sum(run.made for run in every)
    note = f", {earlier} of them in earlier runs" if earlier else ""
    return f"{plural(boots, 'boot')} that took {duration(seconds)} one after another{note}"


def _seeds(timeline: Timeline) -> str:
    """How many, and what that means for a change."""
    count = max((len(run.verdict.seeds) for run in timeline.row.runs.values()), default=0)
    if count == 1:
        return "1: a change is more than two boots of its kind of figure differ by (docs/results/thresholds.md)"
    return f"{count}: a change is more than {100 * LARGE:.0f} %, and the ranges do not overlap"


@dataclass(frozen=True)
class FigureSeries:
    """One figure; a place of ``line`` is one of ``runs``. ``over`` says over what: ``days on 6.1`` or ``versions``."""

    over: str
    line: GridLine
    runs: tuple[IndexedRun, ...]

    def changes(self) -> Iterator[tuple[IndexedRun, IndexedRun, Difference]]:
        """Neighbours that differ by the rule of ``compare``."""
        for change in changes([self.line], sorted(self.line.values)):
            yield self.runs[change.before], self.runs[change.after], change.difference


def history(root: Path, of_scenario: Iterable[IndexedRun], metric: str) -> tuple[tuple[FigureSeries, ...], int]:
    """Every series of at least two runs of one scenario with its newest digest, without mutants.

    The number is that of runs that were made before the scenario's file or topology was changed.
    """
    runs = [run for run in of_scenario if not run.kernel.mutant]
    alike = [run for run in runs if run.facts.scenario_digest == runs[-1].facts.scenario_digest]
    groups = {
        f"days on {name}": [run for run in alike if run.series == name]
        for name in sorted({run.series for run in alike}, key=by_release)
    }
    newest_of_release = {run.kernel.release: run for run in alike}.values()
    groups["versions"] = sorted(newest_of_release, key=lambda run: by_release(run.kernel.release))
    exact = bool(runs) and runs[-1].facts.rule is None
    sides = {run.path: KernelSide(run.kernel, cells_of(root, run)) for run in alike}
    series = [
        FigureSeries(over, line, tuple(group))
        for over, group in groups.items()
        for line in figure_lines({place: sides[run.path] for place, run in enumerate(group)}, (metric,), exact=exact)
        if len(line.values) > 1
    ]
    return tuple(series), len(runs) - len(alike)


_BARS = " ▁▂▃▄▅▆▇█"


def print_history(
    console: Console, scenario: str, series: Sequence[FigureSeries], left_out: int, arms: AbstractSet[str]
) -> None:
    """Each series of the chosen arms (all when none), those that change first."""
    shown = [each for each in series if not arms or each.line.arm in arms]
    for over, group in itertools.groupby(shown, lambda each: each.over):
        console.print(Text(f"\n{scenario} over {over}", "bold underline"))
        for each in sorted(group, key=lambda each: not any(each.changes())):
            _print_series(console, each)
    if not shown:
        console.print(f"{scenario}: fewer than two comparable runs")
    if left_out:
        were = f"{plural(left_out, 'run')} of earlier versions of the scenario are left out"
        console.print(Text(f"\n{were}", "dim"))
    console.print(Text("\nchanges are what blklab compare marks", "dim"))


def _print_series(console: Console, series: FigureSeries) -> None:
    ensembles = [series.line.values[place] for place in sorted(series.line.values)]
    medians = [ensemble.median for ensemble in ensembles]
    top = max(medians) or 1.0
    drawn = "".join(_BARS[max(0, round(value / top * (len(_BARS) - 1)))] for value in medians)
    line = Text(f"  {series.line.title}  ").append(drawn, "cyan")
    line.append(f"  {spread(ensembles[-1])} in the last of {plural(len(medians), 'run')}")
    console.print(line, soft_wrap=True)
    for run, later, change in series.changes():
        ends = " -> ".join(figure(side.median) for side in (change.before, change.after) if side)
        line = Text("    ").append("-" if change.share is None else f"{change.share:+.1%}", "bold")
        line.append(f"  {ends}  between {_label(run)} and {_label(later)}")
        console.print(line.append(f"  (blklab compare {run.path} {later.path})", "dim"), soft_wrap=True)


def _label(run: IndexedRun) -> str:
    return f"{run.facts.started[:16].replace('T', ' ')}  {run.kernel.release}"

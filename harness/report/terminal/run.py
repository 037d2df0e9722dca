# SPDX-License-Identifier: GPL-2.0-only
"""The report of a run on the terminal: the verdict, what decided it, and how to repeat it."""

import re
import shlex
import textwrap
from collections.abc import Collection, Iterator, Sequence
from enum import Enum

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement as Extent
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from harness.judge.cells import CellResult
from harness.judge.claims import NOT_RUN, Judgement, ReproductionVerdict
from harness.judge.verdict import Measurement, Verdict
from harness.judge.visible import unseen
from harness.limits.bottleneck import NOTHING, UNCOUNTED, Bottleneck, by_role
from harness.report.claims import ClaimText, JudgedRun, claim_text, conclusion, headline, incidents, method, noise
from harness.report.format import STYLES, duration, figure, limits, plural, reported, severity, spread
from harness.report.terminal import figures, folded, plain_table, trimmed
from harness.scenario.model import Bound, Status
from harness.scenario.ratio import FIGURE

WIDEST = 120
_STATUS_WIDTH = 5
_INDENT = 2
_PACKAGE = re.compile(r"(?<=[0-9]) \([^)]*\)", re.ASCII)


class Detail(Enum):
    """How much of a report is printed: one line, what decided the verdict, or everything."""

    BRIEF = "brief"
    NORMAL = "normal"
    FULL = "full"


def print_verdict(console: Console, run: JudgedRun, detail: Detail = Detail.NORMAL) -> None:
    """Write the report. Colour follows the console (none when it is no terminal or NO_COLOR is set)."""
    with trimmed(console):
        if detail is Detail.BRIEF:
            line = _status(run.verdict.status).append(f"  {_name(run)}: {conclusion(run.verdict)}", "default")
            console.print(line, soft_wrap=True)
        else:
            _report(console, run, full=detail is Detail.FULL)


def _report(console: Console, run: JudgedRun, *, full: bool) -> None:
    """The verdict, then what it rests on: causes before claims, failed claims first; the verdict again at the end."""
    verdict = run.verdict
    _heading(console, run)
    if full:
        console.print(Text(f"\n{run.scenario.title}. {run.scenario.teaches}".rstrip()), width=_width(console))
    _cells(console, "Not measured", verdict.incidents)
    _cells(console, "BASE kernel: not measured, or not comparable", verdict.base_incidents)
    _claims(console, verdict, _width(console), full=full)
    _measured(console, verdict, run.kernels, full=full)
    _reproductions(console, [each for each in verdict.reproductions if full or (each.mark and not each.because)])
    _bottlenecks(console, verdict, run.bottlenecks, full=full)
    if full:
        _method(console, run)
    else:
        _footer(console, run)
    console.print(_status(verdict.status).append(f"  {conclusion(verdict)}", "default"))


def _name(run: JudgedRun) -> str:
    return f"{run.scenario.name} on Linux {run.facts.kernel.release}"


def _heading(console: Console, run: JudgedRun) -> None:
    origin = run.facts.kernel.origin.partition(",")[0]
    head = _status(run.verdict.status).append(f"  {_name(run)} ({origin})", "default")
    console.print(head, width=_width(console))
    console.print(Padding(Text(headline(run.verdict)), (0, 0, 0, _STATUS_WIDTH + 1)), width=_width(console))


# Claims

_LEAST = 24
"""Characters that a claim's text gets at least; the gauge is left out where it would get fewer."""
_STYLES = {Status.PASS: "green", NOT_RUN: "dim"}
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
    if (interval := judgement.interval) is not None:
        for number in range(_at(interval.low, start, cell), _at(interval.high, start, cell) + 1):
            cells[number] = "-"
    allowed = range(first, end)
    barred = [number for number in range(CELLS) if number not in allowed]
    for value in [interval.centre] if interval else judgement.ensemble.values.values():
        exact = _at(value, start, cell)
        cells[min(allowed if bound.holds(value) else barred, key=lambda number: abs(number - exact))] = "x"
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


def _claims(console: Console, verdict: Verdict, width: int, *, full: bool) -> None:
    """A row for each claim and control, failures first, and below it what explains it."""
    every = sorted(map(claim_text, (*verdict.claims, *verdict.controls)), key=lambda text: severity(text.entry.word))
    shown = [text for text in every if full or text.entry.word != NOT_RUN]
    gauged = [gauge(text.entry.judgement, text.entry.entry.expect) for text in shown]
    expected = [text.entry.expect.replace(" .. ", "..") for text in shown]
    rows = [(text.state, text.must, text.figure, *bound) for text, *bound in zip(shown, expected, gauged, strict=True)]
    heads = ("state", "must")
    states, musts, figures, bounds, gauges = (
        max(map(len, column)) for column in zip(*rows, (*heads, "", "", ""), strict=True)
    )
    before = 2 + states + 2 + musts + 2
    room = width - before - (2 + figures) - (2 + bounds) - (2 + gauges)
    if room < _LEAST:
        room, gauges = room + 2 + gauges, 0
    if rows:
        head = f"  {heads[0]:{states}}  {heads[1]:{musts}}"
        _print(console, Text(head + (LEGEND.rjust(width - len(head)) if gauges else ""), "dim"))
    printed: set[str] = set()
    for text, (does, must, number, bound, drawn) in zip(shown, rows, strict=True):
        first, *others = textwrap.wrap(text.entry.text, max(room, _LEAST), break_long_words=False) or [""]
        row = Text("  ").append(does.ljust(states), _STYLES.get(text.entry.word) or STYLES[text.entry.word])
        row.append(f"  {must:{musts}}  {first.ljust(room)}  {number:>{figures}}  {bound:<{bounds}}")
        _print(console, row.append(f"  {drawn}" if gauges else "", "dim"))
        for line in others:
            _print(console, Text(" " * before + line))
        for note in (note for note in _notes(text, full=full) if note not in printed):
            printed.add(note)
            for line in textwrap.wrap(note, width - before, break_long_words=False):
                _print(console, Text(" " * before).append(line, "dim"))
    if hidden := len(every) - len(shown):
        _print(console, Text(f"  {plural(hidden, 'negative control')} not run: made for another kernel (-v)", "dim"))


def _notes(text: ClaimText, *, full: bool) -> Iterator[str]:
    """What it rests on; a failure also shows its range and the figures that were divided."""
    judgement = text.entry.judgement
    failed = judgement is not None and judgement.ensemble and text.entry.word != Status.PASS
    notes = [text.value_and_ratio if failed else "", text.reason, text.margin]
    if full:
        notes += [text.value_and_ratio, noise(judgement), text.meaning] if judgement else [text.entry.ratio]
    return filter(None, notes)


def _print(console: Console, line: Text) -> None:
    line.rstrip()
    console.print(line, soft_wrap=True)


# Figures


def _measured(console: Console, verdict: Verdict, releases: tuple[str, str], *, full: bool) -> None:
    """IOPS of each arm, load and role: the median over the seeds and the range.

    The range is left out unless ``full``. With a BASE kernel (the first of ``releases``, else empty) each figure has
    both kernels, their ranges and their quotient; within the spread of the seeds they do not differ.
    """
    if not verdict.measurements:
        return
    console.print()
    columns = "median and range" if full or releases[0] else "median"
    over = f", {columns} over {plural(len(verdict.seeds), 'seed')}" if len(verdict.seeds) > 1 else ""
    console.print(Text(f"IOPS{over}", "bold"))
    if not releases[0] and not full:
        _print_arms(console, verdict)
        return
    if releases[0]:
        sides = (Column(release, justify="right", overflow="fold") for release in releases)
        table = plain_table(folded("arm"), "load", "role", *sides, "quotient")
    else:
        table = plain_table(folded("arm"), "load", "role", figures("IOPS"), Column("range", no_wrap=True, style="dim"))
    arm = ""
    for row in verdict.measurements:
        both = (spread(row.base) if row.base else "-", spread(row.iops), _quotient(row))
        values = both if releases[0] else (figure(row.iops.median), limits(row.iops))
        table.add_row(Text("" if row.arm == arm else row.arm), row.load, row.role, *values)
        arm = row.arm
    _indent(console, table, console.width)


def _print_arms(console: Console, verdict: Verdict) -> None:
    """A row for each arm and a column for each figure; where these do not fit, a row for each figure."""
    arms = list(dict.fromkeys(row.arm for row in verdict.measurements))
    names = list(dict.fromkeys((row.load, row.role) for row in verdict.measurements))
    medians = {(row.arm, (row.load, row.role)): figure(row.iops.median) for row in verdict.measurements}
    heads = (figures("\n".join(name)) for name in names)
    last = Column("arm", overflow="fold", vertical="bottom")
    table = Table(*heads, last, box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    for arm in arms:
        table.add_row(*(medians.get((arm, name), "-") for name in names), Text(arm))
    if Extent.get(console, console.options, table).minimum > console.width - _INDENT:
        table = plain_table("figure", *(Column(arm, justify="right", overflow="fold") for arm in arms))
        for name in names:
            table.add_row(".".join(name), *(medians.get((arm, name), "-") for arm in arms))
    _indent(console, table, console.width)


def _quotient(row: Measurement) -> str:
    if row.base is None or not row.base.median:
        return "-"
    return figure(row.iops.median / row.base.median) if row.iops.separate_from(row.base) else "no difference"


# Bottlenecks

_LONGEST_LABEL = 30
"""Characters of a column, of the 80 of a terminal, that leave room for the figure."""


def folded_lines(bottlenecks: Sequence[Bottleneck], failed: Collection[tuple[str, str]]) -> Table | None:
    """A row for each load: the element that limits it in most arms last; None where there is nothing to tell.

    Loads that the same element limits in all arms are left out, unless a failed claim reads one of them:
    ``failed`` are pairs of arm and load. A row that is not of all arms names its arms.
    """
    table = Table.grid(Column(no_wrap=True), folded(), padding=(0, 2))
    bottlenecks = by_role(bottlenecks)
    arms = {limit.arm for limit in bottlenecks}
    for load in dict.fromkeys(limit.load for limit in bottlenecks):
        limits: dict[str, list[Bottleneck]] = {}
        for limit in bottlenecks:
            if limit.load == load:
                limits.setdefault(_label(limit), []).append(limit)
        rows = sorted(limits.items(), key=lambda item: len(item[1]))
        every = [limit for _, alike in rows for limit in alike]
        named = any((limit.arm, load.partition(".")[0]) in failed and (limit.binding or "." in load) for limit in every)
        if len(rows) == 1 and not named:
            continue
        whole = {limit.arm for limit in every} == arms
        parts = []
        for label, alike in rows:
            where = f"{_where(alike, rows, whole=whole)} ({_share(alike)})"
            parts.append(Text(label, "bold" if alike[0].binding else "dim").append(where, "not bold not dim"))
        table.add_row(Text(load), Text("; ").join(parts))
    return table if table.row_count else None


def _where(alike: Sequence[Bottleneck], rows: Sequence[tuple[str, Sequence[Bottleneck]]], *, whole: bool) -> str:
    """The arms of one element, the last of ``rows`` in short. ``whole``: the rows are of all arms."""
    if whole and alike is rows[-1][1]:
        if len(rows) == 1:
            return ""
        if len(alike) > 1:
            return " in the other arms"
    return f" in {', '.join(limit.arm for limit in alike)}"


def _share(alike: Sequence[Bottleneck]) -> str:
    """How full the element is, or the fullest where none is named; the range over several arms."""
    figures = dict.fromkeys(limit.binding.figure if limit.binding else limit.figure for limit in alike)
    if len(figures) == 1:
        return next(iter(figures))
    shares = [max((element.share for element in limit.elements), default=0.0) for limit in alike]
    if alike[0].binding:
        shares = [limit.binding.share for limit in alike if limit.binding]
    low, high = f"{100 * min(shares):.0f}", f"{100 * max(shares):.0f}"
    between = low if low == high else f"{low} to {high}"
    return f"{between} %" if alike[0].binding else f"fullest element {between} %"


def _label(limit: Bottleneck) -> str:
    """Short where it would take the figure's place: which disks they are in full is what explain shows."""
    return limit.label if limit.binding is None or len(limit.label) <= _LONGEST_LABEL else limit.binding.short


def bottleneck_rows(bottlenecks: Sequence[Bottleneck]) -> Group:
    """Below each arm what binds each load, its throughput over what the topology allows, and below it why."""
    rows, lines, arm = by_role(bottlenecks), list[RenderableType](), ""
    width = max(len(limit.load) for limit in rows)
    for limit in rows:
        lines += [Text(limit.arm, "bold")] if limit.arm != arm else []
        arm = limit.arm
        reached = "" if limit.reached is None else f", {limit.reached:.2f} of bound"
        row = Text(f"{limit.load:{width}}  ").append(limit.label, "bold" if limit.binding else "dim").append(reached)
        lines += [Padding(row, (0, 0, 0, 2)), Padding(Text(limit.figure, "dim"), (0, 0, 0, 6))]
    return Group(*lines)


def sentences(bottlenecks: Sequence[Bottleneck]) -> Iterator[str]:
    """A sentence for each bottleneck that was named, on all loads that it limits: their figure, or its range."""
    limited: dict[str, list[Bottleneck]] = {}
    for limit in by_role(bottlenecks):
        limited.setdefault(limit.label, []).append(limit)
    for label, loads in limited.items():
        where = ", ".join(f"{limit.arm}.{limit.load}" for limit in loads)
        figure = loads[0].figure if len({limit.figure for limit in loads}) == 1 else _share(loads)
        if label == NOTHING:
            yield f"In {where} nothing is saturated: {figure}."
        elif label == UNCOUNTED:
            yield f"What limits {where} is not known: {figure}."
        else:
            yield f"{label} limits {where}: {figure}."


def _bottlenecks(console: Console, verdict: Verdict, limits: Sequence[Bottleneck], *, full: bool) -> None:
    failed = {
        (operand.path[0], operand.path[1])
        for claim in verdict.claims
        for operand in claim.entry.ratio.operands
        if claim.counts_as is Status.FAIL and operand.kind == FIGURE
    }
    table = bottleneck_rows(limits) if full and limits else folded_lines(limits, failed)
    if table is not None:
        _section(console, "Bottleneck")
        _indent(console, table)


# The rest


def _reproductions(console: Console, entries: Sequence[ReproductionVerdict]) -> None:
    if not entries:
        return
    _section(console, "Compared with the field report")
    for entry in entries:
        table = _grid(1)
        table.add_row("-", Text(entry.that))
        said = f"measured {spread(entry.ensemble)}" if entry.ensemble else f"not measured: {entry.reason}"
        for text, style in (
            (f"report {reported(entry.reported, entry.in_words)}", ""),
            (said, "bold" if entry.ensemble else "dim"),
            (f"far off: {entry.mark}" if entry.mark else "", "bold yellow"),
            (entry.ratio.text, "dim"),
            (entry.because, "italic"),
        ):
            if text:
                table.add_row("", Text(text, style))
        _indent(console, table)


def _cells(console: Console, title: str, cells: Sequence[CellResult]) -> None:
    if not cells:
        return
    _section(console, title)
    table = _grid(_STATUS_WIDTH)
    for cell in incidents(cells):
        table.add_row(_status(cell["status"]), Text(f"{cell['where']}: {'; '.join(cell['reasons'])}"))
    _indent(console, table)


def _footer(console: Console, run: JudgedRun) -> None:
    console.print()
    qemu = _PACKAGE.sub("", run.facts.qemu, count=1)
    time = "" if run.elapsed is None else f", {duration(run.elapsed)}"
    line = f"{plural(len(run.walls), 'boot')}{time}, {run.scenario.clock} clock, {qemu}"
    details = f"blklab judge -v {run.folder}" if run.folder else ""
    named = {"device models": run.models, "baseline": run.kernels[0], "caution": run.caution}
    # A draft has it below its first claim.
    hidden = "" if run.scenario.is_draft else unseen(run.scenario, run.verdict.cells)
    named |= {"details": details, "not visible": hidden}
    named["again"] = shlex.join(run.facts.command)
    for each in (line, *(f"{name}: {text}" for name, text in named.items() if text)):
        console.print(Text(each, "dim"), soft_wrap=True)


def _method(console: Console, run: JudgedRun) -> None:
    _section(console, "How")
    table = Table.grid(Column(style="dim", no_wrap=True), folded(), padding=(0, 2))
    for name, text in method(run):
        table.add_row(Text(name), Text(text))
    _indent(console, table)
    # Not wrapped, so that they can be copied.
    for name, text in (("  again    ", shlex.join(run.facts.command)), ("  results  ", run.folder)):
        if text:
            console.print(Text(name, "dim").append(text, "default"), soft_wrap=True)
    console.print()


def _status(word: str) -> Text:
    return Text(str(word), STYLES[word])


def _grid(width: int) -> Table:
    """A column of words of ``width`` characters, and a column of text."""
    return Table.grid(Column(width=width, no_wrap=True), folded(), padding=(0, 2))


def _width(console: Console) -> int:
    return min(console.width, WIDEST)


def _section(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, "bold"))


def _indent(console: Console, table: RenderableType, width: int = 0) -> None:
    console.print(Padding(table, (0, 0, 0, _INDENT), expand=False), width=width or _width(console))

# SPDX-License-Identifier: GPL-2.0-only
"""The report of a run on the terminal: the verdict, what decided it, and how to repeat it."""

import re
import shlex
from collections.abc import Sequence
from enum import Enum

from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from harness.judge.cells import CellResult
from harness.judge.operands import operands
from harness.judge.verdict import Verdict
from harness.judge.visible import unseen
from harness.limits.bottleneck import Bottleneck
from harness.report.format import STYLES, duration, incidents, plural, reported, spread
from harness.report.terminal.bottleneck import bottleneck_table, folded_lines
from harness.report.terminal.claims import print_claims
from harness.report.terminal.measured import print_measured
from harness.report.terminal.printing import folded, trimmed
from harness.report.words import Surroundings, conclusion, method, reason
from harness.scenario.model import Scenario, Status
from harness.scenario.ratio import FIGURE

WIDEST = 120
_STATUS_WIDTH = 5
_PACKAGE = re.compile(r"(?<=[0-9]) \([^)]*\)", re.ASCII)


class Detail(Enum):
    """How much of a report is printed: one line, what decided the verdict, or everything."""

    BRIEF = "brief"
    NORMAL = "normal"
    FULL = "full"


def print_verdict(
    console: Console, scenario: Scenario, verdict: Verdict, around: Surroundings, detail: Detail = Detail.NORMAL
) -> None:
    """Write the report. Colour follows the console (none when it is no terminal or NO_COLOR is set)."""
    with trimmed(console):
        if detail is Detail.BRIEF:
            line = _status(verdict.status).append(f"  {_name(scenario, around)}: {conclusion(verdict)}", "default")
            console.print(line, soft_wrap=True)
        else:
            _report(console, scenario, verdict, around, full=detail is Detail.FULL)


def _report(console: Console, scenario: Scenario, verdict: Verdict, around: Surroundings, *, full: bool) -> None:
    """The verdict, then what it rests on: causes before claims, failed claims first; the verdict again at the end."""
    _heading(console, scenario, verdict, around)
    if full and scenario.teaches:
        console.print(Text(f"\n{scenario.teaches}"), width=_width(console))
    _cells(console, "Not measured", verdict.incidents)
    _cells(console, "BASE kernel: not measured, or not comparable", verdict.base_incidents)
    print_claims(console, verdict, _width(console), full=full)
    print_measured(console, verdict, (around.base, around.facts.kernel.release), full=full)
    if full:
        _reproductions(console, verdict)
    _bottlenecks(console, verdict, around.bottlenecks, full=full)
    if full:
        _method(console, scenario, verdict, around)
    else:
        _footer(console, scenario, verdict, around)
    console.print(_status(verdict.status).append(f"  {conclusion(verdict)}", "default"))


def _name(scenario: Scenario, around: Surroundings) -> str:
    return f"{scenario.name} on Linux {around.facts.kernel.release}"


def _heading(console: Console, scenario: Scenario, verdict: Verdict, around: Surroundings) -> None:
    origin = around.facts.kernel.origin.partition(",")[0]
    head = _status(verdict.status).append(f"  {_name(scenario, around)} ({origin})", "default")
    console.print(head, width=_width(console))
    for text in (reason(verdict), scenario.title):
        console.print(Padding(Text(text), (0, 0, 0, _STATUS_WIDTH + 1)), width=_width(console))


def _reproductions(console: Console, verdict: Verdict) -> None:
    if not verdict.reproductions:
        return
    _section(console, "Compared with the field report")
    for told in verdict.reproductions:
        table = _grid(1)
        table.add_row("-", Text(told.that))
        seen = f"not measured: {told.reason}" if told.ensemble is None else f"measured {spread(told.ensemble)}"
        for words, style in (
            (f"report {reported(told.reported, told.in_words)}", ""),
            (seen, "bold" if told.ensemble else "dim"),
            (told.ratio.text, "dim"),
            (told.because, "italic"),
        ):
            if words:
                table.add_row("", Text(words, style))
        _indent(console, table)


def _cells(console: Console, title: str, cells: Sequence[CellResult]) -> None:
    if not cells:
        return
    _section(console, title)
    table = _grid(_STATUS_WIDTH)
    for cell in incidents(cells):
        table.add_row(_status(cell["status"]), Text(f"{cell['where']}: {'; '.join(cell['reasons'])}"))
    _indent(console, table)


def _bottlenecks(console: Console, verdict: Verdict, limits: Sequence[Bottleneck], *, full: bool) -> None:
    failed = {
        (operand.path[0], operand.path[1])
        for claim in verdict.claims
        for operand in operands(claim.entry.ratio)
        if claim.counts_as is Status.FAIL and operand.kind == FIGURE
    }
    table = bottleneck_table(limits) if full and limits else folded_lines(limits, failed)
    if table is not None:
        _section(console, "Bottleneck")
        _indent(console, table)


def _footer(console: Console, scenario: Scenario, verdict: Verdict, around: Surroundings) -> None:
    console.print()
    qemu = _PACKAGE.sub("", around.facts.qemu, count=1)
    time = "" if around.effort.elapsed is None else f", {duration(around.effort.elapsed)}"
    line = f"{plural(around.effort.boots, 'boot')}{time}, {scenario.clock} clock, {qemu}"
    details = f"blklab judge -v {around.folder}" if around.folder else ""
    named = {"device models": around.models, "baseline": around.base, "caution": around.caution, "details": details}
    named["not visible"] = unseen(scenario, verdict.cells)
    named["again"] = shlex.join(around.facts.command)
    for each in (line, *(f"{name}: {text}" for name, text in named.items() if text)):
        console.print(Text(each, "dim"), soft_wrap=True)


def _method(console: Console, scenario: Scenario, verdict: Verdict, around: Surroundings) -> None:
    _section(console, "How")
    table = Table.grid(Column(style="dim", no_wrap=True), folded(), padding=(0, 2))
    for name, text in method(scenario, verdict, around):
        table.add_row(Text(name), Text(text))
    _indent(console, table)
    # Not wrapped, so that they can be copied.
    for name, text in (("  again    ", shlex.join(around.facts.command)), ("  results  ", around.folder)):
        if text:
            console.print(Text(name, "dim").append(text, "default"), soft_wrap=True)
    console.print()


def _status(word: str) -> Text:
    return Text(str(word), STYLES[word])


def _grid(width: int | None) -> Table:
    """A column of words of ``width`` characters (None: as wide as the longest), and a column of text."""
    return Table.grid(Column(width=width, no_wrap=True), folded(), padding=(0, 2))


def _width(console: Console) -> int:
    return min(console.width, WIDEST)


def _section(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, "bold"))


def _indent(console: Console, table: Table) -> None:
    console.print(Padding(table, (0, 0, 0, 2), expand=False), width=_width(console))

# SPDX-License-Identifier: GPL-2.0-only
"""The report of a run on the terminal: the verdict, what decided it, and how to repeat it."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from harness.judge.cells import CellResult
from harness.judge.operands import operands
from harness.judge.verdict import Verdict
from harness.limits.bottleneck import Bottleneck
from harness.noise import FEWEST_ROUNDS, Rule
from harness.record.store import RunFacts
from harness.report.format import STYLES, duration, incidents, plural, reported, spread
from harness.report.terminal.bottleneck import bottleneck_lines, folded_lines
from harness.report.terminal.claims import print_claims
from harness.report.terminal.conclusion import conclusion, reason
from harness.report.terminal.measured import print_measured
from harness.report.terminal.printing import folded, trimmed
from harness.scenario.model import Clock, Scenario, Status
from harness.scenario.ratio import FIGURE

WIDEST = 120
PHASES = ("boot", "setup", "measure", "send")
_STATUS_WIDTH = 5
_PACKAGE = re.compile(r"(?<=\d) \([^)]*\)", re.ASCII)
BLIND = {
    Clock.VIRTUAL: (
        "virtual: time is counted in guest instructions, so repetitions agree to the last digit",
        "It sees queueing, tag fairness, merging, scheduling and code-path length; it cannot see"
        " lock and cache-line contention or true parallelism.",
    ),
    Clock.WALL: (
        "wall: host time, so figures scatter and verdicts rest on intervals over boots",
        "It cannot see small effects (docs/results/noise.md says how small).",
    ),
}


class Detail(Enum):
    """How much of a report is printed: one line, what decided the verdict, or everything."""

    BRIEF = "brief"
    NORMAL = "normal"
    FULL = "full"


@dataclass(frozen=True)
class Effort:
    """What the run cost. ``phases`` maps boot, setup, measure and send to host seconds summed over boots."""

    boots: int
    elapsed: float | None
    phases: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Surroundings:
    """What a report needs besides its figures.

    ``folder`` holds the run. ``models`` states the error of this kernel's device models. ``bottlenecks`` are those of
    all arms and loads whose use was recorded.
    """

    facts: RunFacts
    effort: Effort
    folder: str = ""
    models: str = ""
    bottlenecks: tuple[Bottleneck, ...] = ()

    @property
    def base(self) -> str:
        """The kernel of ``baseline.*``; empty without one."""
        return self.facts.base.release if self.facts.base else ""


def print_verdict(
    console: Console, scenario: Scenario, verdict: Verdict, around: Surroundings, detail: Detail = Detail.NORMAL
) -> None:
    """Write the report. Colour follows the console (none when it is no terminal or NO_COLOR is set)."""
    with trimmed(console):
        if detail is Detail.BRIEF:
            line = _status(verdict.status).append(f"  {_named(scenario, around)}: {conclusion(verdict)}", "default")
            console.print(line, soft_wrap=True, highlight=False)
        else:
            _report(console, scenario, verdict, around, full=detail is Detail.FULL)


def _report(console: Console, scenario: Scenario, verdict: Verdict, around: Surroundings, *, full: bool) -> None:
    """The verdict, then what it rests on: causes before claims, failed claims first; the verdict again at the end."""
    _heading(console, scenario, verdict, around)
    if full:
        _background(console, scenario)
    _cells(console, "Not measured", verdict.incidents)
    _cells(console, "BASE kernel: not measured, or not comparable", verdict.base_incidents)
    print_claims(console, verdict, _width(console), full=full)
    print_measured(console, scenario, verdict, (around.base, around.facts.kernel.release), full=full)
    if full:
        _reproductions(console, verdict)
    _bottlenecks(console, verdict, around.bottlenecks, full=full)
    if full:
        _surroundings(console, scenario, around)
    else:
        _footer(console, scenario, around)
    console.print(_status(verdict.status).append(f"  {conclusion(verdict)}", "default"), highlight=False)


def _named(scenario: Scenario, around: Surroundings) -> str:
    return f"{scenario.name} on Linux {around.facts.kernel.release}"


def _heading(console: Console, scenario: Scenario, verdict: Verdict, around: Surroundings) -> None:
    origin = around.facts.kernel.origin.partition(",")[0]
    head = _status(verdict.status).append(f"  {_named(scenario, around)} ({origin})", "default")
    console.print(head, highlight=False, width=_width(console))
    for text in (reason(verdict), scenario.title):
        console.print(Padding(Text(text), (0, 0, 0, _STATUS_WIDTH + 1)), highlight=False, width=_width(console))


def _background(console: Console, scenario: Scenario) -> None:
    if scenario.source:
        source = scenario.source
        parts = [part for part in (source.report, source.by, source.on) if part]
        kernel = f", Linux {source.kernel}" if source.kernel else ""
        console.print(Text(f"\nfrom {', '.join(parts)}{kernel}"), width=_width(console))
    if scenario.teaches:
        console.print(Text(f"\n{scenario.teaches}"), width=_width(console))
    _section(console, "Arms")
    table = _grid(None)
    for arm in scenario.arms.values():
        settings = ", ".join(f"{key} {value}" for key, value in arm.settings.items())
        table.add_row(Text(arm.name), Text(settings + (f": {arm.teaches}" if arm.teaches else "")))
    _indented(console, table)


def _reproductions(console: Console, verdict: Verdict) -> None:
    if not verdict.reproductions:
        return
    _section(console, "Compared with the field report")
    for one in verdict.reproductions:
        table = _grid(1)
        measured = f"not measured: {one.reason}" if one.ensemble is None else f"measured {spread(one.ensemble)}"
        table.add_row("-", Text(one.that))
        table.add_row("", Text(f"report {reported(one)}"))
        table.add_row("", Text(measured, "bold" if one.ensemble else "dim"))
        table.add_row("", Text(one.ratio, "dim"))
        if one.because:
            table.add_row("", Text(one.because, "italic"))
        _indented(console, table)


def _cells(console: Console, title: str, cells: Sequence[CellResult]) -> None:
    if not cells:
        return
    _section(console, title)
    table = _grid(_STATUS_WIDTH)
    for one in incidents(cells):
        table.add_row(_status(one["status"]), Text(f"{one['where']}: {'; '.join(one['reasons'])}"))
    _indented(console, table)


def _bottlenecks(console: Console, verdict: Verdict, found: Sequence[Bottleneck], *, full: bool) -> None:
    failed = {
        (operand.path[0], operand.path[1])
        for claim in verdict.claims
        for operand in operands(claim.entry.ratio)
        if claim.counts_as is Status.FAIL and operand.kind == FIGURE
    }
    table = bottleneck_lines(found) if full and found else folded_lines(found, failed)
    if table is not None:
        _section(console, "Bottleneck")
        _indented(console, table)


def _footer(console: Console, scenario: Scenario, around: Surroundings) -> None:
    console.print()
    qemu = _PACKAGE.sub("", around.facts.qemu, count=1)
    time = "" if around.effort.elapsed is None else f", {duration(around.effort.elapsed)}"
    line = f"{plural(around.effort.boots, 'boot')}{time}, {scenario.clock} clock, {qemu}"
    details = f"blklab judge -v {around.folder}" if around.folder else ""
    named = {"device models": around.models, "baseline": around.base, "details": details}
    named["again"] = shlex.join(around.facts.command)
    for each in (line, *(f"{name}: {text}" for name, text in named.items() if text)):
        console.print(Text(each, "dim"), soft_wrap=True, highlight=False)


def _surroundings(console: Console, scenario: Scenario, around: Surroundings) -> None:
    _section(console, "How")
    clock, blind = BLIND[scenario.clock]
    table = Table.grid(Column(style="dim"), folded(), padding=(0, 2))
    table.add_row("clock", Text(f"{clock}. {blind}"))
    table.add_row("machine", Text(f"{around.facts.qemu}, kernel {around.facts.kernel.release}"))
    for name, text in (("baseline", around.base), ("rule", _rule(around.facts.rule)), ("models", around.models)):
        if text:
            table.add_row(name, Text(text))
    table.add_row("time", Text(_effort(around.effort)))
    _indented(console, table)
    # Not wrapped, so that they can be copied.
    for name, text in (("  again    ", shlex.join(around.facts.command)), ("  results  ", around.folder)):
        if text:
            console.print(Text(name, "dim").append(text, "default"), soft_wrap=True)
    console.print()


def _rule(rule: Rule | None) -> str:
    if rule is None:
        return ""
    if not rule.looks:
        return f"no verdict on fewer than {FEWEST_ROUNDS} boots a side"
    looks = " and ".join(str(look.rounds) for look in rule.looks)
    return f"fixed before the first boot: looks after {looks} boots a side, {100 * rule.error:g} % of error either way"


def _effort(effort: Effort) -> str:
    total = "" if effort.elapsed is None else f" in {duration(effort.elapsed)}"
    known = [phase for phase in PHASES if phase in effort.phases]
    order = (*known, *sorted(effort.phases.keys() - set(PHASES)))
    spent = ", ".join(f"{phase} {duration(effort.phases[phase])}" for phase in order)
    return f"{plural(effort.boots, 'boot')}{total}" + (f"; summed over boots: {spent}" if spent else "")


def _status(word: str) -> Text:
    return Text(str(word), STYLES[word])


def _grid(width: int | None) -> Table:
    """A column of words of ``width`` characters (None: as wide as the longest), and a column of text."""
    return Table.grid(Column(width=width, no_wrap=True), folded(), padding=(0, 2))


def _width(console: Console) -> int:
    return min(console.width, WIDEST)


def _section(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, "bold"), highlight=False)


def _indented(console: Console, table: Table) -> None:
    console.print(Padding(table, (0, 0, 0, 2), expand=False), highlight=False, width=_width(console))

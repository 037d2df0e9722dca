# SPDX-License-Identifier: GPL-2.0-only
"""A verdict for the terminal: what was measured, each claim, what it means, how to repeat it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.judge.cells import CellResult
from harness.judge.claims import ClaimVerdict, ControlVerdict
from harness.judge.verdict import Verdict
from harness.limits.bottleneck import Bottleneck
from harness.report.format import STYLES, duration, noise, plural, reported, spread, value
from harness.report.terminal.bottleneck import bottleneck_lines
from harness.report.terminal.conclusion import conclusion
from harness.report.terminal.measured import Pair, print_measured
from harness.scenario.model import Clock, Scenario, Status

WIDEST = 120
PHASES = ("boot", "setup", "measure", "send")
_STATUS_WIDTH, _CONTROL_WIDTH = 5, 7
BLIND = {
    Clock.VIRTUAL: (
        "virtual: time is counted in guest instructions, so repetitions agree to the last digit",
        "It sees queueing, tag fairness, merging, scheduling and code-path length; it cannot see"
        " lock and cache-line contention or true parallelism.",
    ),
    Clock.WALL: (
        "wall: the host's own time, so figures scatter and verdicts rest on intervals over boots",
        "It cannot see small effects (docs/noise.md says how small).",
    ),
}


@dataclass(frozen=True)
class Effort:
    """What the run cost. ``phases`` maps boot, setup, measure and send to host seconds summed over boots."""

    boots: int
    elapsed: float | None
    phases: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Surroundings:
    """What the report says beside the figures.

    ``qemu`` names the program and its version, ``base`` the kernel that ``baseline.*`` means (empty
    without one), ``command`` repeats the run and ``folder`` holds it. ``models`` says how far this
    kernel's device models can be trusted. ``bottlenecks`` are those of all arms and loads whose use was recorded.
    ``rule`` is the one by which a run on the wall clock stops, empty under the virtual one.
    """

    kernel: str
    origin: str
    qemu: str
    effort: Effort
    command: tuple[str, ...] = ()
    folder: str = ""
    base: str = ""
    models: str = ""
    bottlenecks: tuple[Bottleneck, ...] = ()
    rule: str = ""


def print_verdict(console: Console, scenario: Scenario, verdict: Verdict, around: Surroundings) -> None:
    """Write the whole report. Colour follows the console (none when it is no terminal or NO_COLOR is set)."""
    _heading(console, scenario, around)
    _arms(console, scenario)
    print_measured(console, scenario, verdict, Pair(around.kernel, around.base))
    _claims(console, verdict)
    _controls(console, verdict)
    _reproductions(console, verdict)
    _bottlenecks(console, around)
    _incidents(console, verdict)
    _surroundings(console, scenario, around)
    console.print()
    console.print(_status(verdict.status).append(f"  {conclusion(verdict)}", "default"), highlight=False)


def _heading(console: Console, scenario: Scenario, around: Surroundings) -> None:
    console.print(Text(f"{scenario.name}: {scenario.title}", "bold"), width=_width(console))
    console.print(Text(f"on Linux {around.kernel} ({around.origin})"), width=_width(console))
    if scenario.source:
        source = scenario.source
        parts = [part for part in (source.report, source.by, source.on) if part]
        kernel = f", Linux {source.kernel}" if source.kernel else ""
        console.print(Text(f"after {', '.join(parts)}{kernel}"), width=_width(console))
    if scenario.teaches:
        console.print()
        console.print(Text(scenario.teaches), width=_width(console))


def _arms(console: Console, scenario: Scenario) -> None:
    _section(console, "Arms")
    table = _grid(None)
    for arm in scenario.arms.values():
        settings = ", ".join(f"{key} {value}" for key, value in arm.settings.items())
        table.add_row(Text(arm.name), Text(settings + (f": {arm.teaches}" if arm.teaches else "")))
    _indented(console, table)


def _claims(console: Console, verdict: Verdict) -> None:
    if not verdict.claims:
        return
    _section(console, "Claims")
    for claim in verdict.claims:
        _claim(console, claim)


def _claim(console: Console, claim: ClaimVerdict) -> None:
    table = _grid(_STATUS_WIDTH)
    note = " (optional)" if claim.optional else ""
    table.add_row(_status(claim.word), Text(claim.that + note, "bold"))
    table.add_row("", Text(f"{value(claim.judgement)}, expected {claim.expect}"))
    table.add_row("", Text(claim.ratio, "dim"))
    if scattered := noise(claim.judgement):
        table.add_row("", Text(scattered, "dim"))
    if claim.sentence:
        table.add_row("", Text(claim.sentence, "italic"))
    _indented(console, table)


def _controls(console: Console, verdict: Verdict) -> None:
    if not verdict.controls:
        return
    _section(console, "Controls: what must turn red, or the scenario proves nothing")
    for control in verdict.controls:
        _control(console, control)


def _reproductions(console: Console, verdict: Verdict) -> None:
    if not verdict.reproductions:
        return
    _section(console, "Beside the report")
    for one in verdict.reproductions:
        table = _grid(_STATUS_WIDTH)
        here = one.reason if one.ensemble is None else spread(one.ensemble)
        table.add_row(Text("said" if one.reported is None else reported(one)), Text(one.that))
        if one.reported is None:
            table.add_row("", Text(f"the report: {reported(one)}"))
        table.add_row("", Text(f"here {here}", "bold" if one.ensemble else "dim"))
        table.add_row("", Text(one.ratio, "dim"))
        if one.because:
            table.add_row("", Text(one.because, "italic"))
        _indented(console, table)


def _control(console: Console, control: ControlVerdict) -> None:
    table = _grid(_CONTROL_WIDTH)
    judgement = control.judgement
    if judgement is None:
        table.add_row(Text("not run", "dim"), Text(control.that))
        table.add_row("", Text(f"needs a kernel with the mutant {control.mutant}", "dim"))
    else:
        red = judgement.status is Status.PASS
        word = Text("red", "bold green") if red else _status(judgement.status)
        table.add_row(word, Text(control.that))
        table.add_row("", Text(f"{value(judgement)}, must be {control.expect}"))
        table.add_row("", Text(control.ratio, "dim"))
        if not red:
            table.add_row("", Text(control.sentence, "italic"))
    _indented(console, table)


def _incidents(console: Console, verdict: Verdict) -> None:
    _cells(console, "Cells that were not measured", verdict.incidents)
    _cells(console, "Cells of the BASE kernel that were not measured or cannot be compared", verdict.base_incidents)


def _cells(console: Console, title: str, cells: Sequence[CellResult]) -> None:
    if not cells:
        return
    _section(console, title)
    reasons: dict[tuple[Status, str, str], list[int]] = {}
    for cell in cells:
        key = (cell.status, cell.arm, "; ".join(cell.reasons))
        reasons.setdefault(key, []).append(cell.seed)
    table = _grid(_STATUS_WIDTH)
    for (status, arm, why), seeds in reasons.items():
        which = f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"
        table.add_row(_status(status), Text(f"{arm} ({which}): {why}"))
    _indented(console, table)


def _bottlenecks(console: Console, around: Surroundings) -> None:
    if around.bottlenecks:
        _section(console, "Bottleneck")
        _indented(console, bottleneck_lines(around.bottlenecks))


def _surroundings(console: Console, scenario: Scenario, around: Surroundings) -> None:
    _section(console, "How")
    clock, blind = BLIND[scenario.clock]
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row("clock", Text(f"{clock}. {blind}"))
    table.add_row("machine", Text(f"{around.qemu}, kernel {around.kernel}"))
    if around.base:
        table.add_row("baseline", Text(around.base))
    if around.rule:
        table.add_row("rule", Text(around.rule))
    if around.models:
        table.add_row("models", Text(around.models))
    table.add_row("time", Text(_effort(around.effort)))
    _indented(console, table)
    # Not wrapped, so that they can be copied.
    if around.command:
        console.print(Text("  repeat   ", "dim").append(shlex.join(around.command), "default"), soft_wrap=True)
    if around.folder:
        console.print(Text("  results  ", "dim").append(around.folder, "default"), soft_wrap=True)


def _effort(effort: Effort) -> str:
    total = "" if effort.elapsed is None else f" in {duration(effort.elapsed)}"
    known = [phase for phase in PHASES if phase in effort.phases]
    order = (*known, *sorted(effort.phases.keys() - set(PHASES)))
    spent = ", ".join(f"{phase} {duration(effort.phases[phase])}" for phase in order)
    return f"{plural(effort.boots, 'boot')}{total}" + (f"; summed over boots: {spent}" if spent else "")


def _status(word: str) -> Text:
    return Text(str(word), STYLES[word])


def _grid(width: int | None) -> Table:
    """A column of words, ``width`` wide (as wide as need be), and one of text beside it."""
    table = Table.grid(padding=(0, 2))
    table.add_column(width=width, no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _width(console: Console) -> int:
    return min(console.width, WIDEST)


def _section(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, "bold underline"), highlight=False)


def _indented(console: Console, table: Table) -> None:
    console.print(Padding(table, (0, 0, 0, 2), expand=False), highlight=False, width=_width(console))

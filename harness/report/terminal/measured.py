# SPDX-License-Identifier: GPL-2.0-only
"""The table of figures: one row an arm where that fits, one row a figure where it does not."""

from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement as Extent
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.judge.verdict import Measurement, Verdict
from harness.report.format import figure, limits, plural, spread
from harness.scenario.model import Scenario

_INDENT = 2


@dataclass(frozen=True)
class Pair:
    """Releases of the kernel under test and of the BASE kernel, which is empty when there is none."""

    kernel: str
    base: str = ""


def print_measured(console: Console, scenario: Scenario, verdict: Verdict, pair: Pair) -> None:
    """IOPS of each arm, load and role: the median over the seeds, and below or beside it the range.

    With a BASE kernel the two stand side by side, and their quotient where the ranges are apart:
    within the spread of the seeds two kernels do not differ.
    """
    if not verdict.measured:
        return
    console.print()
    over = plural(len(verdict.seeds), "seed")
    console.print(Text(f"Measured: IOPS, median and range over {over}", "bold underline"), highlight=False)
    table = _side_by_side(verdict, pair) if pair.base else _by_arm(scenario, verdict)
    if not pair.base and Extent.get(console, console.options, table).maximum > console.width - _INDENT:
        table = _by_figure(verdict)
    console.print(Padding(table, (0, 0, 0, _INDENT), expand=False), highlight=False)


def _by_arm(scenario: Scenario, verdict: Verdict) -> Table:
    columns = list(dict.fromkeys((row.load, row.role) for row in verdict.measured))
    rows = {(row.arm, row.load, row.role): row for row in verdict.measured}
    table = _table()
    table.add_column("\narm", no_wrap=True)
    for load, role in columns:
        table.add_column(f"{load}\n{role}", justify="right", no_wrap=True)
    for arm in scenario.arms:
        if any(row.arm == arm for row in verdict.measured):
            table.add_row(Text(arm), *(_cell(rows.get((arm, load, role))) for load, role in columns))
    return table


def _cell(row: Measurement | None) -> Text:
    if row is None:
        return Text("-", "dim")
    between = limits(row.iops)
    return Text(figure(row.iops.median)).append(f"\n{between}" if between else "", "dim")


def _by_figure(verdict: Verdict) -> Table:
    table = _table()
    _figure_columns(table)
    table.add_column("IOPS", justify="right", no_wrap=True)
    table.add_column("range", no_wrap=True, style="dim")
    for name, row in _named(verdict):
        table.add_row(*name, figure(row.iops.median), limits(row.iops))
    return table


def _side_by_side(verdict: Verdict, pair: Pair) -> Table:
    table = _table()
    _figure_columns(table)
    for release in (pair.base, pair.kernel):
        table.add_column(release, justify="right", overflow="fold")
    table.add_column("quotient", no_wrap=True)
    for name, row in _named(verdict):
        table.add_row(*name, spread(row.base) if row.base else "-", spread(row.iops), _quotient(row))
    return table


def _quotient(row: Measurement) -> str:
    if row.base is None or not row.base.median:
        return "-"
    return figure(row.iops.median / row.base.median) if row.iops.separate_from(row.base) else "no difference"


def _figure_columns(table: Table) -> None:
    table.add_column("arm", overflow="fold")
    table.add_column("load", no_wrap=True)
    table.add_column("role", no_wrap=True)


def _named(verdict: Verdict) -> list[tuple[tuple[Text, str, str], Measurement]]:
    """Each figure with its name; an arm is named once."""
    rows, arm = [], ""
    for row in verdict.measured:
        shown, arm = ("" if row.arm == arm else row.arm), row.arm
        rows.append(((Text(shown), row.load, row.role), row))
    return rows


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))

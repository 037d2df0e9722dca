# SPDX-License-Identifier: GPL-2.0-only
"""The table of figures by arm, or of two kernels."""

from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement as Extent
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from harness.judge.verdict import Measurement, Verdict
from harness.report.format import figure, limits, plural, spread
from harness.report.terminal.printing import figures, folded, plain_table

_INDENT = 2


def print_measured(console: Console, verdict: Verdict, releases: tuple[str, str], *, full: bool) -> None:
    """IOPS of each arm, load and role: the median over the seeds and the range.

    The range is left out unless ``full``. With a BASE kernel (the first of ``releases``, else empty) each figure has
    both kernels, their ranges and their quotient; within the spread of the seeds they do not differ.
    """
    if not verdict.measured:
        return
    console.print()
    said = "median and range" if full or releases[0] else "median"
    over = f", {said} over {plural(len(verdict.seeds), 'seed')}" if len(verdict.seeds) > 1 else ""
    console.print(Text(f"IOPS{over}", "bold"))
    if releases[0]:
        _print_pair(console, verdict, releases)
    elif full:
        table = plain_table(folded("arm"), "load", "role", figures("IOPS"), Column("range", no_wrap=True, style="dim"))
        for name, row in _names(verdict.measured):
            table.add_row(*name, figure(row.iops.median), limits(row.iops))
        _print(console, table)
    else:
        _print_arms(console, verdict)


def _print_arms(console: Console, verdict: Verdict) -> None:
    """A row for each arm and a column for each figure; where these do not fit, a row for each figure."""
    arms = list(dict.fromkeys(row.arm for row in verdict.measured))
    names = list(dict.fromkeys((row.load, row.role) for row in verdict.measured))
    medians = {(row.arm, (row.load, row.role)): figure(row.iops.median) for row in verdict.measured}
    heads = (figures("\n".join(name)) for name in names)
    last = Column("arm", overflow="fold", vertical="bottom")
    table = Table(*heads, last, box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    for arm in arms:
        table.add_row(*(medians.get((arm, name), "-") for name in names), Text(arm))
    if Extent.get(console, console.options, table).minimum > console.width - _INDENT:
        table = plain_table("figure", *(Column(arm, justify="right", overflow="fold") for arm in arms))
        for name in names:
            table.add_row(".".join(name), *(medians.get((arm, name), "-") for arm in arms))
    _print(console, table)


def _print_pair(console: Console, verdict: Verdict, releases: tuple[str, str]) -> None:
    sides = (Column(release, justify="right", overflow="fold") for release in releases)
    table = plain_table(folded("arm"), "load", "role", *sides, "quotient")
    for name, row in _names(verdict.measured):
        table.add_row(*name, spread(row.base) if row.base else "-", spread(row.iops), _quotient(row))
    _print(console, table)


def _quotient(row: Measurement) -> str:
    if row.base is None or not row.base.median:
        return "-"
    return figure(row.iops.median / row.base.median) if row.iops.separate_from(row.base) else "no difference"


def _names(measured: Sequence[Measurement]) -> list[tuple[tuple[Text, str, str], Measurement]]:
    """Each figure with its name; an arm is named once."""
    rows, arm = [], ""
    for row in measured:
        shown, arm = ("" if row.arm == arm else row.arm), row.arm
        rows.append(((Text(shown), row.load, row.role), row))
    return rows


def _print(console: Console, table: Table) -> None:
    console.print(Padding(table, (0, 0, 0, _INDENT), expand=False))

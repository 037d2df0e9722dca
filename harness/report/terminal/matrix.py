# SPDX-License-Identifier: GPL-2.0-only
"""A matrix on the terminal: scenario x kernel, and why a cell is not green."""

from collections import Counter
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.record.grid import Grid, GridCell
from harness.record.store import KernelFacts
from harness.report.format import STYLES, plural
from harness.report.terminal.printing import plain_table, print_wide
from harness.scenario.model import Status

_QUIET = (Status.PASS,)
_NOT_DECIDED = "-"


def print_matrix(console: Console, record: Grid) -> None:
    """The table, the reasons, and how the whole rolls up."""
    print_wide(console, _table(record))
    named = columns(record)
    for cell in record.own:
        if cell.status not in _QUIET:
            console.print(_why(cell, named[cell.kernel]), soft_wrap=True)
    counted = {status: sum(cell.status is status for cell in record.own) for status in Status}
    shown = ", ".join(f"{count} {status}" for status, count in counted.items() if count)
    line = Text(f"\n{plural(len(record.own), 'cell')}: {shown}; ")
    line.append(str(record.status), STYLES[record.status]).append(f", exit {record.exit_code}")
    console.print(line, soft_wrap=True)


def columns(record: Grid) -> Mapping[KernelFacts, str]:
    """What each kernel is called above its column: its release, or its spec where several have that release."""
    released = Counter(kernel.release for kernel in record.kernels)
    return {
        kernel: kernel.release if kernel.release and released[kernel.release] == 1 else kernel.spec
        for kernel in record.kernels
    }


def _table(record: Grid) -> Table:
    table = plain_table("scenario", *columns(record).values())
    cells = record.at()
    for scenario in record.scenarios:
        row = [cells.get((scenario, kernel)) for kernel in record.kernels]
        table.add_row(Text(scenario), *(_mark(cell) for cell in row))
    return table


def _mark(cell: GridCell | None) -> Text:
    if cell is None or cell.status is None:
        return Text(_NOT_DECIDED, "dim")
    return Text(str(cell.status), STYLES[cell.status])


def _why(cell: GridCell, kernel: str) -> Text:
    status = cell.status or Status.MISS
    line = Text("  ").append(f"{status}", STYLES[status])
    line.append(f"  {cell.scenario} on {kernel}")
    line.append(f": {cell.reason or 'not decided'}")
    return line.append(f"  ({cell.run})" if cell.run else "", "dim")

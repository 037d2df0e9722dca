# SPDX-License-Identifier: GPL-2.0-only
"""Tables in which a row is a line, also where the terminal is narrow: for grep, diff and copying."""

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_WIDEST = 500


def print_wide(console: Console, table: Table) -> None:
    needed = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
    own = console.width
    console.width = max(own, needed)
    try:
        console.print(table, highlight=False)
    finally:
        console.width = own

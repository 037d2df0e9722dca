# SPDX-License-Identifier: GPL-2.0-only
"""Output of rich for pipes, grep and copying."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table


@contextmanager
def trimmed(console: Console) -> Iterator[None]:
    """Print what follows without trailing blanks, except to a terminal."""
    if console.is_terminal:
        yield
        return
    with console.capture() as captured:
        yield
    console.file.write("\n".join(line.rstrip() for line in captured.get().split("\n")))


_WIDEST = 500


def print_wide(console: Console, table: Table) -> None:
    needed = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
    own = console.width
    console.width = max(own, needed)
    try:
        console.print(table, highlight=False)
    finally:
        console.width = own

# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts, scenarios and progress on the terminal; here what prints them for pipes, grep and copying."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table

from lab.base.units import printable


class EscapedConsole(Console):
    """Escapes the control characters of what it prints, apart from its own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


def console_of(*, stderr: bool = False) -> Console:
    """A console that colours nothing but what has a style."""
    stream = sys.stderr if stderr else sys.stdout
    return EscapedConsole(file=getattr(stream, "below", stream), stderr=stderr, highlight=False)


@contextmanager
def trimmed(console: Console) -> Iterator[None]:
    """Print what follows without trailing blanks, except to a terminal."""
    if console.is_terminal:
        yield
        return
    with console.capture() as captured:
        yield
    console.file.write("\n".join(line.rstrip() for line in captured.get().split("\n")))


def plain_table(*columns: Column | str) -> Table:
    """A table without a frame. A column that is only a name keeps to one line."""
    every = (Column(column, no_wrap=True) if isinstance(column, str) else column for column in columns)
    return Table(*every, box=SIMPLE_HEAD, pad_edge=False, show_edge=False)


def figures(name: str) -> Column:
    return Column(name, justify="right", no_wrap=True)


def folded(name: str = "") -> Column:
    return Column(name, overflow="fold")


_WIDEST = 500


def print_wide(console: Console, table: Table) -> None:
    needed = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
    width = console.width
    console.width = max(width, needed)
    try:
        console.print(table)
    finally:
        console.width = width

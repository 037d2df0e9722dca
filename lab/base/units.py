# SPDX-License-Identifier: GPL-2.0-only
"""Sizes, rates and times as text, text that is safe to print, and who hears of progress."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

_SIZES = {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_RATES = {"B/s": 1, "kB/s": 10**3, "MB/s": 10**6, "GB/s": 10**9}
_TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([A-Za-z/]*)")


def parse_size(text: str) -> int:
    """Bytes, with powers of 1024 for k, M, G, T (either case, with or without ``iB``). Raises ValueError."""
    wanted, table = "a size such as 4k or 256M", {unit.lower(): factor for unit, factor in _SIZES.items()}
    return _parse(text, table, wanted, lambda unit: unit.lower().removesuffix("ib").removesuffix("b"))


def parse_rate(text: str) -> int:
    """Bytes per second, with powers of 1000 for k, M, G. Raises ValueError."""
    return _parse(text, _RATES, "a rate such as 1 MB/s")


def parse_time(text: str) -> int:
    """Nanoseconds. A bare number is refused. Raises ValueError."""
    return _parse(text, {**_TIMES, "min": 60 * 10**9}, "a time such as 400ms or 20s")


def _parse(text: str, table: dict[str, int], wanted: str, key: Callable[[str], str] = str) -> int:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f'"{shortened(text)}" is not a quantity')
    factor = table.get(key(match[2]))
    if factor is None:
        raise ValueError(f'"{text}" is not {wanted}')
    value = float(match[1]) * factor
    if value != int(value):
        raise ValueError(f'"{text}" is not a whole number of the smallest unit')
    return int(value)


def show_size(value: int) -> str:
    return _show(value, _SIZES, "")


def show_rate(value: int) -> str:
    return _show(value, _RATES, " ")


def show_time(value: int) -> str:
    return _show(value, _TIMES, " ")


def _show(value: int, table: dict[str, int], space: str) -> str:
    unit = next((unit for unit, factor in reversed(table.items()) if value >= factor), next(iter(table)))
    return f"{value / table[unit]:g}{space}{unit}"


_LONGEST, _SHOWN = 200, 500
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """``text`` with control characters and changes of direction as ``\\xNN`` or ``\\uNNNN``; tabs and newlines stay."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class Escaped:
    """A text stream; ``below`` is for consoles, which colour and escape by themselves."""

    def __init__(self, below: TextIO) -> None:
        self.below = below

    def write(self, text: str) -> int:
        self.below.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)


@contextmanager
def escaped_output() -> Iterator[None]:
    """Standard output and errors without control characters, whatever prints there."""
    with redirect_stdout(Escaped(sys.stdout)), redirect_stderr(Escaped(sys.stderr)):
        yield


def clipped(text: str) -> str:
    """What a guest said, of which a report shows at most 500 characters."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def shortened(text: str) -> str:
    """``text`` as a line that names something, with at most 200 characters."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


Tell = Callable[[str], None]
"""Receives one line of plain text."""


def silent(_: str) -> None:
    """Discard it."""

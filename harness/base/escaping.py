# SPDX-License-Identifier: GPL-2.0-only
"""Standard output and errors without control characters, whatever prints there."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

from lab.base.units import printable


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
    with redirect_stdout(Escaped(sys.stdout)), redirect_stderr(Escaped(sys.stderr)):
        yield

# SPDX-License-Identifier: GPL-2.0-only
"""Output of rich without the blanks with which it pads its lines."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def trimmed(console: Console) -> Iterator[None]:
    """What is printed within goes out without trailing blanks; a terminal gets it as it is."""
    if console.is_terminal:
        yield
        return
    with console.capture() as captured:
        yield
    console.file.write("\n".join(line.rstrip() for line in captured.get().split("\n")))

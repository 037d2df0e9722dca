# SPDX-License-Identifier: GPL-2.0-only
"""Events shown as they happen: a moving display on a terminal, lines elsewhere."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

Event = TypeVar("Event")
Taken_contra = TypeVar("Taken_contra", contravariant=True)
Clock = Callable[[], float]
_REFRESH = 4


@dataclass(frozen=True)
class LiveDisplay(Generic[Event]):
    """How events are shown: ``take`` counts one, ``line`` is its line in a log, ``done`` its line on a terminal (None:
    no line), ``picture`` the table below these lines."""

    take: Callable[[Event], None]
    line: Callable[[Event], Text | None]
    done: Callable[[Event], Text | None]
    picture: Callable[[], Table]


class Takes(Protocol[Taken_contra]):
    """A listener for events of one kind."""

    def __call__(self, event: Taken_contra) -> None: ...


class _Picture:
    """Renders the table at each refresh, so that seconds tick."""

    def __init__(self, picture: Callable[[], Table]) -> None:
        self._picture = picture

    def __rich__(self) -> RenderableType:
        return self._picture()


@contextmanager
def listening(console: Console, shown: LiveDisplay[Event]) -> Iterator[Takes[Event]]:
    """A listener that shows events on ``console`` until the context ends; threads may call it."""
    lock = threading.Lock()

    def log(event: Event) -> None:
        with lock:
            shown.take(event)
            _print(console, shown.line(event))

    if not console.is_terminal:
        yield log
        return
    with Live(_Picture(shown.picture), console=console, refresh_per_second=_REFRESH, transient=True) as live:

        def display(event: Event) -> None:
            with lock:
                shown.take(event)
                _print(console, shown.done(event))
                live.refresh()

        yield display


def _print(console: Console, line: Text | None) -> None:
    if line is not None:
        console.print(line, soft_wrap=not console.is_terminal, highlight=False)

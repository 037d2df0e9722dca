# SPDX-License-Identifier: GPL-2.0-only
"""Lines about a long step while it runs, with the time left at its speed so far."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lab.base.units import Tell

_EVERY = 5.0  # seconds between two lines: a short step prints none
_MINUTE = 60


@contextmanager
def progress(tell: Tell, line: Callable[[float], str], every: float = _EVERY) -> Iterator[None]:
    """Tell ``line(SECONDS)`` at intervals while the block runs, with the seconds since it began."""
    ended = threading.Event()
    began = time.monotonic()

    def watch() -> None:
        while not ended.wait(every):
            tell(line(time.monotonic() - began))

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def time_left(done: float, total: float, seconds: float) -> str:
    """``, about 40 s left``: what the rest takes at the speed so far; empty where nothing is done, or all of it."""
    if not 0 < done < total:
        return ""
    left = seconds * (total - done) / done
    return f", about {left:.0f} s left" if left < 2 * _MINUTE else f", about {left / _MINUTE:.0f} min left"

# SPDX-License-Identifier: GPL-2.0-only
"""Progress of a download by another program, read from the size of its files."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

EVERY = 5.0
"""Seconds between two lines: short downloads print none."""


@contextmanager
def following(
    tell: Callable[[str], object], name: str, size: int, folders: tuple[Path, ...], every: float = EVERY
) -> Iterator[None]:
    """Tell ``NAME: X of Y MB`` at intervals while the block downloads ``size`` bytes into one of ``folders``."""
    ended = threading.Event()
    before = _bytes_in(folders)

    def watch() -> None:
        while not ended.wait(every):
            there = min(size, max(0, _bytes_in(folders) - before))
            tell(f"{name}: {there / 1e6:.1f} of {size / 1e6:.1f} MB")

    watcher = threading.Thread(target=watch, name="download", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _bytes_in(folders: tuple[Path, ...]) -> int:
    total = 0
    for path in (path for folder in folders if folder.is_dir() for path in folder.rglob("*")):
        # A finished download is moved between the listing and the look.
        with suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total

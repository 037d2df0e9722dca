# SPDX-License-Identifier: GPL-2.0-only
"""What each file of a cache entry contained when the entry was made, and whether it still does."""

import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from lab.base.digest import known_digest
from lab.base.errors import LabBroken
from lab.base.reading import read_regular, real

NAME = ".sha256sums"
"""In the entry's folder, in the format of sha256sum(1)."""
_SEEN = ".seen"
"""Next to it: each file's name, and what stat(2) said of it when it was last read."""
_TICK = 10**9
"""ns; more than a tick of any kernel's clock, within which two changes have the same ctime."""


def note(entry: Path) -> None:
    """Write the digest of every file of ``entry`` into it, in one step. Raises OSError.

    A symlink counts as the file that it leads to, unless that lies outside.
    """
    root = real(entry)
    listed = (path for path in entry.rglob("*") if path.is_file())
    files = sorted(path for path in listed if not path.is_symlink() or real(path).is_relative_to(root))
    aside = entry / f"{NAME}.new"
    aside.write_text("".join(f"{known_digest(path)}  {path.relative_to(entry)}\n" for path in files))
    aside.replace(entry / NAME)


def is_noted(path: Path) -> bool:
    """Whether the entry that ``path`` belongs to was made with a file of that name."""
    entry = _entry_of(path)
    return str(path.relative_to(entry)) in _digests(entry)


def demand_intact(path: Path) -> Path:
    """``path``, a file of a cache entry. Raises LabBroken unless it contains what it did when the entry was made.

    A file that looks as it did when a process last read it is not read again (87 MB: 0.2 s).
    """
    entry = _entry_of(path)
    _demand(entry, [str(path.relative_to(entry))])
    return path


def demand_all_intact(entry: Path) -> None:
    """Raises LabBroken unless every file of ``entry`` contains what it did when the entry was made."""
    _demand(entry, sorted(_digests(entry)))


def lasting_digest(path: Path) -> str:
    """The sha256 of a file, in hex; one of a cache entry is not read again as long as it looks as it did.

    Raises OSError, and LabBroken as ``demand_intact`` does.
    """
    entry = next((folder for folder in path.parents if (folder / NAME).is_file()), None)
    if entry is None or not is_noted(path):
        return known_digest(path)
    return _digests(entry)[str(demand_intact(path).relative_to(entry))]


def _demand(entry: Path, names: list[str]) -> None:
    noted, seen = _digests(entry), _seen(entry)
    looks: dict[str, str] = {}
    for name in names:
        path = entry / name
        try:
            facts = path.stat()
            # Nothing can set ctime back.
            look = f"{facts.st_dev} {facts.st_ino} {facts.st_size} {facts.st_ctime_ns} {noted.get(name)}"
            if seen.get(name) == look:
                continue
            digest = known_digest(path)
        except FileNotFoundError as error:
            raise _damage(entry, f"{path} is missing") from error
        except OSError as error:
            raise _damage(entry, f"{path} cannot be read: {error.strerror}") from error
        if digest != noted.get(name):
            expected = noted.get(name, "no such file")
            raise _damage(entry, f"{path} is damaged: its sha256 is {digest}, expected {expected}")
        if time.time_ns() - facts.st_ctime_ns > _TICK:
            looks[name] = look
    if looks:
        lines = "".join(f"{name}\t{look}\n" for name, look in {**seen, **looks}.items())
        with suppress(OSError):  # a cache that cannot be written is read again by the next process
            aside = entry / f"{_SEEN}.{os.getpid()}.{threading.get_ident()}"
            aside.write_text(lines)
            aside.replace(entry / _SEEN)


def _seen(entry: Path) -> Mapping[str, str]:
    try:
        rows = (line.partition("\t") for line in read_regular(entry / _SEEN).decode().splitlines())
        return {name: look for name, _, look in rows}
    except (OSError, ValueError):
        return {}


def _entry_of(path: Path) -> Path:
    for folder in path.parents:
        if (folder / NAME).is_file():
            return folder
    raise _damage(path.parent, f"{path} is in no cache entry: there is no {NAME} above it")


def _digests(entry: Path) -> Mapping[str, str]:
    path = entry / NAME
    try:
        return _read(path, known_digest(path))
    except (OSError, ValueError) as error:
        raise _damage(entry, f"{path} cannot be read: {error}") from error


@lru_cache(maxsize=16)
def _read(path: Path, digest: str) -> Mapping[str, str]:
    """Keyed by the digest of the list itself. Raises ValueError."""
    rows = (line.split("  ", 1) for line in path.read_text().splitlines())
    return {name: noted for noted, name in rows}


def _damage(entry: Path, what: str) -> LabBroken:
    return LabBroken(what, remedy=f"rm -r {entry}; it is made again at the next use")

# SPDX-License-Identifier: GPL-2.0-only
"""What each file of a cache entry contained when the entry was made, and whether it still does."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from lab.base.digest import digest_bytes, known_digest
from lab.base.errors import LabBroken

NAME = ".sha256sums"
"""In the entry's folder, in the format of sha256sum(1)."""


def note(entry: Path) -> None:
    """Write the digest of every file of ``entry`` into it, in one step. Raises OSError.

    A symlink counts as the file that it leads to, unless that lies outside.
    """
    root = entry.resolve()
    listed = (path for path in entry.rglob("*") if path.is_file())
    files = sorted(path for path in listed if not path.is_symlink() or path.resolve().is_relative_to(root))
    aside = entry / f"{NAME}.new"
    aside.write_text("".join(f"{known_digest(path)}  {path.relative_to(entry)}\n" for path in files))
    aside.replace(entry / NAME)


def is_noted(path: Path) -> bool:
    """Whether the entry that ``path`` belongs to was made with a file of that name."""
    entry = _entry_of(path)
    return str(path.relative_to(entry)) in _digests(entry)


def demand_intact(path: Path) -> Path:
    """``path``, a file of a cache entry. Raises LabBroken unless it contains what it did when the entry was made.

    A file is read once per process as long as it does not change (65 MB: 0.2 s), and is only looked up after that.
    """
    entry = _entry_of(path)
    try:
        digest = known_digest(path)
    except FileNotFoundError as error:
        raise _damage(entry, f"{path} is missing") from error
    except OSError as error:
        raise _damage(entry, f"{path} cannot be read: {error.strerror}") from error
    noted = _digests(entry).get(str(path.relative_to(entry)))
    if digest != noted:
        raise _damage(entry, f"{path} is damaged: its sha256 is {digest}, expected {noted or 'no such file'}")
    return path


def demand_all_intact(entry: Path, facts: str) -> str:
    """Raises LabBroken unless every file of ``entry`` contains what it did when the entry was made.

    Gives the facts about the files, by which a later process knows that none has changed; empty when they are
    still those that were given. Files are read only if they are not.
    """
    listed = sorted(_digests(entry))
    now = _facts(entry, listed)
    if now == facts:
        return ""
    for name in listed:
        demand_intact(entry / name)
    return now


def _facts(entry: Path, listed: list[str]) -> str:
    rows = [known_digest(entry / NAME)]
    for name in listed:
        try:
            status = (entry / name).stat()
        except OSError as error:
            raise _damage(entry, f"{entry / name} cannot be read: {error.strerror}") from error
        rows.append(f"{status.st_ino} {status.st_size} {status.st_ctime_ns}")
    return digest_bytes("\n".join(rows).encode())


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

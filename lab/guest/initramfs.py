# SPDX-License-Identifier: GPL-2.0-only
"""Byte-reproducible cpio archives in the "newc" format (Documentation/driver-api/early-userspace/buffer-format.rst)."""

import stat
from collections.abc import Mapping
from dataclasses import dataclass

_ALIGN = 4


@dataclass(frozen=True)
class ArchiveEntry:
    """One file of an archive; ``mode`` holds type and permissions as in stat(2)."""

    mode: int
    data: bytes = b""


def folder() -> ArchiveEntry:
    return ArchiveEntry(stat.S_IFDIR | 0o755)


def regular(data: bytes, *, executable: bool = False) -> ArchiveEntry:
    return ArchiveEntry(stat.S_IFREG | (0o755 if executable else 0o644), data)


def symlink(target: str) -> ArchiveEntry:
    return ArchiveEntry(stat.S_IFLNK | 0o777, target.encode())


def archive(entries: Mapping[str, ArchiveEntry]) -> bytes:
    """Archive of ``entries`` (path relative to the root -> ArchiveEntry), with the folders that they need.

    Sorted by path, owned by root, times and inode numbers independent of the host. Archives can
    be concatenated: the kernel unpacks one after the other.
    """
    complete = dict(entries)
    for path in entries:
        parts = path.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            complete.setdefault("/".join(parts[:depth]), folder())
    members = [_member(number, path, complete[path]) for number, path in enumerate(sorted(complete), start=1)]
    return b"".join([*members, _member(0, "TRAILER!!!", ArchiveEntry(0))])


def _member(number: int, path: str, entry: ArchiveEntry) -> bytes:
    name = path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % value for value in fields)
    return _pad(header + name) + _pad(entry.data)


def _pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGN)

# SPDX-License-Identifier: GPL-2.0-only
"""Read untrusted files: regular files only, of bounded size; JSON of bounded depth and 64-bit integers."""

import errno
import json
import os
import re
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

from lab.base.errors import Misuse

LIMIT = 256 << 20
"""Bytes; a guest may send as much in one boot (lab.qemu.machine.Limits)."""
_DEPTH = 100
_DIGITS = len(str(-(1 << 64)))
_TOO_DEEP = f"nested more than {_DEPTH} deep"


def real(path: Path) -> Path:
    """As Path.resolve(), which raises RuntimeError for a loop of symlinks."""
    return Path(os.path.realpath(path))


def demand_plain(path: Path, what: str, remedy: str) -> None:
    """Raise Misuse for a path that lists of folders, shells or files of settings would read as something else."""
    if odd := re.search(r"[:;\"'`$\\]|[^ -~\u00a1-\U0010ffff]", str(path)):
        raise Misuse(f"the path of {what} has {odd[0]!r} in it: {path}", remedy=remedy)


def open_regular(path: Path) -> BufferedReader:
    """A regular file, open for reading; symlinks are followed. Raises OSError for any other."""
    # Without O_NONBLOCK opening a fifo waits for a writer.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def read_regular(path: Path, limit: int = LIMIT) -> bytes:
    """The content of a regular file of at most ``limit`` bytes. Raises OSError as ``open_regular``, and beyond it."""
    with open_regular(path) as file:
        data: bytes | None = file.read(limit + 1)
    if data is None:
        raise OSError(errno.EAGAIN, "its end is never reached", str(path))
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit >> 20} MiB", str(path))
    return data


def parse_json(data: bytes | str) -> Any:
    """A JSON document. Raises ValueError, also for one that is nested too deeply or has an integer above 64 bits."""
    try:
        value = json.loads(data, parse_int=_integer, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    _demand_shallow(value)
    return value


def read_json(path: Path) -> Any:
    """The JSON document in a regular file. Raises OSError and ValueError."""
    return parse_json(read_regular(path))


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a figure")


def _demand_shallow(value: Any) -> None:
    """Everything below may then be walked, written and compared without running out of stack."""
    level = [value]
    for _ in range(_DEPTH):
        inner = (item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list))
        level = [item for items in inner for item in items]
        if not level:
            return
    raise ValueError(_TOO_DEEP)

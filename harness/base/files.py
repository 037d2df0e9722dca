# SPDX-License-Identifier: GPL-2.0-only
"""Atomic writes, locks, and disk errors as LabBroken."""

import errno
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lab.base import reading
from lab.base.cache import sync
from lab.base.errors import LabBroken, Misuse

ELSEWHERE = "name a folder that can be written: RESULTS=DIR with make, --results DIR with blklab"


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path``, or what it links to, atomically and sync it to disk; a device, or a fifo with a reader, is
    written to instead.

    Raises LabBroken.
    """
    path = reading.real(path)
    if path.exists() and not path.is_file():
        _write_into(path, data)
        return
    with _replacing(path) as aside, aside.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    with writing(path):
        sync(path.parent)


def _write_into(path: Path, data: bytes) -> None:
    with writing(path):
        # Without O_NONBLOCK opening a fifo waits for a reader.
        handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(handle, True)
        with os.fdopen(handle, "wb") as file:
            file.write(data)


def link_atomic(path: Path, target: str) -> None:
    """Make ``path`` a symlink to ``target``, atomically replacing an older one. Raises LabBroken."""
    with _replacing(path) as aside:
        aside.symlink_to(target)


def copy_atomic(origin: Path, path: Path) -> None:
    """Replace ``path`` by a copy of a folder, which has this name only when it is complete. Raises LabBroken."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _replacing(path) as aside:
        shutil.copytree(origin, aside, symlinks=True)
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A path in the same folder, which replaces ``path`` at the end of the context. Raises LabBroken."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with writing(path):
        try:
            yield aside
            aside.replace(path)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
            with suppress(OSError):
                aside.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON with ``write_atomic``. NaN raises ValueError."""
    write_atomic(path, json_bytes(value))


def json_bytes(value: Any, *, sort_keys: bool = True) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """None when there is no such regular file or it is not JSON: a file that cannot be read was never finished."""
    try:
        return reading.read_json(path)
    except (OSError, ValueError):
        return None


@contextmanager
def held(folder: Path, what: str) -> Iterator[None]:
    """Lock ``folder``. Raises Misuse when another process holds the lock."""
    with writing(folder):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Misuse(f"{what} {folder} is in use by another process", remedy="wait for it to end") from error
        yield
    finally:
        os.close(handle)


class Lockable(Protocol):
    def held(self) -> AbstractContextManager[None]: ...


F = TypeVar("F", bound=Lockable)


@contextmanager
def held_one(folders: Iterable[Sequence[F]], new: Callable[[], Sequence[F]]) -> Iterator[Sequence[F]]:
    """Lock the first group of ``folders`` of which no other process has locked one, else a ``new`` group.

    They are locked until the context ends. Another process can find and lock a new folder before it is locked here.
    Then one more group is created.
    """
    with ExitStack() as stack:
        for group in chain(folders, (new() for _ in count())):
            with suppress(Misuse):
                for folder in reversed(group):
                    stack.enter_context(folder.held())
                break
            stack.close()
        yield group


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert OSError into LabBroken with a remedy."""
    try:
        yield
    except OSError as error:
        remedy = "free some space, or " + ELSEWHERE if error.errno in (errno.ENOSPC, errno.EDQUOT) else ELSEWHERE
        raise LabBroken(f"cannot write {path}: {error.strerror or error}", remedy=remedy) from error

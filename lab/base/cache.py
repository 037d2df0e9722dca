# SPDX-License-Identifier: GPL-2.0-only
"""The content-addressed cache: complete folders by kind and key, safe against kills and races.

<root>/<kind>/<key>/            a complete entry, with a list of its files' digests (lab.base.contents)
<root>/.fill/<kind>/<key>.X/    a fill in progress, or the remains of a killed one
<root>/.lock/<kind>/<key>       flock: shared while the entry is in use, exclusive while it is removed;
                                its time stamp is when the entry was last used
<root>/.lock/<kind>/<key>.fill  flock: exclusive while the entry is filled or changed
<root>/CACHEDIR.TAG             marks the folder as this cache; no other folder is written or pruned
"""

import errno
import fcntl
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from lab.base import contents
from lab.base.errors import BlklabError, LabBroken, Misuse
from lab.base.process import run
from lab.base.reading import demand_plain
from lab.base.units import Tell, silent

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~:@-]{0,200}")
_SINGLY = 64  # above this many files one flush of the whole file system is faster
_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)
_FULL_WORDS = ("No space left on device", "Disk quota exceeded")
_POLL_SECONDS = 0.1
_LOCK = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # a fifo would wait for a writer
_TAG = "CACHEDIR.TAG"
_TAG_TEXT = """\
Signature: 8a477f597d28d172789f06886806bc55
# This folder is the cache of blklab. Its content can be made again.
"""
"""By the Cache Directory Tagging Specification, so that backups can leave the folder out."""


@dataclass(frozen=True)
class CacheEntry:
    """A complete entry. ``size`` is in bytes on disk, ``last_used`` in seconds since the epoch."""

    kind: str
    key: str
    path: Path
    size: int
    last_used: float
    in_use: bool


@dataclass(frozen=True)
class Pruned:
    """The entries that a prune removed, those that it kept because they are in use, and the bytes freed."""

    removed: tuple[CacheEntry, ...]
    in_use: tuple[CacheEntry, ...]
    freed: int


class Cache:
    """Entries are locked against pruning from the time they are returned until ``close``."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root).absolute()
        self._held: dict[tuple[str, str], int] = {}

    @classmethod
    def default(cls) -> "Cache":
        """``$BLKLAB_CACHE``, else ``$XDG_CACHE_HOME/blklab``, else ``~/.cache/blklab``. Raises Misuse as ``prune``."""
        base = os.environ.get("XDG_CACHE_HOME")
        usual = (Path(base) if base else Path.home() / ".cache") / "blklab"
        cache = cls(Path(os.environ.get("BLKLAB_CACHE") or usual))
        demand_plain(cache.root, "the cache", "name another folder with BLKLAB_CACHE=")
        cache._refuse_other_folders()
        return cache

    def entry(self, kind: str, key: str, fill: Callable[[Path], None], abort: threading.Event | None = None) -> Path:
        """The folder ``kind/key``; when absent, ``fill`` is called once with an empty folder to fill.

        The folder appears under its name only when complete and on disk. Raises LabBroken when the
        cache cannot be written or is full, when ``abort`` is set while another thread or process fills the entry,
        and whatever ``fill`` raises.
        """
        path = self._path(kind, key)
        while not self._hold(kind, key):
            with self._writing(kind, key), self._exclusive(kind, f"{key}.fill", abort=abort):
                if not path.is_dir():
                    self._remove_leftovers(locked=(kind, key))
                    self._fill(kind, key, fill)
        return path

    def find(self, kind: str, key: str) -> Path | None:
        """The folder ``kind/key`` if it is there. Raises LabBroken as ``entry`` does."""
        return self._path(kind, key) if self._hold(kind, key) else None

    @contextmanager
    def workspace(self, kind: str, key: str, tell: Tell = silent) -> Iterator[Path]:
        """The mutable folder ``kind/key``, locked for one user at a time; who has to wait is told."""
        path = self._path(kind, key)
        if self._is_locked(kind, f"{key}.fill"):
            tell(f"waiting for another blklab that works in {path}")
        with self._writing(kind, key), self._exclusive(kind, f"{key}.fill"):
            path.mkdir(parents=True, exist_ok=True)
            self._lock_path(kind, key).touch()
            yield path

    def write_text(self, kind: str, name: str, text: str) -> Path:
        """Replace the small file ``kind/name`` in one step."""
        path = self._path(kind, name)
        with self._writing(kind, name):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False) as aside:
                aside.write(text)
                aside.flush()
                os.fsync(aside.fileno())
            Path(aside.name).replace(path)
        return path

    def entries(self) -> tuple[CacheEntry, ...]:
        """All complete entries that this cache made, least recently used first. Raises Misuse as ``prune`` does."""
        self._refuse_other_folders()
        paths = (path for path in self.root.glob("[!.]*/[!.]*") if path.is_dir() and not path.is_symlink())
        entries = (self._describe(path) for path in paths if self._lock_path(*path.parts[-2:]).exists())
        return tuple(sorted(entries, key=lambda entry: (entry.last_used, entry.kind, entry.key)))

    def prune(
        self, *, keep_bytes: int | None = None, older_than: float | None = None, kind: str | None = None
    ) -> Pruned:
        """Remove entries of ``kind`` (default: all kinds) that were not used for ``older_than`` seconds, then the
        least recently used until at most ``keep_bytes`` remain; without limits, all of them.

        Entries in use are kept. The remains of killed fills are always removed. Raises Misuse for a folder that is no
        cache of blklab.
        """
        self._refuse_other_folders()
        self._remove_leftovers()
        candidates = [entry for entry in self.entries() if kind in (None, entry.kind)]
        removed, in_use = list[CacheEntry](), list[CacheEntry]()
        remaining = sum(entry.size for entry in candidates)
        for entry in candidates:
            old = older_than is not None and time.time() - entry.last_used >= older_than
            excess = keep_bytes is not None and remaining > keep_bytes
            if not (old or excess or (older_than is None and keep_bytes is None)):
                continue
            if self._remove(entry):
                removed.append(entry)
                remaining -= entry.size
            else:
                in_use.append(entry)
        return Pruned(tuple(removed), tuple(in_use), sum(entry.size for entry in removed))

    def discard(self, kind: str, key: str) -> None:
        """Remove an entry that turned out to be useless, unless another process uses it."""
        lock = self._held.pop((kind, key), None)
        if lock is not None:
            os.close(lock)
        self._remove(self._describe(self._path(kind, key)))

    def close(self) -> None:
        """Release all locks."""
        for lock in self._held.values():
            os.close(lock)
        self._held.clear()

    def _path(self, kind: str, key: str) -> Path:
        for name in (kind, key):
            if _NAME.fullmatch(name) is None or name.endswith(".fill"):
                raise ValueError(f"not fit for a cache name: {name!r}")
        return self.root / kind / key

    def _fill(self, kind: str, key: str, fill: Callable[[Path], None]) -> None:
        fills = self.root / ".fill" / kind
        fills.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=fills))
        try:
            aside.chmod(0o755)
            fill(aside)
            contents.note(aside)
            _sync_all(aside)
            (self.root / kind).mkdir(exist_ok=True)
            aside.rename(self.root / kind / key)
            sync(self.root / kind)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _hold(self, kind: str, key: str) -> bool:
        """Take the shared lock of a complete entry for as long as this cache is open."""
        path = self._path(kind, key)
        if not path.is_dir():
            return False
        if (kind, key) not in self._held:
            try:
                lock = os.open(self._lock_path(kind, key), _LOCK | os.O_CREAT, 0o644)
            except OSError:
                return True  # a cache that cannot be written cannot be pruned
            fcntl.flock(lock, fcntl.LOCK_SH)
            if not path.is_dir():
                os.close(lock)
                return False
            self._held[kind, key] = lock
        with suppress(OSError):
            os.utime(self._held[kind, key])
        return True

    def _lock_path(self, kind: str, key: str) -> Path:
        return self.root / ".lock" / kind / key

    @contextmanager
    def _exclusive(
        self, kind: str, name: str, *, wait: bool = True, abort: threading.Event | None = None
    ) -> Iterator[None]:
        """Raises BlockingIOError when ``wait`` is false and another process holds the lock, LabBroken when ``abort``
        is set while waiting for it.
        """
        path = self._lock_path(kind, name)
        with self._writing(kind, name):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if abort is None:
                fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                _lock_unless(abort, lock)
            yield
        finally:
            os.close(lock)

    @contextmanager
    def _writing(self, kind: str, key: str) -> Iterator[None]:
        """Turn errors of the file system into LabBroken with a remedy. Raises Misuse for a folder that is no cache."""
        self._refuse_other_folders()
        try:
            self._mark()
            yield
        except BlklabError as error:
            if any(words in error.message for words in _FULL_WORDS):
                raise self._full(kind, key) from error
            raise
        except OSError as error:
            if error.errno in _FULL:
                raise self._full(kind, key) from error
            if error.errno in _REFUSED or not self.root.exists():
                raise LabBroken(
                    f"the cache {self.root} cannot be written: {error.strerror} ({error.filename})",
                    remedy="make it writable, or name another folder with BLKLAB_CACHE=",
                ) from error
            raise

    def _mark(self) -> None:
        if (tag := self.root / _TAG).exists():
            return
        with suppress(FileExistsError):
            self.root.mkdir(parents=True)
        tag.write_text(_TAG_TEXT)

    def _refuse_other_folders(self) -> None:
        """Raise Misuse unless the folder has the mark of a cache, is empty, or will be made."""
        # Caches made before there was a mark have the folder of locks.
        if (self.root / _TAG).exists() or (self.root / ".lock").is_dir():
            return
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            if any(self.root.iterdir()):
                raise Misuse(
                    f"{self.root} holds files and is no cache of blklab ({_TAG} is missing)",
                    remedy="name an empty or a new folder with BLKLAB_CACHE=",
                )

    def _full(self, kind: str, key: str) -> LabBroken:
        free = shutil.disk_usage(self.root).free
        return LabBroken(
            f"no space left for {kind} {key[:20]} in the cache {self.root} ({free / 1e6:.0f} MB free without it)",
            remedy="free some with `blklab store cache prune`, or name a folder on a larger disk with BLKLAB_CACHE=",
        )

    def _describe(self, path: Path) -> CacheEntry:
        kind, key = path.parent.name, path.name
        try:
            last_used = self._lock_path(kind, key).stat().st_mtime
        except FileNotFoundError:
            last_used = path.stat().st_mtime
        in_use = any(self._is_locked(kind, name) for name in (key, f"{key}.fill"))
        return CacheEntry(kind, key, path, size_of(path), last_used, in_use)

    def _is_locked(self, kind: str, name: str) -> bool:
        try:
            lock = os.open(self._lock_path(kind, name), _LOCK)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def _remove(self, entry: CacheEntry) -> bool:
        """Whether the entry could be removed. It is renamed first, so that no reader sees it incomplete."""
        kind, key = entry.kind, entry.key
        try:
            with self._exclusive(kind, f"{key}.fill", wait=False), self._exclusive(kind, key, wait=False):
                aside = self.root / ".fill" / kind
                aside.mkdir(parents=True, exist_ok=True)
                doomed = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=aside))
                with suppress(FileNotFoundError):
                    entry.path.rename(doomed / "entry")
                shutil.rmtree(doomed, ignore_errors=True)
        except BlockingIOError:
            return False
        return True

    def _remove_leftovers(self, locked: tuple[str, str] | None = None) -> None:
        """Remove the remains of killed fills. A fill in progress holds its lock and is skipped.

        ``locked`` is the kind and key whose lock the caller holds.
        """
        for leftover in (self.root / ".fill").glob("*/*"):
            kind, key = leftover.parent.name, leftover.name.rpartition(".")[0]
            mine = nullcontext() if (kind, key) == locked else self._exclusive(kind, f"{key}.fill", wait=False)
            with suppress(BlockingIOError), mine:
                shutil.rmtree(leftover, ignore_errors=True)


def _lock_unless(abort: threading.Event, lock: int) -> None:
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if abort.wait(_POLL_SECONDS):
                raise LabBroken("waiting for the cache was stopped by request", remedy="run it again") from None


def _sync_all(folder: Path) -> None:
    """Flush everything below ``folder`` to the disk."""
    paths = [folder, *(path for path in folder.rglob("*") if not path.is_symlink())]
    if len(paths) > _SINGLY:
        run(["sync", "-f", str(folder)], hint="check the file system of the cache; sync is in coreutils")
        return
    for path in paths:
        sync(path)


def sync(path: Path) -> None:
    """Flush a file or the names in a folder to the disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def size_of(folder: Path) -> int:
    """Bytes on disk of everything below a folder. Files that vanish meanwhile count as 0."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(base, name)).st_blocks * 512  # noqa: PTH118
    return total

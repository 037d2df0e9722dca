# SPDX-License-Identifier: GPL-2.0-only
"""One prepared boot on a Dask worker, with its QEMU and files sent by digest."""

import io
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from harness.run.boots import Lanes
from lab.base import host
from lab.base.cache import Cache
from lab.base.digest import digest_file
from lab.base.errors import LabBroken
from lab.base.process import run
from lab.base.record import BootRecord
from lab.guest.payload import Payload
from lab.native.programs import steady
from lab.qemu.probe import find_qemu
from lab.session import Lab, PreparedJob, run_job

KIND = "shipped"
CHUNK = 16 << 20
_FILE = "content"
_POLL = 1.0
_LAB = Path(host.__file__).parents[1]
_HERE = Path()


@dataclass(frozen=True)
class Order:
    """A boot to be made. ``image`` is the sha256 of the kernel file that QEMU is given, ``qemu`` that of the QEMU
    it must be made with, ``code`` that of the lab's own files; ``stop`` names the cluster's event that calls it off.
    """

    prepared: PreparedJob
    image: str
    qemu: str
    code: str
    stop: str


@dataclass(frozen=True)
class Lacks:
    """The worker lacks files with these digests."""

    worker: str
    digests: tuple[str, ...]


@dataclass(frozen=True)
class Unfit:
    """The worker cannot make the same boot as the local host."""

    worker: str
    reason: str


@dataclass(frozen=True)
class Booted:
    """``archive`` is the boot's folder as a tar file."""

    record: BootRecord
    archive: bytes


def boot_here(order: Order) -> Booted | Lacks | Unfit:
    """Boot in a worker's thread until the machine ends."""
    from distributed import get_worker  # noqa: PLC0415

    worker: str = get_worker().address
    try:
        if reason := _unfit(order):
            return Unfit(worker, reason)
        store = Cache.default()
        wanted = (order.image, order.prepared.base.digest)
        found = {digest: store.find(KIND, digest) for digest in wanted}
        lacking = tuple(digest for digest, path in found.items() if path is None)
        if lacking:
            return Lacks(worker, lacking)
        image, base = (path / _FILE for path in found.values() if path is not None)
        kernel = replace(order.prepared.kernel, image=image, vmlinux=image)
        prepared = replace(order.prepared, kernel=kernel, base=replace(order.prepared.base, path=base))
        with tempfile.TemporaryDirectory(prefix="blklab-boot.") as folder, _called_off(order.stop) as abort:
            lab = Lab(store, find_qemu(), steady(store), Payload({}, {}))
            with _lanes().taken(prepared.memory, abort=abort):
                record = run_job(lab, prepared, Path(folder), abort=abort)
            return Booted(replace(record, folder=_HERE), _packed(Path(folder)))
    except LabBroken as error:
        return Unfit(worker, error.message)


def receive(digest: str, chunk: bytes, *, first: bool, last: bool) -> bool:
    """Store a piece of a file; the file appears in the cache once complete and with that digest."""
    aside = Path(_aside().name) / digest
    with aside.open("wb" if first else "ab") as file:
        file.write(chunk)
    if not last:
        return True
    if digest_file(aside) != digest:
        aside.unlink()
        raise ValueError(f"{digest} arrived damaged")

    def fill(into: Path) -> None:
        (into / _FILE).write_bytes(aside.read_bytes())

    Cache.default().entry(KIND, digest, fill)
    aside.unlink()
    return True


def unpack(archive: bytes, folder: Path) -> None:
    """Unpack the files of a boot into its folder. Raises LabBroken.

    By tar(1), which writes nothing outside the folder: Python has such a filter only since 3.11.4, Debian 12 3.11.2.
    """
    run(["tar", "-x", "-C", str(folder)], stdin=archive, hint="free space where results are kept")


@cache
def code_digest() -> str:
    """sha256 over the lab's files: another version could boot the same job differently."""
    digest = sha256()
    for path in sorted(_LAB.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(f"{path.relative_to(_LAB)}\0{digest_file(path)}\n".encode())
    return digest.hexdigest()


def _unfit(order: Order) -> str:
    if code_digest() != order.code:
        return "its blklab is another one"
    qemu = find_qemu()
    if qemu.digest != order.qemu:
        return f"its QEMU {qemu.version_text} {qemu.package} is not the same".replace("  ", " ")
    if not host.guests_that_fit(order.prepared.memory, _lanes().memory):
        return f"a guest of {order.prepared.memory >> 20}M does not fit in its memory"
    return ""


@cache
def _lanes() -> Lanes:
    """Limits the memory that concurrent boots use on the worker's host."""
    return Lanes(1 << 10, host.memory_available())


@contextmanager
def _called_off(stop: str) -> Iterator[threading.Event]:
    """An event that is set once the matrix is stopped."""
    from distributed import Event, get_client  # noqa: PLC0415

    abort, ended = threading.Event(), threading.Event()
    stopping: Any = Event(stop, client=get_client())

    def watch() -> None:
        while not ended.wait(_POLL):
            with suppress(OSError, RuntimeError):
                if stopping.is_set():
                    abort.set()

    watcher = threading.Thread(target=watch, name="called-off", daemon=True)
    watcher.start()
    try:
        yield abort
    finally:
        ended.set()
        watcher.join()


@cache
def _aside() -> "tempfile.TemporaryDirectory[str]":
    """A folder for received files, deleted with the worker."""
    return tempfile.TemporaryDirectory(prefix="blklab-shipped.")


def _packed(folder: Path) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, arcname=path.name)
    return archive.getvalue()

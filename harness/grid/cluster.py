# SPDX-License-Identifier: GPL-2.0-only
"""Boots on a Dask cluster: inputs are sent by digest, results come back to the local store.

A cell's jobs are prepared and judged here; a worker boots one prepared job and returns the folder. Its cache keeps the
kernel and the archive. A worker with another QEMU, another blklab or too little memory is not used; boots of a worker
that died are repeated by another.
"""

import asyncio
import io
import logging
import secrets
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from harness.base.files import writing
from harness.run.bench import Lanes, Stopped, Turns
from lab.base import host
from lab.base.cache import Cache
from lab.base.digest import digest_file, digest_folder, known_digest
from lab.base.errors import LabBroken
from lab.base.process import run
from lab.base.record import BootRecord
from lab.base.units import Tell
from lab.guest.payload import Payload
from lab.native.programs import steady
from lab.qemu.probe import find_qemu
from lab.session import Lab, PhaseSeen, PreparedJob, note_repeat, run_job

# On a worker

KIND = "shipped"
CHUNK = 16 << 20
_FILE = "content"
_STOP_POLL = 1.0
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
        wanted = (order.image, order.prepared.fingerprint["base"])
        entries = {digest: store.find(KIND, digest) for digest in wanted}
        lacking = tuple(digest for digest, path in entries.items() if path is None)
        if lacking:
            return Lacks(worker, lacking)
        image, base = (path / _FILE for path in entries.values() if path is not None)
        kernel = replace(order.prepared.kernel, image=image, vmlinux=image)
        prepared = replace(order.prepared, kernel=kernel, base=base)
        with tempfile.TemporaryDirectory(prefix="blklab-boot.") as folder, _called_off(order.stop) as abort:
            lab = Lab(store, find_qemu(), steady(store), Payload({}, {}))
            with _lanes().taken(prepared.topology.memory, abort=abort):
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
    """Of the lab's files: another version could boot the same job differently."""
    return digest_folder(_LAB)


def _unfit(order: Order) -> str:
    if code_digest() != order.code:
        return "its blklab is another one"
    qemu = find_qemu()
    if qemu.digest != order.qemu:
        return f"its QEMU {qemu.version_text} {qemu.package} is not the same".replace("  ", " ")
    memory = order.prepared.topology.memory
    if not host.guests_that_fit(memory, _lanes().memory):
        return f"a guest of {memory >> 20}M does not fit in its memory"
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
        while not ended.wait(_STOP_POLL):
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


# Here

_ENDLESS = 1 << 60
"""Bytes; each worker limits its own memory."""
_CONNECT = 15
_POLL = 0.5
_PATIENCE = 60.0
"""Seconds without any worker after which boots fail."""


@contextmanager
def elsewhere(address: str | None, tell: Tell) -> Iterator[Turns | None]:
    """Turns on the Dask cluster with its scheduler at ``address``; None for this host. Raises LabBroken."""
    if address is None:
        yield None
        return
    try:
        import distributed  # noqa: PLC0415
    except ImportError as error:
        raise LabBroken(
            "distributed, which runs matrices on a Dask cluster, is not installed",
            remedy="pip install --require-hashes -r requirements/cluster.txt, here and where the workers run",
        ) from error
    # The library logs what is raised here too, with tracebacks.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if reason := asyncio.run(_silence(address)):
        raise LabBroken(
            f"no Dask scheduler answers at {address}: {reason}",
            remedy="correct the address, or start one: dask scheduler",
        )
    with _reachable():
        client = distributed.Client(address, timeout=_CONNECT, set_as_default=False)
    with closing(Cluster(client, tell)) as cluster:
        yield Turns(cluster.lanes(), boot=cluster.run_job)


async def _silence(address: str) -> str:
    """Why there is no scheduler at ``address``; empty if there is one. A client would wait for a greeting for ever."""
    from distributed import rpc  # noqa: PLC0415

    async def identity() -> Any:
        async with rpc(address) as server:
            return await server.identity()

    asking = asyncio.ensure_future(identity())
    await asyncio.wait({asking}, timeout=_CONNECT)
    if not asking.done():
        asking.cancel()
        return f"silent for {_CONNECT} s"
    if error := asking.exception():
        return str(error) or type(error).__name__
    kind = str(asking.result().get("type"))
    return "" if kind == "Scheduler" else f"this is a {kind}"


@contextmanager
def _reachable() -> Iterator[None]:
    """Raises LabBroken for what Dask raises once its scheduler is gone."""
    from distributed.client import ClosedClientError  # noqa: PLC0415

    try:
        yield
    except (OSError, RuntimeError, CancelledError, asyncio.CancelledError, ClosedClientError, AttributeError) as error:
        # A closed client has None for its scheduler (2026.8.0).
        raise LabBroken(
            "the Dask scheduler is gone", remedy="start it, then re-run the same command to resume"
        ) from error


@dataclass
class Cluster:
    """Makes boots like ``lab.session.run_job``, on workers. Threads may share it."""

    client: Any
    tell: Tell
    unfit: dict[str, str] = field(default_factory=dict)
    stop_name: str = field(default_factory=lambda: f"blklab-stop-{secrets.token_hex(8)}")
    _sending: dict[tuple[str, str], threading.Lock] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _deserted: float = inf
    """Since when there is no worker, for all boots together."""

    def lanes(self) -> Lanes:
        return Lanes(max(1, sum(self._workers().values())), _ENDLESS)

    def close(self) -> None:
        """Cancel all boots on workers; errors of a cluster that is gone are ignored."""
        from distributed import Event  # noqa: PLC0415

        with suppress(LabBroken), _reachable():
            Event(self.stop_name, client=self.client).set()
            self.client.close()

    def run_job(
        self,
        lab: Lab,
        prepared: PreparedJob,
        folder: Path,
        *,
        phase_seen: PhaseSeen,
        abort: threading.Event | None = None,
    ) -> BootRecord:
        """Like ``lab.session.run_job``. Raises Stopped once ``abort`` is set, LabBroken if no worker can boot it."""
        boots = prepared.kernel.vmlinux or prepared.kernel.image
        files = {known_digest(boots): boots, prepared.fingerprint["base"]: prepared.base}
        order = Order(prepared, known_digest(boots), lab.qemu.digest, code_digest(), self.stop_name)
        target = ""
        while True:
            phase_seen("on a worker")
            with _reachable():
                reply = self._reply(order, target, abort or threading.Event())
            if isinstance(reply, Booted):
                with writing(folder):
                    unpack(reply.archive, folder)
                    note_repeat(lab, prepared, folder)
                return replace(reply.record, folder=folder)
            with _reachable():
                target = self._answered(reply, files)

    def _answered(self, reply: Lacks | Unfit, files: Mapping[str, Path]) -> str:
        """Send a worker the missing files, or mark it unfit. Returns the worker to try next, empty for any."""
        if isinstance(reply, Unfit):
            with self._guard:
                if self.unfit.setdefault(reply.worker, reply.reason) == reply.reason:
                    self.tell(f"worker {reply.worker} is not used: {reply.reason}")
            return ""
        for digest in reply.digests:
            self._send(reply.worker, digest, files[digest])
        return reply.worker

    def _reply(self, order: Order, target: str, abort: threading.Event) -> Booted | Lacks | Unfit:
        """A worker's reply to the order; sent again if its workers are gone."""
        while True:
            allowed = self._fit(abort)
            submit: dict[str, Any] = {"workers": [target], "allow_other_workers": True} if target in allowed else {}
            if self.unfit:
                submit = {"workers": sorted(allowed)}
            future = self.client.submit(boot_here, order, pure=False, **submit)
            try:
                while not future.done():
                    if abort.wait(_POLL):
                        raise Stopped
                    if not allowed & self._workers().keys():
                        break
                else:
                    return self._result(future)
            finally:
                if not future.done():
                    future.cancel()

    def _result(self, future: Any) -> Booted | Lacks | Unfit:
        from distributed.scheduler import KilledWorker  # noqa: PLC0415

        try:
            reply: Booted | Lacks | Unfit = future.result()
        except KilledWorker as error:
            raise LabBroken(
                "several workers died during one boot", remedy="check their logs, memory and disk space"
            ) from error
        return reply

    def _fit(self, abort: threading.Event) -> frozenset[str]:
        """Workers that may boot. Raises LabBroken if all are unfit, or none appears in time."""
        while True:
            workers = self._workers()
            fit = frozenset(workers) - self.unfit.keys()
            if fit:
                self._deserted = inf
                return fit
            if workers:
                reasons = "; ".join(sorted(set(self.unfit.values())))
                raise LabBroken(f"no worker of the cluster can boot this: {reasons}", remedy="fix the workers")
            if self._deserted == inf:
                self._deserted = time.monotonic()
                self.tell(f"the cluster has no worker; waiting {_PATIENCE:.0f} s for one")
            if time.monotonic() - self._deserted > _PATIENCE:
                raise LabBroken("the cluster has no worker", remedy="start some: dask worker ADDRESS --nthreads 2")
            if abort.wait(_POLL):
                raise Stopped

    def _send(self, worker: str, digest: str, path: Path) -> None:
        """Send a file in pieces; the next order detects a worker that died meanwhile."""
        with self._guard:
            lock = self._sending.setdefault((worker, digest), threading.Lock())
        size = path.stat().st_size
        with lock, path.open("rb") as file:
            for start in range(0, max(1, size), CHUNK):
                place = {"first": not start, "last": start + CHUNK >= size}
                done = self.client.run(receive, digest, file.read(CHUNK), **place, workers=[worker], on_error="return")
                if done.get(worker) is not True:
                    return

    def _workers(self) -> dict[str, int]:
        """Current threads by worker. Raises LabBroken if the scheduler is gone."""
        with _reachable():
            return dict(self.client.nthreads())

# SPDX-License-Identifier: GPL-2.0-only
"""Boots on a Dask cluster: inputs are sent by digest, results come back to the local store.

A cell's jobs are prepared and judged here; a worker boots one prepared job and returns the folder. Its cache keeps the
kernel and the archive. A worker with another QEMU, another blklab or too little memory is not used; boots of a worker
that died are repeated by another.
"""

import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.base.files import writing
from harness.grid.worker import CHUNK, Booted, Lacks, Order, Unfit, boot_here, code_digest, receive, unpack
from harness.run.boots import Lanes, Stopped, Turns
from lab.base.digest import known_digest
from lab.base.errors import LabBroken, Misuse
from lab.base.record import BootRecord
from lab.base.units import Tell
from lab.session import Lab, PhaseSeen, PreparedJob, note_repeat

_ADDRESS = re.compile(r"(tcp|tls|ws|wss)://\S+:[0-9]+")
_ENDLESS = 1 << 60
"""Bytes; each worker limits its own memory."""
_CONNECT = 15
_POLL = 0.5
_PATIENCE = 300.0
"""Seconds without any worker after which a boot fails."""


@contextmanager
def elsewhere(address: str | None, tell: Tell) -> Iterator[Turns | None]:
    """Turns on the Dask cluster at ``address``; None for this host."""
    if address is None:
        yield None
    else:
        with closing(connect(address, tell)) as cluster:
            yield Turns(cluster.lanes(), boot=cluster.run_job)


def connect(address: str, tell: Tell) -> "Cluster":
    """The cluster with its scheduler at ``address``. Raises LabBroken, and Misuse for a malformed address."""
    if not _ADDRESS.fullmatch(address):
        raise Misuse(f"--dask {address}", remedy="the scheduler's address, such as tcp://host:8786")
    try:
        import distributed  # noqa: PLC0415
    except ImportError as error:
        raise LabBroken(
            "distributed, which runs matrices on a Dask cluster, is not installed",
            remedy="pip install --require-hashes -r requirements/cluster.txt, here and where the workers run",
        ) from error
    try:
        client = distributed.Client(address, timeout=_CONNECT, set_as_default=False)
    except OSError as error:
        raise LabBroken(f"no Dask scheduler answers at {address}", remedy="start one: dask scheduler") from error
    return Cluster(client, tell)


@dataclass
class Cluster:
    """Makes boots like ``lab.session.run_job``, on workers. Threads may share it."""

    client: Any
    tell: Tell
    unfit: dict[str, str] = field(default_factory=dict)
    stop_name: str = field(default_factory=lambda: f"blklab-stop-{secrets.token_hex(8)}")
    _sending: dict[tuple[str, str], threading.Lock] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def lanes(self) -> Lanes:
        return Lanes(max(1, sum(self._workers().values())), _ENDLESS)

    def close(self) -> None:
        """Cancel all boots on workers; errors of a cluster that is gone are ignored."""
        from distributed import Event  # noqa: PLC0415

        with suppress(OSError, RuntimeError, LabBroken):
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
        files = {known_digest(boots): boots, prepared.base.digest: prepared.base.path}
        order = Order(prepared, known_digest(boots), lab.qemu.digest, code_digest(), self.stop_name)
        target = ""
        while True:
            phase_seen("on a worker")
            reply = self._reply(order, target, abort or threading.Event())
            if isinstance(reply, Booted):
                with writing(folder):
                    unpack(reply.archive, folder)
                    note_repeat(lab, prepared, folder)
                return replace(reply.record, folder=folder)
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
                    if self.unfit and not allowed & self._workers().keys():
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
        deadline = time.monotonic() + _PATIENCE
        while True:
            workers = self._workers()
            fit = frozenset(workers) - self.unfit.keys()
            if fit:
                return fit
            if workers:
                reasons = "; ".join(sorted(set(self.unfit.values())))
                raise LabBroken(f"no worker of the cluster can boot this: {reasons}", remedy="fix the workers")
            if time.monotonic() > deadline:
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
        try:
            return dict(self.client.nthreads())
        except (OSError, RuntimeError) as error:
            raise LabBroken(
                "the Dask scheduler is gone", remedy="start it, then re-run the same command to resume"
            ) from error

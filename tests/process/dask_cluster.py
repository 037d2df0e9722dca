# SPDX-License-Identifier: GPL-2.0-only
"""A real Dask scheduler and workers, as processes that a test may kill."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


class Cluster:
    """A scheduler and workers of one thread; ``workers`` are their processes in the order of their start.

    Each worker has an empty cache, ``folder/cache-N``.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self._environment = folder, dict(environment)
        self._file = folder / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start(
            "distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard", "--no-jupyter"
        )
        self._until(lambda: self._file.exists() and self._file.read_text().rstrip().endswith("}"))
        self.address: str = json.loads(self._file.read_text())["address"]

    def work(self, **variables: str) -> "subprocess.Popen[bytes]":
        cache = self.folder / f"cache-{len(self.workers)}"
        own = {"BLKLAB_CACHE": str(cache), **variables}
        flags = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1")
        worker = self._start("distributed.cli.dask_worker", *flags, **own)
        self.workers.append(worker)
        return worker

    def await_workers(self, count: int) -> None:
        import distributed

        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=60)

    def boots_of(self, worker: "subprocess.Popen[bytes]") -> list[int]:
        """Machines that this worker runs now."""
        children = Path(f"/proc/{worker.pid}/task").glob("*/children")
        return [int(pid) for path in children for pid in path.read_text().split()]

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, module: str, *flags: str, **variables: str) -> "subprocess.Popen[bytes]":
        log = (self.folder / "cluster.log").open("ab")
        return subprocess.Popen(
            [sys.executable, "-m", module, *flags, "--scheduler-file", str(self._file)],
            cwd=CHECKOUT,
            env={**self._environment, **variables, "PYTHONPATH": str(CHECKOUT)},
            stdout=log,
            stderr=log,
        )

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline, (self.folder / "cluster.log").read_text()
            time.sleep(0.01)

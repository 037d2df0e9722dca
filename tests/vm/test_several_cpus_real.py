# SPDX-License-Identifier: GPL-2.0-only
"""Guests with four CPUs repeat to the byte: cold and warm, idle and busy, by their script and on a cluster."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.digest import digest_file
from lab.base.errors import EXIT_PASS, BlklabError
from lab.kernels.resolve import resolve
from tests.process.dask_cluster import Cluster
from tests.vm.test_determinism import busy_host

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(900)]
CHECKOUT = Path(__file__).parents[2]
KERNEL = "debian:6.1"
FOUR = """\
scenario: four
title: Four jobs on one queue of a null_blk
schema: 1
topology:
  memory: 512M
  machine: {cpus: 4}
  hbas: {nullb: {driver: null_blk, can_queue: 64}}
  disks: {d: {size: 1G, service: 1us}}
  luns: {d: {hba: nullb, disks: [d]}}
queue: {scheduler: none}
window: {ramp: 10ms, runtime: 100ms}
seeds: 1
arms: {n: {}}
loads:
  four:
    r0: {disk: d, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, cpus: 0}
    r1: {disk: d, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, cpus: 1}
    r2: {disk: d, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, cpus: 2}
    r3: {disk: d, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, cpus: 3}
claims:
  - {that: the queue is shared, ratio: n.four.guest.lines.footprint, expect: ">= 1"}
controls:
  - {that: each job has a part, ratio: n.four.r0.lines.footprint / n.four.guest.lines.footprint, expect: ">= 3"}
"""


@pytest.fixture
def four(tmp_path: Path) -> Path:
    try:
        resolve(KERNEL, Cache.default())
    except BlklabError as error:
        pytest.skip(str(error))
    path = tmp_path / "four.yaml"
    path.write_text(FOUR)
    return path


def run(four: Path, results: Path, *words: str, command: str = "run") -> Path:
    """Folder of the run."""
    of_kernel = ("--kernels" if command == "matrix" else "--kernel", KERNEL)
    line = [sys.executable, "-m", "harness", command, str(four), *of_kernel, "--results", str(results), *words]
    done = subprocess.run(line, cwd=CHECKOUT, check=False, capture_output=True, text=True)
    assert done.returncode == EXIT_PASS, done.stdout + done.stderr
    return (results / "four" / "latest").resolve()


def digests(run: Path) -> list[str]:
    return [json.loads(path.read_text())["digest"] for path in sorted(run.glob("boots/*/boot.json"))]


def test_a_restored_guest_and_one_on_a_busy_host_have_the_digest_of_one_that_booted(four: Path, tmp_path: Path) -> None:
    quiet = digests(run(four, tmp_path / "quiet", "--verify"))
    with busy_host():
        busy = digests(run(four, tmp_path / "busy", "--verify"))
    assert len(quiet) == len(busy) == 2
    assert len({*quiet, *busy}) == 1


def test_the_counts_of_four_cpus_come_from_the_kit_too(four: Path, tmp_path: Path) -> None:
    boot = run(four, tmp_path / "results") / "boots" / "000"
    kit = tmp_path / "kit"
    line = [sys.executable, "-m", "harness", "store", "kit", str(boot.parents[1]), "--to", str(kit)]
    assert subprocess.run(line, cwd=CHECKOUT, check=False).returncode == EXIT_PASS
    nowhere = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    again = tmp_path / "again"
    words = ["sh", str(kit / "repeat.sh"), str(again)]
    done = subprocess.run(words, env=nowhere, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the results are identical" in done.stdout
    assert digest_file(again / "window.0") == digest_file(boot / "window.0")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    started = Cluster(tmp_path, {**os.environ})
    yield started
    started.stop()


def test_a_worker_boots_four_cpus(four: Path, cluster: Cluster, tmp_path: Path) -> None:
    here = run(four, tmp_path / "here")
    cluster.work()
    cluster.await_workers(1)
    there = run(four, tmp_path / "there", "--dask", cluster.address, command="matrix")
    assert digests(there) == digests(here)
    assert digest_file(there / "boots" / "000" / "window.0") == digest_file(here / "boots" / "000" / "window.0")

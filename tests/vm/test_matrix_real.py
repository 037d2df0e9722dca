# SPDX-License-Identifier: GPL-2.0-only
"""Matrices of real kernels: one digest alone, on a busy host, and on a cluster that loses a worker."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.base.errors import EXIT_PASS
from tests.process.dask_cluster import Cluster
from tests.vm.host import CHECKOUT, kernel_or_skip

pytestmark = [pytest.mark.network, pytest.mark.slow]
SCENARIO = "selftest/must-pass"
KERNELS = ("debian:6.1", "debian:6.12")
SEEDS = 2

Digests = dict[tuple[str, str], str]


@pytest.fixture(scope="module")
def kernels() -> str:
    for spec in KERNELS:
        kernel_or_skip(spec)
    return " ".join(KERNELS)


def start(*words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "harness", *words]
    return subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def matrix(kernels: str, root: Path, *options: str) -> "subprocess.Popen[str]":
    return start("matrix", SCENARIO, "--kernels", kernels, "--seeds", str(SEEDS), "--results", str(root), *options)


def digests(root: Path) -> Digests:
    records = [json.loads(path.read_text()) for path in root.glob("must-pass/[0-9]*/boots/*/boot.json")]
    found = {(record["fingerprint"]["kernel"], record["fingerprint"]["seed"]): record["digest"] for record in records}
    assert len(found) == len(records) == len(KERNELS) * SEEDS
    return found


@pytest.fixture(scope="module")
def alone(kernels: str, tmp_path_factory: pytest.TempPathFactory) -> Digests:
    """Each boot by itself."""
    root = tmp_path_factory.mktemp("alone")
    process = matrix(kernels, root, "--jobs", "1")
    out, err = process.communicate()
    assert process.returncode == EXIT_PASS, out + err
    return digests(root)


@pytest.fixture
def busy() -> Iterator[None]:
    """Two loops a core beside whatever else runs."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def test_digests_do_not_depend_on_the_load(alone: Digests, kernels: str, busy: None, tmp_path: Path) -> None:
    process = matrix(kernels, tmp_path, "--jobs", "4")
    out, err = process.communicate()
    assert process.returncode == EXIT_PASS, out + err
    assert digests(tmp_path) == alone


def test_a_worker_killed_in_the_middle_changes_no_digest(
    alone: Digests, kernels: str, cluster: Cluster, tmp_path: Path
) -> None:
    first, _ = cluster.work(), cluster.work()
    cluster.await_workers(2)
    root = tmp_path / "results"
    process = matrix(kernels, root, "--dask", cluster.address)
    while not cluster.boots_of(first):
        assert process.poll() is None
        time.sleep(0.05)
    first.kill()
    out, err = process.communicate()
    assert process.returncode == EXIT_PASS, out + err
    assert digests(root) == alone

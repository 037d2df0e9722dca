# SPDX-License-Identifier: GPL-2.0-only
"""Generated mutants on the one kernel: this host and a worker of a cluster store the same trials."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from lab.base import host
from lab.base.errors import EXIT_PASS
from tests.process.dask_cluster import Cluster

pytestmark = [
    pytest.mark.network,
    pytest.mark.vm,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(host.missing_needs(host.BUILD_NEEDS)), reason="needs scripts/host-packages --build"),
]
COUNT = 5
WORDS = ("check", "mutants", "verified-data", "--most", "1", "--count", str(COUNT), "--seed", "1")


def trials(root: Path) -> list[dict[str, Any]]:
    """Those stored, by place, without the time they took."""
    stored = [json.loads(path.read_bytes()) for path in root.glob("mutants/*/trials/*.json")]
    return sorted(({**trial, "seconds": 0} for trial in stored), key=lambda trial: str(trial["place"]))


def test_a_dask_worker_finds_what_this_host_does(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    here, there = tmp_path / "here", tmp_path / "there"
    assert main([*WORDS, "--jobs", "1", "--results", str(here)]) == EXIT_PASS
    stored = trials(here)
    assert len(stored) == COUNT
    assert any(trial["differs"] for trial in stored)
    cluster = Cluster(tmp_path, {**os.environ})
    try:
        cluster.work()
        cluster.await_workers(1)
        assert main([*WORDS, "--dask", cluster.address, "--results", str(there)]) == EXIT_PASS
    finally:
        cluster.stop()
    assert trials(there) == stored

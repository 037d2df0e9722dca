# SPDX-License-Identifier: GPL-2.0-only
"""A kernel without fair tag sharing fails, and generated mutants have the same trials on this host and on a worker."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from lab.base.errors import EXIT_FAIL, EXIT_PASS
from tests.process.dask_cluster import Cluster
from tests.vm.marks import building
from tools.mutation.__main__ import main as try_mutants

pytestmark = building()


def test_shared_queue_fails_without_fair_tag_sharing_and_cmd_per_lun_cures_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arms = [word for arm in ("shared", "bursts", "limited") for word in ("--arm", arm)]
    run = ["run", "shared-queue", "--kernel", "mutant:no-fair-tags", "--seeds", "1", "--results", str(tmp_path)]
    assert main([*run, *arms, "--json"]) == EXIT_FAIL
    verdict = json.loads(capsys.readouterr().out)
    cells = {cell["arm"]: cell["figures"] for cell in verdict["cells"] if cell["figures"]}
    share = {arm: seen["lopsided.victim.iops"] / seen["solo.victim.iops"] for arm, seen in cells.items()}
    assert share["shared"] <= 0.15
    assert share["bursts"] <= 0.15
    assert share["limited"] >= 0.9
    failed = [claim["sentence"] for claim in verdict["claims"] if claim["status"] == "FAIL"]
    assert len(failed) == 2
    assert all(sentence.startswith("the hog's commands fill can_queue (") for sentence in failed)


COUNT = 5
WORDS = ("verified-data", "--most", "1", "--count", str(COUNT), "--seed", "1")


def trials(root: Path) -> list[dict[str, Any]]:
    """Those stored, by place, without the time they took."""
    stored = [json.loads(path.read_bytes()) for path in root.glob("mutants/*/trials/*.json")]
    return sorted(({**trial, "seconds": 0} for trial in stored), key=lambda trial: str(trial["place"]))


def test_a_dask_worker_finds_what_this_host_does(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    here, there = tmp_path / "here", tmp_path / "there"
    assert try_mutants([*WORDS, "--jobs", "1", "--results", str(here)]) == EXIT_PASS
    stored = trials(here)
    assert len(stored) == COUNT
    assert any(trial["differs"] for trial in stored)
    cluster = Cluster(tmp_path, {**os.environ})
    try:
        cluster.work()
        cluster.await_workers(1)
        assert try_mutants([*WORDS, "--dask", cluster.address, "--results", str(there)]) == EXIT_PASS
    finally:
        cluster.stop()
    assert trials(there) == stored

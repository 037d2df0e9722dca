# SPDX-License-Identifier: GPL-2.0-only
"""A kernel without fair tag sharing, built from source: the scenario of the 3ware report fails on it."""

import json
from pathlib import Path

import pytest

from harness.cli import main
from lab.base import host
from lab.base.errors import EXIT_FAIL

pytestmark = [
    pytest.mark.network,
    pytest.mark.vm,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(host.missing_needs(host.BUILD_NEEDS)), reason="needs scripts/host-packages --build"),
]


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

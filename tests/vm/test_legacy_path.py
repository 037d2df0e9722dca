# SPDX-License-Identifier: GPL-2.0-only
"""A kernel before 5.0: its legacy request path against blk-mq, where such a kernel can be had."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from lab.base.errors import EXIT_PASS
from tests.vm.host import blklab

_SPEC = os.environ.get("BLKLAB_TEST_OLD_KERNEL", "")
"""Such as ubuntu:4.18 (with BLKLAB_UBUNTU_MIRROR and BLKLAB_UBUNTU_KEYRING), or tree:PATH@v4.19.78."""
pytestmark = [
    pytest.mark.network,
    pytest.mark.vm,
    pytest.mark.slow,
    pytest.mark.skipif(not _SPEC, reason="needs BLKLAB_TEST_OLD_KERNEL, a kernel from 4.18 to 4.20"),
]
ARMS = ("legacy-noop", "legacy-lun-128", "none")


def run(scenario: str, results: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    once = ("--kernel", _SPEC, "--seeds", "1", "--jobs", "1")
    return blklab("run", scenario, *once, "--results", str(results), *words)


def test_it_boots_without_pvh(tmp_path: Path) -> None:
    done = run("scenarios/selftest/must-pass.yaml", tmp_path, "--cold")
    assert done.returncode == EXIT_PASS, done.stdout + done.stderr


def test_a_hog_slows_its_neighbour_on_the_legacy_path_alone(tmp_path: Path) -> None:
    done = run("legacy-path", tmp_path, *(word for arm in ARMS for word in ("--arm", arm)), "--json")
    cells = {cell["arm"]: cell["figures"] for cell in json.loads(done.stdout)["cells"]}
    share = {arm: seen["lopsided.victim.iops"] / seen["solo.victim.iops"] for arm, seen in cells.items()}
    assert share["legacy-noop"] <= 0.8
    assert share["legacy-lun-128"] >= 0.9
    assert share["none"] >= 0.9


def test_a_hog_starves_a_fast_neighbour_there_and_cmd_per_lun_cures_it(tmp_path: Path) -> None:
    done = run("legacy-fair-tags", tmp_path)
    assert done.returncode == EXIT_PASS, done.stdout + done.stderr

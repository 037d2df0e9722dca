# SPDX-License-Identifier: GPL-2.0-only
"""`git bisect run blklab run ...` as it is: a history of made-up kernels, each behaving as its commit says."""

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.process.fake_lab import CHECKOUT, FakeLab

GOOD_KERNEL: Mapping[str, object] = {}
BAD_KERNEL: Mapping[str, object] = {"iops": {"lopsided.victim": 10.0}}
DEAD_KERNEL: Mapping[str, object] = {"garble": [1, "start"]}


class History:
    """A repository whose commits hold the plan of the made-up QEMU and the scenario."""

    def __init__(self, lab: FakeLab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        folder.mkdir()
        self.git("init", "-q")

    def git(self, *words: str) -> str:
        own = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", *own, *words]
        environment = self.lab.environment()
        done = subprocess.run(command, cwd=self.folder, env=environment, check=False, capture_output=True, text=True)
        return done.stdout + done.stderr

    def commit(self, name: str, plan: Mapping[str, object], scenario: str = "") -> None:
        (self.folder / "plan").write_text(json.dumps({**plan, "name": name}))
        (self.folder / "t.yaml").write_text(scenario or self.lab.scenario.read_text())
        self.git("add", "-A")
        self.git("commit", "-q", "-m", name)

    def bisect(self, commits: int) -> str:
        options = self.lab.words("--seeds", "1", scenario=self.folder / "t.yaml")
        command = shlex.join([sys.executable, "-m", "harness", *options])
        script = self.lab.folder / "bisect"
        # A log of its own for each run, because plans count boots from its beginning.
        plan = "FAKE_PLAN=$(cat plan) FAKE_LOG=$(mktemp -p ..)"
        lines = ["#!/bin/sh", plan, "export FAKE_PLAN FAKE_LOG=$PWD/$FAKE_LOG", f"cd {shlex.quote(str(CHECKOUT))}"]
        script.write_text("\n".join([*lines, f"exec {command}\n"]))
        script.chmod(0o755)
        self.git("bisect", "start", "HEAD", f"HEAD~{commits - 1}")
        return self.git("bisect", "run", str(script))


@pytest.fixture
def history(lab: FakeLab) -> History:
    return History(lab, lab.folder / "repository")


def test_the_first_bad_commit_is_found_past_kernels_that_never_come_up(history: History) -> None:
    plans: list[Mapping[str, object]] = [*[GOOD_KERNEL] * 3, DEAD_KERNEL, GOOD_KERNEL, *[BAD_KERNEL] * 3]
    for number, plan in enumerate(plans):
        history.commit(f"commit-{number}", plan)
    said = history.bisect(len(plans))
    assert "is the first bad commit" in said, said
    assert "commit-5" in said.partition("is the first bad commit")[2]


def test_a_defect_of_the_lab_stops_the_bisection_without_a_culprit(history: History) -> None:
    broken = history.lab.scenario.read_text().replace("seeds: 2", "sceds: 2")
    for number, plan in enumerate([GOOD_KERNEL, GOOD_KERNEL, BAD_KERNEL, BAD_KERNEL]):
        history.commit(f"commit-{number}", plan, scenario=broken)
    said = history.bisect(4)
    assert "first bad commit" not in said
    assert "129" in said

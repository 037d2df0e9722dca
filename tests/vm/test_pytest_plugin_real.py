# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios on real kernels under pytest, as a person starts it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.fake_lab import processes_below
from tests.vm.host import CHECKOUT

pytestmark = pytest.mark.network

PATIENCE = 1200.0  # seconds until the next thing must have happened, on a busy host too


def command(results: Path, *options: str) -> list[str]:
    plugin = ("-p", "harness.pytest_plugin", "-p", "no:cacheprovider", "-ra")
    return [sys.executable, "-m", "pytest", *plugin, "--blklab-results", str(results), "--seeds=1", *options]


@pytest.mark.slow
def test_scenarios_and_selftests_on_two_kernels(tmp_path: Path) -> None:
    scenarios = ["scenarios/null-shared-tags.yaml", "scenarios/selftest/must-oops.yaml"]
    kernels = ["--kernel=debian:6.1", "--kernel=debian:5.10"]
    argv = command(tmp_path / "results", *kernels, f"--junitxml={tmp_path}/r.xml", *scenarios)
    done = subprocess.run(argv, cwd=CHECKOUT, check=False, capture_output=True, text=True)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "1 failed, 3 passed" in done.stdout
    assert "FAILED scenarios/null-shared-tags.yaml::null-shared-tags[debian:5.10]" in done.stdout
    assert "tags are free that the slow one does not hold" in " ".join(done.stdout.split()), done.stdout
    assert "Traceback" not in done.stdout
    assert "null-shared-tags[debian:6.1]" in (tmp_path / "r.xml").read_text()


@pytest.fixture
def started(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    argv = command(tmp_path / "results", "--kernel=debian:6.1", "scenarios/null-shared-tags.yaml")
    with subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        yield process
        process.kill()
    for left in processes_below(tmp_path):
        os.kill(left, signal.SIGKILL)


def test_an_interrupt_leaves_no_machine(started: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not processes_below(tmp_path):
        assert started.poll() is None and time.monotonic() < deadline, "no machine was started"
    started.send_signal(signal.SIGINT)
    assert started.wait(timeout=PATIENCE) == pytest.ExitCode.INTERRUPTED
    assert processes_below(tmp_path) == set()

# SPDX-License-Identifier: GPL-2.0-only
"""The promise of the virtual clock, on real kernels: the same digest whatever else the host does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.run.plan import guest_job
from harness.scenario.load import read_scenario
from harness.scenario.model import Scenario
from lab.base import host
from lab.base.errors import EXIT_FAIL, EXIT_PASS
from lab.base.record import BootRecord, Outcome
from lab.session import Lab, prepare_job, run_job
from tests.process.fake_lab import processes_below
from tests.vm.host import CHECKOUT, blklab, kernel_or_skip

pytestmark = pytest.mark.network
PATIENCE = 1200
"""Seconds until the next thing must have happened, on a busy host too."""
SMALL = """\
scenario: small
title: One arm, short windows
clock: virtual
schema: 1
topology: neighbours
queue: {scheduler: mq-deadline}
seeds: 1
window: {ramp: 100ms, runtime: 400ms}
arms:
  shared: {hba.cmd_per_lun: 64}
loads:
  solo:
    victim: {disk: p1, rw: randread, bs: 4k, iodepth: 4}
  lopsided:
    hog: {disk: p0, rw: randread, bs: 4k, iodepth: 32}
    victim: {disk: p1, rw: randread, bs: 4k, iodepth: 4}
claims:
  - that: the victim gets on
    ratio: shared.lopsided.victim.iops / shared.solo.victim.iops
    expect: "> 0"
controls:
  - that: the hog does not
    ratio: shared.lopsided.hog.iops / shared.solo.victim.iops
    expect: "<= 0.9"
"""


@pytest.fixture
def small(tmp_path: Path) -> Scenario:
    (tmp_path / "small.yaml").write_text(SMALL)
    return read_scenario("small", search=tmp_path)


@contextmanager
def busy_host() -> Iterator[None]:
    """A loop for every core, twice."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * host.usable_cores())]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def boots(lab: Lab, scenario: Scenario, seeds: list[int], root: Path) -> list[BootRecord]:
    """One boot for each seed, as many side by side as there are cores; each ended well."""
    debian, (arm,) = kernel_or_skip("debian:6.1"), scenario.arms.values()

    def boot(number: int) -> BootRecord:
        folder = root / str(number)
        folder.mkdir(parents=True)
        prepared = prepare_job(lab, debian, arm.topology, guest_job(scenario, arm, seeds[number]))
        return run_job(lab, prepared, folder)

    with ThreadPoolExecutor(host.usable_cores()) as pool:
        records = list(pool.map(boot, range(len(seeds))))
    assert {(record.outcome, record.detail, record.warnings) for record in records} == {(Outcome.BYE, "", ())}
    return records


def test_a_cell_repeats_to_the_last_digit_while_the_host_is_busy(lab: Lab, small: Scenario, tmp_path: Path) -> None:
    quiet = boots(lab, small, [1, 2], tmp_path / "quiet")
    with busy_host():
        busy = boots(lab, small, [1, 2], tmp_path / "busy")
    assert [record.digest for record in quiet] == [record.digest for record in busy]
    assert [record.files["solo.json"] for record in quiet] == [record.files["solo.json"] for record in busy]
    assert [record.virtual for record in quiet] == [record.virtual for record in busy]
    assert quiet[0].digest != quiet[1].digest
    assert quiet[0].fingerprint == busy[0].fingerprint != quiet[1].fingerprint


@pytest.mark.slow
def test_twenty_boots_of_one_cell_under_full_load(lab: Lab, small: Scenario, tmp_path: Path) -> None:
    with busy_host():
        records = boots(lab, small, [1] * 20, tmp_path / "boots")
    assert len({record.digest for record in records}) == 1


def test_verify(lab: Lab, small: Scenario, tmp_path: Path) -> None:
    kernel_or_skip("debian:6.1")
    done = blklab("run", str(small.path), "--kernel", "debian:6.1", "--verify", "--results", str(tmp_path / "results"))
    assert done.returncode == EXIT_PASS, done.stdout + done.stderr
    assert len(list(tmp_path.glob("results/small/[0-9]*/boots/*/boot.json"))) == 2


@pytest.mark.parametrize("spec", [pytest.param("debian:6.1", marks=pytest.mark.slow), "debian:6.12"])
def test_shared_queue_passes(lab: Lab, tmp_path: Path, spec: str) -> None:
    kernel_or_skip(spec)
    done = blklab("run", "shared-queue", "--kernel", spec, "--seeds", "1", "--results", str(tmp_path))
    assert done.returncode == EXIT_PASS, done.stdout + done.stderr


@pytest.mark.slow  # tests/vm/test_two_kernels.py measures the same two kernels.
@pytest.mark.parametrize("spec, code", [("debian:5.10", EXIT_FAIL), ("debian:6.1", EXIT_PASS)])
def test_a_real_regression_between_two_kernels(lab: Lab, tmp_path: Path, spec: str, code: int) -> None:
    kernel_or_skip(spec)
    done = blklab("run", "null-shared-tags", "--kernel", spec, "--seeds", "1", "--results", str(tmp_path))
    assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.parametrize("mark", ["console.txt", "results.txt"], ids=["while it boots", "while it measures"])
def test_a_killed_run_leaves_no_machine_and_is_taken_up(lab: Lab, small: Scenario, tmp_path: Path, mark: str) -> None:
    kernel_or_skip("debian:6.1")
    words = ["run", str(small.path), "--kernel", "debian:6.1", "--results", str(tmp_path / "results")]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *words], cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while not any(path.stat().st_size for path in tmp_path.glob(f"results/small/*/boots/000/{mark}")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert len(processes_below(tmp_path)) == 1
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    deadline = time.monotonic() + PATIENCE
    while left := processes_below(tmp_path):
        assert time.monotonic() < deadline, f"still alive: {left}"
    assert not list(tmp_path.glob("results/small/*/boots/*/boot.json"))
    assert blklab(*words).returncode == EXIT_PASS
    assert len(list(tmp_path.glob("results/small/[0-9]*"))) == 1

# SPDX-License-Identifier: GPL-2.0-only
"""A guest that goes on from a snapshot leaves the bytes of one that booted, on real kernels and a busy host."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.checkout import SCENARIOS
from harness.base.plain import identity
from harness.run.plan import guest_job
from harness.scenario.load import read_scenario
from harness.scenario.model import Arm, Scenario
from lab.base.digest import digest_file
from lab.base.errors import BlklabError
from lab.base.record import BootRecord, Outcome
from lab.kernels.resolve import resolve
from lab.qemu import snapshot
from lab.qemu.argv import CONSOLE_FILE, RESULTS_FILE
from lab.session import Lab, prepare_job, run_job, unmet
from tests.vm.test_determinism import SMALL, busy_host

pytestmark = pytest.mark.network
KERNELS = ("debian:5.10", "debian:6.1", "debian:6.12", "debian:7.2")
ONE_OF_KERNELS = [pytest.param(spec, marks=[] if spec == "debian:6.1" else pytest.mark.slow) for spec in KERNELS]
"""``make test`` takes one kernel, ``make test-all`` all of them."""
STACKS = ("md-resync", "sas-multipath", "nvme-multipath-iopolicy")
"""Scenarios over md, dm-multipath and NVMe over TCP."""
SHORTER = 4


@pytest.fixture(autouse=True, scope="module")
def load_on_every_core() -> Iterator[None]:
    with busy_host():
        yield


def first_arm(scenario: Scenario) -> Arm:
    return next(iter(scenario.arms.values()))


def boot(lab: Lab, spec: str, scenario: Scenario, seed: int, folder: Path) -> BootRecord:
    try:
        kernel = resolve(spec, lab.cache)
    except BlklabError as error:
        pytest.skip(f"{spec} cannot be had here: {error.message}")
    arm = first_arm(scenario)
    if reasons := unmet(lab, kernel, arm.topology, arm.queue):
        pytest.skip("; ".join(reasons))
    folder.mkdir(parents=True)
    record = run_job(lab, prepare_job(lab, kernel, arm.topology, guest_job(scenario, arm, seed)), folder)
    assert (record.outcome, record.detail) == (Outcome.BYE, "")
    return record


def same_bytes(lab: Lab, spec: str, scenario: Scenario, tmp_path: Path) -> BootRecord:
    """Boot one cell, and go on from a snapshot. Return the record of the boot."""
    cold = boot(replace(lab, cold=True), spec, scenario, 1, tmp_path / "cold")
    first = boot(lab, spec, scenario, 1, tmp_path / "warm")
    saved = {entry.key for entry in lab.cache.entries() if entry.kind == snapshot.KIND}
    assert snapshot.key_of(cold.fingerprint) in saved
    assert_same(cold, first)
    assert first.wall["boot"] < cold.wall["boot"]
    return cold


def assert_same(cold: BootRecord, record: BootRecord) -> None:
    assert record.fingerprint == cold.fingerprint
    assert record.digest == cold.digest
    for name in (RESULTS_FILE, CONSOLE_FILE):
        assert digest_file(record.folder / name) == digest_file(cold.folder / name), name
    assert record.virtual == cold.virtual


def shorter(scenario: Scenario) -> Scenario:
    """The scenario with windows of a quarter."""
    loads = {
        name: replace(load, ramp=load.ramp // SHORTER, runtime=load.runtime // SHORTER)
        for name, load in scenario.loads.items()
    }
    changed = replace(scenario, loads=loads)
    return replace(changed, digest=identity(changed))


@pytest.mark.slow
@pytest.mark.parametrize("spec", KERNELS)
def test_a_restored_guest_with_modelled_disks(lab: Lab, spec: str, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL.replace("topology: neighbours", "topology: 3ware-8506"))
    scenario = read_scenario("small", search=tmp_path)
    cold = same_bytes(lab, spec, scenario, tmp_path)
    # A boot with another seed leaves nothing behind in the snapshot.
    other, again = (boot(lab, spec, scenario, seed, tmp_path / f"seed-{seed}") for seed in (2, 1))
    assert other.digest != cold.digest
    assert_same(cold, again)


@pytest.mark.parametrize("spec", ONE_OF_KERNELS)
def test_a_restored_guest_in_a_selftest(lab: Lab, spec: str, tmp_path: Path) -> None:
    same_bytes(lab, spec, read_scenario("must-pass", search=SCENARIOS / "selftest"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("spec", KERNELS)
def test_a_restored_guest_over_a_stack(lab: Lab, spec: str, name: str, tmp_path: Path) -> None:
    same_bytes(lab, spec, shorter(read_scenario(name)), tmp_path)

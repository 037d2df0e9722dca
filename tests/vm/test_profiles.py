# SPDX-License-Identifier: GPL-2.0-only
"""Profiles of real boots: the guest notices nothing, every instruction has a function, and they repeat."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.profile.differential import differential
from harness.profile.model import Group, Profile
from harness.profile.recorded import FOLDER, Cell, profile_of
from harness.record.store import load_run
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS, BlklabError
from lab.kernels.resolve import resolve
from lab.session import open_lab

pytestmark = [pytest.mark.network, pytest.mark.vm]
CHECKOUT = Path(__file__).parents[2]
KERNEL = "debian:6.1"
SMALL = """\
scenario: small
title: Reads of a null_blk device
clock: virtual
schema: 1
topology: io-cost-null-blk
queue: {scheduler: none}
seeds: 1
window: {ramp: 20ms, runtime: 40ms}
arms:
  none: {queue.scheduler: none}
  mq-deadline: {queue.scheduler: mq-deadline}
loads:
  libaio:
    io: {disk: dev, rw: randread, bs: 4k, iodepth: 32, ioengine: libaio}
claims:
  - that: an elevator costs instructions
    ratio: mq-deadline.libaio.io.cpu.per_io / none.libaio.io.cpu.per_io
    expect: "> 1"
controls:
  - that: no elevator does not pass for one
    ratio: none.libaio.io.cpu.per_io / mq-deadline.libaio.io.cpu.per_io
    expect: ">= 1"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a finished run of ``SMALL``."""
    try:
        resolve(KERNEL, Cache.default())
    except BlklabError as error:
        pytest.skip(str(error))
    root = tmp_path_factory.mktemp("profiles")
    (root / "small.yaml").write_text(SMALL)
    command = [sys.executable, "-m", "harness", "run", str(root / "small.yaml"), "--kernel", KERNEL]
    command += ["--results", str(root)]
    done = subprocess.run(command, check=False, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == EXIT_PASS, done.stdout + done.stderr
    return (root / "small" / "latest").resolve()


@pytest.fixture(scope="module")
def profiled(run: Path) -> Callable[[str], Profile]:
    """``profile_of`` raises LabBroken unless the profiled boot's digest is that of the stored one."""
    cache = Cache.default()
    lab, kernel = open_lab(cache), resolve(KERNEL, cache)
    return lambda arm: profile_of(lab, load_run(run), Cell(arm, "libaio"), kernel, phase_seen=lambda _: None)


@pytest.mark.timeout(900)
def test_every_instruction_has_a_function_and_a_call_path(profiled: Callable[[str], Profile]) -> None:
    found = profiled("none")
    assert found.unexplained == 0
    assert found.surprises == 0
    assert found.head.per_io is not None
    # /proc/stat counts in ticks of 10 ms, the window has four.
    assert float(found.per_io(found.total)) == pytest.approx(found.head.per_io, rel=0.25)
    names = {function.name: cost for function, cost in found.costs.items() if function.group is Group.KERNEL}
    assert float(found.per_io(names["blk_mq_submit_bio"].calls)) == pytest.approx(1, rel=0.05)


@pytest.mark.timeout(900)
def test_two_profiles_of_one_cell_are_the_same_bytes(profiled: Callable[[str], Profile], run: Path) -> None:
    profiled("none")
    (first,) = run.parent.glob(f"{FOLDER}/*/libaio.json")
    before = first.read_bytes()
    shutil.rmtree(first.parent)
    profiled("none")
    assert first.read_bytes() == before


@pytest.mark.timeout(900)
def test_an_elevator_shows_in_the_differential(profiled: Callable[[str], Profile]) -> None:
    found = differential(profiled("none"), profiled("mq-deadline"))
    new = [change.function.name for change in found.changes if change.note == "new"]
    assert found.rest == 0
    assert "dd_insert_requests" in new

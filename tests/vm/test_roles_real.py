# SPDX-License-Identifier: GPL-2.0-only
"""What roles may ask for, in one boot: sizes with shares, polling, steps before a load and a page cache kept."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.record.store import load_run
from lab.kernels.model import Kernel
from lab.session import Lab
from tests.vm.host import blklab

pytestmark = pytest.mark.network
MIB = 1 << 20
ROLES = """\
scenario: roles
title: What roles may ask for
clock: virtual
schema: 1
topology:
  topology: roles
  memory: 768M
  disks: {d0..1: {size: 256M, service: 1ms}, d2: {size: 128M, service: 1ms}}
  hbas: {h: {driver: null_blk, can_queue: 64, poll_queues: 1}}
  luns: {d0..2: {hba: h, disks: [d0..2]}}
  stacks: {fs: {kind: filesystem, type: ext4, over: [d1]}, full: {kind: filesystem, type: ext4, over: [d2]}}
queue: {scheduler: none}
seeds: 1
window: {ramp: 50ms, runtime: 250ms}
arms: {one: {}}
loads:
  split:
    io: {disk: d0, rw: randread, bs: 34k, iodepth: 4, bssplit: 4k/50:64k/50, norandommap: true}
  interrupts:
    io: {disk: d0, rw: randread, bs: 4k, iodepth: 4, ioengine: io_uring}
  polled:
    io: {disk: d0, rw: randread, bs: 4k, iodepth: 4, ioengine: io_uring, hipri: true}
  cold:
    window: {ramp: 0s, runtime: 250ms}
    io: {disk: fs, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, direct: false, size: 8M}
  half:
    window: {ramp: 0s, runtime: 250ms}
    warm: [{disk: fs, rw: read, bs: 64k, iodepth: 1, ioengine: psync, direct: false, size: 4M, files: io}]
    io: {disk: fs, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, direct: false, size: 8M, invalidate: false}
  warm:
    window: {ramp: 0s, runtime: 250ms}
    prepare: [{disk: fs, rw: write, bs: 1M, iodepth: 1, ioengine: psync, size: 16M, files: old}]
    warm: [{disk: fs, rw: read, bs: 64k, iodepth: 1, ioengine: psync, direct: false, size: 8M, files: io}]
    io: {disk: fs, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, direct: false, size: 8M, invalidate: false}
  shared:
    window: {ramp: 0s, runtime: 250ms}
    warm: [{disk: fs, rw: read, bs: 64k, iodepth: 1, ioengine: psync, direct: false, size: 8M, files: both}]
    low:
      {disk: fs, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, direct: false, size: 8M, files: both,
       invalidate: false}
    high:
      {disk: fs, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, direct: false, size: 8M, files: both,
       invalidate: false}
  fresh:
    window: {ramp: 0s, runtime: 250ms}
    new: {disk: full, rw: write, bs: 1M, iodepth: 1, ioengine: psync, direct: false, size: 8M, fsync: 4}
  aged:
    window: {ramp: 0s, runtime: 500ms}
    prepare:
      - {disk: full, rw: write, bs: 32k, iodepth: 1, ioengine: psync, size: 105600k, nrfiles: 3300, age: true}
    io: {disk: full, rw: write, bs: 1M, iodepth: 1, ioengine: psync, direct: false, size: 32M, fsync: 4}
"""


@pytest.fixture(scope="module")
def boot(machine: tuple[Lab, Kernel], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roles")
    (folder / "roles.yaml").write_text(ROLES)
    done = blklab("run", str(folder / "roles.yaml"), "--kernel", "debian:6.1", "--results", str(folder / "results"))
    assert done.returncode == 0, done.stdout + done.stderr
    return load_run(folder / "results" / "roles" / "latest").path


@pytest.fixture(scope="module")
def figures(boot: Path) -> Mapping[str, float]:
    (cell,) = json.loads((boot / "verdict.json").read_text())["cells"]
    return {name: float(value) for name, value in cell["figures"].items()}


def test_sizes_come_with_their_shares(figures: Mapping[str, float]) -> None:
    """34 KiB, 68 sectors, in the mean of 1,200 requests; a size deviates by 0.88 of it, so their mean by 2.5 %."""
    assert figures["split.io.disk.reads.sectors"] / figures["split.io.disk.reads"] == pytest.approx(68, rel=0.1)


def test_what_is_polled_does_not_wait_for_the_device_s_timer(figures: Mapping[str, float]) -> None:
    """Four requests of 1 ms are 4,000 a second; polled ones complete when somebody asks."""
    assert figures["interrupts.io.iops"] == pytest.approx(4000, rel=0.05)
    assert figures["polled.io.iops"] > 5 * figures["interrupts.io.iops"]


def test_steps_end_before_the_window_and_leave_a_warm_cache(boot: Path, figures: Mapping[str, float]) -> None:
    # Each of 250 reads takes a millisecond.
    assert figures["cold.io.disk.reads"] > 150
    assert figures["warm.io.disk.reads"] == 0
    assert figures["warm.io.iops"] > 10 * figures["cold.io.iops"]
    # No block is read twice. Of about 500 reads 0.5 hit, with a deviation of 0.022; a warm half is read ahead, too.
    assert figures["cold.io.page_cache.hits"] == 0
    assert figures["half.io.page_cache.hits"] == pytest.approx(0.5, abs=0.1)
    assert figures["warm.io.page_cache.hits"] == 1
    out = boot / "boots" / "000" / "out"
    for step, way, size in (("prepare1", "write", 16 * MIB), ("warm1", "read", 8 * MIB)):
        (job,) = json.loads((out / f"warm.{step}.json").read_bytes())["jobs"]
        assert (job["error"], job[way]["io_bytes"]) == (0, size)
    kinds = [line for line in (boot / "boots" / "000" / "results.txt").read_text().splitlines() if " load warm" in line]
    assert [line.split()[-1] for line in kinds] == ["warm.prepare1", "warm.warm1", "warm"]


def test_two_roles_of_a_load_use_one_file(figures: Mapping[str, float]) -> None:
    """The step read one file, so another one would come from the disk."""
    for role in ("low", "high"):
        assert figures[f"shared.{role}.disk.reads"] == 0
        assert figures[f"shared.{role}.iops"] > 10 * figures["cold.io.iops"]


def test_free_space_in_pieces_makes_small_requests(figures: Mapping[str, float]) -> None:
    """Of 32 MiB 3.2 are in one piece (2.56 reserves ext4, s_resv_clusters, and 0.64 the step leaves), and the rest in
    holes of 64 sectors: 69 in the mean without metadata. A request has at most 255 sectors."""
    fresh, aged = (
        figures[f"{role}.disk.writes.sectors"] / figures[f"{role}.disk.writes"] for role in ("fresh.new", "aged.io")
    )
    assert fresh >= 128
    assert aged <= 72

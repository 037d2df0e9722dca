# SPDX-License-Identifier: GPL-2.0-only
"""What is done to devices under a load: the kernel accepts it, and I/Os wait for its end."""

import json
import re
from pathlib import Path

import pytest

from harness.record.store import load_run
from tests.vm.host import blklab

pytestmark = [pytest.mark.network, pytest.mark.slow]
HEAD = """\
scenario: done
title: What is done to devices while a load runs
schema: 1
queue: {scheduler: none}
window: {ramp: 0s, runtime: 500ms}
seeds: 1
arms: {a: {}}
"""
STACKS = """\
topology:
  memory: 512M
  hbas: {h: {driver: null_blk, can_queue: 64}}
  disks: {d0..3: {size: 128M, service: 10us}}
  luns: {d0..3: {hba: h, disks: [d0..3]}}
  stacks:
    fs: {kind: filesystem, type: ext4, over: [d2]}
    md0: {kind: md, level: raid1, over: [d0..1], bitmap: internal}
    pa: {kind: linear, over: [d3], size: 64M}
loads:
  load:
    file: {disk: fs, rw: randwrite, bs: 4k, iodepth: 1, ioengine: psync, size: 8M, thinktime: 1ms}
    writer: {disk: md0, rw: randwrite, bs: 4k, iodepth: 1, ioengine: psync, thinktime: 1ms}
    reader: {disk: pa, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, thinktime: 1ms}
    events:
      - {at: 50ms, disk: md0, do: fail, member: d1}
      - {at: 60ms, disk: md0, do: remove, member: d1}
      - {at: 70ms, disk: md0, do: re-add, member: d1}
      - {at: 100ms, disk: fs, do: freeze}
      - {at: 150ms, disk: fs, do: thaw}
      - {at: 200ms, disk: pa, do: suspend, ios: 3}
      - {at: 400ms, disk: pa, do: resume}
"""
LUNS = """\
topology:
  memory: 512M
  hbas: {h: {driver: scsi_debug, can_queue: 64}}
  disks: {d0..1: {size: 64M, service: 10us}}
  luns: {d0..1: {hba: h, disks: [d0..1]}}
loads:
  load:
    reader: {disk: d0, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, thinktime: 1ms}
    events:
      - {at: 40ms, disk: d1, do: delete}
      - {at: 60ms, disk: d1, do: rescan}
"""
MIRROR = """\
topology:
  memory: 512M
  hbas: {h: {driver: null_blk, can_queue: 64}}
  disks: {d0..1: {size: 32M, service: 10us}}
  luns: {d0..1: {hba: h, disks: [d0..1]}}
  stacks: {md0: {kind: md, level: raid1, over: [d0..1]}}
loads:
  load:
    reader: {disk: md0, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, thinktime: 1ms, size: 256k}
    writer: {disk: md0, rw: randwrite, bs: 4k, iodepth: 1, ioengine: psync, thinktime: 1ms, size: 256k}
    events:
      - {at: 100ms, disk: d0, write: config/badblocks, to: +2048-2559, errors: true}
"""
ERRORS = """\
topology:
  memory: 512M
  hbas: {h: {driver: scsi_debug, can_queue: 64}}
  disks: {d0: {size: 64M, service: 10us}}
  luns: {d0: {hba: h, disks: [d0]}}
loads:
  load:
    reader: {disk: d0, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, thinktime: 1ms}
    events:
      - {at: 100ms, disk: d0, write: config/opts, to: "16", errors: true}
      - {at: 110ms, disk: d0, write: config/every_nth, to: "1"}
      - {at: 400ms, disk: d0, write: config/every_nth, to: "0"}
"""


@pytest.mark.parametrize("kernel", ["debian:6.1", "debian:7.2"])
@pytest.mark.parametrize(
    ("text", "least", "logged"),
    [
        (STACKS, {"file.lat.max": 45e6, "reader.lat.max": 100e6}, "md0"),
        (LUNS, {}, "is deleted"),
        (MIRROR, {"reader.errors": 0, "writer.errors": 0}, "I/O error, dev nullb0"),
        (ERRORS, {"reader.errors": 1, "reader.lat.max": 30e6}, "I/O error, dev sda"),
    ],
    ids=["stacks", "luns", "mirror", "errors"],
)
def test_the_kernel_does_what_events_ask_for(
    kernel: str, text: str, least: dict[str, float], logged: str, tmp_path: Path
) -> None:
    """A write waits while its filesystem is frozen, for 50 ms, a read while its device is suspended, for some 150 ms.

    A LUN is deleted 40 ms from the beginning of the window, which has no ramp. A mirror has a member with bad blocks,
    and its roles see no error. A read whose command fails each time it is tried again, some ms later, has one.
    """
    (tmp_path / "done.yaml").write_text(HEAD + text)
    done = blklab("run", str(tmp_path / "done.yaml"), "--kernel", kernel, "--results", str(tmp_path / "results"))
    assert done.returncode == 0, done.stdout + done.stderr
    run = load_run(tmp_path / "results" / "done" / "latest").path
    (tried,) = run.glob("boots/*/out/tried")
    rows = [line.split("\t") for line in tried.read_text().splitlines()]
    assert len(rows) == text.count("{at: ")
    assert {accepted for _, _, accepted, _ in rows} == {"1"}
    (cell,) = json.loads((run / "verdict.json").read_text())["cells"]
    (log,), (samples,) = run.glob("boots/*/console.txt"), run.glob("boots/*/out/load.samples.json")
    for uptime in re.findall(r"\[ *([0-9.]+)\] blklab: .* is deleted", log.read_text()):
        assert 0 <= 1e3 * float(uptime) - json.loads(samples.read_text())["began"] / 1e6 - 40 < 5
    (said,) = run.glob("boots/*/out/kmsg")
    assert logged in said.read_text()
    for name, value in least.items():
        figure = cell["figures"][f"load.{name}"]
        assert figure >= value if value else figure == 0, name

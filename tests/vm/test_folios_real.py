# SPDX-License-Identifier: GPL-2.0-only
"""The folios that writes of 1 MiB get: single pages, or of 1 MiB where kernel and filesystem allow it."""

import json
from pathlib import Path

import pytest

from harness.record.store import load_run
from lab.kernels.model import Kernel
from lab.session import Lab
from tests.vm.host import blklab

pytestmark = [pytest.mark.network, pytest.mark.slow]
SECTORS_OF_A_PAGE, SECTORS_OF_A_MIB = 8, 2048
FOLIOS = """\
scenario: folios
title: Writes of 1 MiB get folios of 1 MiB
schema: 1
topology:
  topology: folios
  memory: 768M
  disks: {d0: {size: 512M, service: 1ms}}
  hbas: {h: {driver: null_blk, can_queue: 64}}
  luns: {d0: {hba: h, disks: [d0]}}
  stacks: {fs: {kind: filesystem, type: ext4, over: [d0]}}
queue: {scheduler: none}
seeds: 1
window: {ramp: 0s, runtime: 100ms}
arms: {ext4: {}, xfs: {stack.fs.type: xfs}}
loads:
  write:
    folios: true
    writer: {disk: fs, rw: write, bs: 1M, iodepth: 1, ioengine: psync, direct: false, size: 32M}
"""


@pytest.mark.parametrize(
    ("spec", "large"),
    [
        # iomap asks for folios as large as a write since 6.6 (d6bb59a9444d), ext4 since 6.16.
        ("debian:6.1", {"ext4": False, "xfs": False}),
        ("debian:6.12", {"ext4": False, "xfs": True}),
        ("debian:7.2", {"ext4": True, "xfs": True}),
    ],
)
def test_folios_are_as_large_as_a_write_where_the_filesystem_asks_for_it(
    spec: str, large: dict[str, bool], machine: tuple[Lab, Kernel], tmp_path: Path
) -> None:
    (tmp_path / "folios.yaml").write_text(FOLIOS)
    done = blklab("run", str(tmp_path / "folios.yaml"), "--kernel", spec, "--results", str(tmp_path / "results"))
    assert done.returncode == 0, done.stdout + done.stderr
    run = load_run(tmp_path / "results" / "folios" / "latest").path
    for cell in json.loads((run / "verdict.json").read_text())["cells"]:
        figures = {name.removeprefix("write.writer."): value for name, value in cell["figures"].items()}
        # The file's 32 MiB, each once: later rounds of the window find its folios there.
        assert figures["folios.sectors"] >= 32 * SECTORS_OF_A_MIB
        if large[cell["arm"]]:
            assert figures["folios.sectors"] / figures["folios"] >= SECTORS_OF_A_MIB / 2
            assert figures["folios.order8"] >= figures["folios"] / 2
        else:
            assert figures["folios.sectors"] / figures["folios"] == SECTORS_OF_A_PAGE
            assert figures["folios.order0"] == figures["folios"]

# SPDX-License-Identifier: GPL-2.0-only
"""Loads that do not fit into the memory of their guest are refused when the file is read."""

from pathlib import Path

import pytest

from lab.base.errors import InputErrors
from tests.unit.scenario_text import load

KEPT = """\
scenario: t
title: A test
clock: virtual
schema: 1
topology:
  memory: 128M
  disks: {d0..1: {size: 512M, service: 1ms}}
  hbas: {h0: {driver: null_blk, can_queue: 64}}
  luns: {l0..1: {hba: h0, disks: [d0..1]}}
  stacks:
    pair: {kind: md, level: raid1, over: [l0, l1]}
    fs: {kind: filesystem, type: ext4, over: [pair]}
queue: {scheduler: none}
seeds: 1
window: {ramp: 0s, runtime: 1s}
arms:
  plain: {}
loads:
  kept:
    job: {disk: fs, rw: read, bs: 64k, iodepth: 1, size: 32M}
"""


STEP = "disk: pair, rw: write, bs: 64k, iodepth: 1, size: 20M"


@pytest.mark.parametrize(
    ("old", "new", "needed"),
    [
        ("size: 32M}", "size: 32M}", "kernel and programs 88M, buffers of fio 264k, data that the disks keep 64M"),
        ("size: 32M}", "size: 4M, direct: false, ioengine: psync}\n    folios: true", "the trace of folios 48M"),
        ("fs, rw: read", "pair, rw: write", ""),
        ("    job", f"    prepare:\n      - {{{STEP}}}\n    job", "keep 104M"),
        ("rw: read", "rw: write", ""),
        ("size: 32M}", "size: 8M, numjobs: 4}", "keep 64M"),
        ("size: 32M}", "size: 8M, numjobs: 4, files: data}", ""),
        ("fs, rw: read, bs: 64k, iodepth: 1", "pair, rw: read, bs: 16M, iodepth: 3", "buffers of fio "),
        ("memory: 128M", "memory: 256M", ""),
    ],
)  # fmt: skip
def test_a_load_that_does_not_fit_into_the_memory_of_its_guest_is_refused(
    old: str, new: str, needed: str, tmp_path: Path
) -> None:
    """Both mirrors keep 32 MiB of file and 20 MiB of the step; 48 MiB is the buffer of one CPU's trace."""
    text = KEPT.replace(old, new, 1)
    if not needed:
        assert load(text, tmp_path).arms
        return
    with pytest.raises(InputErrors) as caught:
        load(text, tmp_path)
    assert needed in str(caught.value)
    assert "load kept: arm plain has memory 128M" in str(caught.value)

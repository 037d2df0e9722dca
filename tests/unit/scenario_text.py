# SPDX-License-Identifier: GPL-2.0-only
"""A small sound scenario that tests break in one place at a time."""

from pathlib import Path

import pytest

from harness.scenario.load import read_scenario
from harness.scenario.model import Scenario
from lab.base.errors import EXIT_MISUSE, InputErrors

GOOD = """\
scenario: t
title: A test
clock: virtual
schema: 1
topology: neighbours
queue: {scheduler: none}
seeds: 2
window: {ramp: 1s, runtime: 8s}
arms:
  shared: {hba.cmd_per_lun: 64}
  limited: {hba.cmd_per_lun: 16}
loads:
  solo:
    victim: {disk: p1, rw: randread, bs: 4k, iodepth: 1}
  lopsided:
    hog: {disk: p0, rw: randread, bs: 4k, iodepth: 256}
    victim: {disk: p1, rw: randread, bs: 4k, iodepth: 1}
claims:
  - that: the cure works
    ratio: limited.lopsided.victim.iops / limited.solo.victim.iops
    expect: ">= 0.9"
controls:
  - that: it can fail
    ratio: shared.lopsided.hog.iops / shared.solo.victim.iops
    expect: "<= 0.5"
"""

RIG = """\
topology: rig
memory: 512M
disks:
  p0: {size: 1G, rate: 1 MB/s}
  p1: {size: 1G, service: 1ms}
hbas:
  twa0: {driver: tcm_loop, can_queue: 64}
luns:
  p0: {hba: twa0, disks: [p0]}
  p1: {hba: twa0, disks: [p1]}
"""


def load(text: str, folder: Path) -> Scenario:
    (folder / "t.yaml").write_text(text)
    return read_scenario("t", search=folder)


def mistakes(text: str, folder: Path) -> str:
    """What is wrong with a scenario, a line for each mistake, without the name of the folder."""
    with pytest.raises(InputErrors) as caught:
        load(text, folder)
    assert caught.value.exit_code == EXIT_MISUSE
    return str(caught.value).replace(f"{folder}/", "")

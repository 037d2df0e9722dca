# SPDX-License-Identifier: GPL-2.0-only
"""4k reads of a device that completes at once, and profiles of them on kernels that no stored run has."""

from collections.abc import Mapping
from pathlib import Path

from harness.profile.cells import _vmlinux, profile_boot, profiles_of
from harness.profile.model import Head, Profile
from harness.run.plan import guest_job
from harness.scenario.model import Scenario
from lab.base.units import silent
from lab.kernels.model import Kernel
from lab.session import Lab

_READS = """\
scenario: reads
title: Reads of a device that completes at once
clock: virtual
schema: 1
topology: io-cost-null-blk
queue: {{scheduler: none}}
seeds: 1
window: {{ramp: 20ms, runtime: 100ms}}
arms:
  none: {{queue.scheduler: none}}
  mq-deadline: {{queue.scheduler: mq-deadline}}
{arms}loads:
  libaio:
    io: {{disk: dev, rw: randread, bs: 4k, iodepth: 32, ioengine: libaio}}
{loads}claims:
  - that: an elevator does not double the cost of a read
    ratio: mq-deadline.libaio.io.cpu.per_io / none.libaio.io.cpu.per_io
    expect: "< 2"
controls:
  - that: no elevator does not cost as much as one
    ratio: none.libaio.io.cpu.per_io / mq-deadline.libaio.io.cpu.per_io
    expect: "< 1"
"""


def write_reads(folder: Path, *, arms: str = "", loads: str = "") -> Path:
    """The scenario's file, with further lines of its arms and loads."""
    path = folder / "reads.yaml"
    path.write_text(_READS.format(arms=arms, loads=loads))
    return path


def profiled(lab: Lab, kernel: Kernel, scenario: Scenario, arm: str, into: Path) -> Mapping[str, Profile]:
    """The profile of each load of an arm, from a boot in ``into``, which is created."""
    chosen, loads = scenario.arms[arm], tuple(scenario.loads.values())
    into.mkdir()
    boot = profile_boot(lab, kernel, chosen.topology, guest_job(scenario, chosen, 1), into, phase_seen=silent)
    head = Head(scenario.name, arm, "", 1, kernel.release, kernel.origin, str(boot.record.digest))
    return profiles_of(boot, _vmlinux(kernel), topology=chosen.topology, loads=loads, head=head)

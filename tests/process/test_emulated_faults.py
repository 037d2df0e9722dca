# SPDX-License-Identifier: GPL-2.0-only
"""Topologies on QEMU's own controllers where something is wrong: right status, clear words, and what ran the guests."""

from pathlib import Path

import pytest

from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_MISUSE
from tests.process.fake_lab import FakeLab
from tests.unit.scenario_text import GOOD, RIG

DEVICES = "pcie-root-port virtio-scsi-pci scsi-hd"
WALL = GOOD.replace("clock: virtual", "clock: wall").replace("seeds: 2\n", "")


@pytest.mark.parametrize("options", [(), ("--trace", "block:*")])
def test_a_device_that_qemu_has_not(lab: FakeLab, options: tuple[str, ...]) -> None:
    lab.scenario.write_text(WALL)
    done = lab.run(*options, FAKE_DEVICES="pcie-root-port scsi-hd")
    assert done.returncode == EXIT_CANNOT_JUDGE
    assert "this QEMU has no device virtio-scsi-pci" in " ".join((done.stdout + done.stderr).split())
    assert "no device scsi-hd" not in done.stdout + done.stderr
    assert not lab.boots()


def test_a_throttle_that_lets_too_few_requests_pass(lab: FakeLab) -> None:
    lab.scenario.write_text(WALL.replace("rw: randread, bs: 4k, iodepth: 256", "rw: randread, bs: 256k, iodepth: 8"))
    done = lab.run(FAKE_DEVICES=DEVICES)
    assert done.returncode == EXIT_MISUSE
    assert "bs: the throttle of disk p0 passes 30 requests in a window of 8 s, too few for a ratio" in done.stderr


MOST = "".join(f"  p{number}: {{hba: twa0, disks: [p0]}}\n" for number in range(2, 9))
REFUSED = {
    "rig.yaml:7:9: hba twa0: 9 disks on one mptsas1068, at most 8 are possible: use several HBAs, or megasas": (
        RIG.replace("tcm_loop, can_queue: 64", "mptsas1068, can_queue: 118") + MOST
    ),
    "rig.yaml:4:7: disk p0: 40 kB/s is below 40.96 kB/s, the least rate of a throttle": (
        RIG.replace("tcm_loop", "megasas").replace("1 MB/s", "40 kB/s")
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_no_controller_carries(lab: FakeLab, words: str) -> None:
    (lab.folder / "rig.yaml").write_text(REFUSED[words])
    done = lab.call("show", str(lab.folder / "rig.yaml"))
    assert done.returncode == EXIT_MISUSE
    assert words in done.stderr
    assert not lab.boots()


def test_every_report_of_a_run_says_what_ran_the_guests(lab: FakeLab) -> None:
    """The guests that are made up have no controllers, which is an ERROR; what ran them is known nevertheless."""
    lab.scenario.write_text(WALL)
    files = {kind: str(lab.folder / kind) for kind in ("junit", "ktap", "kcidb")}
    done = lab.run(*(word for kind, file in files.items() for word in (f"--{kind}", file)), FAKE_DEVICES=DEVICES)
    assert done.returncode == EXIT_CANNOT_JUDGE
    (run,) = (path.parent for path in lab.verdicts())
    page = lab.call("report", str(run))
    texts = [Path(file).read_text() for file in (*files.values(), page.stdout.strip())]
    for text in (done.stdout, *texts):
        assert "TCG, a thread for each vCPU (KVM: " in " ".join(text.split())

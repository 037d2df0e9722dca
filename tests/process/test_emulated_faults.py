# SPDX-License-Identifier: GPL-2.0-only
"""Topologies on QEMU's own controllers where something is wrong: right status, clear words, and what ran the guests."""

from pathlib import Path

import pytest

from lab.base.errors import EXIT_CANNOT_JUDGE
from tests.process.fake_lab import FakeLab
from tests.unit.scenario_text import GOOD

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

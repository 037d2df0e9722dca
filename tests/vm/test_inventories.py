# SPDX-License-Identifier: GPL-2.0-only
"""Each field report's machine on QEMU's own controllers: it boots with all of its disks, and sysfs shows them so."""

from pathlib import Path

import pytest

from lab.base.record import INVENTORY
from lab.kernels.model import Kernel
from lab.realise.hardware import lacking
from lab.realise.inventory import mismatches, read_inventory
from lab.session import Job, Lab, prepare_job, run_job
from lab.topology.emulated import emulated
from lab.topology.load import load_topology

KERNEL = "debian:6.1"
DISKS = {
    "3ware-8506": 8,
    "sun-j4400-multipath": 96,
    "sun-x4540": 48,
    "dl980-iodrive": 16,
    "intel-965p-lvm": 7,
    "nvme-two-paths": 4,
}


# The boot has limits of its own, which stretch with the host's load.
@pytest.mark.slow
@pytest.mark.parametrize("name", DISKS)
def test_a_machine_has_all_of_its_disks(name: str, machine: tuple[Lab, Kernel], tmp_path: Path) -> None:
    lab, kernel = machine
    topology = emulated(load_topology(name, near=Path()))
    if absent := lacking(topology, lab.qemu.devices):
        pytest.skip("; ".join(absent))
    record = run_job(lab, prepare_job(lab, kernel, topology, Job({}, (), 0, 0, {"inventory": name})), tmp_path)
    seen = read_inventory(record.files[INVENTORY])
    assert mismatches(topology, seen) == ()
    assert sum(key.startswith("lun.") and key.endswith(".place") for key in seen) == DISKS[name]

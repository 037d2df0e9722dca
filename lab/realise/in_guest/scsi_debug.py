# SPDX-License-Identifier: GPL-2.0-only
"""One host of scsi_debug, a target for each LUN."""

from collections.abc import Iterator

from lab.guest.steps import Step
from lab.guest.steps.device import Module, NameBlock
from lab.guest.steps.setting import Confirm
from lab.realise.in_guest.tcm_loop import queue_limits
from lab.topology.model import Topology

_MIB = 1 << 20


def steps(topology: Topology) -> Iterator[Step]:
    (hba,) = topology.hbas.values()
    disks = [topology.disks[lun.disks[0]] for lun in topology.luns.values()]
    parameters = {
        "num_tgts": len(disks),
        "max_luns": 1,
        "dev_size_mb": disks[0].size // _MIB,
        "ndelay": disks[0].service,
        "submit_queues": hba.hw_queues,
        "max_queue": hba.can_queue,
        "host_max_queue": hba.can_queue,
        # Without a store no memory is used, and reads return zeroes.
        "fake_rw": 1,
    }
    yield Module("sd_mod")
    # Before 5.8 (c10fa55f5e7a) max_queue alone is the host's can_queue, and 4.4 has one queue. What the kernel made of
    # it is confirmed below.
    optional = ("host_max_queue", "submit_queues")
    yield Module("scsi_debug", " ".join(f"{key}={value}" for key, value in parameters.items()), optional)
    # scsi_debug replaces an invalid value without an error.
    yield Confirm("disk.service", "/sys/bus/pseudo/drivers/scsi_debug/ndelay", str(disks[0].service))
    host = "/sys/devices/pseudo*/adapter0/host*"
    for number, lun in enumerate(topology.luns.values()):
        yield NameBlock(lun.name, f"{host}/target*/*:0:{number}:0/block/*")
        yield from queue_limits(hba, lun, f"{host}/scsi_host/host*/can_queue")

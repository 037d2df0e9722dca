# SPDX-License-Identifier: GPL-2.0-only
"""null_blk devices on one shared tag set."""

from collections.abc import Iterator

from lab.guest.steps import Step
from lab.guest.steps.device import MakeFolder, Module, NameBlock, Write
from lab.realise.in_guest.loopback import CONFIGFS
from lab.topology.model import Topology

_MIB = 1 << 20


def steps(topology: Topology) -> Iterator[Step]:
    (hba,) = topology.hbas.values()
    yield Module("null_blk", f"nr_devices=0 shared_tags=1 hw_queue_depth={hba.can_queue} submit_queues={hba.hw_queues}")
    kept = topology.keeping()
    for index, lun in enumerate(topology.luns.values()):
        disk = topology.disks[lun.disks[0]]
        folder = f"{CONFIGFS}/nullb/nullb{index}"
        yield MakeFolder(folder)
        yield Write(f"{folder}/size", str(disk.size // _MIB))
        yield Write(f"{folder}/irqmode", "2")
        yield Write(f"{folder}/completion_nsec", str(disk.service or 0))
        if lun.name in kept:
            yield Write(f"{folder}/memory_backed", "1")
        yield Write(f"{folder}/power", "1")
        yield NameBlock(lun.name, f"/sys/block/nullb{index}")

# SPDX-License-Identifier: GPL-2.0-only
"""null_blk devices: on one shared tag set, or each a disk below other drivers."""

from collections.abc import Iterator

from lab.guest.steps import Step
from lab.guest.steps.device import Module, NameBlock, configured
from lab.topology.model import Disk, Topology

CONFIGFS = "/sys/kernel/config"
_MIB = 1 << 20
_MB = 10**6
_TAGS = 1024
"""Tags of a disk below another driver: above any depth that the hosts of a scenario allow."""


def steps(topology: Topology) -> Iterator[Step]:
    (hba,) = topology.hbas.values()
    # Poll queues came with Linux 5.16 (0a593fbbc245).
    poll = f" poll_queues={hba.poll_queues}" if hba.poll_queues else ""
    shared = f"shared_tags=1 hw_queue_depth={hba.can_queue} submit_queues={hba.hw_queues}{poll}"
    yield Module("null_blk", f"nr_devices=0 {shared}")
    kept = topology.keeping()
    for index, lun in enumerate(topology.luns.values()):
        yield from _device(index, topology.disks[lun.disks[0]], None, kept=lun.name in kept)
        yield NameBlock(lun.name, f"/sys/block/nullb{index}")


def disks(topology: Topology) -> Iterator[Step]:
    """Each disk as the block device that ``nodes`` names."""
    yield Module("null_blk", "nr_devices=0")
    kept = {disk for lun in topology.keeping() for disk in topology.luns[lun].disks}
    for index, disk in enumerate(topology.disks.values()):
        yield from _device(index, disk, _TAGS, kept=disk.name in kept)


def nodes(topology: Topology) -> dict[str, str]:
    """The block device of each disk."""
    return {name: f"/dev/nullb{index}" for index, name in enumerate(topology.disks)}


def _device(index: int, disk: Disk, tags: int | None, *, kept: bool = False) -> Iterator[Step]:
    # On 6.1 and later the block device takes the name of its configfs folder; on 5.10 it is
    # nullb<index>. Folders of that name give the same device on all kernels.
    folder = f"{CONFIGFS}/nullb/nullb{index}"
    values = {
        "size": disk.size // _MIB,
        "hw_queue_depth": tags,
        "irqmode": 2,
        "completion_nsec": disk.service or 0,
        "mbps": None if disk.rate is None else disk.rate // _MB,
        # null_blk ignores discard unless it keeps data.
        "memory_backed": 1 if kept or disk.discard else None,
        "discard": 1 if disk.discard else None,
        "power": 1,
    }
    yield from configured(folder, {name: value for name, value in values.items() if value is not None})

# SPDX-License-Identifier: GPL-2.0-only
"""null_blk disks, LIO iblock over the disks of each LUN, and one tcm_loop host."""

from collections.abc import Iterator, Mapping

from lab.guest.steps import Step
from lab.guest.steps.device import MakeFolder, Module, TableStep, Write, device
from lab.realise.in_guest import loopback
from lab.topology.model import Disk, Lun, Topology

_MIB = 1 << 20
_MB = 10**6
NULL_BLK_TAGS = 1024
"""Tags of a null_blk disk: above any depth that the hosts of a scenario allow."""


def steps(topology: Topology) -> Iterator[Step]:
    yield Module("null_blk", "nr_devices=0")
    for index, disk in enumerate(topology.disks.values()):
        yield from null_blk_disk(index, disk)
    yield Module("target_core_iblock")
    yield from loopback.host_modules(topology)
    yield MakeFolder(f"{loopback.TARGET}/core/iblock_0")
    nodes = _backing_nodes(topology)
    yield from _linear_devices(topology)
    for lun in topology.luns.values():
        folder = f"{loopback.TARGET}/core/iblock_0/{lun.name}"
        yield MakeFolder(folder)
        yield Write(f"{folder}/control", f"udev_path={nodes[lun.name]}")
        yield Write(f"{folder}/enable", "1")
    yield from loopback.show_luns(topology, "iblock_0")


def null_blk_disk(index: int, disk: Disk) -> Iterator[Step]:
    """The disk as /dev/nullbINDEX."""
    # On 6.1 and later the block device takes the name of its configfs folder; on 5.10 it is
    # nullb<index>. Folders of that name give the same device on all kernels.
    folder = f"{loopback.CONFIGFS}/nullb/nullb{index}"
    yield MakeFolder(folder)
    yield Write(f"{folder}/size", str(disk.size // _MIB))
    yield Write(f"{folder}/hw_queue_depth", str(NULL_BLK_TAGS))
    yield Write(f"{folder}/irqmode", "2")
    yield Write(f"{folder}/completion_nsec", str(disk.service or 0))
    if disk.rate is not None:
        yield Write(f"{folder}/mbps", str(disk.rate // _MB))
    yield Write(f"{folder}/power", "1")


def _backing_nodes(topology: Topology) -> dict[str, str]:
    """The block device under each LUN."""
    disks = {name: f"/dev/nullb{index}" for index, name in enumerate(topology.disks)}
    nodes = {lun.name: disks[lun.disks[0]] for lun in topology.luns.values()}
    return nodes | {lun.name: device(_backing(lun)) for lun in topology.luns.values() if len(lun.disks) > 1}


def _backing(lun: Lun) -> str:
    return f"{lun.name}.backing"


def _linear_devices(topology: Topology) -> Iterator[Step]:
    disks = {name: f"/dev/nullb{index}" for index, name in enumerate(topology.disks)}
    for lun in topology.luns.values():
        if len(lun.disks) > 1:
            yield Module("dm-mod")
            yield TableStep(_backing(lun), _linear_rows(topology, lun, disks))


def _linear_rows(topology: Topology, lun: Lun, nodes: Mapping[str, str]) -> tuple[str, ...]:
    rows, start = [], 0
    for name in lun.disks:
        sectors = topology.disks[name].size // 512
        rows.append(f"{start} {sectors} linear {nodes[name]} 0")
        start += sectors
    return tuple(rows)

# SPDX-License-Identifier: GPL-2.0-only
"""Backends of disks: null-co, or a sparse file if data must be read back, inside throttle filters.

Each disk with a rate is a throttle group, and so is each link. Requests of a LUN pass the group of the disk first,
then those of the links on its path. QEMU serves the members of a group in turn (block/throttle-groups.c).
"""

from collections.abc import Iterator, Mapping

from lab.realise.in_qemu.places import option
from lab.topology.model import Disk, Lun, Topology

Json = Mapping[str, object]


def node(number: int) -> str:
    """The block node of the LUN with this number."""
    return f"lun.{number}"


def words(topology: Topology) -> Iterator[str]:
    """Throttle groups, and one tree of block nodes per LUN (per namespace, if several LUNs are its paths)."""
    for group, rate in groups(topology).items():
        yield from option("-object", **{"qom-type": "throttle-group", "id": group, "limits": {"bps-total": rate}})
    for number, lun in enumerate(topology.luns.values()):
        yield from option("-blockdev", **_tree(topology, lun), **{"node-name": node(number)})


def groups(topology: Topology) -> dict[str, int]:
    """Bytes per second of each throttle group, by its id."""
    disks = {f"disk.{disk.name}": disk.rate for disk in topology.disks.values() if disk.rate is not None}
    return disks | {f"link.{link.name}": link.rate for link in topology.links.values()}


def files(topology: Topology) -> dict[str, int]:
    """Sparse files to create in the machine's folder before it starts: name to size in bytes."""
    return {_file(topology.disks[name]): topology.disks[name].size for name in _keeping(topology)}


def _keeping(topology: Topology) -> Iterator[str]:
    """Disks below md arrays, whose superblocks the kernel reads back."""
    luns = topology.keeping()
    yield from dict.fromkeys(disk for lun in topology.luns.values() if lun.name in luns for disk in lun.disks)


def _tree(topology: Topology, lun: Lun) -> Json:
    disk = topology.disks[lun.disks[0]]
    tree = _medium(topology, disk)
    for link in topology.path(lun.name, disk.name):
        tree = {"driver": "throttle", "throttle-group": f"link.{link}", "file": tree}
    return tree if disk.rate is None else {"driver": "throttle", "throttle-group": f"disk.{disk.name}", "file": tree}


def _medium(topology: Topology, disk: Disk) -> Json:
    if disk.name in _keeping(topology):
        return {"driver": "raw", "file": {"driver": "file", "filename": _file(disk), "locking": "off"}}
    latency = {"latency-ns": disk.service} if disk.service else {}
    return {"driver": "null-co", "size": disk.size, "read-zeroes": True, **latency}


def _file(disk: Disk) -> str:
    return f"disk-{disk.name}.raw"

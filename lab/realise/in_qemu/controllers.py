# SPDX-License-Identifier: GPL-2.0-only
"""Controllers and their disks as -device words."""

from collections.abc import Iterator, Mapping

from lab.realise.in_qemu import backends
from lab.realise.in_qemu.places import option, places
from lab.topology.emulated import MEGASAS_OWN
from lab.topology.model import Driver, Hba, Lun, Stack, StackKind, Topology

_DEVICES = {Driver.VIRTIO_SCSI: "virtio-scsi-pci"}
"""Names of devices that are not those of their drivers."""
_DISK_WWN = 0x5001405110000000
_HOST_WWN = 0x500605B000000000
"""First SAS addresses; the prefixes are those of LIO and LSI."""


def words(topology: Topology) -> Iterator[str]:
    for stack in topology.stacks.values():
        if stack.kind is StackKind.NVME:
            yield from option("-device", driver="nvme-subsys", id=f"subsystem.{stack.name}", nqn=stack.name)
    for hba, place in zip(topology.hbas.values(), places(topology).values(), strict=True):
        own = _properties(topology, hba, place.ordinal)
        yield from option("-device", driver=_DEVICES.get(hba.driver, hba.driver), id=name(hba), bus=place.port, **own)
        yield from _scsi_disks(topology, hba) if hba.driver is not Driver.NVME else ()
    yield from _namespaces(topology)


def name(hba: Hba) -> str:
    """The id of a controller."""
    return f"hba.{hba.name}"


def serial(topology: Topology, disk: str) -> str:
    """The serial number of a disk, as many as there are of them."""
    return f"lab{list(topology.disks).index(disk):05}"


def wwn(topology: Topology, disk: str) -> int:
    """The World Wide Name of a disk, equal on all its paths."""
    return _DISK_WWN + list(topology.disks).index(disk)


def target(topology: Topology, lun: Lun) -> int:
    """The SCSI target of a LUN on its controller, or its NVMe namespace number minus one."""
    return [other.name for other in topology.luns.values() if other.hba == lun.hba].index(lun.name)


def multipath(topology: Topology, lun: str) -> Stack | None:
    """The nvme stack that has a LUN as a path."""
    stacks = (stack for stack in topology.stacks.values() if stack.kind is StackKind.NVME)
    return next((stack for stack in stacks if lun in stack.over), None)


def nqn(stack: Stack) -> str:
    """QEMU's name for the subsystem of a stack (hw/nvme/subsys.c)."""
    return f"nqn.2019-08.org.qemu:{stack.name}"


def nvme_serial(topology: Topology, hba: Hba) -> str:
    """The serial number, which all controllers of a subsystem share."""
    luns = [lun.name for lun in topology.luns.values() if lun.hba == hba.name]
    shared = multipath(topology, luns[0])
    return f"labsub-{shared.name}"[:20] if shared else f"labctl-{hba.name}"[:20]


def _properties(topology: Topology, hba: Hba, ordinal: int) -> Mapping[str, object]:
    """What a device has besides its name and place."""
    if hba.driver is Driver.VIRTIO_SCSI:
        return {"num_queues": hba.hw_queues, "virtqueue_size": hba.can_queue, "cmd_per_lun": hba.cmd_per_lun}
    if hba.driver is not Driver.NVME:
        commands = {} if hba.driver is Driver.MPTSAS else {"max_cmds": hba.can_queue + MEGASAS_OWN}
        return {**commands, "sas_address": _HOST_WWN + 16 * ordinal}
    shared = multipath(topology, next(lun.name for lun in topology.luns.values() if lun.hba == hba.name))
    subsystem = {"subsys": f"subsystem.{shared.name}"} if shared else {}
    return {"serial": nvme_serial(topology, hba), "max_ioqpairs": hba.hw_queues, **subsystem}


def _scsi_disks(topology: Topology, hba: Hba) -> Iterator[str]:
    for number, lun in enumerate(topology.luns.values()):
        if lun.hba == hba.name:
            disk = lun.disks[0]
            place = {
                "bus": f"{name(hba)}.0",
                "scsi-id": target(topology, lun),
                "lun": 0,
                "drive": backends.node(number),
            }
            identity = {"serial": serial(topology, disk), "wwn": wwn(topology, disk), "share-rw": True}
            yield from option("-device", driver="scsi-hd", **place, **identity)


def _namespaces(topology: Topology) -> Iterator[str]:
    """All controllers of a subsystem export its namespace, so it is created with the last one."""
    for number, lun in enumerate(topology.luns.values()):
        if topology.hbas[lun.hba].driver is not Driver.NVME:
            continue
        shared = multipath(topology, lun.name)
        if shared and lun.name != shared.over[-1]:
            continue
        identity = {"nsid": 1 if shared else target(topology, lun) + 1, "eui64": wwn(topology, lun.disks[0])}
        bus, drive = name(topology.hbas[lun.hba]), backends.node(number)
        yield from option("-device", driver="nvme-ns", bus=bus, drive=drive, **identity)

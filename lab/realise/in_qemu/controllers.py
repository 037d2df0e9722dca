# SPDX-License-Identifier: GPL-2.0-only
"""Controllers and their disks as -device words, a function for each family."""

import json
from collections.abc import Callable, Iterator, Mapping

from lab.realise.in_qemu import backends
from lab.realise.in_qemu.places import RootPortPlace, places
from lab.topology.emulated import MEGASAS_OWN
from lab.topology.model import Driver, Hba, Lun, Stack, StackKind, Topology

Properties = Mapping[str, object]

_DISK_WWN = 0x5001405110000000
_HOST_WWN = 0x500605B000000000
"""First SAS addresses; the prefixes are those of LIO and LSI."""


def words(topology: Topology) -> Iterator[str]:
    yield from _subsystems(topology)
    for hba, place in zip(topology.hbas.values(), places(topology).values(), strict=True):
        yield from _FAMILIES[hba.driver](topology, hba, place)
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


def _device(properties: Properties) -> tuple[str, str]:
    return "-device", json.dumps(properties, separators=(",", ":"))


def _mptsas(topology: Topology, hba: Hba, place: RootPortPlace) -> Iterator[str]:
    address = _HOST_WWN + 16 * place.ordinal
    yield from _device({"driver": "mptsas1068", "id": name(hba), "bus": place.port, "sas_address": address})
    yield from _scsi_disks(topology, hba)


def _megasas(topology: Topology, hba: Hba, place: RootPortPlace) -> Iterator[str]:
    commands = {"max_cmds": hba.can_queue + MEGASAS_OWN, "sas_address": _HOST_WWN + 16 * place.ordinal}
    yield from _device({"driver": hba.driver.value, "id": name(hba), "bus": place.port, **commands})
    yield from _scsi_disks(topology, hba)


def _virtio(topology: Topology, hba: Hba, place: RootPortPlace) -> Iterator[str]:
    queues = {"num_queues": hba.hw_queues, "virtqueue_size": hba.can_queue, "cmd_per_lun": hba.cmd_per_lun}
    yield from _device({"driver": "virtio-scsi-pci", "id": name(hba), "bus": place.port, **queues})
    yield from _scsi_disks(topology, hba)


def _scsi_disks(topology: Topology, hba: Hba) -> Iterator[str]:
    for number, lun in enumerate(topology.luns.values()):
        if lun.hba == hba.name:
            disk = lun.disks[0]
            yield from _device(
                {
                    "driver": "scsi-hd",
                    "bus": f"{name(hba)}.0",
                    "scsi-id": target(topology, lun),
                    "lun": 0,
                    "drive": backends.node(number),
                    "serial": serial(topology, disk),
                    "wwn": wwn(topology, disk),
                    "share-rw": True,
                }
            )


def _subsystems(topology: Topology) -> Iterator[str]:
    for stack in topology.stacks.values():
        if stack.kind is StackKind.NVME:
            yield from _device({"driver": "nvme-subsys", "id": f"subsystem.{stack.name}", "nqn": stack.name})


def _nvme(topology: Topology, hba: Hba, place: RootPortPlace) -> Iterator[str]:
    luns = [lun for lun in topology.luns.values() if lun.hba == hba.name]
    shared = multipath(topology, luns[0].name)
    subsystem = {"subsys": f"subsystem.{shared.name}"} if shared else {}
    common = {"serial": nvme_serial(topology, hba), "max_ioqpairs": hba.hw_queues}
    yield from _device({"driver": "nvme", "id": name(hba), "bus": place.port, **common, **subsystem})


def _namespaces(topology: Topology) -> Iterator[str]:
    """All controllers of a subsystem export its namespace, so it is created with the last one."""
    for number, lun in enumerate(topology.luns.values()):
        if topology.hbas[lun.hba].driver is not Driver.NVME:
            continue
        shared = multipath(topology, lun.name)
        if shared and lun.name != shared.over[-1]:
            continue
        identity = {"nsid": 1 if shared else target(topology, lun) + 1, "eui64": wwn(topology, lun.disks[0])}
        yield from _device(
            {"driver": "nvme-ns", "bus": name(topology.hbas[lun.hba]), "drive": backends.node(number), **identity}
        )


_FAMILIES: Mapping[Driver, Callable[[Topology, Hba, RootPortPlace], Iterator[str]]] = {
    Driver.MPTSAS: _mptsas,
    Driver.MEGASAS: _megasas,
    Driver.MEGASAS_GEN2: _megasas,
    Driver.VIRTIO_SCSI: _virtio,
    Driver.NVME: _nvme,
}

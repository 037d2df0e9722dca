# SPDX-License-Identifier: GPL-2.0-only
"""A topology as QEMU hardware: pure functions from values to words of the command line.

Controllers have a root port each, on the NUMA node of their HBA. Disks are null-co, or a sparse file if data must be
read back, inside throttle filters. Each disk with a rate is a throttle group, and so is each link. Requests of a LUN
pass the group of the disk first, then those of the links on its path. QEMU serves the members of a group in turn
(block/throttle-groups.c).
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lab.topology.emulated import MEGASAS_OWN, multipath, nodes, processors
from lab.topology.model import Disk, Driver, Hba, Lun, Stack, StackKind, Topology

BOARD = "q35"


@dataclass(frozen=True)
class Hardware:
    """``words`` of the command line; ``files``: sparse files to create first, name to size in bytes."""

    cpus: int
    words: tuple[str, ...]
    files: Mapping[str, int]

    def make_files(self, folder: Path) -> None:
        """Raises OSError."""
        for name, size in self.files.items():
            with (folder / name).open("wb") as file:
                file.truncate(size)


def hardware(topology: Topology) -> Hardware:
    """The machine of an emulated topology."""
    words = (
        *memory_words(topology.memory, nodes(topology), 1),
        *_backend_words(topology),
        *_port_words(topology),
        *_controller_words(topology),
    )
    return Hardware(processors(topology), words, _files(topology))


def lacking(topology: Topology, offered: Iterable[str]) -> tuple[str, ...]:
    """One sentence for each device that is missing from ``offered``; none for a topology of the virtual clock."""
    there = set(offered)
    wanted = wanted_devices(topology) if topology.emulated else ()
    return tuple(f"this QEMU has no device {name}" for name in wanted if name not in there)


def wanted_devices(topology: Topology) -> tuple[str, ...]:
    """The distinct names of the QEMU devices."""
    pairs = pairwise(hardware(topology).words)
    return tuple(dict.fromkeys(json.loads(value)["driver"] for word, value in pairs if word == "-device"))


_PCIE = re.compile(r"PCIe ([0-9]+)\.0 x([0-9]+)")
_SPEEDS = {1: "2_5", 2: "5", 3: "8", 4: "16"}
_LAST_SLOT = 0x1E
_MIB = 1 << 20


def memory_words(memory: int, count: int, cpus: int) -> Iterator[str]:
    """NUMA nodes, each with so many ``cpus`` and an equal part of the memory; nothing for a single node."""
    if count == 1:
        return
    each = memory // _MIB // count
    for node in range(count):
        size = memory // _MIB - each * (count - 1) if node == 0 else each
        yield from _option("-object", **{"qom-type": "memory-backend-ram", "id": f"memory{node}", "size": size * _MIB})
        own = "-".join(map(str, sorted({node * cpus, (node + 1) * cpus - 1})))
        yield from ("-numa", f"node,nodeid={node},cpus={own},memdev=memory{node}")


def _port_words(topology: Topology) -> Iterator[str]:
    """Root buses, then root ports."""
    for number, (node, bus) in enumerate(_root_buses(topology).items()):
        slot = f"{_LAST_SLOT - number:#x}"
        bridge = {"id": _expander(node), "bus": _ROOT, "addr": slot, "bus_nr": bus, "numa_node": node}
        yield from _option("-device", driver="pxb-pcie", **bridge)
    for hba, place in zip(topology.hbas.values(), places(topology).values(), strict=True):
        port = {"id": place.port, "bus": place.bus, "addr": f"{place.slot:#x}", "chassis": place.ordinal}
        generation, lanes = slot_of(topology, hba) or (0, 0)
        speed = {"x-speed": _SPEEDS[min(generation, max(_SPEEDS))], "x-width": str(lanes)} if lanes else {}
        yield from _option("-device", driver="pcie-root-port", **port, slot=place.ordinal, **speed)


def slot_of(topology: Topology, hba: Hba) -> tuple[int, int] | None:
    """Generation and lanes of the slot of an HBA, None if its links do not name them."""
    slots = (match for name in hba.links if (match := _PCIE.fullmatch(topology.links[name].what)))
    return next(((int(match[1]), int(match[2])) for match in slots), None)


def _option(name: str, **properties: object) -> tuple[str, str]:
    """An option of QEMU with its value as JSON."""
    return name, json.dumps(properties, separators=(",", ":"))


_ROOT = "pcie.0"
_FIRST_SLOT = 16
"""Lower slots of q35's root complex are reserved for the board and for virtme-ng's devices."""
_BUSES = 256


@dataclass(frozen=True)
class RootPortPlace:
    """A root port on slot ``slot`` of the root ``bus`` with this ``number``; ``ordinal`` counts all ports from 1."""

    bus: str
    number: int
    slot: int
    ordinal: int

    @property
    def port(self) -> str:
        """The root port's id."""
        return f"port.{self.ordinal}"

    @property
    def port_folder(self) -> str:
        return f"/sys/devices/pci0000:{self.number:02x}/0000:{self.number:02x}:{self.slot:02x}.0"

    @property
    def folder(self) -> str:
        """A glob for the controller's folder: the firmware numbers the bus behind the port."""
        return f"{self.port_folder}/0000:*:00.0"


def places(topology: Topology) -> dict[str, RootPortPlace]:
    """The place of each HBA, by name."""
    numbers, used = _root_buses(topology), Counter[int]()
    where = {}
    for ordinal, hba in enumerate(topology.hbas.values(), start=1):
        number = numbers.get(hba.node, 0)
        slot = used[number] + (0 if number else _FIRST_SLOT)
        used[number] += 1
        where[hba.name] = RootPortPlace(_expander(hba.node) if number else _ROOT, number, slot, ordinal)
    return where


def _root_buses(topology: Topology) -> Mapping[int, int]:
    """Numbers of the root buses of NUMA nodes that have HBAs; empty on a machine of one node."""
    count = nodes(topology)
    if count == 1:
        return {}
    step = _BUSES // (count + 1)
    return {node: step * (node + 1) for node in sorted({hba.node for hba in topology.hbas.values()})}


def _expander(node: int) -> str:
    """The id of the root bus on a NUMA node."""
    return f"node.{node}"


Json = Mapping[str, object]


def _node(number: int) -> str:
    """The block node of the LUN with this number."""
    return f"lun.{number}"


def _backend_words(topology: Topology) -> Iterator[str]:
    """Throttle groups, and one tree of block nodes per LUN (per namespace, if several LUNs are its paths)."""
    limits = {f"disk.{disk.name}": disk.rate for disk in topology.disks.values() if disk.rate is not None}
    limits |= {f"link.{link.name}": link.rate for link in topology.links.values()}
    for group, rate in limits.items():
        yield from _option("-object", **{"qom-type": "throttle-group", "id": group, "limits": {"bps-total": rate}})
    for number, lun in enumerate(topology.luns.values()):
        yield from _option("-blockdev", **_tree(topology, lun), **{"node-name": _node(number)})


def _files(topology: Topology) -> dict[str, int]:
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


_DEVICES = {Driver.VIRTIO_SCSI: "virtio-scsi-pci"}
"""Names of devices that are not those of their drivers."""
_DISK_WWN = 0x5001405110000000
_HOST_WWN = 0x500605B000000000
"""First SAS addresses; the prefixes are those of LIO and LSI."""


def _controller_words(topology: Topology) -> Iterator[str]:
    for stack in topology.stacks.values():
        if stack.kind is StackKind.NVME:
            yield from _option("-device", driver="nvme-subsys", id=f"subsystem.{stack.name}", nqn=stack.name)
    for hba, place in zip(topology.hbas.values(), places(topology).values(), strict=True):
        own = _properties(topology, hba, place.ordinal)
        yield from _option("-device", driver=_DEVICES.get(hba.driver, hba.driver), id=_id(hba), bus=place.port, **own)
        yield from _scsi_disks(topology, hba) if hba.driver is not Driver.NVME else ()
    yield from _namespaces(topology)


def _id(hba: Hba) -> str:
    """The id of a controller."""
    return f"hba.{hba.name}"


def wwn(topology: Topology, disk: str) -> int:
    """The World Wide Name of a disk, equal on all its paths."""
    return _DISK_WWN + list(topology.disks).index(disk)


def target(topology: Topology, lun: Lun) -> int:
    """The SCSI target of a LUN on its controller, or its NVMe namespace number minus one."""
    return [other.name for other in topology.luns.values() if other.hba == lun.hba].index(lun.name)


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
                "bus": f"{_id(hba)}.0",
                "scsi-id": target(topology, lun),
                "lun": 0,
                "drive": _node(number),
            }
            serial = f"lab{list(topology.disks).index(disk):05}"
            identity = {"serial": serial, "wwn": wwn(topology, disk), "share-rw": True}
            yield from _option("-device", driver="scsi-hd", **place, **identity)


def _namespaces(topology: Topology) -> Iterator[str]:
    """All controllers of a subsystem export its namespace, so it is created with the last one."""
    for number, lun in enumerate(topology.luns.values()):
        if topology.hbas[lun.hba].driver is not Driver.NVME:
            continue
        shared = multipath(topology, lun.name)
        if shared and lun.name != shared.over[-1]:
            continue
        identity = {"nsid": 1 if shared else target(topology, lun) + 1, "eui64": wwn(topology, lun.disks[0])}
        bus, drive = _id(topology.hbas[lun.hba]), _node(number)
        yield from _option("-device", driver="nvme-ns", bus=bus, drive=drive, **identity)

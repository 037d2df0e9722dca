# SPDX-License-Identifier: GPL-2.0-only
"""The controllers and the disks of a captured machine, as the kernel shows them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from harness.intake.snapshot import Snapshot, natural
from lab.topology.ranges import in_ranges

SECTOR = 512
_MEBIBYTE = 1 << 20
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HOST, _NVME = re.compile(r"host\d+"), re.compile(r"nvme\d+")
_NAMESPACE = re.compile(r"nvme(\d+)(?:c(\d+))?n(\d+)")
_STACKED = re.compile(r"(dm-|md)\d+")
_SAS_PORT = re.compile(r"port-\d+(?::\d+)+")
_DIRECT_ACCESS = "0"
_LARGEST = 1 << 44
"""Bytes; the largest size of a topology file."""


class Notes:
    """What a capture leaves out, and why; what has the same reason together."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, None]] = {}

    def add(self, what: str, why: str) -> None:
        self._found.setdefault(why, {})[what] = None

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(f"{in_ranges(what)}: {why}" for why, what in self._found.items())


@dataclass(frozen=True)
class CapturedController:
    """A SCSI host, an NVMe controller or another device with block devices.

    ``tags`` is can_queue, or the tags of a hardware queue; ``read`` names the attribute. ``pci`` is its PCI function
    (empty without one). ``queues`` are the CPUs of each hardware queue. ``model`` is the driver's name.
    """

    name: str
    tags: int
    read: str
    pci: str = ""
    node: int | None = None
    model: str = ""
    queues: tuple[str, ...] = ()

    @property
    def nvme(self) -> bool:
        return self.read == "nr_tags" and self.name.startswith("nvme")


@dataclass(frozen=True)
class CapturedLun:
    """A block device of a controller. ``device`` is the kernel's name; LUNs with one ``disk`` are paths to it.

    ``size`` is in bytes. ``depth`` is its queue_depth, None where it has none of its own. ``ports`` are the SAS ports
    on the way to it.
    """

    name: str
    device: str
    controller: str
    disk: str
    size: int
    depth: int | None
    rotational: bool
    ports: tuple[str, ...] = ()


@dataclass(frozen=True)
class CapturedDevices:
    controllers: Mapping[str, CapturedController]
    luns: Mapping[str, CapturedLun] = field(default_factory=dict)

    def named(self, device: str) -> CapturedLun | None:
        """The LUN of a block device of the kernel."""
        return next((lun for lun in self.luns.values() if lun.device == device), None)

    @property
    def paths(self) -> Counter[str]:
        """How many paths each disk has."""
        return Counter(lun.disk for lun in self.luns.values())


def slug(name: str) -> str:
    """A device's name as a name in a topology file: cciss!c0d0 is cciss-c0d0."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]


def is_stacked(name: str) -> bool:
    """Whether the kernel's name is that of a dm device or an md array."""
    return _STACKED.fullmatch(name) is not None


def namespace(device: str) -> tuple[str, str, str] | None:
    """Subsystem, controller (empty for a head or without multipath) and number of an NVMe namespace."""
    found = _NAMESPACE.fullmatch(device)
    return (found[1], found[2] or "", found[3]) if found else None


def read_devices(snapshot: Snapshot, paths: Iterable[frozenset[str]], notes: Notes) -> CapturedDevices:
    """The devices that a topology can have. ``paths`` are sets of devices that a dm table uses as paths to one disk."""
    for row in snapshot.rows("skipped"):
        notes.add(row[0], row[-1])
    controllers: dict[str, CapturedController] = {}
    luns: dict[str, CapturedLun] = {}
    for device in snapshot.below("block"):
        controller = None if is_stacked(device) else _controller(snapshot, device, notes)
        lun = _lun(snapshot, device, controller, notes) if controller else None
        if lun and lun.name in luns:
            notes.add(device, f"another device has its name in the topology, {lun.name}")
        elif controller and lun:
            first = controllers.setdefault(controller.name, controller)
            if first.tags < controller.tags:
                controllers[controller.name] = controller
            luns[lun.name] = lun
    order = sorted(controllers, key=natural)
    found = CapturedDevices({name: controllers[name] for name in order}, luns)
    return replace(found, luns={lun.name: lun for lun in _shared(found, paths, notes)})


def _controller(snapshot: Snapshot, device: str, notes: Notes) -> CapturedController | None:
    """The controller of a block device; None for a device that has none, or none of its own."""
    own = f"block/{device}"
    parts = PurePosixPath(snapshot.text(f"{own}/place")).parts
    host = next((part for part in parts if _HOST.fullmatch(part)), "")
    nvme = next((part for part in parts if _NVME.fullmatch(part)), "")
    if not (host or nvme) and "virtual" in parts:
        if not _is_head(snapshot, device):
            notes.add(device, f"a virtual device ({lsblk_type(snapshot, device)}) that topologies have no kind for")
        return None
    queues = list(snapshot.rows(f"{own}/mq"))
    tags = max((int(row[1]) for row in queues if row[1:] and row[1].isdigit()), default=0)
    read = "nr_tags"
    if host:
        tags, read = snapshot.number(f"host/{host}/can_queue") or 0, "can_queue"
    elif not tags:
        tags, read = snapshot.number(f"{own}/queue/nr_requests") or 0, "nr_requests"
    pci = next((part for part in reversed(parts) if _PCI.fullmatch(part)), "")
    name = host or nvme or (parts[-3] if parts[-2:-1] == ("block",) else "".join(parts[-2:-1]))
    if tags < 1 or not slug(name):
        notes.add(device, "the capture has no number of tags for its controller")
        return None
    node = snapshot.number(f"pci/{pci}/numa_node") if pci else None
    return CapturedController(
        slug(name),
        tags,
        read,
        pci,
        node,
        snapshot.line(f"host/{host}/proc_name") if host else "nvme" if nvme else "",
        tuple(row[-1] for row in queues if row[2:]),
    )


def _is_head(snapshot: Snapshot, device: str) -> bool:
    """Whether it is the multipath device over other namespaces."""
    head = namespace(device)
    others = (namespace(name) for name in snapshot.below("block"))
    return head is not None and any(one and one[1] and (one[0], one[2]) == (head[0], head[2]) for one in others)


def lsblk_type(snapshot: Snapshot, device: str) -> str:
    """Its type as lsblk has it."""
    found = re.search(rf"^{re.escape(device)} (\w+)$", snapshot.text("lsblk"), re.MULTILINE)
    return found[1] if found else "no type known"


def _lun(snapshot: Snapshot, device: str, controller: CapturedController, notes: Notes) -> CapturedLun | None:
    own = f"block/{device}"
    size = (snapshot.number(f"{own}/size") or 0) * SECTOR
    kind = snapshot.line(f"{own}/device/type") if controller.read == "can_queue" else _DIRECT_ACCESS
    if kind not in ("", _DIRECT_ACCESS):
        notes.add(device, f"SCSI type {kind}, no disk")
        return None
    if size < _MEBIBYTE:
        notes.add(device, "smaller than 1 MiB, or without a medium")
        return None
    if size > _LARGEST:
        notes.add(device, f"{size >> 40} TiB; it has {_LARGEST >> 40} TiB here, the most that a topology file takes")
        size = _LARGEST
    parts = namespace(device)
    if controller.nvme and not parts:
        notes.add(device, "behind an NVMe controller, but without the name of a namespace")
        return None
    # The name that the kernel gives to the path of a namespace: the plain one is that of the stack over it.
    name = f"nvme{parts[0]}c{parts[1] or controller.name.removeprefix('nvme')}n{parts[2]}" if parts else slug(device)
    identity = snapshot.line(f"{own}/identity")
    disk = f"nvme{parts[0]}n{parts[2]}" if parts else f"identity {identity}" if identity else name
    depth = snapshot.number(f"{own}/device/queue_depth")
    rotational = snapshot.text(f"{own}/queue/rotational") == "1"
    size = size // _MEBIBYTE * _MEBIBYTE
    ports = tuple(part for part in PurePosixPath(snapshot.text(f"{own}/place")).parts if _SAS_PORT.fullmatch(part))
    return CapturedLun(name, device, controller.name, disk, size, depth, rotational, ports)


def _shared(found: CapturedDevices, paths: Iterable[frozenset[str]], notes: Notes) -> Iterator[CapturedLun]:
    """The LUNs with the names of their disks: those of one identifier, or below one multipath device, have one."""
    leader: dict[str, str] = {}
    firsts: dict[str, CapturedLun] = {}
    for lun in found.luns.values():
        first = firsts.setdefault(lun.disk, lun)
        leader[lun.name] = first.name
        if first.size != lun.size and namespace(lun.device) is None:
            leader[lun.name] = lun.name
            notes.add(
                lun.device, f"its identifier is that of {first.device}, which has another size: another disk here"
            )
    for devices in paths:
        members = [one.name for device in devices if (one := found.named(device))]
        one_name = min((leader[name] for name in members), key=natural, default="")
        leader |= dict.fromkeys(members, one_name)
    count = Counter(leader.values())
    for lun in found.luns.values():
        disk = leader[lun.name]
        is_path = count[disk] > 1 or namespace(lun.device) is not None
        yield replace(lun, disk=f"{disk}-disk" if is_path else disk)

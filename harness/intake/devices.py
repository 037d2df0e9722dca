# SPDX-License-Identifier: GPL-2.0-only
"""The controllers and the disks of a captured machine, as the kernel shows them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from harness.intake.snapshot import Snapshot, natural
from lab.topology.ranges import in_ranges

SECTOR = 512
MEBIBYTE = 1 << 20
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HOST, _NVME = re.compile(r"host\d+"), re.compile(r"nvme\d+")
_NAMESPACE = re.compile(r"nvme(\d+)(?:c(\d+))?n(\d+)")
_SAS_PORT = re.compile(r"port-\d+(?::\d+)+")
_DIRECT_ACCESS = "0"
_LARGEST = 1 << 44
"""Bytes; the largest size of a topology file."""


class Notes:
    """What a capture leaves out, and why; what has the same reason together."""

    def __init__(self) -> None:
        self._by_reason: dict[str, dict[str, None]] = {}

    def add(self, what: str, why: str) -> None:
        self._by_reason.setdefault(why, {})[what] = None

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(f"{in_ranges(what)}: {why}" for why, what in self._by_reason.items())


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
    luns: Mapping[str, CapturedLun]

    @property
    def paths(self) -> Counter[str]:
        """How many paths each disk has."""
        return Counter(lun.disk for lun in self.luns.values())


def slug(name: str) -> str:
    """A device's name as a name in a topology file: cciss!c0d0 is cciss-c0d0."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]


def is_stacked(device: str) -> bool:
    """Whether the kernel's name is that of a dm device or an md array."""
    return re.fullmatch(r"(dm-|md)\d+", device) is not None


def namespace(device: str) -> tuple[str, str, str] | None:
    """Subsystem, controller (empty for a head or without multipath) and number of an NVMe namespace."""
    parts = _NAMESPACE.fullmatch(device)
    return (parts[1], parts[2] or "", parts[3]) if parts else None


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
            if controllers.setdefault(controller.name, controller).tags < controller.tags:
                controllers[controller.name] = controller
            luns[lun.name] = lun
    order = sorted(controllers, key=natural)
    return CapturedDevices({name: controllers[name] for name in order}, dict(_with_disks(luns, paths, notes)))


def _controller(snapshot: Snapshot, device: str, notes: Notes) -> CapturedController | None:
    """The controller of a block device; None for a device that has none, or none of its own."""
    own = f"block/{device}"
    parts = PurePosixPath(snapshot.text(f"{own}/place")).parts
    host = next(filter(_HOST.fullmatch, parts), "")
    nvme = next(filter(_NVME.fullmatch, parts), "")
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
    name = slug(host or nvme or (parts[-3] if parts[-2:-1] == ("block",) else "".join(parts[-2:-1])))
    if tags < 1 or not name:
        notes.add(device, "the capture has no number of tags for its controller")
        return None
    pci = next(filter(_PCI.fullmatch, reversed(parts)), "")
    node = snapshot.number(f"pci/{pci}/numa_node") if pci else None
    model = snapshot.line(f"host/{host}/proc_name") if host else "nvme" if nvme else ""
    return CapturedController(name, tags, read, pci, node, model, tuple(row[-1] for row in queues if row[2:]))


def _is_head(snapshot: Snapshot, device: str) -> bool:
    """Whether it is the multipath device over other namespaces."""
    head = namespace(device)
    others = filter(None, map(namespace, snapshot.below("block")))
    return head is not None and any(path and (subsystem, number) == head[::2] for subsystem, path, number in others)


def lsblk_type(snapshot: Snapshot, device: str) -> str:
    """Its type as lsblk has it."""
    line = re.search(rf"^{re.escape(device)} (\w+)$", snapshot.text("lsblk"), re.MULTILINE)
    return line[1] if line else "no type known"


def _lun(snapshot: Snapshot, device: str, controller: CapturedController, notes: Notes) -> CapturedLun | None:
    own = f"block/{device}"
    size = (snapshot.number(f"{own}/size") or 0) * SECTOR
    kind = snapshot.line(f"{own}/device/type") if controller.read == "can_queue" else _DIRECT_ACCESS
    parts = namespace(device)
    reason = ""
    if kind not in ("", _DIRECT_ACCESS):
        reason = f"SCSI type {kind}, no disk"
    elif size < MEBIBYTE:
        reason = "smaller than 1 MiB, or without a medium"
    elif size > _LARGEST:
        notes.add(device, f"{size >> 40} TiB; it has {_LARGEST >> 40} TiB here, the most that a topology file takes")
    if not reason and controller.nvme and not parts:
        reason = "behind an NVMe controller, but without the name of a namespace"
    if reason:
        notes.add(device, reason)
        return None
    # The name that the kernel gives to the path of a namespace: the plain one is that of the stack over it.
    name = f"nvme{parts[0]}c{parts[1] or controller.name.removeprefix('nvme')}n{parts[2]}" if parts else slug(device)
    identity = snapshot.line(f"{own}/identity")
    disk = f"nvme{parts[0]}n{parts[2]}" if parts else f"identity {identity}" if identity else name
    ports = tuple(filter(_SAS_PORT.fullmatch, PurePosixPath(snapshot.text(f"{own}/place")).parts))
    depth = snapshot.number(f"{own}/device/queue_depth")
    rotational = snapshot.text(f"{own}/queue/rotational") == "1"
    size = min(size, _LARGEST) // MEBIBYTE * MEBIBYTE
    return CapturedLun(name, device, controller.name, disk, size, depth, rotational, ports)


def _with_disks(
    luns: Mapping[str, CapturedLun], paths: Iterable[frozenset[str]], notes: Notes
) -> Iterator[tuple[str, CapturedLun]]:
    """The LUNs with the names of their disks: those of one identifier, or below one multipath device, have one."""
    leader: dict[str, str] = {}
    firsts: dict[str, CapturedLun] = {}
    for lun in luns.values():
        first = firsts.setdefault(lun.disk, lun)
        leader[lun.name] = first.name
        if first.size != lun.size and namespace(lun.device) is None:
            leader[lun.name] = lun.name
            notes.add(
                lun.device, f"its identifier is that of {first.device}, which has another size: another disk here"
            )
    for devices in paths:
        members = [lun.name for lun in luns.values() if lun.device in devices]
        leader |= dict.fromkeys(members, min((leader[name] for name in members), key=natural, default=""))
    count = Counter(leader.values())
    for name, lun in luns.items():
        is_path = count[leader[name]] > 1 or namespace(lun.device) is not None
        yield name, replace(lun, disk=f"{leader[name]}-disk" if is_path else leader[name])

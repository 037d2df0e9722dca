# SPDX-License-Identifier: GPL-2.0-only
"""What collect.sh collected: on this machine, or elsewhere, in a tar archive; its controllers and disks.

The content comes from outside and is not trusted: only regular files of bounded number and size are read.
"""

import os
import re
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path, PurePosixPath

from lab.base.errors import LabBroken, Misuse
from lab.base.process import run
from lab.base.reading import read_regular
from lab.base.units import printable
from lab.topology.ranges import in_ranges

SCRIPT = Path(__file__).parent / "collect.sh"
ARCHIVE = "blklab-capture.tar"
MOST_FILES = 100_000
MOST_BYTES = 64 << 20
MOST_OF_FILE = 1 << 20
_FORMAT = "format 1"
_SECONDS = 300.0
_LONGEST_LINE = 200
_PART = re.compile(r"[A-Za-z0-9._:!-]{1,80}")
_AGAIN = "make it again: blklab capture --script >collect.sh; sh collect.sh"


@dataclass(frozen=True)
class Snapshot:
    """Files of a capture by their path, such as ``block/sda/queue/scheduler``. ``source`` names it in messages."""

    source: str
    files: Mapping[str, str]

    def text(self, path: str) -> str:
        """The content without surrounding space; empty for a file that was not collected."""
        return self.files.get(path, "").strip()

    def line(self, path: str) -> str:
        """The first line of an attribute, empty if it is longer than attributes are."""
        first = self.text(path).partition("\n")[0]
        return first if len(first) <= _LONGEST_LINE else ""

    def number(self, path: str) -> int | None:
        """The content as an integer; None for anything else."""
        text = self.text(path)
        return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None

    def rows(self, path: str) -> Iterator[list[str]]:
        """The lines of a file, each as the words between its tabs."""
        return (line.split("\t") for line in self.text(path).splitlines())

    def below(self, folder: str) -> tuple[str, ...]:
        """The names directly below a folder, in natural order: nvme2 before nvme10."""
        start = f"{folder}/"
        names = {path[len(start) :].partition("/")[0] for path in self.files if path.startswith(start)}
        return tuple(sorted(names, key=natural))


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts numbers in names by value, and sdaa after sdz."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((int(part), "") if part.isdecimal() else (len(part), part) for part in parts)


def collect(root: Path | None, disks: Sequence[str]) -> Snapshot:
    """A snapshot of this machine, or of the folder ``root`` with its ``sys`` and ``proc``. Raises Misuse."""
    if root is not None and not (root / "sys" / "block").is_dir():
        raise Misuse(f"{root} has no folder sys/block", remedy="name a folder with sys and proc, or use --from")
    with tempfile.TemporaryDirectory(prefix="blklab-capture-") as name:
        # The script is given the whole path, so it works wherever it is called.
        env = {**os.environ, "DISKS": " ".join(disks)}
        env["ROOT"] = str(root.absolute()) if root else ""
        try:
            run(("sh", str(SCRIPT)), cwd=Path(name), env=env, timeout=_SECONDS)
        except LabBroken as error:
            message = error.message.partition("collect.sh: ")[2] or error.message
            raise Misuse(message, remedy="with blklab: --disk sda --disk sdb; else see the message") from error
        return read_snapshot(Path(name, ARCHIVE), source=str(root or "this machine"))


def read_snapshot(path: Path, *, source: str = "") -> Snapshot:
    """What collect.sh wrote, or the only folder in it. Raises Misuse."""
    source = source or str(path)
    files: dict[str, str] = {}
    size = 0
    for count, (name, data) in enumerate(_archive(path, source), 1):
        if count > MOST_FILES:
            raise _refusal(source, name, f"is file number {count}, at most {MOST_FILES} are read")
        if data is None:
            continue
        parts = PurePosixPath(name).parts
        if name.startswith("/") or any(part == ".." or not _PART.fullmatch(part) for part in parts):
            raise _refusal(source, name, "has a name that collect.sh does not write")
        size += len(data)
        if size > MOST_BYTES:
            raise _refusal(source, name, f"makes more than {MOST_BYTES >> 20} MiB of files")
        files["/".join(parts)] = printable(data.decode("ascii", "backslashreplace"))
    tops = {file.partition("/")[0] for file in files}
    if "about" not in files and len(tops) == 1:
        files = {file.partition("/")[2]: text for file, text in files.items()}
    if not files.get("about", "").startswith(_FORMAT):
        raise Misuse(f'{source}: its file about does not start with "{_FORMAT}": it is no capture', remedy=_AGAIN)
    return Snapshot(source, files)


def _archive(path: Path, source: str) -> Iterator[tuple[str, bytes | None]]:
    """Names and content of the members of an archive, without content for a folder."""
    try:
        # Not compressed, so that no header of the archive is larger than the archive.
        with tarfile.open(fileobj=BytesIO(read_regular(path, MOST_BYTES)), mode="r:") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if not member.isdir() and (not member.isreg() or member.issparse()):
                    raise _refusal(source, name, "is not a regular file")
                if member.isreg() and member.size > MOST_OF_FILE:
                    raise _refusal(source, name, f"is larger than {MOST_OF_FILE >> 20} MiB")
                content = archive.extractfile(member)
                yield name, content.read(MOST_OF_FILE) if content else None
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror or error}", remedy="check the path") from error
    except (tarfile.TarError, ValueError) as error:
        remedy = f"remove a compression with gunzip or xz -d, or {_AGAIN}"
        raise Misuse(f"{path} is not a whole tar archive: {error}", remedy=remedy) from error


def _refusal(source: str, name: str, reason: str) -> Misuse:
    shown = name.encode("utf-8", "backslashreplace").decode()
    return Misuse(f"{source}: {printable(shown)[:200]} {reason}", remedy=_AGAIN)


SECTOR = 512
MEBIBYTE = 1 << 20
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HOST, _NVME = re.compile(r"host[0-9]+"), re.compile(r"nvme[0-9]+")
_NAMESPACE = re.compile(r"nvme([0-9]+)(?:c([0-9]+))?n([0-9]+)")
_SAS_PORT = re.compile(r"port-[0-9]+(?::[0-9]+)+")
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
    (empty without one). ``queues`` are the CPUs of each hardware queue. ``driver`` is the kernel's name of it.
    """

    name: str
    tags: int
    read: str
    pci: str = ""
    node: int | None = None
    driver: str = ""
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
    return re.fullmatch(r"(dm-|md)[0-9]+", device) is not None


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
    folder = f"block/{device}"
    parts = PurePosixPath(snapshot.text(f"{folder}/place")).parts
    host = next(filter(_HOST.fullmatch, parts), "")
    nvme = next(filter(_NVME.fullmatch, parts), "")
    if not (host or nvme) and "virtual" in parts:
        if not _is_head(snapshot, device):
            notes.add(device, f"a virtual device ({lsblk_type(snapshot, device)}) that topologies have no kind for")
        return None
    queues = list(snapshot.rows(f"{folder}/mq"))
    tags = max((int(row[1]) for row in queues if row[1:] and row[1].isdecimal()), default=0)
    read = "nr_tags"
    if host:
        tags, read = snapshot.number(f"host/{host}/can_queue") or 0, "can_queue"
    elif not tags:
        tags, read = snapshot.number(f"{folder}/queue/nr_requests") or 0, "nr_requests"
    name = slug(host or nvme or (parts[-3] if parts[-2:-1] == ("block",) else "".join(parts[-2:-1])))
    if tags < 1 or not name:
        notes.add(device, "the capture has no number of tags for its controller")
        return None
    pci = next(filter(_PCI.fullmatch, reversed(parts)), "")
    node = snapshot.number(f"pci/{pci}/numa_node") if pci else None
    driver = snapshot.line(f"host/{host}/proc_name") if host else "nvme" if nvme else ""
    return CapturedController(name, tags, read, pci, node, driver, tuple(row[-1] for row in queues if row[2:]))


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
    folder = f"block/{device}"
    size = (snapshot.number(f"{folder}/size") or 0) * SECTOR
    kind = snapshot.line(f"{folder}/device/type") if controller.read == "can_queue" else _DIRECT_ACCESS
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
    identity = snapshot.line(f"{folder}/identity")
    disk = f"nvme{parts[0]}n{parts[2]}" if parts else f"identity {identity}" if identity else name
    ports = tuple(filter(_SAS_PORT.fullmatch, PurePosixPath(snapshot.text(f"{folder}/place")).parts))
    depth = snapshot.number(f"{folder}/device/queue_depth")
    rotational = snapshot.text(f"{folder}/queue/rotational") == "1"
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

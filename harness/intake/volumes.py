# SPDX-License-Identifier: GPL-2.0-only
"""The stacks of a captured machine: partitions in use, dm tables, md arrays and NVMe multipath."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.figures.read import PathGroups, multipath_table
from harness.intake.documents import Document, accepts, exact_size
from harness.intake.snapshot import (
    MEBIBYTE,
    SECTOR,
    CapturedDevices,
    Notes,
    Snapshot,
    is_stacked,
    lsblk_type,
    namespace,
    slug,
)
from lab.topology.fields import IOPOLICY, LEVEL, MD_FIELDS, QUEUE_FIELDS, SELECTOR

_LARGEST_HEAD = 16 * MEBIBYTE
"""Labels and metadata of LVM and partition tables: a member that starts there and is nearly whole counts as whole."""
_NEARLY_WHOLE = 0.9
_READ_AHEAD = next(field for field in QUEUE_FIELDS if field.name == "read_ahead_kb")
_DEEPEST = 16
_TARGET = re.compile(r"[0-9]+ ([0-9]+) (\S+)(.*)")
_STRIPES = re.compile(r"([1-9][0-9]*) ([0-9]+)((?: \S+ [0-9]+)+)")
_EXTENT = re.compile(r"(\S+) ([0-9]+)")


class LeftOut(Exception):
    """The reason why a device is not in the topology."""


@dataclass(frozen=True)
class DmTarget:
    """One line of a dm table; ``size`` is in bytes."""

    size: int
    kind: str
    words: tuple[str, ...]


def dm_table(snapshot: Snapshot, device: str) -> tuple[DmTarget, ...]:
    """The targets of a dm device; empty where its table could not be read."""
    lines = (_TARGET.match(line) for line in snapshot.text(f"block/{device}/table").splitlines())
    return tuple(DmTarget(int(line[1]) * SECTOR, line[2], tuple(line[3].split())) for line in lines if line)


def multipath(target: DmTarget) -> tuple[Sequence[str], PathGroups]:
    """Features and path groups of a multipath target; none where it cannot be read."""
    try:
        return multipath_table(target.words)
    except (StopIteration, ValueError):
        return (), ()


def device_numbers(snapshot: Snapshot) -> dict[str, str]:
    """Block devices and partitions by device number."""
    folders = {f"block/{device}": device for device in snapshot.below("block")}
    folders |= {f"block/{device}/part/{part}": part for part, device in partition_parents(snapshot).items()}
    numbers = {snapshot.text(f"{folder}/dev"): device for folder, device in folders.items()}
    numbers.pop("", None)
    return numbers


def partition_parents(snapshot: Snapshot) -> dict[str, str]:
    """The block device of each partition."""
    return {part: device for device in snapshot.below("block") for part in snapshot.below(f"block/{device}/part")}


def same_disk(snapshot: Snapshot) -> Iterator[frozenset[str]]:
    """Sets of devices that are paths of one multipath device."""
    numbers = device_numbers(snapshot)
    for device in snapshot.below("block"):
        for target in (each for each in dm_table(snapshot, device) if each.kind == "multipath"):
            _, groups = multipath(target)
            yield frozenset(numbers[path[0]] for _, paths in groups for path in paths if path[0] in numbers)


class StackReader:
    """Makes rows of a topology file from the stacked devices, each after its members."""

    def __init__(self, snapshot: Snapshot, devices: CapturedDevices, notes: Notes) -> None:
        self._snapshot, self._devices, self._notes = snapshot, devices, notes
        self._numbers, self._parents = device_numbers(snapshot), partition_parents(snapshot)
        self._sizes = {lun.name: lun.size for lun in devices.luns.values()}
        self._names = {lun.device: lun.name for lun in devices.luns.values()}
        self._left: set[str] = set()
        self._busy: set[str] = set()
        self.rows: dict[str, Document] = {}

    def read(self, *, nvme: bool) -> dict[str, Document]:
        """All stacks; those of NVMe only if the topology's hosts are NVMe."""
        if nvme:
            for head, over in self._namespaces().items():
                row: Document = {"kind": "nvme", "over": over, **self._policy(head)}
                self._names[head] = self._add_row(head, self._sizes[over[0]], row)
        self._names_of(filter(is_stacked, self._snapshot.below("block")))
        return self.rows

    def _namespaces(self) -> dict[str, list[str]]:
        heads: dict[str, list[str]] = {}
        for lun in self._devices.luns.values():
            if parts := namespace(lun.device):
                heads.setdefault(f"nvme{parts[0]}n{parts[2]}", []).append(lun.name)
        return heads

    def _policy(self, head: str) -> Document:
        for subsystem in self._snapshot.below("nvme-subsystem"):
            if head in self._snapshot.text(f"nvme-subsystem/{subsystem}/members").split():
                policy = self._snapshot.text(f"nvme-subsystem/{subsystem}/iopolicy")
                if accepts(IOPOLICY, policy):
                    return {"iopolicy": policy}
        return {}

    def _add_row(self, name: str, size: int, row: Document) -> str:
        self.rows[name] = row
        self._sizes[name] = size
        return name

    def _name_of(self, device: str) -> str:
        """The name of a device in the topology, read with all below it. Raises LeftOut."""
        if device in self._names:
            return self._names[device]
        if parent := self._parents.get(device):
            sectors = (self._snapshot.number(f"block/{parent}/part/{device}/{key}") for key in ("start", "size"))
            start, size = (SECTOR * (count or 0) for count in sectors)
            return self._extent(self._name_of(parent), start, size, slug(device))
        if device in self._left or not is_stacked(device):
            raise LeftOut
        if device in self._busy or len(self._busy) == _DEEPEST:
            self._notes.add(device, f"is over itself, or one of more than {_DEEPEST} devices over each other")
            raise LeftOut
        self._busy.add(device)
        try:
            size, row = self._md_row(device) if device.startswith("md") else self._dm_row(device)
        except LeftOut as reason:
            self._notes.add(device, str(reason))
            self._left.add(device)
            raise
        finally:
            self._busy.discard(device)
        ahead = self._snapshot.number(f"block/{device}/queue/read_ahead_kb")
        row |= {"queue": {"read_ahead_kb": ahead}} if accepts(_READ_AHEAD, ahead) else {}
        self._names[device] = self._add_row(slug(device), size, row)
        return self._names[device]

    def _names_of(self, devices: Iterable[str]) -> list[str]:
        """The names of the devices that are not left out."""
        names = []
        for device in devices:
            try:
                names.append(self._name_of(device))
            except LeftOut:
                continue
        return names

    def _extent(self, base: str, offset: int, size: int, name: str) -> str:
        """A part of a device: the device itself if that is nearly whole, else a linear stack."""
        whole = self._sizes[base]
        if offset <= _LARGEST_HEAD and size >= _NEARLY_WHOLE * whole:
            if offset:
                self._notes.add(base, f"used from {exact_size(offset)} on; the topology uses it as a whole")
            return base
        size = min(size, whole - offset) // MEBIBYTE * MEBIBYTE
        if size < MEBIBYTE or offset < 0:
            self._notes.add(name, f"a part of {base} of less than 1 MiB, or beyond its end")
            raise LeftOut
        row: Document = {"kind": "linear", "over": [base], "size": exact_size(size)}
        return self._add_row(name, size, row | ({"offset": exact_size(offset)} if offset else {}))

    def _whole(self, device: str) -> int:
        """The size of a stacked device, less what rounding its members down to MiB may take."""
        size = (self._snapshot.number(f"block/{device}/size") or 0) * SECTOR
        return max(0, size // MEBIBYTE - len(self._snapshot.text(f"block/{device}/slaves").split())) * MEBIBYTE

    # Device mapper

    def _dm_row(self, device: str) -> tuple[int, Document]:
        table = dm_table(self._snapshot, device)
        kinds = sorted({target.kind for target in table})
        if not table:
            raise LeftOut(f"its table was not read ({lsblk_type(self._snapshot, device)}): capture as root")
        if kinds == ["multipath"] and len(table) == 1:
            return self._multipath_row(device, table[0])
        if kinds == ["striped"] and len(table) == 1:
            return self._stripe_row(device, table[0])
        if kinds == ["linear"]:
            return self._linear_row(device, table)
        raise LeftOut(f"a dm table with {', '.join(kinds)}; topologies have linear, stripe and multipath")

    def _pieces(self, device: str, words: Sequence[str], sizes: Sequence[int]) -> list[str]:
        """The members of a table: pairs of a device number and a sector. Raises LeftOut unless all are there, once."""
        pieces: list[str] = []
        for index, (number, sector, size) in enumerate(zip(words[::2], words[1::2], sizes, strict=False)):
            member = self._numbers.get(number, "")
            try:
                if not sector.isdecimal():
                    raise LeftOut
                name = f"{slug(device)}-{index}"
                pieces.append(self._extent(self._name_of(member), int(sector) * SECTOR, size, name))
            except LeftOut as error:
                raise LeftOut(f"its member {member or number} is left out") from error
        return _distinct(pieces)

    def _stripe_row(self, device: str, target: DmTarget) -> tuple[int, Document]:
        if not (stripes := _STRIPES.fullmatch(" ".join(target.words))):
            raise LeftOut("its table cannot be read")
        words, share = stripes[3].split(), target.size // int(stripes[1])
        # A stripe that uses all of one member uses as much of each as there is.
        sizes = [self._sizes[base] for base in self._names_of(self._numbers.get(number, "") for number in words[::2])]
        if any(share >= _NEARLY_WHOLE * size for size in sizes):
            share = max(sizes)
        over = self._pieces(device, words, [share] * (len(words) // 2))
        return self._whole(device), {"kind": "stripe", "chunk": exact_size(int(stripes[2]) * SECTOR), "over": over}

    def _linear_row(self, device: str, table: Sequence[DmTarget]) -> tuple[int, Document]:
        extent = _EXTENT.fullmatch(" ".join(table[0].words)) if len(table) == 1 else None
        if extent is None:
            words = [word for target in table for word in target.words]
            over = self._pieces(device, words, [target.size for target in table])
            return self._whole(device), {"kind": "linear", "over": over}
        device_below = self._numbers.get(extent[1], "")
        for member in self._names_of([device_below]):
            offset = int(extent[2]) * SECTOR
            size = min(table[0].size, self._sizes[member] - offset)
            if size >= MEBIBYTE:
                start = {"offset": exact_size(offset)} if offset else {}
                return size, {"kind": "linear", "over": [member], **start, "size": exact_size(size)}
        raise LeftOut(f"its member {device_below or extent[1]} is left out")

    def _multipath_row(self, device: str, target: DmTarget) -> tuple[int, Document]:
        features, path_groups = multipath(target)
        groups = [self._names_of(self._numbers.get(path[0], "") for path in paths) for _, paths in path_groups]
        over = [name for group in groups for name in group]
        selector, last = path_groups[-1] if over else ("", ())
        if not over or not accepts(SELECTOR, selector):
            raise LeftOut("its table names no path that is in the capture, or a path selector of another kind")
        over = self._paths_to_one_disk(device, over)
        policy = "multibus" if len(groups) == 1 else "failover"
        if 1 < len(groups) < len(over):
            over, policy = [name for name in groups[0] if name in over] or over, "multibus"
            self._notes.add(device, f"{len(groups)} path groups with several paths: only the first group's are used")
        row: Document = {"kind": "multipath", "over": over, "selector": selector, "policy": policy}
        row |= {"mode": "bio"} if "queue_mode bio" in " ".join(features) else {}
        repeat = next((int(path[1]) for path in reversed(last) if path[1:] and path[1].isdecimal()), 1)
        row |= {"repeat_count": repeat} if repeat > 1 else {}
        return self._sizes[over[0]], row

    def _paths_to_one_disk(self, device: str, over: Sequence[str]) -> list[str]:
        """The paths that lead where the first one does, each once."""
        luns = self._devices.luns
        disks = {name: luns[name].disk if name in luns else name for name in over}
        for name, disk in disks.items():
            if disk != disks[over[0]]:
                self._notes.add(device, f"its path {name} leads to another disk than {over[0]}")
        return [name for name, disk in disks.items() if disk == disks[over[0]]]

    # md

    def _md_row(self, device: str) -> tuple[int, Document]:
        folder, number = f"block/{device}", self._snapshot.number
        level, disks = self._snapshot.line(f"{folder}/md/level"), number(f"{folder}/md/raid_disks") or 0
        chunk = number(f"{folder}/md/chunk_size")
        slots = {row[0]: row[-1] for row in self._snapshot.rows(f"{folder}/members") if row[0].isdecimal()}
        if not accepts(LEVEL, level):
            raise LeftOut(f"an md array of level {level or 'unknown'}; topologies have {LEVEL.kind.type}")
        over = self._names_of(slots[slot] for slot in sorted(slots, key=int))
        if len(over) != disks or not over:
            raise LeftOut(f"{len(over)} of its {disks} members are there and in the topology")
        row: Document = {"kind": "md", "level": level}
        row |= {"chunk": exact_size(chunk)} if chunk and level != "raid1" else {}
        row["over"] = _distinct(over)
        row |= {"bitmap": "internal"} if self._snapshot.line(f"{folder}/bitmap/location") not in ("", "none") else {}
        row |= {"md": settings} if (settings := self._md_settings(device)) else {}
        if (action := self._snapshot.line(f"{folder}/md/sync_action")) not in ("", "idle"):
            self._notes.add(device, f"was in {action}; the topology's array is clean")
        return self._whole(device), row

    def _md_settings(self, device: str) -> Mapping[str, int]:
        settings = {}
        for field in MD_FIELDS:
            # sync_speed_min reads "1000 (system)" unless the array has a value of its own.
            value = re.fullmatch(r"([0-9]{1,9})( \(local\))?", self._snapshot.text(f"block/{device}/md/{field.name}"))
            if value and accepts(field, int(value[1])):
                settings[field.name] = int(value[1])
        return settings


def _distinct(over: list[str]) -> list[str]:
    if not over or len(set(over)) < len(over):
        raise LeftOut("a member occurs twice" if over else "its table cannot be read")
    return over

# SPDX-License-Identifier: GPL-2.0-only
"""The stacks of a captured machine: partitions in use, dm tables, md arrays and NVMe multipath."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.intake.devices import SECTOR, CapturedDevices, Notes, is_stacked, lsblk_type, namespace, slug
from harness.intake.snapshot import Snapshot
from lab.topology.fields import IOPOLICY, LEVEL, MD_FIELDS, QUEUE_FIELDS, SELECTOR
from lab.yaml.fields import Choice, Field, Integer

_MEBIBYTE = 1 << 20
_LARGEST_HEAD = 16 * _MEBIBYTE
"""Labels and metadata of LVM and partition tables: a member that starts there and is nearly whole counts as whole."""
_NEARLY_WHOLE = 0.9
_READ_AHEAD = next(field for field in QUEUE_FIELDS if field.name == "read_ahead_kb")
_DEEPEST = 16
_TARGET = re.compile(r"\d+ (\d+) (\S+)(.*)")
_STRIPES = re.compile(r"([1-9]\d*) (\d+)((?: \S+ \d+)+)")
_EXTENT = re.compile(r"(\S+) (\d+)")
_KIBIBYTE_UNITS = {"k": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
StackRow = dict[str, object]


@dataclass(frozen=True)
class DmTarget:
    """One line of a dm table; ``size`` is in bytes."""

    size: int
    kind: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class DmPaths:
    """What a multipath target says. ``groups`` are device numbers such as 8:16."""

    selector: str
    groups: tuple[tuple[str, ...], ...]
    repeat_count: int
    mode: str


def choices(one: Field) -> tuple[str, ...]:
    """The words that a field may have."""
    return one.kind.values if isinstance(one.kind, Choice) else ()


def within(one: Field, value: int | None) -> int | None:
    """The value, None unless a field takes it."""
    kind = one.kind
    return value if value is not None and isinstance(kind, Integer) and kind.low <= value <= kind.high else None


def exact_size(value: int) -> str | int:
    """Bytes in the largest unit that leaves no remainder, as a topology file has them."""
    fits = [unit for unit, factor in _KIBIBYTE_UNITS.items() if value and value % factor == 0]
    return f"{value // _KIBIBYTE_UNITS[fits[-1]]}{fits[-1]}" if fits else value


def dm_table(snapshot: Snapshot, device: str) -> tuple[DmTarget, ...]:
    """The targets of a dm device; empty where its table could not be read."""
    lines = (_TARGET.match(line) for line in snapshot.text(f"block/{device}/table").splitlines())
    return tuple(DmTarget(int(line[1]) * SECTOR, line[2], tuple(line[3].split())) for line in lines if line)


def dm_paths(target: DmTarget) -> DmPaths | None:
    """A multipath target, by Documentation/admin-guide/device-mapper; None where it cannot be read."""
    words = iter(target.words)
    try:
        features = [next(words) for _ in range(int(next(words)))]
        for _ in range(int(next(words))):
            next(words)
        count, _ = int(next(words)), next(words)
        groups, selector, repeat = [], "", 1
        for _ in range(count):
            selector = next(words)
            for _ in range(int(next(words))):
                next(words)
            paths, arguments = int(next(words)), int(next(words))
            group = []
            for _ in range(paths):
                group.append(next(words))
                own = [next(words) for _ in range(arguments)]
                repeat = int(own[0]) if own and own[0].isdigit() else 1
            groups.append(tuple(group))
    except (StopIteration, ValueError):
        return None
    bio = "queue_mode bio" in " ".join(features)
    return DmPaths(selector, tuple(groups), max(1, repeat), "bio" if bio else "rq")


def numbers(snapshot: Snapshot) -> dict[str, str]:
    """Block devices and partitions by device number."""
    found = {}
    for device in snapshot.below("block"):
        found[snapshot.text(f"block/{device}/dev")] = device
        for part in snapshot.below(f"block/{device}/part"):
            found[snapshot.text(f"block/{device}/part/{part}/dev")] = part
    found.pop("", None)
    return found


def same_disk(snapshot: Snapshot) -> Iterator[frozenset[str]]:
    """Sets of devices that are paths of one multipath device."""
    known = numbers(snapshot)
    for device in snapshot.below("block"):
        for target in dm_table(snapshot, device):
            paths = dm_paths(target) if target.kind == "multipath" else None
            if paths:
                yield frozenset(known[one] for group in paths.groups for one in group if one in known)


class StackReader:
    """Makes rows of a topology file from the stacked devices, each after its members."""

    def __init__(self, snapshot: Snapshot, devices: CapturedDevices, notes: Notes) -> None:
        self._snapshot, self._devices, self._notes = snapshot, devices, notes
        self._numbers = numbers(snapshot)
        self._sizes = {lun.name: lun.size for lun in devices.luns.values()}
        self._parents = {
            part: device for device in snapshot.below("block") for part in snapshot.below(f"block/{device}/part")
        }
        self._busy: set[str] = set()
        self._done: dict[str, str | None] = {}
        self.rows: dict[str, StackRow] = {}

    def read(self, *, nvme: bool) -> dict[str, StackRow]:
        """All stacks; those of NVMe only if the topology's hosts are NVMe."""
        if nvme:
            for name, over in self._namespaces().items():
                self._put(name, self._sizes[over[0]], {"kind": "nvme", "over": over, **self._policy(name)})
                self._done[name] = name
        for device in self._snapshot.below("block"):
            if is_stacked(device):
                self._stack(device)
        return self.rows

    def _namespaces(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for lun in self._devices.luns.values():
            parts = namespace(lun.device)
            if parts:
                found.setdefault(f"nvme{parts[0]}n{parts[2]}", []).append(lun.name)
        return found

    def _policy(self, head: str) -> StackRow:
        for subsystem in self._snapshot.below("nvme-subsystem"):
            if head in self._snapshot.text(f"nvme-subsystem/{subsystem}/members").split():
                policy = self._snapshot.text(f"nvme-subsystem/{subsystem}/iopolicy")
                if policy in choices(IOPOLICY):
                    return {"iopolicy": policy}
        return {}

    def _put(self, name: str, size: int, row: StackRow) -> str:
        self.rows[name] = row
        self._sizes[name] = size
        return name

    def _member(self, device: str) -> str | None:
        """The name of a device in the topology; None for one that is left out."""
        lun = self._devices.named(device)
        if device in self._done:
            return self._done[device]
        if lun is not None:
            return lun.name
        if device in self._parents:
            return self._partition(device)
        return self._stack(device) if is_stacked(device) else None

    def _partition(self, part: str) -> str | None:
        parent = self._member(self._parents[part])
        own = f"block/{self._parents[part]}/part/{part}"
        start, size = (self._snapshot.number(f"{own}/{key}") or 0 for key in ("start", "size"))
        return self._extent(parent, start * SECTOR, size * SECTOR, slug(part)) if parent else None

    def _extent(self, base: str, offset: int, size: int, name: str) -> str | None:
        """A part of a device: the device itself if that is nearly whole, else a linear stack."""
        whole = self._sizes[base]
        if offset <= _LARGEST_HEAD and size >= _NEARLY_WHOLE * whole:
            if offset:
                self._notes.add(base, f"used from {exact_size(offset)} on; the topology uses it as a whole")
            return base
        size = min(size, whole - offset) // _MEBIBYTE * _MEBIBYTE
        if size < _MEBIBYTE or offset < 0:
            self._notes.add(name, f"a part of {base} of less than 1 MiB, or beyond its end")
            return None
        row: StackRow = {"kind": "linear", "over": [base], "size": exact_size(size)}
        return self._put(name, size, row | ({"offset": exact_size(offset)} if offset else {}))

    def _stack(self, device: str) -> str | None:
        """The name of a stack, read with all below it; None if it is left out."""
        if device in self._done:
            return self._done[device]
        if device in self._busy or len(self._busy) == _DEEPEST:
            self._notes.add(device, f"is over itself, or one of more than {_DEEPEST} devices over each other")
            return None
        self._busy.add(device)
        made = self._array(device) if device.startswith("md") else self._mapped(device)
        self._busy.discard(device)
        if made:
            self._with_queue(made, device)
        self._done[device] = made
        return made

    def _with_queue(self, name: str, device: str) -> None:
        ahead = within(_READ_AHEAD, self._snapshot.number(f"block/{device}/queue/read_ahead_kb"))
        if ahead is not None and "queue" not in self.rows.get(name, {"queue": 0}):
            self.rows[name]["queue"] = {"read_ahead_kb": ahead}

    def _whole(self, device: str) -> int:
        """The size of a stacked device, less what rounding its members down to MiB may take."""
        size = (self._snapshot.number(f"block/{device}/size") or 0) * SECTOR
        members = len(self._snapshot.text(f"block/{device}/slaves").split())
        return max(0, size // _MEBIBYTE - members) * _MEBIBYTE

    def _mapped(self, device: str) -> str | None:
        table = dm_table(self._snapshot, device)
        kinds = sorted({target.kind for target in table})
        if not table:
            kind = lsblk_type(self._snapshot, device)
            self._notes.add(device, f"its table was not read ({kind}): capture as root")
            return None
        if kinds == ["multipath"] and len(table) == 1:
            return self._multipath(device, table[0])
        if kinds == ["striped"] and len(table) == 1:
            return self._striped(device, table[0])
        if kinds == ["linear"]:
            return self._linear(device, table)
        self._notes.add(device, f"a dm table with {', '.join(kinds)}; topologies have linear, stripe and multipath")
        return None

    def _pieces(self, device: str, words: Sequence[str], sizes: Sequence[int]) -> list[str] | None:
        """The members of a table: pairs of a device number and a sector."""
        found = []
        for place, (number, sector, size) in enumerate(zip(words[::2], words[1::2], sizes, strict=False)):
            member = self._member(self._numbers.get(number, ""))
            name = f"{slug(device)}-{place}"
            piece = self._extent(member, int(sector) * SECTOR, size, name) if member and sector.isdigit() else None
            if piece is None:
                self._notes.add(device, f"its member {self._numbers.get(number, number)} is left out")
                return None
            found.append(piece)
        return found

    def _striped(self, device: str, target: DmTarget) -> str | None:
        found = _STRIPES.fullmatch(" ".join(target.words))
        if not found:
            self._notes.add(device, "its table cannot be read")
            return None
        words = found[3].split()
        over = self._pieces(device, words, [self._share(words, target.size // int(found[1]))] * (len(words) // 2))
        if not self._distinct(device, over):
            return None
        row: StackRow = {"kind": "stripe", "chunk": exact_size(int(found[2]) * SECTOR), "over": over}
        return self._put(slug(device), self._whole(device), row)

    def _share(self, words: Sequence[str], share: int) -> int:
        """What a stripe uses of each member: as much as there is, if it uses all of one."""
        bases = [self._member(self._numbers.get(number, "")) for number in words[::2]]
        whole = any(share >= _NEARLY_WHOLE * self._sizes[base] for base in bases if base)
        return max(self._sizes[base] for base in bases if base) if whole else share

    def _linear(self, device: str, table: Sequence[DmTarget]) -> str | None:
        only = _EXTENT.fullmatch(" ".join(table[0].words)) if len(table) == 1 else None
        if only:
            number, sector = only.groups()
            member = self._member(self._numbers.get(number, ""))
            if member:
                size, offset = min(table[0].size, self._sizes[member] - int(sector) * SECTOR), int(sector) * SECTOR
                row: StackRow = {"kind": "linear", "over": [member]}
                row |= {"offset": exact_size(offset)} if offset else {}
                if size >= _MEBIBYTE:
                    return self._put(slug(device), size, row | {"size": exact_size(size)})
            self._notes.add(device, f"its member {self._numbers.get(number, number)} is left out")
            return None
        words = [word for target in table for word in target.words]
        over = self._pieces(device, words, [target.size for target in table])
        if not self._distinct(device, over):
            return None
        return self._put(slug(device), self._whole(device), {"kind": "linear", "over": over})

    def _multipath(self, device: str, target: DmTarget) -> str | None:
        paths = dm_paths(target)
        groups = (
            [[self._member(self._numbers.get(one, "")) for one in group] for group in paths.groups] if paths else []
        )
        over = [name for group in groups for name in group if name]
        if not paths or not over or paths.selector not in choices(SELECTOR):
            self._notes.add(
                device, "its table names no path that is in the capture, or a path selector of another kind"
            )
            return None
        over = self._to_one_disk(device, over)
        policy = "multibus" if len(groups) == 1 else "failover"
        if 1 < len(groups) < len(over):
            over, policy = [name for name in groups[0] if name in over] or over, "multibus"
            self._notes.add(device, f"{len(groups)} path groups with several paths: only the first group's are used")
        row: StackRow = {"kind": "multipath", "over": over, "selector": paths.selector, "policy": policy}
        row |= {"mode": paths.mode} if paths.mode == "bio" else {}
        row |= {"repeat_count": paths.repeat_count} if paths.repeat_count > 1 else {}
        return self._put(slug(device), self._sizes[over[0]], row)

    def _to_one_disk(self, device: str, over: Sequence[str]) -> list[str]:
        """The paths that lead where the first one does, each once."""
        luns = self._devices.luns
        disks = {name: luns[name].disk if name in luns else name for name in over}
        kept = [name for name, disk in disks.items() if disk == disks[over[0]]]
        for name in disks.keys() - {*kept}:
            self._notes.add(device, f"its path {name} leads to another disk than {over[0]}")
        return kept

    def _distinct(self, device: str, over: Sequence[str] | None) -> bool:
        if over and len(set(over)) == len(over):
            return True
        if over:
            self._notes.add(device, "a member occurs twice")
        return False

    def _array(self, device: str) -> str | None:
        text = self._snapshot.line
        level, size = text(f"block/{device}/md/level"), self._whole(device)
        slots = {row[0]: row[-1] for row in self._snapshot.rows(f"block/{device}/members") if row[0].isdigit()}
        disks = self._snapshot.number(f"block/{device}/md/raid_disks") or 0
        chunk = self._snapshot.number(f"block/{device}/md/chunk_size")
        if not level:
            level, slots, chunk = mdstat_array(self._snapshot.text("proc/mdstat"), device)
            disks = len(slots)
        if level not in choices(LEVEL):
            known_levels = ", ".join(choices(LEVEL))
            self._notes.add(device, f"an md array of level {level or 'unknown'}; topologies have {known_levels}")
            return None
        over = [self._member(slots[slot]) for slot in sorted(slots, key=int)]
        known = [name for name in over if name]
        if len(known) != disks or not self._distinct(device, known):
            self._notes.add(device, f"{len(known)} of its {disks} members are there and in the topology")
            return None
        row: StackRow = {"kind": "md", "level": level}
        row |= {"chunk": exact_size(chunk)} if chunk and level != "raid1" else {}
        row["over"] = known
        row |= {"bitmap": "internal"} if text(f"block/{device}/bitmap/location") not in ("", "none") else {}
        row |= {"md": own} if (own := self._md_settings(device)) else {}
        if text(f"block/{device}/md/sync_action") not in ("", "idle"):
            self._notes.add(device, f"was in {text(f'block/{device}/md/sync_action')}; the topology's array is clean")
        return self._put(slug(device), size, row)

    def _md_settings(self, device: str) -> Mapping[str, int]:
        found = {}
        for one in MD_FIELDS:
            # sync_speed_min reads "1000 (system)" unless the array has a value of its own.
            value = re.fullmatch(r"(\d{1,9})( \(local\))?", self._snapshot.text(f"block/{device}/md/{one.name}"))
            if value and within(one, int(value[1])) is not None:
                found[one.name] = int(value[1])
        return found


def mdstat_array(text: str, device: str) -> tuple[str, dict[str, str], int]:
    """Level, members by number and chunk of an array in /proc/mdstat, for a machine whose md attributes are not read.

    Spares and failed members are left out. The level is empty where the array is not there or does not run.
    """
    array = rf"^{re.escape(device)} : active (?:\(\S+\) )?(raid\d+) (.+)\n.*?(?:(\d+)k chunk.*)?$"
    found = re.search(array, text, re.MULTILINE)
    if found is None:
        return "", {}, 0
    members = re.finditer(r"([\w!-]+)\[(\d+)\](\([A-Z]\))*", found[2])
    return found[1], {one[2]: one[1] for one in members if one[3] not in ("(F)", "(S)")}, int(found[3] or 0) << 10

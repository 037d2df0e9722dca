# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel counted and traced in a window, and the controllers that interrupts belong to.

A counter file is read on both sides of a window. It is a sequence of sections, each ``== PATH`` and then that file's
own text.
"""

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from io import BytesIO

from harness.figures.boot import READBACK, LoadFiles, MeasurementError
from harness.figures.fio import bytes_read
from harness.scenario.model import Role
from harness.scenario.registry import LARGEST_FOLIO, LUN, MOST_PROCESSORS, SLOTS, BootFile, Figures, Readings
from lab.base.record import INVENTORY
from lab.realise.inventory import Inventory, mismatches, read_inventory

_SECTION = "== "
_DISKSTATS = "/proc/diskstats"
_MDSTAT, _UPTIME, _INTERRUPTS = "/proc/mdstat", "/proc/uptime", "/proc/interrupts"
_SECTOR = 512
# drivers/md/md.c, status_resync(): "resync =  1.4% (13824/976631808) finish=..."; KiB of each member.
_RESYNC = re.compile(r"(?:resync|recovery|check|repair) *= *[0-9.]+% \(([0-9]{1,18})/[0-9]{1,18}\)")
# Documentation/admin-guide/iostats.rst: fields 1 to 11 are in every kernel since 2.6, discards (12 to 15) since 4.18,
# flushes (16 and 17) since 5.5.
_COUNTS = ("", ".merged", ".sectors", ".ms")
_OLD_FIELDS = (
    *(f"{way}{count}" for way in ("reads", "writes") for count in _COUNTS),
    *("inflight", "busy.ms", "weighted.ms"),
)
_DISK_FIELDS = (*_OLD_FIELDS, *(f"discards{count}" for count in _COUNTS), "flushes", "flushes.ms")
_GAUGES = frozenset({"inflight"})


Disks = Mapping[str, Mapping[str, float]]
"""What happened between two readings, by device and counter."""


def read_sections(data: bytes, file: str) -> dict[str, str]:
    """Section path -> its text. Raises MeasurementError for text before the first section or a double one."""
    sections: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in data.decode("utf-8", "replace").splitlines():
        if line.startswith(_SECTION):
            path = line[len(_SECTION) :].strip()
            if path in sections:
                raise MeasurementError(file, f"section {path} appears twice")
            current = sections[path] = []
        elif current is not None:
            current.append(line)
        elif line.strip():
            raise MeasurementError(file, f'"{line}" is before the first section')
    return {path: "\n".join(lines) for path, lines in sections.items()}


def read_window(before: bytes, after: bytes, load: str, anew: Collection[str] = ()) -> tuple[Disks, float | None]:
    """What ``LOAD.after`` has more than ``LOAD.before``, without the devices ``anew``, which were deleted meanwhile and
    count from 0 again, and the speed of md's resync. Raises MeasurementError."""
    first_file, second_file = f"{load}.before", f"{load}.after"
    first, second = read_sections(before, first_file), read_sections(after, second_file)
    both = (_disks(first, first_file), _disks(second, second_file))
    old_disks, new_disks = ({name: row for name, row in disks.items() if name not in anew} for disks in both)
    if old_disks.keys() != new_disks.keys():
        changed = ", ".join(sorted(old_disks.keys() ^ new_disks.keys()))
        raise MeasurementError(second_file, f"block devices came or went in the window: {changed}")
    disks = {name: _delta(old_disks[name], new, name, second_file) for name, new in new_disks.items()}
    return disks, _resync(first, second, second_file)


def _resync(first: Mapping[str, str], second: Mapping[str, str], file: str) -> float | None:
    """How fast md went over each member of its arrays, in bytes per second of all arrays together; None where nothing
    was synchronised from the first reading to the last."""
    done = [_RESYNC.findall(sections.get(_MDSTAT, "")) for sections in (first, second)]
    if not done[0] or len(done[0]) != len(done[1]):
        return None
    kibibytes = sum(map(int, done[1])) - sum(map(int, done[0]))
    try:
        seconds = float(second[_UPTIME].split()[0]) - float(first[_UPTIME].split()[0])
    except (KeyError, IndexError, ValueError) as error:
        raise MeasurementError(file, f"no time in {_UPTIME}") from error
    if seconds <= 0 or kibibytes < 0:
        raise MeasurementError(file, f"{kibibytes} KiB synchronised in {seconds} s")
    return kibibytes * 1024 / seconds


def _disks(sections: Mapping[str, str], file: str) -> dict[str, tuple[int, ...]]:
    if _DISKSTATS not in sections:
        raise MeasurementError(file, f"section {_DISKSTATS} is missing")
    table, count = {}, len(_OLD_FIELDS)
    for line in filter(str.strip, sections[_DISKSTATS].splitlines()):
        _, _, name, *padded = [*line.split(), "", "", ""]
        values = [*filter(None, padded)]
        if len(values) < count or not all(value.isdecimal() for value in values):
            raise MeasurementError(file, f"{_DISKSTATS} row {name} does not hold {count} counters")
        table[name] = tuple(map(int, values))
    return table


def _delta(old: tuple[int, ...], new: tuple[int, ...], name: str, file: str) -> dict[str, float]:
    deltas = {}
    for field, was, now in zip(_DISK_FIELDS, old, new, strict=False):
        if field in _GAUGES:
            continue
        if now < was:
            raise MeasurementError(file, f"{_DISKSTATS} counter {field} of {name} went backwards")
        deltas[field] = float(now - was)
    return deltas | _sums(deltas)


def _sums(deltas: Mapping[str, float]) -> dict[str, float]:
    merges = deltas["reads.merged"] + deltas["writes.merged"]
    requests = deltas["reads"] + deltas["writes"]
    sectors = deltas["reads.sectors"] + deltas["writes.sectors"]
    return {"merges": merges, "requests": requests, "bios": requests + merges, "sectors": sectors}


def counter_figures(files: LoadFiles, figures: Figures) -> Readings:
    """``disk.*`` and ``members.*``, added up over block devices, and what follows from them. Raises MeasurementError.

    They are of the window with its ramp; two roles on one LUN share them. LUNs below a stack have a ``disk.*`` of their
    own. ``resync.bw`` is the same for every role.
    """
    load = files.load
    anew = {files.devices[event.disk] for event in load.events if event.do == "delete"}
    disks, resync = read_window(files.sent("{load}.before"), files.sent(BootFile.COUNTERS), load.name, anew)
    if resync is not None:
        yield from (((load.name, role, "resync.bw"), resync) for role in load.roles)
    for role in load.roles.values():
        named = dict.fromkeys(files.topology.region(disk).lun for disk in role.disks)
        below = {lun: _counters(lun, disks, files) for lun in files.luns(role.disks)}
        summed = {
            "disk": _sum([_counters(lun, disks, files) for lun in named]),
            "members": _sum([*below.values()]),
        }
        for where, counts in summed.items():
            yield from (((load.name, role.name, f"{where}.{name}"), value) for name, value in counts.items())
        if below.keys() != named.keys():
            for lun, counts in below.items():
                yield from (((load.name, LUN, f"{lun}.disk.{name}"), value) for name, value in counts.items())
        requests = [counts["requests"] for counts in below.values()]
        if sum(requests):
            yield (load.name, role.name, "paths.busiest"), max(requests) / sum(requests)
        # A path group of NVMe counts nothing itself.
        sectors = summed["disk"]["reads.sectors"] or summed["members"]["reads.sectors"]
        alone = load.tells_hits(role) and _counts_alone(files, role)
        if alone and (asked := bytes_read(files.sent(BootFile.FIO), files.name(BootFile.FIO))[role.name]):
            yield (load.name, role.name, "page_cache.hits"), max(0.0, 1 - sectors * _SECTOR / asked)
    if files.topology.emulated:
        yield from _interrupt_figures(files)


def _sum(of_luns: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    return {name: sum(counts[name] for counts in of_luns) for name in of_luns[0]}


def _counts_alone(files: LoadFiles, role: Role) -> bool:
    """Whether the LUNs of a role are its own and count what they read."""
    others = (other for other in files.load.roles.values() if other.name != role.name)
    shared = any(files.luns(role.disks).keys() & files.luns(other.disks).keys() for other in others)
    return not shared and not any(row.path.endswith("/iostats") and row.value == "0" for row in files.readback)


def _counters(lun: str, disks: Disks, files: LoadFiles) -> Mapping[str, float]:
    if lun not in files.devices:
        raise MeasurementError(READBACK, f"no block device is named for LUN {lun}")
    if (name := files.devices[lun]) not in disks:
        raise MeasurementError(files.name(BootFile.COUNTERS), f"{_DISKSTATS} has no row for {name} (LUN {lun})")
    return disks[name]


def checked_inventory(files: LoadFiles) -> Inventory:
    """What the guest saw of an emulated topology. Raises MeasurementError where it is not what the topology says."""
    seen = read_inventory(files.get(INVENTORY) or b"")
    if wrong := mismatches(files.topology, seen):
        rest = f"; and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise MeasurementError(INVENTORY, f"{wrong[0]}{rest}")
    return seen


def controller_figures(files: LoadFiles, figures: Figures) -> Readings:
    """``node``, ``slot.lanes`` and ``slot.gts`` of a role's controllers, where all have the same. Emulated topologies.

    Raises MeasurementError.
    """
    seen = checked_inventory(files) if files.topology.emulated else {}
    for role in files.load.roles.values() if seen else ():
        for name, attribute in SLOTS.items():
            texts = {seen.get(f"hba.{hba}.{attribute}", "").partition(" ")[0] for hba in _controllers(files, role)}
            if len(texts) == 1 and (text := texts.pop()):
                yield (files.load.name, role.name, name), float(text)


def _interrupt_figures(files: LoadFiles) -> Readings:
    """``interrupts`` of a role's controllers by processor, over a load's window with its ramp."""
    seen, load = checked_inventory(files), files.load
    before, after = (_interrupts(files, when) for when in ("before", "after"))
    for role in load.roles.values():
        irqs = {irq for hba in _controllers(files, role) for irq in seen.get(f"hba.{hba}.interrupts", "").split()}
        counts = Counter[int]()
        for irq in irqs & after.keys():
            counts.update({cpu: now - was for cpu, (now, was) in enumerate(zip(after[irq], before[irq], strict=True))})
        yield (load.name, role.name, "interrupts"), float(sum(counts.values()))
        for cpu in range(MOST_PROCESSORS):
            yield (load.name, role.name, f"interrupts.cpu{cpu}"), float(counts[cpu])


def _controllers(files: LoadFiles, role: Role) -> dict[str, None]:
    return dict.fromkeys(files.topology.luns[lun].hba for lun in files.luns(role.disks))


def _interrupts(files: LoadFiles, when: str) -> dict[str, tuple[int, ...]]:
    """Counts by processor of each numbered interrupt. Raises MeasurementError."""
    file = f"{{load}}.{when}"
    sections = read_sections(files.sent(file), files.name(file))
    header, *rows = sections.get(_INTERRUPTS, "").splitlines() or [""]
    processors = len(header.split())
    counted = {}
    for row in rows:
        number, _, rest = row.strip().partition(":")
        counts = rest.split()[:processors]
        if number.isdecimal() and len(counts) == processors and all(count.isdecimal() for count in counts):
            counted[number] = tuple(map(int, counts))
    return counted


FOLIO_ADDED = "filemap:mm_filemap_add_to_page_cache"
_EVENT = re.compile(rb"mm_filemap_add_to_page_cache: dev (\d+:\d+) ino [0-9a-f]+ .*?(?: order=(\d+))?$", re.MULTILINE)
_KEPT = re.compile(rb"entries-in-buffer/entries-written: ([0-9]+)/([0-9]+)")
_MOST = 1 << 28
"""More text than the guest's ring holds."""
_PAGE_SECTORS = 8
_DISKS = re.compile(rb"^ *(\d+) +(\d+) (\S+) ", re.MULTILINE)


def folio_figures(files: LoadFiles, figures: Figures) -> Readings:
    """``folios.*`` of each role of a traced load, with the ramp; roles on one filesystem share them.

    None where the event has no order: Linux 5.17 added it ("filemap: Convert tracing of page cache operations to
    folio"). Raises MeasurementError, also for a trace that lost events.
    """
    load, name = files.load, files.name(BootFile.TRACE)
    if not load.folios:
        return
    try:
        with gzip.open(BytesIO(files.sent(BootFile.TRACE))) as packed:
            text = packed.read(_MOST)
    except (OSError, EOFError, zlib.error) as error:
        raise MeasurementError(name, f"it cannot be unpacked: {error}") from error
    kept = _KEPT.search(text)
    if kept is None or kept[1] != kept[2] or len(text) == _MOST:
        raise MeasurementError(name, "it lost events", remedy="shorten the window")
    added = Counter(_EVENT.findall(text))
    if any(not order for _, order in added):
        return
    rows = _DISKS.findall(files.sent(BootFile.COUNTERS))
    numbers = {disk.decode(): major + b":" + minor for major, minor, disk in rows}
    for role in load.roles.values():
        devices = {numbers[files.devices[disk]] for disk in role.disks}
        counts = {order: sum(added[dev, b"%d" % order] for dev in devices) for order in range(LARGEST_FOLIO + 1)}
        sectors = sum(count * _PAGE_SECTORS << order for order, count in counts.items())
        values = {"folios": sum(counts.values()), "folios.sectors": sectors}
        values |= {f"folios.order{order}": count for order, count in counts.items()}
        yield from (((load.name, role.name, name), float(value)) for name, value in values.items())

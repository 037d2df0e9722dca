# SPDX-License-Identifier: GPL-2.0-only
"""Kernel counters read on both sides of a window, what they did in between, and the controllers that they belong to.

A counter file is a sequence of sections, each ``== PATH`` and then that file's own text.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from harness.metrics.node import MeasurementError, sent
from harness.scenario.model import Load, Role
from harness.scenario.registry import MOST_PROCESSORS, SLOTS, Readings
from lab.base.record import INVENTORY
from lab.realise.in_qemu.inventory import Inventory, mismatches, read_inventory
from lab.topology.model import Topology

_SECTION = "== "
_DISKSTATS = "/proc/diskstats"
_MDSTAT, _UPTIME = "/proc/mdstat", "/proc/uptime"
# drivers/md/md.c, status_resync(): "resync =  1.4% (13824/976631808) finish=..."; KiB of each member.
_RESYNC = re.compile(r"(?:resync|recovery|check|repair) *= *[0-9.]+% \(([0-9]{1,18})/[0-9]{1,18}\)")
# Documentation/admin-guide/iostats.rst: fields 1 to 11 are in every kernel since 2.6, discards since 4.18.
_COUNTS = ("", ".merged", ".sectors", ".ms")
_OLD_FIELDS = (
    *(f"{way}{count}" for way in ("reads", "writes") for count in _COUNTS),
    *("inflight", "busy.ms", "weighted.ms"),
)
_DISK_FIELDS = (*_OLD_FIELDS, *(f"discards{count}" for count in _COUNTS))
_GAUGES = frozenset({"inflight"})


@dataclass(frozen=True)
class CounterWindow:
    """What happened between two readings: deltas by device and counter.

    ``resync`` is how fast md went over each member of its arrays, in bytes per second of all arrays
    together; None where nothing was synchronised from the first reading to the last.
    """

    disks: Mapping[str, Mapping[str, float]]
    resync: float | None = None


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


def read_window(before: bytes, after: bytes, load: str) -> CounterWindow:
    """Compare ``LOAD.before`` with ``LOAD.after``. Raises MeasurementError."""
    first_file, second_file = f"{load}.before", f"{load}.after"
    first, second = read_sections(before, first_file), read_sections(after, second_file)
    old_disks, new_disks = _disks(first, first_file), _disks(second, second_file)
    if old_disks.keys() != new_disks.keys():
        changed = ", ".join(sorted(old_disks.keys() ^ new_disks.keys()))
        raise MeasurementError(second_file, f"block devices came or went in the window: {changed}")
    disks = {name: _delta(old_disks[name], new, name, second_file) for name, new in new_disks.items()}
    return CounterWindow(disks, _resync(first, second, second_file))


def _resync(first: Mapping[str, str], second: Mapping[str, str], file: str) -> float | None:
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


_INTERRUPTS = "/proc/interrupts"


def checked_inventory(files: Mapping[str, bytes], topology: Topology) -> Inventory:
    """What the guest saw of an emulated topology. Raises MeasurementError where it is not what the topology says."""
    seen = read_inventory(files.get(INVENTORY, b""))
    if wrong := mismatches(topology, seen):
        rest = f"; and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise MeasurementError(INVENTORY, f"{wrong[0]}{rest}")
    return seen


def controller_figures(files: Mapping[str, bytes], load: Load, topology: Topology, seen: Inventory) -> Readings:
    """``interrupts`` by processor over a load's window with its ramp, ``node``, ``slot.lanes`` and ``slot.gts``.

    What several controllers below a role do not have in common is left out. Raises MeasurementError.
    """
    before, after = (_interrupts(files, f"{load.name}.{when}") for when in ("before", "after"))
    for role in load.roles.values():
        hbas = dict.fromkeys(topology.luns[lun].hba for disk in role.disks for lun in topology.leaves(disk))
        irqs = {irq for hba in hbas for irq in seen.get(f"hba.{hba}.interrupts", "").split()}
        counts = Counter[int]()
        for irq in irqs & after.keys():
            counts.update({cpu: now - was for cpu, (now, was) in enumerate(zip(after[irq], before[irq], strict=True))})
        yield (load.name, role.name, "interrupts"), float(sum(counts.values()))
        for cpu in range(MOST_PROCESSORS):
            yield (load.name, role.name, f"interrupts.cpu{cpu}"), float(counts[cpu])
        yield from _places(load, role, topology, seen, set(hbas))


def _places(load: Load, role: Role, topology: Topology, seen: Inventory, hbas: set[str]) -> Readings:
    for name, attribute in SLOTS.items():
        texts = {seen.get(f"hba.{hba}.{attribute}", "").partition(" ")[0] for hba in hbas}
        if len(texts) == 1 and (text := texts.pop()):
            yield (load.name, role.name, name), float(text)


def _interrupts(files: Mapping[str, bytes], file: str) -> dict[str, tuple[int, ...]]:
    """Counts by processor of each numbered interrupt. Raises MeasurementError."""
    header, *rows = read_sections(sent(files, file), file).get(_INTERRUPTS, "").splitlines() or [""]
    processors = len(header.split())
    counted = {}
    for row in rows:
        number, _, rest = row.strip().partition(":")
        counts = rest.split()[:processors]
        if number.isdecimal() and len(counts) == processors and all(count.isdecimal() for count in counts):
            counted[number] = tuple(map(int, counts))
    return counted

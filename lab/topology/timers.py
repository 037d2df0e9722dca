# SPDX-License-Identifier: GPL-2.0-only
"""Kernel timers, which a scale does not change, and times of a topology that the scale moves past them.

Files and values are the same in Linux 5.10, 6.1, 6.12 and 7.2.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lab.base.units import show_size
from lab.topology.limits import COMMAND_TIMEOUT, driver_of, slowest_service
from lab.topology.model import Disk, Driver, Topology
from lab.topology.ranges import in_ranges

_MS = 10**6
_REQUESTS = (4 << 10, 1 << 20)


@dataclass(frozen=True)
class Timer:
    """``time`` in nanoseconds; ``source`` is where Linux sets it, ``does`` what happens when it expires."""

    name: str
    time: int
    source: str
    does: str


TIMERS = (
    Timer("slice_idle", 8 * _MS, "block/bfq-iosched.c, bfq_slice_idle", "BFQ no longer waits for the next request"),
    Timer("wbt", 75 * _MS, "block/blk-wbt.c, wbt_default_latency_nsec", "writeback is throttled for slow reads"),
    Timer("read_expire", 500 * _MS, "block/mq-deadline.c, read_expire", "mq-deadline takes the oldest read first"),
    Timer("write_expire", 5000 * _MS, "block/mq-deadline.c, write_expire", "mq-deadline takes the oldest write first"),
    Timer("timeout", COMMAND_TIMEOUT, "drivers/scsi/sd.h, SD_TIMEOUT", "commands are aborted"),
)


@dataclass(frozen=True)
class Crossing:
    """``what`` takes ``hardware`` ns on the machine, less than the timer, but ``lab`` ns in the lab."""

    what: str
    hardware: float
    lab: float
    timer: Timer


def crossings(topology: Topology) -> tuple[Crossing, ...]:
    """Every time that is below a timer on the hardware but not in the lab, by timer."""
    times = dict(_times(topology))
    return tuple(
        Crossing(what, lab / topology.scale, lab, timer)
        for timer in TIMERS
        for what, lab in times.items()
        if lab / topology.scale < timer.time <= lab
    )


def _times(topology: Topology) -> Iterator[tuple[str, float]]:
    for names, disk, depth in _alike(topology):
        kinds = {"a seek": disk.seek, "a revolution": disk.rotation, "a request": disk.service or 0}
        yield from ((f"{names}: {what}", time) for what, time in kinds.items() if time)
        if driver_of(disk, topology) is not Driver.TCMU:
            continue
        for size in _REQUESTS:
            one = slowest_service(disk, size)
            yield f"{names}: a request of {show_size(size)}", one
            if depth > 1:
                yield f"{names}: {depth} requests of {show_size(size)} queued", depth * one
    for link in topology.links.values():
        yield f"{link.name}: the cost of a request", link.cost


def _alike(topology: Topology) -> Iterator[tuple[str, Disk, int]]:
    """Groups of disks that differ only in name: their names, one of them, and how many requests it may hold."""
    alike: dict[tuple[object, ...], list[Disk]] = {}
    for disk in topology.disks.values():
        depths = [topology.hbas[lun.hba].cmd_per_lun for lun in topology.luns.values() if disk.name in lun.disks]
        key = (disk.seek, disk.rotation, disk.service, slowest_service(disk, 1 << 30), sum(depths))
        alike.setdefault(key, []).append(disk)
    for (*_, depth), disks in alike.items():
        yield in_ranges(disk.name for disk in disks), disks[0], int(str(depth))

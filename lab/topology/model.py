# SPDX-License-Identifier: GPL-2.0-only
"""Storage topologies as frozen values: what there is, never how it is made.

Sizes are bytes, rates bytes per second, service times nanoseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Driver(StrEnum):
    """The in-guest device family that stands for a host adapter."""

    TCM_LOOP = "tcm_loop"
    SCSI_DEBUG = "scsi_debug"
    NULL_BLK = "null_blk"
    TCMU = "tcmu"


@dataclass(frozen=True)
class Disk:
    """One spindle or flash device. It is serial at ``rate``, or parallel with ``service`` per request.

    ``seek`` is the time of a serial disk before a request that does not start where the last one
    ended; ``link`` names what it shares with other disks.
    """

    name: str
    size: int
    rate: int | None = None
    service: int | None = None
    iodepth: int | None = None
    seek: int = 0
    link: str | None = None


@dataclass(frozen=True)
class Link:
    """A capacity that disks share; it carries one request at a time, taking ``cost`` and its bytes at ``rate``."""

    name: str
    rate: int
    cost: int = 0


@dataclass(frozen=True)
class Hba:
    """A host adapter: its LUNs share ``can_queue`` tags and each may hold ``cmd_per_lun`` of them.

    For null_blk ``can_queue`` is the tag set's depth, shared by all disks (``shared_tags=1``).
    """

    name: str
    driver: Driver
    can_queue: int
    cmd_per_lun: int
    hw_queues: int = 1
    model: str = ""


@dataclass(frozen=True)
class Lun:
    """A block device that the host shows; its sectors are those of ``disks``, one after another."""

    name: str
    hba: str
    disks: tuple[str, ...]


@dataclass(frozen=True)
class Region:
    """Where one disk's sectors lie: on ``lun``, ``offset`` and ``size`` in bytes."""

    lun: str
    offset: int
    size: int


@dataclass(frozen=True)
class Topology:
    name: str
    title: str
    memory: int
    hbas: Mapping[str, Hba]
    disks: Mapping[str, Disk]
    luns: Mapping[str, Lun]
    source: str = field(default="", compare=False)
    links: Mapping[str, Link] = field(default_factory=dict)

    def region(self, disk: str) -> Region:
        """The part of a LUN that is this disk. Raises KeyError for a disk that no LUN shows."""
        for lun in self.luns.values():
            offset = 0
            for member in lun.disks:
                if member == disk:
                    return Region(lun.name, offset, self.disks[disk].size)
                offset += self.disks[member].size
        raise KeyError(disk)

    def driver(self, disk: str) -> Driver:
        """What plays the HBA of this disk. Raises KeyError for a disk that no LUN shows."""
        return self.hbas[self.luns[self.region(disk).lun].hba].driver

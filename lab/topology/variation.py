# SPDX-License-Identifier: GPL-2.0-only
"""A topology with some parameters multiplied, to measure how much the results depend on them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from math import ceil, floor
from typing import TypeVar

from lab.topology.model import Disk, Hba, Link, Topology

T = TypeVar("T", Disk, Hba, Link)
_NS_PER_REVOLUTION = "rpm"


def multiplied(topology: Topology, of: str, factor: float) -> Topology:
    """``of`` names parameters as an origin does: ``disk.*.seek``, ``link.slot1.efficiency``, ``hba.*.can_queue``.

    Zones are multiplied with the rate of their disk. Parameters that the topology lacks are ignored.
    """

    def turned(kind: str, parts: Mapping[str, T], keys: Mapping[str, Callable[[T], T]]) -> dict[str, T]:
        changed = dict(parts)
        for name in parts:
            for key, change in keys.items():
                if fnmatchcase(f"{kind}.{name}.{key}", of):
                    changed[name] = change(changed[name])
        return changed

    def times(value: int) -> int:
        return max(1, round(value * factor))

    def choices(value: int) -> int:
        """Rounded away from ``value``; otherwise small numbers would not change."""
        return max(1, ceil(value * factor) if factor > 1 else floor(value * factor))

    def rated(disk: Disk) -> Disk:
        zones = tuple(replace(zone, rate=times(zone.rate)) for zone in disk.zones)
        return replace(disk, rate=times(disk.rate) if disk.rate else None, zones=zones)

    disk_keys: dict[str, Callable[[Disk], Disk]] = {
        "rate": rated,
        "service": lambda disk: replace(disk, service=times(disk.service) if disk.service else None),
        "seek": lambda disk: replace(disk, seek=round(disk.seek * factor)),
        _NS_PER_REVOLUTION: lambda disk: replace(disk, rotation=round(disk.rotation / factor)),
        "ncq": lambda disk: replace(disk, ncq=choices(disk.ncq)),
        "look_ahead": lambda disk: replace(disk, look_ahead=round(disk.look_ahead * factor)),
        "coalesce": lambda disk: replace(disk, coalesce=choices(disk.coalesce)),
        "buffer": lambda disk: replace(disk, buffer=times(disk.buffer)),
    }
    link_keys: dict[str, Callable[[Link], Link]] = {
        "rate": lambda link: replace(link, rate=times(link.rate)),
        "efficiency": lambda link: replace(link, rate=times(link.rate)),
        "cost": lambda link: replace(link, cost=round(link.cost * factor)),
    }
    hba_keys: dict[str, Callable[[Hba], Hba]] = {
        "can_queue": lambda hba: replace(hba, can_queue=times(hba.can_queue)),
        "cmd_per_lun": lambda hba: replace(hba, cmd_per_lun=min(hba.can_queue, times(hba.cmd_per_lun))),
    }
    return replace(
        topology,
        disks=turned("disk", topology.disks, disk_keys),
        links=turned("link", topology.links, link_keys),
        hbas=turned("hba", topology.hbas, hba_keys),
    )

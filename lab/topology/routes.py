# SPDX-License-Identifier: GPL-2.0-only
"""The paths from hosts to disks, with those that differ only in names combined.

24 equal disks behind one port are one route of five steps: host, PCIe link, port, enclosure, disks.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from lab.topology.model import Lun, Topology

HBA, LINK, BOX, DISK = "hba", "link", "box", "disk"


@dataclass(frozen=True)
class RouteStep:
    """``names`` are equal parts of one ``kind``: one for all LUNs of the route, or one for each, in their order."""

    kind: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Route:
    luns: tuple[str, ...]
    steps: tuple[RouteStep, ...]


def routes(topology: Topology) -> tuple[Route, ...]:
    """The routes in the order of the file; every LUN is in exactly one."""
    users = Counter(
        link for lun in topology.luns.values() for disk in lun.disks for link in topology.path(lun.name, disk)
    )
    alike: dict[Hashable, list[Lun]] = {}
    for lun in topology.luns.values():
        alike.setdefault(tuple(_key(topology, lun, users)), []).append(lun)
    return tuple(_route(topology, luns) for luns in alike.values())


def _key(topology: Topology, lun: Lun, users: Counter[str]) -> Iterator[Hashable]:
    yield lun.hba
    # Of disks with several paths the first paths are one route, the second paths another.
    paths = [other.name for other in topology.luns.values() if lun.disks[0] in other.disks]
    yield len(paths), paths.index(lun.name)
    for kind, name in _steps(topology, lun):
        if kind == DISK:
            disk = topology.disks[name]
            yield replace(disk, name="", links=())
        elif kind == LINK and users[name] == 1:
            yield replace(topology.links[name], name="")
        else:
            yield kind, name


def _steps(topology: Topology, lun: Lun) -> Iterator[tuple[str, str]]:
    """The steps from the host to the disks; links and enclosures are those of the LUN's first disk."""
    first = lun.disks[0]
    own = topology.disks[first].links
    boxes = [box.name for box in topology.enclosures.values() if first in box.disks]
    yield HBA, lun.hba
    yield from ((LINK, name) for name in topology.path(lun.name, first) if name not in own)
    yield from ((BOX, name) for name in boxes)
    yield from ((LINK, name) for name in own)
    yield from ((DISK, name) for name in lun.disks)


def _route(topology: Topology, luns: list[Lun]) -> Route:
    chains = [list(_steps(topology, lun)) for lun in luns]
    steps = []
    for each in zip(*chains, strict=True):
        kind = each[0][0]
        steps.append(RouteStep(kind, tuple(dict.fromkeys(name for _, name in each))))
    return Route(tuple(lun.name for lun in luns), tuple(steps))

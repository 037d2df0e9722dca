# SPDX-License-Identifier: GPL-2.0-only
"""The maximum flow from all disks of a topology through its links, and the cut that bounds it.

L. R. Ford and D. R. Fulkerson, "Maximal Flow Through a Network", 1956. Links are ordered by the number of paths that
use them, so in a tree of links no flow uses a path that its disk does not have. Where paths overlap in another way the
flow is an upper bound.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import networkx

from lab.topology.limits import driver_of, effective_iops
from lab.topology.model import Disk, Topology

_SOURCE, _SINK = ("", "source"), ("", "sink")
_UNIT = 1 << 10
_NS = 1e9

Name = tuple[str, str]
"""``("disk", "d3")``, ``("link", "pcie0")`` or ``("hba", "mpt0")``."""


@dataclass(frozen=True)
class Carried:
    """``rate`` in bytes per second; ``cut`` are the disks and links that limit it."""

    rate: float
    cut: tuple[Name, ...]


def maximum_flow(topology: Topology, request: int, hba: str = "") -> Carried | None:
    """What all disks (of one host) deliver at once, each a stream in requests of ``request`` bytes.

    None if a disk has no rate, because it serves all its requests at once.
    """
    ways = [(lun, disk) for lun in topology.luns.values() for disk in lun.disks if hba in ("", lun.hba)]
    rates = {name: _disk_rate(topology.disks[name], topology, request) for _, name in ways}
    if not all(rates.values()):
        return None
    paths = {(lun.name, disk): topology.path(lun.name, disk) for lun, disk in ways}
    users = Counter(link for path in paths.values() for link in path)
    graph: networkx.DiGraph[tuple[Name, int]] = networkx.DiGraph()
    for lun, disk in ways:
        links = sorted(paths[lun.name, disk], key=lambda link: users[link])
        chain = [("disk", disk), ("lun", lun.name), *(("link", link) for link in links), ("hba", lun.hba)]
        for kind, name in chain:
            rate = rates[name] if kind == "disk" else _link_rate(topology, name, request) if kind == "link" else None
            capacity = {} if rate is None else {"capacity": round(rate * _UNIT)}
            graph.add_edge(((kind, name), 0), ((kind, name), 1), **capacity)
        graph.add_edge((_SOURCE, 1), (chain[0], 0))
        graph.add_edge((chain[-1], 1), (_SINK, 0))
        graph.add_edges_from(((one, 1), (other, 0)) for one, other in pairwise(chain))
    value, (near, _) = networkx.minimum_cut(graph, (_SOURCE, 1), (_SINK, 0))
    cut = [
        name for name, end in graph if end == 0 and (name, 0) in near and (name, 1) in graph and (name, 1) not in near
    ]
    return Carried(value / _UNIT, tuple(cut))


def _disk_rate(disk: Disk, topology: Topology, request: int) -> float | None:
    if disk.rate is None:
        return None
    iops = effective_iops(disk, request, driver_of(disk, topology))
    return float(disk.rate) if iops is None else float(iops * request)


def _link_rate(topology: Topology, name: str, request: int) -> float:
    link = topology.links[name]
    return request / (link.cost / _NS + request / link.rate)

# SPDX-License-Identifier: GPL-2.0-only
"""What a topology allows: rates from service times and tags, by Little's law.

A LUN may hold min(cmd_per_lun, its fair share of can_queue) tags, where the fair share among the
LUNs that are active on one tag set is max(ceil(can_queue / active), 4): ``hctx_may_queue`` in
block/blk-mq.h. Parallel disks finish tags / service requests per second (J. D. C. Little, "A
Proof for the Queuing Formula L = lambda W", 1961); serial ones what their rate allows, whatever
the depth. Requests are taken to be always waiting, and the CPU to cost nothing.

A disk of driver tcmu serves 1 / (seek + size / rate) requests per second, without the seek where one
sequential role is alone on it. Disks on one link share its capacity so that none gets more while
another that wants it gets less (max-min fairness: Bertsekas and Gallager, Data Networks, 6.5.2).
"""

from collections.abc import Mapping, Sequence

from harness.scenario.model import Arm, Load, Role
from lab.errors import Misuse
from lab.topology.limits import effective_iops, service_time
from lab.topology.model import Driver, Link, Lun, Topology

_FAIR_MINIMUM = 4
_SEQUENTIAL = {"read", "write", "rw", "readwrite"}
_NS = 1e9
METRICS = ("iops", "bw", "lat.mean")


def bound(topology: Topology, load: Load, role: Role, metric: str, nr_requests: int | None = None) -> float:
    """The most (``iops``; ``bw`` in bytes/s) or the least (``lat.mean`` in ns) that the topology allows.

    ``nr_requests`` is the queue's, where the arm sets it. When several roles share a LUN or a
    disk, each is given what it could do there alone: the bound is what its own disk allows. That of a role
    on several disks is the sum over them. Raises Misuse for another metric, or for a disk that nothing limits.
    """
    load = load.apart()
    if len(role.disks) > 1:
        return _sum_of_bounds(topology, load, role.apart(), metric, nr_requests)
    tags, driver = tags_available(topology, load, role), topology.driver(role.disk)
    if nr_requests is not None:
        tags = min(tags, nr_requests)
    iops = _disk_iops(topology, role, tags) if driver is not Driver.TCMU else _modelled_iops(topology, load, role)
    if metric == "iops":
        return iops
    if metric == "bw":
        return iops * role.bs
    if metric == "lat.mean":
        return tags / iops * _NS
    raise Misuse(f"the topology sets no bound on {metric}", remedy=f"use one of {', '.join(METRICS)}")


def _sum_of_bounds(
    topology: Topology, load: Load, roles: Sequence[Role], metric: str, nr_requests: int | None
) -> float:
    """``load`` has every role apart. Latencies are weighted by the requests that have them."""
    if metric != "lat.mean":
        return sum(bound(topology, load, role, metric, nr_requests) for role in roles)
    weights = {role.name: bound(topology, load, role, "iops", nr_requests) for role in roles}
    waited = sum(bound(topology, load, role, metric, nr_requests) * weights[role.name] for role in roles)
    return waited / sum(weights.values())


def arm_bound(arm: Arm, load: Load, role: str, metric: str) -> float:
    """``bound.ARM.LOAD.ROLE.METRIC`` of a ratio."""
    asked = arm.queue.get("nr_requests")
    return bound(arm.topology, load, load.roles[role], metric, int(asked) if asked else None)


def tags_available(topology: Topology, load: Load, role: Role) -> int:
    """How many requests of ``role`` can be in flight at its disk at once in this load."""
    lun = _lun_of(topology, role)
    hba = topology.hbas[lun.hba]
    limits = [role.iodepth, hba.cmd_per_lun, fair_share(hba.can_queue, active_luns(topology, load, lun.hba))]
    return min(limits)


def fair_share(can_queue: int, users: int) -> int:
    """Tags that each of ``users`` busy queues may hold of a set of ``can_queue``."""
    return min(can_queue, max(-(-can_queue // users), _FAIR_MINIMUM))


def active_luns(topology: Topology, load: Load, hba: str) -> int:
    """LUNs of ``hba`` on which this load does I/O."""
    luns = {_lun_of(topology, role).name: _lun_of(topology, role) for role in load.roles.values()}
    return sum(lun.hba == hba for lun in luns.values())


def _lun_of(topology: Topology, role: Role) -> Lun:
    return topology.luns[topology.region(role.disk).lun]


def max_min_shares(capacity: float, demands: Mapping[str, float]) -> dict[str, float]:
    """What each of ``demands`` gets of ``capacity``: all of it, or as much as any other that wants more."""
    shares, left = {}, capacity
    for count, name in enumerate(sorted(demands, key=lambda each: demands[each])):
        shares[name] = min(demands[name], left / (len(demands) - count))
        left -= shares[name]
    return shares


def _modelled_iops(topology: Topology, load: Load, role: Role) -> float:
    """The bytes that the role's disk can do and its share of the link's time allow, in requests."""
    alone = _modelled_alone(topology, load, role)
    lun = _lun_of(topology, role)
    return min((alone, *(_link_iops(topology, load, role, name) for name in topology.path(lun.name, role.disk))))


def _link_iops(topology: Topology, load: Load, role: Role, name: str) -> float:
    link = topology.links[name]
    # In units of the link's time, so that disks with requests of different sizes compare.
    demands: dict[str, float] = {}
    for other in load.roles.values():
        if name in topology.path(_lun_of(topology, other).name, other.disk):
            wanted = _modelled_alone(topology, load, other) * _link_time(link, other)
            demands[other.disk] = max(wanted, demands.get(other.disk, 0.0))
    return max_min_shares(1.0, demands)[role.disk] / _link_time(link, role)


def _modelled_alone(topology: Topology, load: Load, role: Role) -> float:
    sharing = [other for other in load.roles.values() if other.disk == role.disk]
    sequential = role.rw in _SEQUENTIAL and len(sharing) == 1
    return _NS / service_time(topology.disks[role.disk], role.bs, sequential=sequential)


def _link_time(link: Link, role: Role) -> float:
    """Seconds of the link's time for a request."""
    return link.cost / _NS + role.bs / link.rate


def _disk_iops(topology: Topology, role: Role, tags: int) -> float:
    disk, bs = topology.disks[role.disk], role.bs
    limits: list[float] = []
    if disk.service:
        limits.append(tags / (disk.service / _NS))
    serial = effective_iops(disk, bs, topology.driver(disk.name))
    if serial is not None:
        limits.append(serial)
    if not limits or not min(limits):
        raise Misuse(
            f"the topology sets no bound for {bs} bytes at a time on disk {disk.name}",
            remedy="give the disk a service time or a rate that carries such requests",
        )
    return min(limits)

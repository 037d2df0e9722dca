# SPDX-License-Identifier: GPL-2.0-only
"""What a topology allows: rates from service times and tags, by Little's law.

A LUN may hold min(cmd_per_lun, its fair share of can_queue) tags, where the fair share among the
LUNs that are active on one tag set is max(ceil(can_queue / active), 4): ``hctx_may_queue`` in
block/blk-mq.h. Parallel disks finish tags / service requests per second (J. D. C. Little, "A
Proof for the Queuing Formula L = lambda W", 1961); serial ones what their rate allows, whatever
the depth. Requests are taken to be always waiting, and the CPU to cost nothing.
"""

from harness.scenario.model import Arm, Load, Role
from lab.errors import Misuse
from lab.topology.limits import effective_iops
from lab.topology.model import Disk, Lun, Topology

_FAIR_MINIMUM = 4
_NS = 1e9
METRICS = ("iops", "bw", "lat.mean")


def bound(topology: Topology, load: Load, role: Role, metric: str, nr_requests: int | None = None) -> float:
    """The most (``iops``; ``bw`` in bytes/s) or the least (``lat.mean`` in ns) that the topology allows.

    ``nr_requests`` is the queue's, where the arm sets it. When several roles share a LUN or a
    disk, each is given what it could do there alone: the bound is what its own disk allows.
    Raises Misuse for another metric, or for a disk that nothing limits.
    """
    tags = tags_available(topology, load, role)
    if nr_requests is not None:
        tags = min(tags, nr_requests)
    iops = _disk_iops(topology.disks[role.disk], role.bs, tags)
    if metric == "iops":
        return iops
    if metric == "bw":
        return iops * role.bs
    if metric == "lat.mean":
        return tags / iops * _NS
    raise Misuse(f"the topology sets no bound on {metric}", remedy=f"use one of {', '.join(METRICS)}")


def arm_bound(arm: Arm, load: Load, role: str, metric: str) -> float:
    """``bound.ARM.LOAD.ROLE.METRIC`` of a ratio."""
    asked = arm.queue.get("nr_requests")
    return bound(arm.topology, load, load.roles[role], metric, int(asked) if asked else None)


def tags_available(topology: Topology, load: Load, role: Role) -> int:
    """How many requests of ``role`` can be in flight at its disk at once in this load."""
    lun = _lun_of(topology, role)
    hba, disk = topology.hbas[lun.hba], topology.disks[role.disk]
    limits = [role.iodepth, hba.cmd_per_lun, fair_share(hba.can_queue, active_luns(topology, load, lun.hba))]
    if disk.iodepth is not None:
        limits.append(disk.iodepth)
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


def _disk_iops(disk: Disk, bs: int, tags: int) -> float:
    limits: list[float] = []
    if disk.service:
        limits.append(tags / (disk.service / _NS))
    serial = effective_iops(disk, bs)
    if serial is not None:
        limits.append(serial)
    if not limits or not min(limits):
        raise Misuse(
            f"the topology sets no bound for {bs} bytes at a time on disk {disk.name}",
            remedy="give the disk a service time or a rate that carries such requests",
        )
    return min(limits)

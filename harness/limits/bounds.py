# SPDX-License-Identifier: GPL-2.0-only
"""``bound.ARM.LOAD.ROLE.METRIC``: what the topology allows a role, by the limits of ``harness.limits.limits``.

A LUN may hold min(cmd_per_lun, its fair share of can_queue) tags, where the fair share among the
LUNs that are active on one tag set is max(ceil(can_queue / active), 4): ``hctx_may_queue`` in
block/blk-mq.h. Parallel disks finish tags / service requests per second; serial ones what their
rate allows, whatever the depth.
"""

from collections.abc import Mapping, Sequence

from harness.limits.filling import fill
from harness.limits.limits import LoadPlan, fair_share
from harness.scenario.model import Arm, Load, Role
from lab.base.errors import Misuse
from lab.topology.model import OWN_REQUESTS, Topology

_NS = 1e9
METRICS = ("iops", "bw", "lat.mean")


def bound(topology: Topology, load: Load, role: Role, metric: str, queue: Mapping[str, str] | None = None) -> float:
    """The most (``iops``; ``bw`` in bytes/s) or the least (``lat.mean`` in ns) that the topology allows.

    ``queue`` are the settings of the arm. When several roles share a LUN or name one disk, each is given
    what it could do there alone: the bound is what its own disk allows. That of a role
    on several disks is the sum over them. Raises Misuse for another metric, or for a disk that nothing limits.
    """
    if metric not in METRICS:
        raise Misuse(f"the topology sets no bound on {metric}", remedy=f"use one of {', '.join(METRICS)}")
    makers = [stack for disk in role.disks for stack in topology.below(disk) if stack.kind in OWN_REQUESTS]
    if makers:
        says = f"{makers[0].kind} {makers[0].name} makes requests of its own"
        raise Misuse(f"nothing bounds {role.name}: {says}", remedy="use other figures")
    every = tuple(load.apart().roles.values())
    own = role.apart()
    rates = _rates(topology, every, own, queue or {})
    if metric == "bw":
        return sum(rates.values())
    iops = sum(rates.values()) / role.bs
    if metric == "iops":
        return iops
    waiting = sum(_in_flight(topology, every, part, queue or {}) for part in own)
    return waiting / iops * _NS


def arm_bound(arm: Arm, load: Load, role: str, metric: str) -> float:
    """``bound.ARM.LOAD.ROLE.METRIC`` of a ratio."""
    return bound(arm.topology, load, load.roles[role], metric, arm.queue)


def _rates(
    topology: Topology, every: Sequence[Role], own: Sequence[Role], queue: Mapping[str, str]
) -> Mapping[str, float]:
    """What ``own`` roles get while one other role uses each disk that is not theirs."""
    plan = LoadPlan(topology, tuple(every), queue, private=True)
    names, disks = {role.name for role in own}, {role.disk for role in own}
    others = {role.disk: role for role in every if role.disk not in disks}
    flows = [plan.flow(role) for role in (*own, *others.values())]
    rates = fill(flows).rates
    return {name: rates[name] for name in names}


def _in_flight(topology: Topology, every: Sequence[Role], role: Role, queue: Mapping[str, str]) -> int:
    """How many requests of a role on one disk can be in flight at once, on each LUN below it."""
    tags = [tags_available(topology, every, lun) for lun in topology.leaves(role.disk)]
    return min(role.iodepth, sum(tags), int(queue.get("nr_requests", role.iodepth)))


def tags_available(topology: Topology, every: Sequence[Role], lun: str) -> int:
    """How many requests of ``every`` role a LUN can hold at once."""
    hba = topology.hbas[topology.luns[lun].hba]
    return min(hba.cmd_per_lun, fair_share(hba.tags, active_luns(topology, every, hba.name)))


def active_luns(topology: Topology, every: Sequence[Role], hba: str) -> int:
    """LUNs of ``hba`` on which these roles do I/O."""
    active = {lun for role in every for lun in topology.leaves(role.disk)}
    return sum(topology.luns[lun].hba == hba for lun in active)

# SPDX-License-Identifier: GPL-2.0-only
"""What each element of a topology allows a load: disks, links, the tags of hosts and LUNs, the depth of roles.

    found = allowed(topology, load)
    found.rates["victim"]         bytes per second that the role can have
    found.limits[0]               the limit that binds, of those the tightest first

A disk or a link spends seconds on each byte, and has one second in each second. A queue holds a tag for as
long as its request takes at the least, so its tags carry tags x request / latency by Little's law (J. D. C. Little,
"A Proof for the Queuing Formula L = lambda W", 1961). Requests always wait, merging is at its best and
the CPU costs nothing: so these are upper limits. Fixed splits follow ``lab.topology.graph``, adaptive ones are
a maximum flow, and roles share as ``harness.limits.filling`` has it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.limits.filling import Filled, Flow, FlowChoice, FlowElement, FlowKind, fill
from harness.scenario.model import Arm, Load, Role
from harness.scenario.registry import FIGURES, Rate, figure_of
from lab.base.errors import Misuse
from lab.base.units import parse_size
from lab.topology.graph import ENDLESS, Access, FlowPart, Way, parts, rate_of
from lab.topology.limits import effective_iops
from lab.topology.model import OWN_REQUESTS, SERIAL, Disk, Driver, Link, Lun, StackKind, Topology

_FAIR_MINIMUM = 4
SEQUENTIAL = frozenset({"read", "write", "rw", "readwrite", "trim"})
_READS = {"read": 1.0, "randread": 1.0, "write": 0.0, "randwrite": 0.0, "trim": 0.0}
_READ_AHEAD_KB = 128
"""VM_READAHEAD_PAGES of include/linux/mm.h."""
_SORTING = frozenset({"mq-deadline", "bfq"})
"""Elevators that dispatch by sector."""
_WRITEBACK = 1280 << 10
"""max_sectors_kb as it is at first: BLK_DEF_MAX_SECTORS of include/linux/blkdev.h."""
_NS = 1e9


@dataclass(frozen=True)
class Limit:
    """``element`` is full when the roles that use it carry ``rate`` bytes/s together, mixed as they are here.

    ``use`` is the part of its capacity that the load takes where something binds: 1 of what binds.
    """

    element: FlowElement
    rate: float
    use: float


@dataclass(frozen=True)
class Allowed:
    """``rates`` are bytes per second by role; ``limits`` come with the tightest first."""

    rates: Mapping[str, float]
    limits: tuple[Limit, ...]


def allowed(topology: Topology, load: Load, queue: Mapping[str, str] | None = None) -> Allowed:
    """What each role of a load can have when all run together, and what limits them; ``queue`` is the arm's.

    Roles on several disks may be in it. Raises Misuse for a role that nothing limits.
    """
    roles = tuple(load.apart().roles.values())
    plan = LoadPlan(topology, roles, queue or {})
    # Each job is a stream of its own: four of a role have four parts where another role's one has one.
    filled = fill([replace(flow, pace=flow.pace * role.numjobs) for role in roles for flow in [plan.flow(role)]])
    rates = {role.name: sum(filled.rates[part.name] for part in role.apart()) for role in load.roles.values()}
    return Allowed(rates, tuple(_limits(filled)))


def _limits(filled: Filled) -> Iterator[Limit]:
    for element, use in sorted(filled.use.items(), key=lambda each: (each[0] not in filled.full, -each[1])):
        if use > 0:
            carried = sum(filled.rates[flow.name] for flow in filled.flows if element in flow.elements())
            yield Limit(element, carried / use, use)


def share_of_reads(role: Role) -> float:
    return _READS.get(role.rw, int(role.options.get("rwmixread", "50")) / 100)


def directions(role: Role, driver: Driver) -> Mapping[str, float]:
    """The share of a role's bytes in each direction of a link; one for both where reads and writes take turns."""
    reads = share_of_reads(role)
    return {"reads": reads, "writes": 1 - reads} if driver is Driver.NVMET_TCP else {"": 1.0}


def fair_share(can_queue: int, users: int) -> int:
    """Tags that each of ``users`` busy queues may hold of a set of ``can_queue``: hctx_may_queue of block/blk-mq.h."""
    return min(can_queue, max(-(-can_queue // users), _FAIR_MINIMUM))


class LoadPlan:
    """What roles on one disk each ask of a topology.

    ``private`` gives each its own LUN queues, ``devices`` leaves out what only the kernel keeps: fair shares of tags,
    cmd_per_lun and nr_requests.
    """

    def __init__(
        self,
        topology: Topology,
        roles: tuple[Role, ...],
        queue: Mapping[str, str],
        *,
        private: bool = False,
        devices: bool = False,
    ) -> None:
        self._topology, self._queue, self._private, self._devices = topology, queue, private, devices
        self._parts = {role.name: parts(topology, role.disk, self._access(role)) for role in roles}
        self._active = {way.lun for each in self._parts.values() for part in each for way in part.ways}
        self._streams: dict[str, set[tuple[str, int]]] = {}
        self._ways: dict[tuple[str, str], set[Way]] = {}
        for name, each in self._parts.items():
            for part in each:
                for way in part.ways:
                    self._streams.setdefault(way.disk, set()).add((name, part.start))
                    self._ways.setdefault((name, way.disk), set()).add(way)

    def flow(self, role: Role) -> Flow:
        """The role as a flow through elements. Raises Misuse when nothing limits it."""
        fixed: dict[FlowElement, float] = {}
        choices, copies = list[FlowChoice](), dict[str, dict[int, dict[FlowElement, float]]]()
        for part in self._parts[role.name]:
            ways = [{key: use for key, use in self._uses(role, part, way) if use} for way in part.ways]
            if part.mirror and part.either:
                copy = copies.setdefault(part.mirror, {}).setdefault(part.copy, {})
                for element in (element for element in ways[0] if all(element in way for way in ways)):
                    copy[element] = copy.get(element, 0.0) + part.share * min(way[element] for way in ways)
            elif len(ways) > 1:
                choices.append(FlowChoice(part.share, tuple(ways)))
            else:
                for element, each in ways[0].items():
                    fixed[element] = fixed.get(element, 0.0) + part.share * each
        choices += [FlowChoice(1.0, tuple(each.values())) for each in copies.values()]
        if role.direct and (latency := self._latency(role)):
            fixed[FlowElement(FlowKind.DEPTH, role.name, self._depth(role))] = latency / role.bs
        if not fixed and not choices:
            raise Misuse(
                f"the topology sets no bound for {role.bs} bytes at a time on disk {role.disk}",
                remedy="give the disk a service time or a rate that carries such requests",
            )
        return Flow(role.name, self._pace(role), fixed, tuple(choices))

    def _depth(self, role: Role) -> int:
        """Its requests in flight; of writes, one in each zone that is written sequentially."""
        zoned, access = self._topology.zoned(role.disk), self._access(role)
        if access.reads or zoned is None or access.start < zoned.zone_nr_conv * zoned.zone_size:
            return role.depth
        most = (int(role.options.get("max_open_zones", 0)), zoned.zone_max_open, access.size // zoned.zone_size)
        return min(role.depth, role.numjobs if access.sequential else min(filter(None, most)))

    def _pace(self, role: Role) -> float:
        """Bytes per second at which the role would fill a link (without links: anything) with one of its disks.

        So disks share a link's time evenly, as lab/native/diskd/share.c has it.
        """
        fullest: dict[bool, float] = {}
        for part in self._parts[role.name]:
            for element, seconds in self._uses(role, part, part.ways[0]):
                is_link, use = element.kind is FlowKind.LINK, part.share * seconds / element.capacity
                fullest[is_link] = max(use, fullest.get(is_link, 0.0))
        return 1 / (fullest.get(True) or fullest.get(False) or 1.0)

    def _access(self, role: Role) -> Access:
        start, whole = parse_size(role.options.get("offset", "0")), self._topology.region(role.disk).size
        size = parse_size(role.options["size"]) if "size" in role.options else whole - start
        reads = share_of_reads(role)
        return Access(start, size, self._transfer(role, reads), role.rw in SEQUENTIAL, reads)

    def _transfer(self, role: Role, reads: float) -> int:
        """Bytes that go down together: those of a request, or what read-ahead and writeback gather of a stream."""
        if role.direct or role.rw not in SEQUENTIAL:
            return role.bs
        stack = self._topology.stacks.get(role.disk)
        of_stack = stack.settings.get("queue/read_ahead_kb") if stack else None
        ahead = int(of_stack or self._queue.get("read_ahead_kb") or _READ_AHEAD_KB) << 10
        return max(role.bs, ahead if reads else _WRITEBACK)

    def _uses(self, role: Role, part: FlowPart, way: Way) -> Iterator[tuple[FlowElement, float]]:
        """Elements of a way, the disk's side first, with seconds (or tag-seconds) for each byte."""
        disk, lun = self._topology.disks[way.disk], self._topology.luns[way.lun]
        seconds = self._disk_seconds(role, part, way)
        if seconds is not None:
            yield FlowElement(FlowKind.DISK, disk.name, 1.0), seconds
        held = self._hold_time(role, part, way) / part.request
        yield self._lun_queue(role, lun), held
        hba = self._topology.hbas[lun.hba]
        for name in reversed(self._topology.path(lun.name, disk.name)):
            seconds = link_seconds(self._topology.links[name], part.request)
            for direction, share in directions(role, hba.driver).items():
                yield FlowElement(FlowKind.LINK, name, 1.0, direction), share * seconds
        if hba.shares_tags:
            yield FlowElement(FlowKind.HOST, hba.name, hba.tags), held

    def _lun_queue(self, role: Role, lun: Lun) -> FlowElement:
        hba = self._topology.hbas[lun.hba]
        active = sum(self._topology.luns[name].hba == hba.name for name in self._active) if hba.shares_tags else 1
        tags = min(hba.cmd_per_lun, fair_share(hba.tags, active), int(self._queue.get("nr_requests", hba.tags)))
        tags = hba.tags if self._devices else tags
        return FlowElement(FlowKind.LUN, lun.name, tags, role.name if self._private else "")

    def _disk_seconds(self, role: Role, part: FlowPart, way: Way) -> float | None:
        """Seconds of a serial disk for each byte; None of one that serves all at once.

        Where its paths are unequal, a slower one holds the disk for longer: it moves one request at a time,
        unless it has a buffer.
        """
        disk = self._topology.disks[way.disk]
        driver = self._topology.driver(disk.name)
        if disk.rate is None:
            return None
        if driver not in SERIAL:
            iops = effective_iops(disk, part.request, driver)
            return 1 / (iops * part.request) if iops else None
        if (
            not disk.buffer
            and len({self._hold_time(role, part, other) for other in self._ways[role.name, disk.name]}) > 1
        ):
            return self._hold_time(role, part, way) / part.request
        return 1 / rate_of(disk, part) + self._jump(role, part, disk)

    def _jump(self, role: Role, part: FlowPart, disk: Disk) -> float:
        """Seconds of seeking for each byte: after each run, or where streams take turns, each request.

        Of the queued requests among which a disk or an elevator chooses, those of one stream come first, else the one
        whose sector comes by first: with n at random places the shortest wait is a revolution over n + 1 in the mean.
        """
        run = part.run
        waiting = max(1, int(role.depth * role.bs * part.share) // part.request)
        sorts = role.rw not in SEQUENTIAL and role.direct and self._queue.get("scheduler") in _SORTING
        choices = waiting if sorts else min(disk.ncq, waiting)
        if len(self._streams[disk.name]) > 1 and role.rw in SEQUENTIAL:
            turn = part.request * choices
            run = turn if run == ENDLESS else min(run, turn)
        # Sorted requests that follow one another need no seek. Such neighbours wait together: when the later one
        # arrives, the other is among the waiting ones, its predecessor or its successor.
        seeks = max(0.0, 1 - 2 * waiting * part.request / self._access(role).size) if sorts else 1.0
        return 0.0 if run == ENDLESS else seeks * (disk.seek + disk.rotation / (1 + choices)) / _NS / run

    def _hold_time(self, role: Role, part: FlowPart, way: Way) -> float:
        """Seconds that a request takes on this way when no other is there."""
        disk = self._topology.disks[way.disk]
        if disk.rate is None:
            return disk.service / _NS if disk.service else 0.0
        if self._topology.driver(disk.name) not in SERIAL:
            return 0.0
        links = (self._topology.links[name] for name in self._topology.path(way.lun, way.disk))
        moving = max(
            (part.request / rate_of(disk, part), *(link_seconds(x, part.request) * part.request for x in links))
        )
        return self._jump(role, part, disk) * part.request + moving

    def _latency(self, role: Role) -> float:
        """Seconds that a request of the role takes at the least, the mean over the places where it can go.

        A write to a mirror takes as long as its slowest copy, a read as its fastest.
        """
        places: dict[tuple[bool, object], dict[int, tuple[float, float]]] = {}
        for index, part in enumerate(self._parts[role.name]):
            copies = places.setdefault((part.either, part.mirror or index), {})
            wait, share = copies.get(part.copy, (0.0, 0.0))
            least = min(self._hold_time(role, part, way) for way in part.ways)
            copies[part.copy] = (wait + part.share * least, share + part.share)
        waits = [(min if either else max)(copies.values()) for (either, _), copies in places.items()]
        return sum(wait for wait, _ in waits) / sum(share for _, share in waits)


def link_seconds(link: Link, request: int) -> float:
    """Seconds of a link's time for each byte in requests of ``request`` bytes."""
    return link.cost / _NS / request + 1 / link.rate


def arm_bound(arm: Arm, load: Load, role: str, metric: str) -> float:
    """``bound.ARM.LOAD.ROLE.METRIC`` of a ratio: the most (``iops``; ``bw`` in bytes/s) or the least (``lat.mean`` in
    ns) that the topology allows.

    When several roles share a LUN or name one disk, each is given what it could do there alone: the bound is what its
    own disk allows. That of a role on several disks is the sum over them. Raises Misuse for another metric, or for a
    disk that nothing limits.
    """
    figure = figure_of(role, metric)
    if not figure.bounded:
        known = ", ".join(name for name, row in FIGURES.items() if row.bounded)
        raise Misuse(f"the topology sets no bound on {metric}", remedy=f"use one of {known}")
    _check_requests(arm.topology, load.roles[role])
    every, parts_of_role = tuple(load.apart().roles.values()), load.roles[role].apart()
    rates = _rates(arm, every, parts_of_role)
    if figure.rate is Rate.BYTES:
        return sum(rates.values())
    iops = sum(rates.values()) / load.roles[role].bs
    if figure.rate is Rate.REQUESTS:
        return iops
    return sum(_in_flight(arm, every, part) for part in parts_of_role) / iops * _NS


def _rates(arm: Arm, every: Sequence[Role], asking: Sequence[Role]) -> Mapping[str, float]:
    """What the ``asking`` roles get while one other role uses each disk that is not theirs."""
    plan = LoadPlan(arm.topology, tuple(every), arm.queue, private=True)
    names, disks = {role.name for role in asking}, {role.disk for role in asking}
    others = {role.disk: role for role in every if role.disk not in disks}
    flows = [plan.flow(role) for role in (*asking, *others.values())]
    rates = fill(flows).rates
    return {name: rates[name] for name in names}


def shares_of_bound(
    arm: Arm, load: Load, bw: Mapping[str, float], *, devices: bool = False
) -> tuple[float, Mapping[str, float]]:
    """How full the fullest element is with roles that move ``bw`` bytes per second, and their shares of their bounds.

    Roles that share an element fill it together; ``devices`` counts those that hold whatever the kernel does. A role on
    several disks is taken to move on each as much as it can there. Raises Misuse where nothing bounds a role.
    """
    shares: dict[str, float] = {}
    pace: dict[str, float] = {}
    every = tuple(load.apart().roles.values())
    for role in load.roles.values():
        _check_requests(arm.topology, role)
        rates = _rates(arm, every, role.apart())
        shares[role.name] = bw[role.name] / sum(rates.values())
        pace |= {name: shares[role.name] * rate for name, rate in rates.items()}
    plan = LoadPlan(_on_best_paths(arm.topology) if devices else arm.topology, every, arm.queue, devices=devices)
    flows = [replace(plan.flow(role), pace=pace[role.name]) for role in every if pace[role.name]]
    return max((pace[name] / rate for name, rate in fill(flows).rates.items()), default=0.0), shares


def _on_best_paths(topology: Topology) -> Topology:
    """With multipath devices that choose the best path, whatever policy the kernel is told."""
    stacks = {
        name: replace(stack, policy="multibus", selector="queue-length", iopolicy="queue-depth")
        for name, stack in topology.stacks.items()
        if stack.kind in (StackKind.MULTIPATH, StackKind.NVME)
    }
    return replace(topology, stacks={**topology.stacks, **stacks})


def unbounded_by(topology: Topology, role: Role) -> str:
    """Why the topology does not tell what a role can have, in words; "" where it does."""
    if role.polls:
        return "null_blk completes what is polled without the service time of a disk"
    if role.options.get("invalidate") == "0" and not role.direct:
        return "the page cache may have its blocks"
    for stack in (stack for disk in role.disks for stack in topology.below(disk)):
        if stack.kind in OWN_REQUESTS:
            return f"{stack.kind} {stack.name} makes requests of its own"
        if stack.chunk and len(role.sizes) > 1:
            return f"{stack.kind} {stack.name} cuts requests of several sizes"
    return ""


def _check_requests(topology: Topology, role: Role) -> None:
    if says := unbounded_by(topology, role):
        raise Misuse(f"nothing bounds {role.name}: {says}", remedy="use other figures")


def _in_flight(arm: Arm, every: Sequence[Role], role: Role) -> int:
    """How many requests of a role on one disk can be in flight at once, on each LUN below it."""
    topology = arm.topology
    hbas = [topology.hbas[topology.luns[lun].hba] for lun in topology.leaves(role.disk)]
    tags = [min(hba.cmd_per_lun, fair_share(hba.tags, active_luns(topology, every, hba.name))) for hba in hbas]
    return min(role.depth, sum(tags), int(arm.queue.get("nr_requests", role.depth)))


def active_luns(topology: Topology, every: Sequence[Role], hba: str) -> int:
    """LUNs that use one set of tags of ``hba`` while these roles do I/O."""
    if not topology.hbas[hba].shares_tags:
        return 1
    active = {lun for role in every for lun in topology.leaves(role.disk)}
    return sum(topology.luns[lun].hba == hba for lun in active)

# SPDX-License-Identifier: GPL-2.0-only
"""What a load's requests pass, with its figure; of these the queues: who holds how many of what the load wants."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from harness import fitted
from harness.figures.samples import Held, LoadUse
from harness.limits.limits import fair_share, share_of_reads
from harness.scenario.model import Arm, Load, Role
from lab.topology.model import OWN_REQUESTS, SCSI, Stack, StackKind, Topology
from lab.topology.ranges import in_ranges


class ElementKind(StrEnum):
    """The kind of an element, in the order of precedence: the label of one, with the place of its name."""

    SELECTOR = "stack.{}.selector"
    DISK = "disk.{}"
    LINK = "link.{}"
    CPU = "cpu"
    HOST_QUEUE = "hba.{}.can_queue"
    LUN_DEPTH = "lun.{}.cmd_per_lun"
    LIMIT = "{}"
    FREE_TAGS = "hba.{}.free_tags"
    PACE = "role.{}.pace"
    LATENCY = "role.{}.latency"
    IODEPTH = "role.{}.iodepth"


QUEUES = frozenset(
    {ElementKind.HOST_QUEUE, ElementKind.LUN_DEPTH, ElementKind.FREE_TAGS, ElementKind.LATENCY, ElementKind.IODEPTH}
)
"""Depths: where one binds, throughput is depth over latency (Little's law)."""
_LONGEST = 16


@dataclass(frozen=True)
class Element:
    """``share`` of the window, 0 to 1, at its limit; ``figure`` says it in words. ``binds``: it is at its limit.

    What is not ``counted`` may be at its limit without anybody knowing.
    """

    kind: ElementKind
    names: tuple[str, ...]
    share: float
    binds: bool
    figure: str
    counted: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", min(1.0, self.share))

    @property
    def label(self) -> str:
        return self.kind.format(in_ranges(self.names))

    @property
    def short(self) -> str:
        """The label, of many names with the first one and their number alone."""
        names = in_ranges(self.names)
        if len(names) > _LONGEST and len(self.names) > 1:
            names = f"{self.names[0]} +{len(self.names) - 1}"
        return self.kind.format(names)


@dataclass(frozen=True)
class Way:
    """What the requests of a load pass: roles on single disks, LUNs, and (LUN, disk, its links) behind them."""

    roles: tuple[Role, ...]
    luns: tuple[str, ...]
    paths: tuple[tuple[str, str, tuple[str, ...]], ...]

    @property
    def links(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(link for _, _, links in self.paths for link in links))


def way_of(topology: Topology, load: Load) -> Way:
    roles = tuple(load.apart().roles.values())
    luns = tuple(dict.fromkeys(lun for role in roles for lun in topology.leaves(role.disk)))
    paths = tuple((lun, disk, topology.path(lun, disk)) for lun in luns for disk in topology.luns[lun].disks)
    return Way(roles, luns, paths)


def halves(names: Sequence[str], tight: set[str]) -> Iterator[tuple[tuple[str, ...], bool]]:
    for binds in (True, False):
        if group := tuple(name for name in names if (name in tight) is binds):
            yield group, binds


def percents(shares: Sequence[float]) -> str:
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{high} %" if low == high else f"{low} to {high} %"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


@dataclass(frozen=True)
class Tags:
    """A set of a host's tags: each of its LUNs may hold ``depth`` of ``can_queue``, and the load wants ``demand``."""

    host: str
    can_queue: int
    depth: int
    demand: Mapping[str, float]

    @property
    def fair(self) -> int:
        """What each busy LUN may hold of the host's tags."""
        return fair_share(self.can_queue, len(self.demand))


def full_queues(every: Sequence[Tags], way: Way, use: LoadUse) -> Iterator[Element]:
    """Tags of hosts and of LUNs. A queue binds when it is full and the load has more than it holds."""
    tags = [host_tags for host_tags in every if not host_tags.demand.keys().isdisjoint(way.luns)]
    hosts: dict[str, Element] = {}
    for element in (host_queue(host_tags, use, way.luns) for host_tags in tags):
        # Of sets of tags that no LUNs share the fullest stands for the host.
        if element.share >= hosts.get(element.names[0], element).share:
            hosts[element.names[0]] = element
    luns = {lun: lun_queue(lun, host_tags, use) for host_tags in tags for lun in host_tags.demand if lun in way.luns}
    for each in (hosts, luns):
        for group, _ in halves(list(each), {name for name, element in each.items() if element.binds}):
            yield replace(max((each[name] for name in group), key=lambda element: element.share), names=group)


def all_tags(arm: Arm, way: Way) -> Iterator[Tags]:
    topology = arm.topology
    demand: dict[str, float] = dict.fromkeys(way.luns, 0.0)
    for role in way.roles:
        for lun in topology.leaves(role.disk):
            # A stack may make several requests of one.
            demand[lun] += inf if role.disk in topology.stacks else role.depth
    for hba in topology.hbas.values():
        depth = min(hba.cmd_per_lun, int(arm.queue.get("nr_requests", hba.cmd_per_lun)))
        of_host = {lun: requests for lun, requests in demand.items() if topology.luns[lun].hba == hba.name}
        for users in [of_host] if hba.shares_tags else [{lun: requests} for lun, requests in of_host.items()]:
            if users:
                yield Tags(hba.name, hba.tags, min(depth, hba.tags), users)


def host_queue(tags: Tags, use: LoadUse, luns: Sequence[str]) -> Element:
    """A host's tags: all of them held, or a fair share of ``luns`` where that is less than a LUN's own depth."""
    # null_blk counts no requests of its tag set as a whole: that all are held at once is not known.
    held = use.hosts.get(tags.host) or Held(sum(use.luns[lun].mean for lun in tags.demand), {})
    share, says = held.mean / tags.can_queue, _says_held(held, tags.can_queue)
    waited_for = sum(tags.demand.values()) > tags.can_queue
    wanting = [lun for lun, wanted in tags.demand.items() if wanted > tags.fair and lun in luns]
    if tags.fair < tags.depth and wanting:
        fullest = max(wanting, key=lambda lun: use.luns[lun].mean)
        # Where the tags of all LUNs are not counted, those of one say nothing of another's.
        if tags.host not in use.hosts or use.luns[fullest].mean / tags.fair > share:
            share, waited_for = use.luns[fullest].mean / tags.fair, True
            says = f"{fullest}'s part of {tags.can_queue}: {_says_held(use.luns[fullest], tags.fair)}"
    return Element(ElementKind.HOST_QUEUE, (tags.host,), share, waited_for and share >= fitted.FULL, says)


def lun_queue(name: str, tags: Tags, use: LoadUse) -> Element:
    held = use.luns[name]
    share = held.mean / tags.depth
    binds = share >= fitted.FULL and tags.depth < tags.can_queue and tags.demand[name] > tags.depth
    return Element(ElementKind.LUN_DEPTH, (name,), share, binds, _says_held(held, tags.depth))


def free_tags(topology: Topology, every: Iterable[Tags], way: Way, use: LoadUse) -> Iterator[Element]:
    """Tags that are free while a LUN that may have more of them has requests waiting: it is not woken for them.

    SCSI counts commands: a request that waits for its LUN holds a tag too.
    """
    for tags in (tags for tags in every if len(tags.demand) > 1 and topology.hbas[tags.host].driver not in SCSI):
        held, part = {lun: use.luns[lun].mean for lun in tags.demand}, min(tags.depth, tags.fair)
        lacks = {lun: min(part, tags.demand[lun]) - held[lun] for lun in held if lun in way.luns}
        lun, free = max(lacks, key=lambda lun: lacks[lun], default=""), tags.can_queue - sum(held.values())
        if lun and tags.demand[lun] < inf:
            waits = tags.demand[lun] - held[lun]
            says = f"{lun} holds {held[lun]:.3g} of its {part} tags, {waits:.3g} of its requests wait"
            others = ", ".join(f"{name} holds {mean:.3g}" for name, mean in held.items() if name != lun)
            says += f" while {free:.3g} of {tags.can_queue} are free; {others}"
            binds = lacks[lun] > (1 - fitted.FULL) * part and free >= lacks[lun]
            yield Element(ElementKind.FREE_TAGS, (tags.host,), max(0.0, lacks[lun]) / part, binds, says)


def iodepth(topology: Topology, load: Load, roles: Sequence[Role], use: LoadUse, unknown: Sequence[Element]) -> Element:
    """All that fio has in flight is at the devices: more would be served, if there were more.

    ``roles`` are those on the LUNs of the load. Requests of the page cache and of most stacks are not fio's: their
    number says nothing of its depth.
    """
    below = [(role, stack) for role in roles for stack in topology.below(role.disk)]
    if not all(role.direct for role in roles) or any(_makes_requests(*pair) for pair in below):
        says = "the page cache or a layer above the disks makes requests"
        return Element(ElementKind.IODEPTH, tuple(load.roles), 0.0, binds=False, figure=says)
    depth = sum(role.depth for role in roles)
    each = [use.luns[lun].mean for lun in {lun for role in roles for lun in topology.leaves(role.disk)}]
    # A write is at every mirror.
    held = max(each) if any(stack.level == "raid1" and share_of_reads(role) < 1 for role, stack in below) else sum(each)
    share = 0.0 if unknown else held / depth
    says = f"{held:.3g} of {depth} requests at the devices{', or waiting for links' if unknown else ''}"
    return Element(ElementKind.IODEPTH, tuple(load.roles), share, share >= fitted.DELIVERED, says)


def _makes_requests(role: Role, stack: Stack) -> bool:
    """Whether a stack makes others of the role's direct requests: arrays hand on reads within a chunk, mirrors all."""
    if stack.kind is StackKind.MD:
        return stack.level != "raid1" and (share_of_reads(role) < 1 or 0 < stack.chunk < role.bs)
    return stack.kind in OWN_REQUESTS and stack.kind is not StackKind.FILESYSTEM


SYNCS = frozenset({"fsync", "fdatasync", "sync"})
"""Options of a role whose flushes take time at the disks, and are no I/Os of a bound."""


def latency(topology: Topology, way: Way, on_luns: Sequence[Role], use: LoadUse, iops: float) -> Iterator[Element]:
    """Where requests pass one at a time (roles of depth 1, a lock of a file): what they wait for, by share of time."""
    depth = sum(role.depth for role in way.roles)
    names = tuple(dict.fromkeys(role.name.partition(".")[0] for role in way.roles))
    waiting = all(role.direct or SYNCS & role.options.keys() for role in way.roles)
    one_by_one = all(use.luns[lun].share_at(2) <= 1 - fitted.SATURATED for lun in way.luns)
    locked = one_by_one and all(topology.is_filesystem(role.disk) for role in way.roles)
    single = all(role.iodepth == 1 for role in way.roles)
    if not waiting or not (single or locked) or any(role.pace < inf for role in way.roles):
        return
    shares = {f"disk.{name}": use.disks[name].serving for _, name, _ in way.paths if name in use.disks}
    shares |= {f"link.{name}": use.links[name] for name in way.links if name in use.links}
    shares |= {f"lun.{name}": use.luns[name].share_at(1) for name in way.luns} | {"cpu": 1 - use.idle}
    held = sum(use.luns[lun].mean for lun in way.luns)
    says = f"{min(held, depth):.3g} of {depth} requests at the devices"  # a mirror's writes are at several
    if len(on_luns) > len(way.roles):
        every = sum(role.depth for role in on_luns)
        says = f"one request at a time, with {held:.3g} of {every} of all at the devices"
    elif depth > 1 and one_by_one:
        says += ", one at a time"
    says += f", {1000 * depth / iops:.4g} ms each: " if iops else ": "
    ordered = sorted(shares.items(), key=lambda each: -each[1])
    says += ", ".join(f"{name} {percent(share)}" for name, share in ordered if round(share, 2))
    yield Element(ElementKind.LATENCY, names, max(shares.values()), binds=True, figure=says)


def _says_held(held: Held, limit: int) -> str:
    if not held.shares:
        return f"{held.mean:.3g} of {limit} held in the mean"
    return f"{limit} of {limit} held for {percent(held.share_at(limit))} of the window, {held.mean:.3g} in the mean"

# SPDX-License-Identifier: GPL-2.0-only
"""The elements that a load's requests pass, each with the share of the window in which it was at its limit.

Elements of one kind that bind are one element, and so are those of the kind that do not: what is
symmetric is a limit only together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from harness import fitted
from harness.figures.samples import Held, LoadUse
from harness.limits.limits import directions, fair_share, share_of_reads
from harness.scenario.model import Arm, Load, Role
from lab.topology.limits import driver_of, effective_iops
from lab.topology.model import OWN_REQUESTS, Disk, Link, StackKind, Topology
from lab.topology.ranges import in_ranges


class ElementKind(StrEnum):
    """The kind of an element: the label of one, with the place of its name."""

    DISK = "disk.{}"
    LINK = "link.{}"
    SELECTOR = "stack.{}.selector"
    CPU = "cpu"
    PACE = "role.{}.pace"
    HOST_QUEUE = "hba.{}.can_queue"
    LUN_DEPTH = "lun.{}.cmd_per_lun"
    LIMIT = "{}"
    IODEPTH = "role.{}.iodepth"


QUEUES = frozenset({ElementKind.HOST_QUEUE, ElementKind.LUN_DEPTH, ElementKind.IODEPTH})
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
class _Way:
    """What the requests of a load pass: roles on single disks, LUNs, and (LUN, disk, its links) behind them."""

    roles: tuple[Role, ...]
    luns: tuple[str, ...]
    paths: tuple[tuple[str, str, tuple[str, ...]], ...]

    @property
    def links(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(link for _, _, links in self.paths for link in links))


def _way(topology: Topology, load: Load) -> _Way:
    roles = tuple(load.apart().roles.values())
    luns = tuple(dict.fromkeys(lun for role in roles for lun in topology.leaves(role.disk)))
    paths = tuple((lun, disk, topology.path(lun, disk)) for lun in luns for disk in topology.luns[lun].disks)
    return _Way(roles, luns, paths)


def elements(arm: Arm, load: Load, use: LoadUse, bw: Mapping[str, float], role: str = "") -> tuple[Element, ...]:
    """All that the load's requests pass in this arm, whether they bind or not; or those of ``role`` while all run.

    ``bw`` is what each role moved, in bytes per second: where nobody counts what a disk or a link carries, it tells.
    """
    topology, way = arm.topology, _way(arm.topology, load)
    use, unknown = _with_links(topology, way, load, use, bw)
    tags = list(_all_tags(arm, way))
    tight_disks, tight_links = _tight(way, use, _behind_full_queues(topology, tags, use))
    tight_disks |= _peers(topology.disks, tight_disks, {name: disk.serving for name, disk in use.disks.items()})
    tight_links |= _peers(topology.links, tight_links, use.links)
    shown = replace(load, roles={role: load.roles[role]}) if role else load
    everyone, way = way.roles, _way(topology, shown)
    neighbours = [other for other in everyone if not set(way.luns).isdisjoint(topology.leaves(other.disk))]
    every = [
        *_disks(way, use, tight_disks),
        *_buckets(topology, load, way, bw),
        *_links(way, use, tight_links),
        *unknown,
        *_selectors(topology, way, use, tight_links),
        _cpu(use),
        *_queues(tags, way, use),
        *_limits(arm, load, shown, bw),
        *_pace(shown, bw),
        _iodepth(topology, shown, neighbours, use, unknown),
    ]
    return tuple(every)


def _with_links(
    topology: Topology, way: _Way, load: Load, use: LoadUse, bw: Mapping[str, float]
) -> tuple[LoadUse, tuple[Element, ...]]:
    """The use with that of links nobody counts (NVMe over TCP), and an element for those of which it is not known.

    One link alone carries all that was moved, in its busier direction; several are full when they carry together what
    they can.
    """
    uncounted = tuple(link for link in way.links if link not in use.links)
    if not uncounted:
        return use, ()
    moved: dict[str, float] = {}
    for role in load.roles.values():
        for direction, part in directions(role, topology.driver(role.disks[0])).items():
            moved[direction] = moved.get(direction, 0.0) + bw[role.name] * part
    share = max(moved.values()) / sum(topology.links[link].rate for link in uncounted)
    if len(uncounted) == 1 or share >= fitted.SATURATED:
        return replace(use, links={**use.links, **dict.fromkeys(uncounted, min(1.0, share))}), ()
    says = f"at {_percent(share)} of their rate together; what each carries is not counted"
    return use, (Element(ElementKind.LINK, uncounted, share, binds=False, figure=says, counted=False),)


def _behind_full_queues(topology: Topology, tags: Sequence["_Tags"], use: LoadUse) -> Mapping[str, float]:
    """How busy a disk must be to have no room where the queue in front of it is full, by its name.

    While a queue is full for the share F of the window, more depth gives F / busy at most, and a disk a quarter faster
    1 / (1 - busy / 5), which is more from busy = F / (1 + F / 5) on. An elevator that waits (bfq) leaves the queue
    empty for the rest of the window, which more depth does not change.
    """
    least: dict[str, float] = {}
    for each in tags:
        for lun in each.demand:
            host = [_host(each, use, (lun,))] if len(each.demand) == 1 else []
            for queue in (_lun(lun, each, use), *host):
                if queue.binds:
                    least |= dict.fromkeys(topology.luns[lun].disks, queue.share / (1 + queue.share / 5))
    return least


def _tight(way: _Way, use: LoadUse, least: Mapping[str, float]) -> tuple[set[str], set[str]]:
    """Disks and links that have no room: disks that are busy for the share ``least`` of the window, or throughout.

    A serial disk that is busy throughout is held up by the larger part of its time: by itself, or by
    the busiest link on its way. A link that is busy throughout has no room whoever waits for it.
    """
    disks: set[str] = set()
    links = {name for name in way.links if use.links.get(name, 0.0) >= fitted.SATURATED}
    for name in dict.fromkeys(disk for _, disk, _ in way.paths if disk in use.disks):
        disk = use.disks[name]
        shares = {link: use.links[link] for _, behind, path in way.paths if behind == name for link in path}
        busiest = max(shares, key=lambda link: shares[link], default="")
        if disk.busy < least.get(name, fitted.SATURATED):
            continue
        if disk.serving >= shares.get(busiest, 0.0):
            disks.add(name)
        else:
            links.add(busiest)
    return disks, links


def _peers(parts: Mapping[str, Disk] | Mapping[str, Link], tight: set[str], shares: Mapping[str, float]) -> set[str]:
    """Equals of the tight ones that are nearly as busy."""
    kinds = [replace(parts[name], name="") for name in tight]
    return {name for name, share in shares.items() if share >= fitted.PEER and replace(parts[name], name="") in kinds}


def _disks(way: _Way, use: LoadUse, tight: set[str]) -> Iterator[Element]:
    names = list(dict.fromkeys(disk for _, disk, _ in way.paths if disk in use.disks))
    for group, binds in _halves(names, tight):
        busy, serving = [use.disks[name].busy for name in group], [use.disks[name].serving for name in group]
        # What a disk waits for links is theirs.
        itself = "" if _percents(serving) == _percents(busy) else f", itself {_percents(serving)}"
        says = f"busy {_percents(busy)} of the window{itself}"
        yield Element(ElementKind.DISK, group, max(serving), binds, says)


def _buckets(topology: Topology, load: Load, way: _Way, bw: Mapping[str, float]) -> Iterator[Element]:
    """Disks with null_blk's token bucket, which nobody counts: what their roles moved, of what the bucket gives.

    A role on several LUNs is taken to move as much on each.
    """
    shares: dict[str, float] = {}
    for role in load.roles.values():
        luns = tuple(dict.fromkeys(lun for disk in role.disks for lun in topology.leaves(disk)))
        for disk in (topology.disks[name] for lun in luns for name in topology.luns[lun].disks):
            if iops := effective_iops(disk, role.bs, driver_of(disk, topology)):
                shares[disk.name] = shares.get(disk.name, 0.0) + bw[role.name] / len(luns) / (iops * role.bs)
    names = [name for name in shares if name in {disk for _, disk, _ in way.paths}]
    for group, binds in _halves(names, {name for name, share in shares.items() if share >= fitted.SATURATED}):
        most = max(shares[name] for name in group)
        says = f"its token bucket at {_percents([shares[name] for name in group])}"
        yield Element(ElementKind.DISK, group, most, binds, says)


def _limits(arm: Arm, load: Load, shown: Load, bw: Mapping[str, float]) -> Iterator[Element]:
    """Limits of blk-throttle, of the LUN or of a role's cgroup on each LUN; whom iocost and bfq let wait is not known.

    Their words are those of io.max: riops, wiops, rbps, wbps.
    """
    words = {key: key.replace("throttle/read_", "r").replace("throttle/write_", "w") for key in arm.queue}
    rows = [
        (f"queue.{key.replace('/', '.')}", [*load.roles.values()], f"{word}={arm.queue[key]}", 1)
        for key, word in words.items()
        if word != key
    ]
    for role in shown.roles.values():
        luns = len({arm.topology.region(disk).lun for disk in role.disks})
        rows += [(f"role.{role.name}.io_max", [role], word, luns) for word in role.options.get("io_max", "").split()]
    shares: dict[str, tuple[float, str]] = {}
    for name, limited, word, luns in rows:
        key, _, limit = word.partition("=")
        moved = sum(_moved(role, bw[role.name], key) for role in limited) / luns
        shares[name] = max((moved / int(limit), f"{moved:,.6g} of {int(limit):,} {key}"), shares.get(name, (0.0, "")))
    for group, binds in _halves(
        list(shares), {name for name, (share, _) in shares.items() if share >= fitted.SATURATED}
    ):
        share, says = max(shares[name] for name in group)
        known = binds or share < fitted.SLICES
        says += "" if known else ", not modelled"
        yield Element(ElementKind.LIMIT, group, share, binds, says, known)
    turns = [f"role.{role.name}.io_weight" for role in shown.roles.values() if "io_weight" in role.options]
    if arm.queue.get("scheduler") == "bfq" and load.jobs > 1:
        turns.append("queue.scheduler bfq")
    if turns:
        yield Element(ElementKind.LIMIT, tuple(turns), 0.0, binds=False, figure="not modelled", counted=False)


def _moved(role: Role, bw: float, key: str) -> float:
    """What ``key`` of io.max counts of a role's bytes per second."""
    reads = share_of_reads(role)
    return bw * (reads if key.startswith("r") else 1 - reads) / (role.bs if key.endswith("iops") else 1)


def _pace(load: Load, bw: Mapping[str, float]) -> Iterator[Element]:
    """What the roles ask for by themselves: it limits the load where every role paces itself and keeps its pace."""
    shares = {role.name: _of_pace(role, bw[role.name]) for role in load.roles.values()}
    kept = {name: share for name, (share, least) in shares.items() if share >= least}
    if paced := {name: share for name, (share, _) in shares.items() if share}:
        says = f"{_percents(list(paced.values()))} of the pace that rate, rate_iops or thinktime set"
        yield Element(ElementKind.PACE, tuple(paced), max(paced.values()), len(kept) == len(shares), says)


def _of_pace(role: Role, bw: float) -> tuple[float, float]:
    """The share of its pace that a role reaches, and the share from which its pace is what limits it."""
    by_rate = not {"rate", "rate_iops"}.isdisjoint(role.options)
    return bw / role.bs / (role.jobs * role.pace), fitted.SATURATED if by_rate else fitted.THINKING


def _links(way: _Way, use: LoadUse, tight: set[str]) -> Iterator[Element]:
    for group, binds in _halves([name for name in way.links if name in use.links], tight):
        busy = [use.links[name] for name in group]
        yield Element(ElementKind.LINK, group, max(busy), binds, f"busy {_percents(busy)} of the window")


def _halves(names: Sequence[str], tight: set[str]) -> Iterator[tuple[tuple[str, ...], bool]]:
    for binds in (True, False):
        if group := tuple(name for name in names if (name in tight) is binds):
            yield group, binds


def _selectors(topology: Topology, way: _Way, use: LoadUse, tight: set[str]) -> Iterator[Element]:
    """The multipath devices of the load, and whether their paths carry less than they could.

    With a tight link on one path and room on all links of another there is an augmenting path from
    host to disk, so the flow is not the maximum (L. R. Ford and D. R. Fulkerson, Flows in Networks, 1962, I.8).
    """
    below = [stack for role in way.roles for stack in topology.below(role.disk)]
    stacks = [stack for stack in below if stack.kind is StackKind.MULTIPATH]
    unused: dict[str, tuple[str, str]] = {}
    for stack in stacks:
        full = [link for path in stack.over for link in topology.links_below(path) if link in tight]
        easy = [path for path in stack.over if _has_room(topology, path, use, tight)]
        if full and easy:
            idlest = min(topology.links_below(easy[0]), key=lambda link: use.links[link])
            unused[stack.name] = (max(full, key=lambda link: use.links[link]), idlest)
    for group, binds in _halves(list(dict.fromkeys(stack.name for stack in stacks)), set(unused)):
        if binds:
            full_link, idle_link = unused[group[0]]
            says = (
                f"link.{full_link} busy {_percent(use.links[full_link])} of the window while link.{idle_link}"
                f" is at {_percent(use.links[idle_link])}"
            )
            yield Element(ElementKind.SELECTOR, group, use.links[full_link], binds, says)
        else:
            yield Element(ElementKind.SELECTOR, group, 0.0, binds, "no path has room while another has none")


def _has_room(topology: Topology, path: str, use: LoadUse, tight: set[str]) -> bool:
    links = topology.links_below(path)
    return bool(links) and all(link not in tight and use.links.get(link, inf) < fitted.ROOM for link in links)


def _cpu(use: LoadUse) -> Element:
    busy = 1 - use.idle
    return Element(ElementKind.CPU, (), busy, busy >= fitted.SATURATED, f"busy {_percent(busy)} of the window")


@dataclass(frozen=True)
class _Tags:
    """A set of a host's tags: each of its LUNs may hold ``depth`` of ``can_queue``, and the load wants ``demand``."""

    host: str
    can_queue: int
    depth: int
    demand: Mapping[str, float]

    @property
    def fair(self) -> int:
        """What each busy LUN may hold of the host's tags."""
        return fair_share(self.can_queue, len(self.demand))


def _queues(every: Sequence[_Tags], way: _Way, use: LoadUse) -> Iterator[Element]:
    """Tags of hosts and of LUNs. A queue binds when it is full and the load has more than it holds."""
    tags = [host_tags for host_tags in every if not host_tags.demand.keys().isdisjoint(way.luns)]
    hosts: dict[str, Element] = {}
    for element in (_host(host_tags, use, way.luns) for host_tags in tags):
        # Of sets of tags that no LUNs share the fullest stands for the host.
        if element.share >= hosts.get(element.names[0], element).share:
            hosts[element.names[0]] = element
    luns = {lun: _lun(lun, host_tags, use) for host_tags in tags for lun in host_tags.demand if lun in way.luns}
    for queues in (hosts, luns):
        for group, _ in _halves(list(queues), {name for name, element in queues.items() if element.binds}):
            yield replace(max((queues[name] for name in group), key=lambda element: element.share), names=group)


def _all_tags(arm: Arm, way: _Way) -> Iterator[_Tags]:
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
                yield _Tags(hba.name, hba.tags, min(depth, hba.tags), users)


def _host(tags: _Tags, use: LoadUse, luns: Sequence[str]) -> Element:
    """A host's tags: all of them held, or a fair share of ``luns`` where that is less than a LUN's own depth."""
    held = use.hosts.get(tags.host) or _sum_of_means([use.luns[lun] for lun in tags.demand])
    share, says = held.mean / tags.can_queue, _says_held(held, tags.can_queue)
    waited_for = sum(tags.demand.values()) > tags.can_queue
    wanting = [lun for lun, wanted in tags.demand.items() if wanted > tags.fair and lun in luns]
    if tags.fair < tags.depth and wanting:
        fullest = max(wanting, key=lambda lun: use.luns[lun].mean)
        if use.luns[fullest].mean / tags.fair > share:
            share, waited_for = use.luns[fullest].mean / tags.fair, True
            says = f"{fullest}'s part of {tags.can_queue}: {_says_held(use.luns[fullest], tags.fair)}"
    return Element(ElementKind.HOST_QUEUE, (tags.host,), share, waited_for and share >= fitted.FULL, says)


def _lun(name: str, tags: _Tags, use: LoadUse) -> Element:
    held = use.luns[name]
    share = held.mean / tags.depth
    binds = share >= fitted.FULL and tags.depth < tags.can_queue and tags.demand[name] > tags.depth
    return Element(ElementKind.LUN_DEPTH, (name,), share, binds, _says_held(held, tags.depth))


def _sum_of_means(all_held: Iterable[Held]) -> Held:
    """null_blk counts no requests of its tag set as a whole: that all are held at once is not known."""
    return Held(sum(held.mean for held in all_held), {})


def _iodepth(
    topology: Topology, load: Load, roles: Sequence[Role], use: LoadUse, unknown: Sequence[Element]
) -> Element:
    """All that fio has in flight is at the devices: more would be served, if there were more.

    ``roles`` are those on the LUNs of the load. Requests of the page cache and of most stacks are not fio's: their
    number says nothing of its depth.
    """
    made = (StackKind.MD, *OWN_REQUESTS)
    below = [stack.kind for role in roles for stack in topology.below(role.disk)]
    if not all(role.direct for role in roles) or any(kind in made for kind in below):
        says = "the page cache, a filesystem or md makes requests"
        return Element(ElementKind.IODEPTH, tuple(load.roles), 0.0, binds=False, figure=says)
    depth = sum(role.depth for role in roles)
    held = sum(use.luns[lun].mean for lun in {lun for role in roles for lun in topology.leaves(role.disk)})
    share = held / depth
    says = f"{held:.3g} of {depth} requests at the devices"
    if unknown:
        return Element(ElementKind.IODEPTH, tuple(load.roles), 0.0, binds=False, figure=f"{says}, or waiting for links")
    return Element(ElementKind.IODEPTH, tuple(load.roles), share, share >= fitted.DELIVERED, says)


def _says_held(held: Held, limit: int) -> str:
    if not held.shares:
        return f"{held.mean:.3g} of {limit} held in the mean"
    return f"{limit} of {limit} held for {_percent(held.share_at(limit))} of the window, {held.mean:.3g} in the mean"


def _percents(shares: Sequence[float]) -> str:
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{high} %" if low == high else f"{low} to {high} %"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"

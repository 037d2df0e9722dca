# SPDX-License-Identifier: GPL-2.0-only
"""The elements that a load's requests pass, each with the share of the window in which it was at its limit.

Elements of one kind that bind are one element, and so are those of the kind that do not: what is
symmetric is a limit only together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from harness import fitted
from harness.figures.samples import LoadUse
from harness.limits import queues
from harness.limits.limits import directions, share_of_reads
from harness.limits.queues import Element, ElementKind, Way, halves, percent, percents
from harness.scenario.model import Arm, Load, Role
from lab.topology.limits import effective_iops
from lab.topology.model import Disk, Link, StackKind, Topology


def elements(arm: Arm, load: Load, use: LoadUse, bw: Mapping[str, float], role: str = "") -> tuple[Element, ...]:
    """All that the load's requests pass in this arm, whether they bind or not; or those of ``role`` while all run.

    ``bw`` is what each role moved, in bytes per second: where nobody counts what a disk or a link carries, it tells.
    """
    topology, way = arm.topology, queues.way_of(arm.topology, load)
    use, unknown = _with_links(topology, way, load, use, bw)
    tags = list(queues.all_tags(arm, way))
    tight_disks, tight_links = _tight(way, use, _behind_full_queues(topology, tags, use))
    tight_disks |= _peers(topology.disks, tight_disks, {name: disk.serving for name, disk in use.disks.items()})
    tight_links |= _peers(topology.links, tight_links, use.links)
    shown = replace(load, roles={role: load.roles[role]}) if role else load
    everyone, way = way.roles, queues.way_of(topology, shown)
    neighbours = [other for other in everyone if not set(way.luns).isdisjoint(topology.leaves(other.disk))]
    every = [
        *_disks(way, use, tight_disks),
        *_buckets(topology, load, way, bw),
        *_links(way, use, tight_links),
        *unknown,
        *_selectors(topology, way, use, tight_links),
        _cpu(use),
        *queues.full_queues(tags, way, use),
        *_limits(arm, load, shown, bw),
        *_pace(shown, bw),
        queues.iodepth(topology, shown, neighbours, use, unknown),
    ]
    if all(element.counted for element in every):
        iops = sum(bw[name] / role.bs for name, role in shown.roles.items())
        every += [*queues.free_tags(topology, tags, way, use), *queues.latency(topology, way, neighbours, use, iops)]
    return tuple(every)


def _with_links(
    topology: Topology, way: Way, load: Load, use: LoadUse, bw: Mapping[str, float]
) -> tuple[LoadUse, tuple[Element, ...]]:
    """The use with that of links nobody counts (NVMe over TCP), and an element for those of which it is not known.

    One link alone carries all, in its busier direction; several are full when they carry together what they can.
    """
    uncounted = tuple(link for link in way.links if link not in use.links)
    if not uncounted:
        return use, ()
    uses = [(bw[role.name], directions(role, topology.driver(role.disks[0]))) for role in load.roles.values()]
    moved = max(sum(rate * part.get(side, 0.0) for rate, part in uses) for side in ("", "reads", "writes"))
    share = moved / sum(topology.links[link].rate for link in uncounted)
    if len(uncounted) == 1 or share >= fitted.SATURATED:
        return replace(use, links={**use.links, **dict.fromkeys(uncounted, min(1.0, share))}), ()
    says = f"at {percent(share)} of their rate together; what each carries is not counted"
    return use, (Element(ElementKind.LINK, uncounted, share, binds=False, figure=says, counted=False),)


def _behind_full_queues(topology: Topology, tags: Sequence[queues.Tags], use: LoadUse) -> Mapping[str, float]:
    """How busy a disk must be to have no room where the queue in front of it is full, by its name.

    While a queue is full for the share F of the window, more depth gives F / busy at most, and a disk a quarter faster
    1 / (1 - busy / 5), which is more from busy = F / (1 + F / 5) on. An elevator that waits (bfq) leaves the queue
    empty for the rest of the window, which more depth does not change.
    """
    least: dict[str, float] = {}
    for each in tags:
        for lun in each.demand:
            host = [queues.host_queue(each, use, (lun,))] if len(each.demand) == 1 else []
            for queue in (queues.lun_queue(lun, each, use), *host):
                if queue.binds:
                    least |= dict.fromkeys(topology.luns[lun].disks, queue.share / (1 + queue.share / 5))
    return least


def _tight(way: Way, use: LoadUse, least: Mapping[str, float]) -> tuple[set[str], set[str]]:
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


def _disks(way: Way, use: LoadUse, tight: set[str]) -> Iterator[Element]:
    names = list(dict.fromkeys(disk for _, disk, _ in way.paths if disk in use.disks))
    for group, binds in halves(names, tight):
        busy, serving = [use.disks[name].busy for name in group], [use.disks[name].serving for name in group]
        # What a disk waits for links is theirs.
        itself = "" if percents(serving) == percents(busy) else f", itself {percents(serving)}"
        says = f"busy {percents(busy)} of the window{itself}"
        yield Element(ElementKind.DISK, group, max(serving), binds, says)


def _buckets(topology: Topology, load: Load, way: Way, bw: Mapping[str, float]) -> Iterator[Element]:
    """Disks with null_blk's token bucket, which nobody counts: what their roles moved, of what the bucket gives.

    A role on several LUNs is taken to move as much on each.
    """
    shares: dict[str, float] = {}
    for role in load.roles.values():
        luns = tuple(dict.fromkeys(lun for disk in role.disks for lun in topology.leaves(disk)))
        for disk in (topology.disks[name] for lun in luns for name in topology.luns[lun].disks):
            if iops := effective_iops(disk, role.bs, topology.driver(disk.name)):
                shares[disk.name] = shares.get(disk.name, 0.0) + bw[role.name] / len(luns) / (iops * role.bs)
    names = [name for name in shares if name in {disk for _, disk, _ in way.paths}]
    for group, binds in halves(names, {name for name, share in shares.items() if share >= fitted.SATURATED}):
        most = max(shares[name] for name in group)
        says = f"its token bucket at {percents([shares[name] for name in group])}"
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
    for group, binds in halves(
        list(shares), {name for name, (share, _) in shares.items() if share >= fitted.SATURATED}
    ):
        share, says = max(shares[name] for name in group)
        known = binds or share < fitted.SLICES
        says += "" if known else ", not modelled"
        yield Element(ElementKind.LIMIT, group, share, binds, says, known)
    turning = [(role, key) for role in shown.roles.values() for key in ("io_weight", "io_latency")]
    turns = [f"role.{role.name}.{key}" for role, key in turning if key in role.options]
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
        says = f"{percents(list(paced.values()))} of the pace that rate, rate_iops or thinktime set"
        yield Element(ElementKind.PACE, tuple(paced), max(paced.values()), len(kept) == len(shares), says)


def _of_pace(role: Role, bw: float) -> tuple[float, float]:
    """The share of its pace that a role reaches, and the share from which its pace is what limits it."""
    by_rate = not {"rate", "rate_iops"}.isdisjoint(role.options)
    return bw / role.bs / (role.jobs * role.pace), fitted.SATURATED if by_rate else fitted.THINKING


def _links(way: Way, use: LoadUse, tight: set[str]) -> Iterator[Element]:
    for group, binds in halves([name for name in way.links if name in use.links], tight):
        busy = [use.links[name] for name in group]
        yield Element(ElementKind.LINK, group, max(busy), binds, f"busy {percents(busy)} of the window")


def _selectors(topology: Topology, way: Way, use: LoadUse, tight: set[str]) -> Iterator[Element]:
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
        if sum(role.depth for role in way.roles if stack in topology.below(role.disk)) == 1:
            # One request at a time is best where it is, unless another path is faster.
            taken = [path for path in stack.over if tight.intersection(topology.links_below(path))]
            easy = [
                path for path in easy if narrowest(topology, path) > max(narrowest(topology, each) for each in taken)
            ]
        if full and easy:
            idlest = min(topology.links_below(easy[0]), key=lambda link: use.links[link])
            unused[stack.name] = (max(full, key=lambda link: use.links[link]), idlest)
    for group, binds in halves(list(dict.fromkeys(stack.name for stack in stacks)), set(unused)):
        if binds:
            full_link, idle_link = unused[group[0]]
            says = (
                f"link.{full_link} busy {percent(use.links[full_link])} of the window while link.{idle_link}"
                f" is at {percent(use.links[idle_link])}"
            )
            yield Element(ElementKind.SELECTOR, group, use.links[full_link], binds, says)
        else:
            yield Element(ElementKind.SELECTOR, group, 0.0, binds, "no path has room while another has none")


def _has_room(topology: Topology, path: str, use: LoadUse, tight: set[str]) -> bool:
    links = topology.links_below(path)
    return bool(links) and all(link not in tight and use.links.get(link, inf) < fitted.ROOM for link in links)


def narrowest(topology: Topology, path: str) -> int:
    """The rate of the slowest link below a path."""
    return min((topology.links[link].rate for link in topology.links_below(path)), default=1)


def _cpu(use: LoadUse) -> Element:
    busy = 1 - use.idle
    return Element(ElementKind.CPU, (), busy, busy >= fitted.SATURATED, f"busy {percent(busy)} of the window")

# SPDX-License-Identifier: GPL-2.0-only
"""How the data of a disk, a LUN or a stack is distributed: which share to which disk, and through which LUNs.

Layouts follow the drivers of Linux 5.10 to 7.2: drivers/md/dm-stripe.c, raid0.c, raid5.c (raid5_compute_sector) and
raid10.c; path selectors drivers/md/dm-ps-*.c.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from lab.topology.model import PARITY, Disk, Stack, StackKind, Topology, Zone

ENDLESS = 0
_FIXED_SELECTORS = {"round-robin"}


@dataclass(frozen=True)
class Access:
    """An access to the bytes from ``start`` to ``start + size``, ``transfer`` bytes at a time.

    ``sequential`` is one stream. ``reads`` is the share of reads, from 0 to 1.
    """

    start: int
    size: int
    transfer: int
    sequential: bool
    reads: float = 1.0


@dataclass(frozen=True)
class Way:
    """A path to a disk: the LUN that it is reached through."""

    lun: str
    disk: str


@dataclass(frozen=True)
class FlowPart:
    """``share`` bytes of one disk for each byte of the target, through any of ``ways``.

    ``request`` is the largest size of a request at the LUN, after merging. ``run`` bytes are contiguous before the next
    seek, ENDLESS for a stream. The part uses ``size`` bytes of the disk from ``start`` on,
    and is on a ``copy`` of a ``mirror``; ``either``: one copy is enough.
    """

    ways: tuple[Way, ...]
    share: float
    request: int
    run: int
    start: int
    size: int
    mirror: str = ""
    copy: int = 0
    either: bool = False


def parts(topology: Topology, target: str, access: Access) -> tuple[FlowPart, ...]:
    """The parts of one of ``Topology.targets``; parts of one disk with the same start are paths to it.

    A stream over a linear stack is assumed to stay on the member where it starts. Raises KeyError for another name.
    """
    if target in topology.stacks:
        return tuple(_of_member(topology, target, access, 1.0))
    region = topology.region(target)
    return tuple(_of_lun(topology, region.lun, replace(access, start=region.offset + access.start), 1.0))


def rate_of(disk: Disk, part: FlowPart) -> float:
    """Bytes per second of a serial disk for a part: for a stream at its start, otherwise the mean over its extent."""
    zones = (Zone(0, disk.rate or 1), *disk.zones)
    if part.run == ENDLESS or len(zones) == 1:
        return float(next(zone.rate for zone in reversed(zones) if zone.start <= part.start))
    ends = (*(zone.start for zone in zones[1:]), disk.size)
    stop = max(part.start + part.size, part.start + 1)
    overlaps = [max(0, min(end, stop) - max(zone.start, part.start)) for zone, end in zip(zones, ends, strict=True)]
    seconds = sum(size / zone.rate for size, zone in zip(overlaps, zones, strict=True))
    return sum(overlaps) / seconds if seconds else float(zones[-1].rate)


def _of_member(topology: Topology, name: str, access: Access, share: float) -> Iterator[FlowPart]:
    if stack := topology.stacks.get(name):
        yield from _LAYOUTS[stack.kind](topology, stack, access, share)
    else:
        yield from _of_lun(topology, name, access, share)


def _of_lun(topology: Topology, name: str, access: Access, share: float) -> Iterator[FlowPart]:
    disks = topology.luns[name].disks
    sizes = {disk: topology.disks[disk].size for disk in disks}
    run = ENDLESS if access.sequential else access.transfer
    for disk, piece, weight in _pieces(sizes, access):
        yield FlowPart((Way(name, disk),), share * weight, access.transfer, run, piece.start, piece.size)


def _pieces(sizes: Mapping[str, int], access: Access) -> Iterator[tuple[str, Access, float]]:
    """The pieces of an access to consecutive members: (name, access to it, share)."""
    before = 0
    for name, size in sizes.items():
        start = max(access.start - before, 0)
        overlap = min(access.start + access.size - before, size) - start
        if access.sequential and 0 <= access.start - before < size:
            yield name, replace(access, start=start, size=min(access.size, size - start)), 1.0
        elif not access.sequential and overlap > 0:
            yield name, replace(access, start=start, size=overlap), overlap / access.size
        before += size


def _linear(topology: Topology, stack: Stack, access: Access, share: float) -> Iterator[FlowPart]:
    sizes = {name: topology.size(name) for name in stack.over}
    for name, piece, weight in _pieces(sizes, replace(access, start=access.start + stack.offset)):
        yield from _of_member(topology, name, piece, share * weight)


def _stripes(topology: Topology, stack: Stack, access: Access, share: float) -> Iterator[FlowPart]:
    count = len(stack.over)
    piece = _on_member(access, count, stack.chunk)
    for member in stack.over:
        yield from _of_member(topology, member, piece, share / count)


def _on_member(access: Access, data: int, chunk: int) -> Access:
    """The access to one of ``data`` members; chunks of one transfer that are adjacent there may be merged."""
    transfer = access.transfer if access.transfer <= chunk else max(chunk, access.transfer // data)
    return replace(access, start=access.start // data, size=max(access.size // data, 1), transfer=transfer)


def _multipath(topology: Topology, stack: Stack, access: Access, share: float) -> Iterator[FlowPart]:
    paths = stack.over if stack.policy == "multibus" else stack.over[:1]
    yield from _over_paths(topology, paths, stack.selector, access, share)


def _nvme(topology: Topology, stack: Stack, access: Access, share: float) -> Iterator[FlowPart]:
    """numa uses the nearest path, the first of several at equal distance (drivers/nvme/host/multipath.c)."""
    paths = stack.over[:1] if stack.iopolicy == "numa" else stack.over
    yield from _over_paths(topology, paths, stack.iopolicy, access, share)


def _over_paths(
    topology: Topology, paths: tuple[str, ...], selector: str, access: Access, share: float
) -> Iterator[FlowPart]:
    ends = [part for path in paths for part in _of_member(topology, path, access, share)]
    if selector in _FIXED_SELECTORS or len(paths) == 1:
        yield from (replace(part, share=part.share / len(paths)) for part in ends)
        return
    ways: dict[int, list[Way]] = {}
    for part in ends:
        ways.setdefault(part.start, []).extend(part.ways)
    for part in ends[: len(ways)]:
        yield replace(part, ways=tuple(ways[part.start]))


def _array(topology: Topology, stack: Stack, access: Access, share: float) -> Iterator[FlowPart]:
    reading, writing = _ARRAYS.get(stack.level, (_stripes, _stripes))
    if access.reads:
        yield from reading(topology, stack, access, share * access.reads)
    if access.reads < 1:
        yield from writing(topology, stack, access, share * (1 - access.reads))


def _mirror_reads(topology: Topology, stack: Stack, access: Access, share: float) -> Iterator[FlowPart]:
    members = stack.over[: len(stack.over) - stack.write_mostly]
    copies = list(_copies(topology, replace(stack, over=members), access, share, either=True))
    if len(copies) == len(members):
        ways = tuple(way for part in copies for way in part.ways)
        copies = [replace(copies[0], ways=ways, mirror="", either=False)]
    yield from copies


def _copies(
    topology: Topology, stack: Stack, access: Access, share: float, *, either: bool = False
) -> Iterator[FlowPart]:
    for number, member in enumerate(stack.over):
        for part in _of_member(topology, member, access, share):
            yield replace(part, mirror=stack.name, copy=number, either=either)


def _parity_reads(topology: Topology, stack: Stack, access: Access, share: float) -> Iterator[FlowPart]:
    """Parity rotates over the members; a stream skips it once in as many chunks as there are members."""
    parity = PARITY[stack.level]
    data = len(stack.over) - parity
    members = stack.over[:data] if stack.level == "raid4" else stack.over
    piece = _on_member(access, data, stack.chunk)
    for member in members:
        for part in _of_member(topology, member, piece, share / len(members)):
            endless = part.run == ENDLESS and stack.level != "raid4"
            yield replace(part, run=data * stack.chunk) if endless else part


def _parity_writes(topology: Topology, stack: Stack, access: Access, share: float) -> Iterator[FlowPart]:
    """A stream writes whole stripes. A random chunk reads old data and parity and writes both.

    With few members it reads all other data instead (raid5.c, handle_stripe_dirtying).
    """
    parity, count = PARITY[stack.level], len(stack.over)
    piece = _on_member(access, count - parity, stack.chunk)
    whole = access.sequential or access.transfer >= (count - parity) * stack.chunk
    weight = 1 / (count - parity) if whole else min(2 * (1 + parity), count) / count
    for member in stack.over:
        yield from _of_member(topology, member, piece, share * weight)


_Layout = Callable[[Topology, Stack, Access, float], Iterator[FlowPart]]
_ARRAYS: Mapping[str, tuple[_Layout, _Layout]] = {
    "raid1": (_mirror_reads, _copies),
    # Two copies in the near layout.
    "raid10": (_stripes, lambda topology, stack, access, share: _stripes(topology, stack, access, 2 * share)),
    **dict.fromkeys(PARITY, (_parity_reads, _parity_writes)),
}
_LAYOUTS: Mapping[StackKind, _Layout] = {
    **dict.fromkeys(StackKind, _linear),
    StackKind.STRIPE: _stripes,
    StackKind.MULTIPATH: _multipath,
    StackKind.MD: _array,
    StackKind.NVME: _nvme,
}

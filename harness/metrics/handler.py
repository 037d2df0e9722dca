# SPDX-License-Identifier: GPL-2.0-only
"""Counters of modelled disks in a load's window (native/diskd/counters.h): use of disks and links, depth of paths."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.metrics.errors import MeasurementError
from harness.metrics.node import Node, parse


@dataclass(frozen=True)
class DiskUse:
    """``busy`` and ``waited`` are shares of the window, 0 to 1: with a request, and held back by links meanwhile.

    ``depth`` is the mean number of requests at the disk; the rest are counts in the window.
    """

    busy: float
    waited: float
    depth: float
    requests: int
    writes: int
    bytes: int
    seeks: int


@dataclass(frozen=True)
class LinkUse:
    """``busy`` is the share of the window, 0 to 1, that its requests took of it."""

    busy: float
    requests: int
    bytes: int


@dataclass(frozen=True)
class PathUse:
    """``depth`` and ``most`` are the mean and the greatest number of commands that the path held."""

    depth: float
    most: int
    requests: int
    bytes: int


@dataclass(frozen=True)
class HandlerWindow:
    """Everything by its name in the topology (paths are LUNs); ``time`` is the window in ns."""

    time: int
    disks: Mapping[str, DiskUse]
    links: Mapping[str, LinkUse]
    paths: Mapping[str, PathUse]


def read_handler(before: bytes, after: bytes, load: str) -> HandlerWindow:
    """Compare ``LOAD.before.disks.json`` with ``LOAD.after.disks.json``. Raises MeasurementError."""
    first, file = f"{load}.before.disks.json", f"{load}.after.disks.json"
    old, new = Node(parse(before, first), first, ""), Node(parse(after, file), file, "")
    time = new.whole("time") - old.whole("time")
    if time <= 0:
        raise MeasurementError(file, "no time passed in the window")
    return HandlerWindow(
        time=time,
        disks={name: _disk(*pair, time) for name, pair in _pairs(old, new, "disks").items()},
        links={name: _link(*pair, time) for name, pair in _pairs(old, new, "links").items()},
        paths={name: _path(*pair, time) for name, pair in _pairs(old, new, "paths").items()},
    )


def _pairs(old: Node, new: Node, table: str) -> dict[str, tuple[Node, Node]]:
    was, now = old.node(table), new.node(table)
    if set(was) != set(now):
        raise new.wrong(table, "has other rows than before the window")
    return {name: (was.node(name), now.node(name)) for name in now}


def _grown(old: Node, new: Node, key: str) -> int:
    grown = new.whole(key) - old.whole(key)
    if grown < 0:
        raise new.wrong(key, "went backwards")
    return grown


def _disk(old: Node, new: Node, time: int) -> DiskUse:
    return DiskUse(
        busy=_grown(old, new, "busy") / time,
        waited=_grown(old, new, "waited") / time,
        depth=_grown(old, new, "queued") / time,
        requests=_grown(old, new, "requests"),
        writes=_grown(old, new, "writes"),
        bytes=_grown(old, new, "bytes"),
        seeks=_grown(old, new, "seeks"),
    )


def _link(old: Node, new: Node, time: int) -> LinkUse:
    return LinkUse(_grown(old, new, "busy") / time, _grown(old, new, "requests"), _grown(old, new, "bytes"))


def _path(old: Node, new: Node, time: int) -> PathUse:
    return PathUse(
        depth=_grown(old, new, "queued") / time,
        most=new.whole("most"),
        requests=_grown(old, new, "requests"),
        bytes=_grown(old, new, "bytes"),
    )

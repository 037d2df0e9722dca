# SPDX-License-Identifier: GPL-2.0-only
"""Counters of modelled disks in a load's window (native/diskd/counters.h): use of disks and links, depth of paths."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.metrics.node import MeasurementError, Node, parse


@dataclass(frozen=True)
class DiskTime:
    """Shares of the window: ``busy`` with a request, ``waited`` the part in which links held its transfer back."""

    busy: float
    waited: float = 0.0

    @property
    def own(self) -> float:
        """What the disk itself took: seeks, rotation, and bytes at its own rate."""
        return max(0.0, self.busy - self.waited)


@dataclass(frozen=True)
class PathUse:
    """``depth`` is the mean number of commands that the path held; the rest are counts in the window."""

    depth: float
    requests: int
    bytes: int


@dataclass(frozen=True)
class HandlerWindow:
    """Everything by its name in the topology (paths are LUNs); ``time`` is the window in ns.

    ``links`` has the share of the window, 0 to 1, in which a link was busy.
    """

    time: int
    disks: Mapping[str, DiskTime]
    links: Mapping[str, float]
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
        disks={
            name: DiskTime(_grown(*pair, "busy") / time, _grown(*pair, "waited") / time)
            for name, pair in _pairs(old, new, "disks").items()
        },
        links={name: _grown(*pair, "busy") / time for name, pair in _pairs(old, new, "links").items()},
        paths={
            name: PathUse(_grown(*pair, "queued") / time, _grown(*pair, "requests"), _grown(*pair, "bytes"))
            for name, pair in _pairs(old, new, "paths").items()
        },
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

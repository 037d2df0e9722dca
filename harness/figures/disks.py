# SPDX-License-Identifier: GPL-2.0-only
"""What the handler of modelled disks counted (driver tcmu): disks, links and paths."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.figures.boot import LoadFiles, MeasurementError, Node, parse
from harness.scenario.registry import LUN, BootFile, Figures, Readings

_SECOND = 1e9
BEFORE = "{load}.before.disks.json"


@dataclass(frozen=True)
class DiskTime:
    """Shares of the window: ``busy`` with a request, ``waited`` the part in which links held its transfer back."""

    busy: float
    waited: float = 0.0

    @property
    def serving(self) -> float:
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

    ``links`` has the share of the window, 0 to 1, in which a link was busy. ``seeks`` has the requests of a disk, and
    those of them that it had to seek for.
    """

    time: int
    disks: Mapping[str, DiskTime]
    links: Mapping[str, float]
    paths: Mapping[str, PathUse]
    seeks: Mapping[str, tuple[int, int]]


def read_handler(before: bytes, after: bytes, load: str) -> HandlerWindow:
    """Compare ``LOAD.before.disks.json`` with ``LOAD.after.disks.json``. Raises MeasurementError."""
    first, file = f"{load}.before.disks.json", f"{load}.after.disks.json"
    old, new = Node(parse(before, first), first, ""), Node(parse(after, file), file, "")
    time = new.whole("time") - old.whole("time")
    if time <= 0:
        raise MeasurementError(file, "no time passed in the window")
    disks, paths = _pairs(old, new, "disks"), _pairs(old, new, "paths")
    return HandlerWindow(
        time=time,
        disks={name: DiskTime(*(_increase(*pair, key) / time for key in ("busy", "waited"))) for name, pair in disks},
        links={name: _increase(*pair, "busy") / time for name, pair in _pairs(old, new, "links")},
        paths={
            name: PathUse(_increase(*pair, "queued") / time, _increase(*pair, "requests"), _increase(*pair, "bytes"))
            for name, pair in paths
        },
        seeks={name: (_increase(*pair, "requests"), _increase(*pair, "seeks")) for name, pair in disks},
    )


def _pairs(old: Node, new: Node, table: str) -> list[tuple[str, tuple[Node, Node]]]:
    was, now = old.node(table), new.node(table)
    if set(was) != set(now):
        raise new.wrong(table, "has other rows than before the window")
    return [(name, (was.node(name), now.node(name))) for name in now]


def _increase(old: Node, new: Node, key: str) -> int:
    grown = new.whole(key) - old.whole(key)
    if grown < 0:
        raise new.wrong(key, "went backwards")
    return grown


def window_of(files: LoadFiles) -> HandlerWindow | None:
    """None where there are no modelled disks, or the window was too short for counts. Raises MeasurementError."""
    before, after = files.get(BEFORE), files.get(BootFile.DISKS)
    return read_handler(before, after, files.load.name) if before is not None and after is not None else None


def disk_figures(files: LoadFiles, figures: Figures) -> Readings:
    """``members.bw``, ``members.iops`` and ``members.seeks`` of each role, ``device.mean`` of each path.

    Raises MeasurementError.
    """
    load, window = files.load, window_of(files)
    if window is None:
        return
    yield from (((load.name, LUN, f"{lun}.device.mean"), path.depth) for lun, path in window.paths.items())
    for role in load.roles.values():
        below = files.luns(role.disks).keys()
        if missing := below - window.paths.keys():
            raise MeasurementError(files.name(BootFile.DISKS), f"the handler counted nothing for {min(missing)}")
        paths = [window.paths[lun] for lun in below]
        yield (load.name, role.name, "members.bw"), sum(path.bytes for path in paths) / window.time * _SECOND
        yield (load.name, role.name, "members.iops"), sum(path.requests for path in paths) / window.time * _SECOND
        seeks = [window.seeks[disk] for disk in {disk for lun in below for disk in files.topology.luns[lun].disks}]
        if requests := sum(done for done, _ in seeks):
            yield (load.name, role.name, "members.seeks"), sum(sought for _, sought in seeks) / requests

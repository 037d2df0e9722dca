# SPDX-License-Identifier: GPL-2.0-only
"""What the sampler and the handler of modelled disks (driver tcmu) recorded in a load's window.

Figures of tags, requests, disks and paths, and how far each element was in use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from harness import fitted
from harness.figures.boot import LoadFiles, MeasurementError, Node, parse
from harness.scenario.model import Load
from harness.scenario.registry import GUEST, HOST, IDLE, IOPS, LUN, PER_IO, BootFile, Figures, Readings
from lab.topology.model import SCSI, Driver, Hba, Topology

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
    old, new = parse(before, first), parse(after, file)
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


@dataclass(frozen=True)
class Series:
    """Samples of one small number. ``values`` maps a value to how often it was seen, up to ``LIMIT``.

    ``larger`` counts the samples above it; ``parts`` are the means in equal parts of the window,
    None where a part has no sample. ``ended`` says why samples stopped before the window did, or is empty.
    """

    count: int
    total: int
    max: int
    larger: int
    values: Mapping[int, int]
    parts: tuple[float | None, ...]
    ended: str = ""

    @property
    def mean(self) -> float:
        """Zero where nothing was sampled."""
        return self.total / self.count if self.count else 0.0


_TICK = 10_000_000
"""In ns. Samples of older labs have the CPU's times in ticks of USER_HZ, 100 on every machine but Alpha and IA-64."""
LIMIT = 4096
"""The largest value that is counted by itself (SERIES_VALUES of lab/native/sampler)."""


@dataclass(frozen=True)
class Samples:
    """``series`` by name: ``inflight[LUN]``, ``device_busy[LUN]``, ``host_busy[HBA]``.

    ``began`` and ``ended`` are CLOCK_MONOTONIC in ns, ``epoch`` is CLOCK_REALTIME at ``began``. ``cost`` is the
    share of the window that sampling itself took, 0 to 1, and ``idle`` that in which the CPUs had nothing to do.
    ``in_ticks`` where the kernel gives idle time in ticks only.
    """

    series: Mapping[str, Series]
    period: int
    began: int
    ended: int
    epoch: int
    missed: int
    cost: float
    idle: float
    cpus: int
    in_ticks: bool


def read_samples(data: bytes, file: str) -> Samples:
    """Read ``LOAD.samples.json``. Raises MeasurementError."""
    document = parse(data, file)
    early, rows = document.node("ended_early"), document.node("series")
    began, ended = document.whole("began"), document.whole("ended")
    if ended < began:
        raise MeasurementError(file, "the window ends before it begins")
    cpu = document.node("cpu")
    elapsed, idle = _cpu_times(cpu)
    resolution = cpu.whole("resolution") if "resolution" in cpu else 0
    if idle > elapsed * (1 if resolution == 1 else fitted.TAKEN_BACK):
        raise cpu.wrong("idle", f"is {idle} ns of {elapsed} ns")
    return Samples(
        series={name: _series(rows.node(name), early.text(name) if name in early else "") for name in rows},
        period=document.whole("period"),
        began=began,
        ended=ended,
        epoch=document.whole("epoch"),
        missed=document.whole("missed"),
        cost=document.whole("spent") / max(1, ended - began),
        idle=min(1.0, idle / elapsed),
        cpus=max(1, round(elapsed / max(1, ended - began))),
        in_ticks=resolution > 1,
    )


def _cpu_times(cpu: Node) -> tuple[int, int]:
    """Time that passed on all CPUs together and the idle part of it, in ns."""
    name, unit = ("ticks", _TICK) if "ticks" in cpu else ("elapsed", 1)
    if not cpu.whole(name):
        raise cpu.wrong(name, "is zero: the sampler did not see the load begin")
    return cpu.whole(name) * unit, cpu.whole("idle") * unit


def _series(node: Node, ended: str) -> Series:
    histogram = node.node("histogram")
    series = Series(
        count=node.whole("count"),
        total=node.whole("sum"),
        max=node.whole("max"),
        larger=node.whole("larger"),
        values={int(histogram.key_number(key)): histogram.whole(key) for key in histogram},
        parts=tuple(_part(value, node) for value in node.items("parts")),
        ended=ended,
    )
    if series.larger + sum(series.values.values()) != series.count:
        raise node.wrong("histogram", "does not add up to count")
    return series


def _part(value: Any, node: Node) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise node.wrong("parts", "holds something else than numbers")
    return value


_PACED = frozenset({"rate", "rate_iops", "thinktime"})
_ASYNC = frozenset({"libaio", "io_uring"})


def held_series(topology: Topology, lun: str) -> str:
    """The series of a LUN's tags; null_blk and NVMe have no other count of them than their requests in flight."""
    return f"{'device_busy' if topology.hbas[topology.luns[lun].hba].driver in SCSI else 'inflight'}[{lun}]"


def sample_figures(files: LoadFiles, figures: Figures) -> Readings:
    """``cpu.*``, and figures of all LUNs and hosts that were sampled. Raises MeasurementError.

    Shares are of the window, 0 to 1. ``tags.none`` is the share of samples in which a LUN held no tag. A SCSI LUN has
    ``commands.*`` instead: without an elevator a request that waits for the LUN's cmd_per_lun holds a tag too, and
    nothing counts those. ``waiting.mean`` is the load's iodepth on the LUN less its tags or commands, ``tags.free`` the
    rest of a host's can_queue. Windows shorter than 20 ms have no figures.
    """
    topology, load, data = files.topology, files.load, files.get(BootFile.SAMPLES)
    if data is None:
        return
    samples = read_samples(data, files.name(BootFile.SAMPLES))
    yield (load.name, GUEST, IDLE), samples.idle
    yield from _cost_figures(samples, load, figures)
    held: dict[str, float] = {}
    for lun in topology.luns:
        series = samples.series.get(held_series(topology, lun))
        if series is None or not series.count:
            continue
        held[lun] = series.mean
        what = "commands" if topology.hbas[topology.luns[lun].hba].driver in SCSI else "tags"
        yield (load.name, LUN, f"{lun}.{what}.mean"), series.mean
        yield (load.name, LUN, f"{lun}.{what}.max"), float(series.max)
        yield (load.name, LUN, f"{lun}.{what}.none"), series.values.get(0, 0) / series.count
        asked = _demand(topology, load, lun)
        if asked is not None:
            yield (load.name, LUN, f"{lun}.waiting.mean"), max(0.0, asked - series.mean)
    for hba in topology.hbas.values():
        yield from _host_figures(topology, load, samples, hba, held)


def _cost_figures(samples: Samples, load: Load, figures: Figures) -> Readings:
    """Busy time over I/Os, without what the sampler took; nothing where no I/Os are, or where ticks do not tell it."""
    iops = sum(figures[load.name, role, IOPS] for role in load.roles)
    if iops and not (samples.in_ticks and samples.idle > fitted.KNOWN_IDLE):
        cost = max(0.0, (1 - samples.idle) * samples.cpus - samples.cost) * _SECOND / iops
        yield from (((load.name, role, PER_IO), cost) for role in load.roles)


def _host_figures(topology: Topology, load: Load, samples: Samples, hba: Hba, held: Mapping[str, float]) -> Readings:
    luns = [lun for lun in topology.luns if topology.luns[lun].hba == hba.name]
    series = samples.series.get(f"host_busy[{hba.name}]")
    if series is not None and series.count:
        yield (load.name, HOST, f"{hba.name}.commands.mean"), series.mean
    elif hba.driver not in SCSI and hba.shares_tags and hba.queues == 1 and all(lun in held for lun in luns):
        mean = sum(held[lun] for lun in luns)
        yield (load.name, HOST, f"{hba.name}.tags.mean"), mean
        yield (load.name, HOST, f"{hba.name}.tags.free"), max(0.0, hba.tags - mean)


def _demand(topology: Topology, load: Load, lun: str) -> int | None:
    """Requests that the roles of a load want in flight on a LUN; None where their iodepth does not tell."""
    roles = [role for role in load.apart().roles.values() if lun in topology.leaves(role.disk)]
    plain = all(
        role.disk not in topology.stacks
        and role.direct
        and role.ioengine in _ASYNC
        and not _PACED & role.options.keys()
        for role in roles
    )
    return sum(role.depth for role in roles) if plain else None


_SHORT = "windows shorter than 20 ms are not sampled"


@dataclass(frozen=True)
class Held:
    """How many requests something held: their mean, and the share of the window, 0 to 1, of each number."""

    mean: float
    shares: Mapping[int, float]

    def share_at(self, limit: int) -> float:
        """Share of the window in which ``limit`` or more were held."""
        return sum(share for value, share in self.shares.items() if value >= limit)


@dataclass(frozen=True)
class LoadUse:
    """One load: the CPU's ``idle`` share of the window, and uses by names of the topology.

    ``disks`` and ``links`` are known where the disks are modelled, ``hosts`` where they are SCSI's; LUNs and hosts
    are those of the load. What a LUN holds are tags; null_blk has no other count of them than its requests in flight.
    """

    idle: float
    disks: Mapping[str, DiskTime] = field(default_factory=dict)
    links: Mapping[str, float] = field(default_factory=dict)
    luns: Mapping[str, Held] = field(default_factory=dict)
    hosts: Mapping[str, Held] = field(default_factory=dict)


def read_use(files: LoadFiles) -> LoadUse:
    """The use that one boot recorded of one load. Raises MeasurementError, also where nothing was sampled."""
    topology, name = files.topology, files.name(BootFile.SAMPLES)
    samples = read_samples(files.sent(BootFile.SAMPLES, _SHORT), name)
    modelled = any(hba.driver is Driver.TCMU for hba in topology.hbas.values())
    for file in (BEFORE, BootFile.DISKS) if modelled else ():
        files.sent(file, _SHORT)
    handler = window_of(files) if modelled else None
    luns = files.luns(tuple(disk for role in files.load.roles.values() for disk in role.disks))
    hbas = {hba: None for lun in luns if topology.hbas[hba := topology.luns[lun].hba].driver in SCSI}
    return LoadUse(
        idle=samples.idle,
        disks=handler.disks if handler else {},
        links=handler.links if handler else {},
        luns={lun: _held_by(samples, held_series(topology, lun), name) for lun in luns},
        hosts={hba: _held_by(samples, f"host_busy[{hba}]", name) for hba in hbas},
    )


def _held_by(samples: Samples, name: str, file: str) -> Held:
    series = samples.series.get(name)
    if series is None or not series.count:
        why = f": {series.ended}" if series else ""
        raise MeasurementError(file, f"{name} was not sampled{why}")
    shares = {value: count / series.count for value, count in series.values.items()}
    return Held(series.mean, shares | ({series.max: series.larger / series.count} if series.larger else {}))


def mean_use(uses: Sequence[LoadUse]) -> LoadUse:
    """The mean over boots of the same arm and load, of which there is one at least."""
    first = uses[0]
    return LoadUse(
        idle=fmean(use.idle for use in uses),
        disks={
            name: DiskTime(fmean(use.disks[name].busy for use in uses), fmean(use.disks[name].waited for use in uses))
            for name in first.disks
        },
        links={name: fmean(use.links[name] for use in uses) for name in first.links},
        luns={name: _mean_held([use.luns[name] for use in uses]) for name in first.luns},
        hosts={name: _mean_held([use.hosts[name] for use in uses]) for name in first.hosts},
    )


def _mean_held(all_held: Sequence[Held]) -> Held:
    values = dict.fromkeys(value for held in all_held for value in held.shares)
    shares = {value: fmean(held.shares.get(value, 0.0) for held in all_held) for value in values}
    return Held(fmean(held.mean for held in all_held), shares)

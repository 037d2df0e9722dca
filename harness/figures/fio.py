# SPDX-License-Identifier: GPL-2.0-only
"""fio's own JSON, read strictly: whatever is missing or odd is an error, never a zero.

Rates are per second of guest time, latencies and run times in nanoseconds, bandwidth in bytes
per second. fio counts after its ramp time, so the ramp is in none of these figures.

``disagreements`` has rules that hold for every boot between fio's counts and what else was counted in their window. Two
are about I/Os of one size that reach a LUN one by one: those of direct roles on LUNs without a stack. A role that paces
itself, or whose I/Os wait long, leaves room for other counts.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from errno import EILSEQ
from math import nan

from harness import fitted
from harness.figures.boot import LoadFiles, MeasurementError, Node, parse
from harness.figures.samples import window_of
from harness.scenario.events import io_may_fail
from harness.scenario.model import Load, Role, Status
from harness.scenario.registry import RUNTIME, BootFile, Figures, Readings
from lab.base.units import show_time

_MIXED = "mixed"
_LATENCIES = ("lat", "clat", "slat")
_NS_PER_MS = 1_000_000
_SECTOR = 512
_EARLY = 0.5
"""Jobs go on until the end of their window, so the last of their I/Os is near it, unless each takes half a window."""
_COMPLAINTS = re.compile(rb'\A(?:verify: |\S+ : Saving output of ).*?(?=\{\s*"fio version")', re.DOTALL)
"""What verifying readers write into the output for each bad block, before the document; they mix their lines. Those
that are processes write what fio said of exec_prerun before it, and lose the end of a buffer, which may be in a line.
"""


def fio_figures(files: LoadFiles, figures: Figures) -> Readings:
    by_role = read_fio(files.sent(BootFile.FIO), files.load, files.name(BootFile.FIO))
    for role, of_role in by_role.items():
        yield from (((files.load.name, role, metric), value) for metric, value in of_role.items())


def read_fio(data: bytes, load: Load, file: str) -> dict[str, dict[str, float]]:
    """The figures of each role by their names in a ratio; ``data`` is fio's JSON, with jobs named after roles.

    fio counts the I/Os that it starts before the end of the window, yet divides by the longer time in which those in
    flight come back: 64 requests of 400 ms would lose a sixth of their rate in a window of 2 s; its io_bytes has the
    stragglers of both ends. So rates are the counted I/Os over the window, times the block size for ``bw``; those of a
    job that ``outlives`` it are over the time it ran, and no claim on them is judged. A job without I/O, when another
    had some, was starved: its rates are zero, and it has no latencies.

    Raises MeasurementError for a document that is truncated, lacks a field, holds other jobs than the roles of the load
    or one that failed, and when no job did any I/O.
    """
    jobs: dict[str, list[Node]] = {}
    for job in parse(_COMPLAINTS.sub(b"", data), file).nodes("jobs"):
        jobs.setdefault(job.text("jobname"), []).append(job)
    for name, of_role in jobs.items():
        role = load.roles.get(name)
        if len(of_role) != (count := role.jobs if role and role.numjobs > 1 else 1):
            raise MeasurementError(file, f'job "{name}" is reported {len(of_role)} times, not {count}')
    if missing := sorted(load.roles.keys() - jobs.keys()):
        raise MeasurementError(file, f"no job for role {', '.join(missing)}")
    if extra := sorted(jobs.keys() - load.roles.keys()):
        raise MeasurementError(file, f"a job that is not a role of this load: {', '.join(extra)}")
    figures = {name: dict(_figures(each, load, load.roles[name], file)) for name, each in jobs.items()}
    if not any(of_role["total_ios"] or of_role.get("errors") for of_role in figures.values()):
        remedy = "lengthen window.runtime or look at console.txt"
        raise MeasurementError(file, "no job did any I/O in the window", remedy=remedy)
    ended = max(of_role[RUNTIME] + of_role.get("lat.max", 0.0) for of_role in figures.values())
    if ended < load.runtime * _EARLY:
        says = f"all jobs ended after {show_time(round(ended))} of a window of {show_time(load.runtime)}"
        raise MeasurementError(file, says, remedy="one that ends ends the others: look at console.txt")
    return figures


def bytes_read(data: bytes, file: str) -> dict[str, int]:
    """What the jobs of each name read, with what was in flight at the end. Raises MeasurementError."""
    read: Counter[str] = Counter()
    for job in parse(_COMPLAINTS.sub(b"", data), file).nodes("jobs"):
        read[job.text("jobname")] += job.node("read").whole("io_bytes")
    return read


def _figures(jobs: Sequence[Node], load: Load, role: Role, file: str) -> Iterator[tuple[str, float]]:
    """The figures of the jobs of one role: all their directions together."""
    parts: list[Node] = []
    shares: list[float] = []
    tolerant = io_may_fail(load.events)

    def ended(part: Node) -> int:
        # total_ios has I/Os that failed, of which fio keeps no latency.
        return part.node("lat_ns").whole("N") if tolerant else part.whole("total_ios")

    for job in jobs:
        error, bad = job.whole("error"), job.whole("total_err") if "total_err" in job else None
        # A job that goes on after a bad block or an error ends with the first such error.
        if error and not (bad and error == job.whole("first_error") and (tolerant or error == EILSEQ)):
            raise MeasurementError(file, f'fio job "{role.name}" failed with error {error}')
        ways = [_MIXED] if _MIXED in job else [way for way in ("read", "write", "trim") if way != "trim" or way in job]
        of_job = [part for way in ways if ended(part := job.node(way))]
        shares.append(sum(ended(part) / _seconds(part, load.runtime) for part in of_job))
        parts += of_job
    yield from (("iops", float(sum(shares))), ("bw", float(sum(shares) * role.bs)))
    if len(jobs) > 1:
        yield from (("job.iops.min", float(min(shares))), ("job.iops.max", float(max(shares))))
    yield "total_ios", float(sum(map(ended, parts)))
    yield RUNTIME, float(max((part.whole("runtime") for part in parts), default=0) * _NS_PER_MS)
    if known := [job.whole("total_err") for job in jobs if "total_err" in job]:
        yield "errors" if tolerant else "verify.bad", float(sum(known))
    for kind in _LATENCIES if parts else ():
        yield from ((f"{kind}.{key}", value) for key, value in _latency([part.node(f"{kind}_ns") for part in parts]))


def _seconds(part: Node, window: int) -> float:
    """The time over which a direction counted its I/Os. A job that ended early counted for less, one that outlived its
    window counted what waited for the end of the job."""
    runtime = part.whole("runtime") * _NS_PER_MS
    late = outlives(runtime, window, part.node("lat_ns").number("max"))
    return max(runtime if late else min(runtime, window), _NS_PER_MS) / 1e9


def outlives(ran: float, window: int, longest: float) -> bool:
    """Whether a job ran on after its window for longer than its I/Os in flight did, of which one took ``longest`` ns.

    Such a job waited for something that is none of its I/Os: an fsync that writes back what is in the page cache.
    """
    return ran - longest > window * (1 + fitted.MODELS)


def _latency(parts: Sequence[Node]) -> Iterator[tuple[str, float]]:
    """``mean``, ``max`` and percentiles in ns.

    The percentiles of directions that fio counted apart cannot be combined, so a mix has them only under
    ``unified_rw_reporting``.
    """
    means = [(part.number("mean"), part.whole("N")) for part in parts]
    count = sum(number for _, number in means)
    yield "mean", means[0][0] if len(parts) == 1 else sum(mean * n for mean, n in means) / count if count else 0.0
    yield "max", max(part.number("max") for part in parts)
    tables = [part.node("percentile") for part in parts if "percentile" in part]
    percentiles = {f"p{table.key_number(key):g}": table.number(key) for table in tables for key in table}
    yield from percentiles.items() if len(parts) == 1 else ()


def disagreements(files: LoadFiles, queue: Mapping[str, str], figures: Figures) -> Iterator[tuple[Status, str]]:
    """What I/Os of each role disagree with: its latencies, /proc/diskstats, the counters of its modelled disk.

    FAIL where the kernel counted less than it completed, ERROR otherwise. ``queue`` are the settings of the arm.
    """
    topology, load, counts = files.topology, files.load, queue.get("iostats") != "0"
    moved: dict[str, tuple[float, float]] = {}
    for role in load.roles.values():
        if in_flight(load, role, figures) > fitted.MEAN_ROUNDING:
            ios, mean = (figures[load.name, role.name, metric] for metric in ("total_ios", "lat.mean"))
            most = role.depth * len(role.disks)
            why = f"{mean:.0f} ns each: more than {most} at a time are in flight"
            yield Status.ERROR, f"{ios:.0f} I/Os of {role.name}, {why}"
        luns = {topology.region(disk).lun for disk in role.disks}
        plain = role.direct and len(role.sizes) == 1 and not topology.stacks.keys() & {*role.disks}
        if len(luns) == 1 and plain and role.rw != "trim":
            (lun,) = luns
            done = figures[load.name, role.name, "disk.sectors"] * _SECTOR
            counted, _ = moved.get(lun, (0.0, done))
            moved[lun] = (counted + figures[load.name, role.name, "total_ios"] * role.bs, done)
            if sum(topology.region(disk).lun == lun for other in load.roles.values() for disk in other.disks) == 1:
                yield from ((Status.ERROR, what) for what in _served(files, role, lun, figures))
    for lun, (counted, done) in moved.items():
        if counted > done and counts:
            less = f"the kernel's /proc/diskstats has {done:.0f} with the ramp"
            yield Status.FAIL, f"{counted:.0f} bytes of LUN {lun} in the window, {less}"


def in_flight(load: Load, role: Role, figures: Figures) -> float:
    """I/Os times their mean latency, as a share of what the queue has room for; nan without I/O.

    I/Os of one slot of the queue come one after another; the first and the last reach out of the window.
    """
    ios, mean, longest, ran = (
        figures.get((load.name, role.name, metric), nan) for metric in ("total_ios", "lat.mean", "lat.max", "runtime")
    )
    return ios * mean / (role.depth * len(role.disks) * (max(ran, load.runtime) + 2 * longest))


def _served(files: LoadFiles, role: Role, lun: str, figures: Figures) -> Iterator[str]:
    """A modelled disk counts in nearly the same window; what is in flight at its ends may be in one count alone."""
    load, handler = files.load, window_of(files)
    if handler is None or not load.ramp or figures[load.name, role.name, "runtime"] < load.runtime:
        return
    if lun in handler.paths:
        served, counted = handler.paths[lun].bytes / role.bs, figures[load.name, role.name, "total_ios"]
        edges = 2 * role.depth + 1 + served * abs(1 - handler.time / load.runtime)
        if abs(served - counted) > edges:
            yield f"{counted:.0f} I/Os of {role.name}, {files.name(BootFile.DISKS)} has {served:.0f}"

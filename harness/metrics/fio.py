# SPDX-License-Identifier: GPL-2.0-only
"""fio's own JSON, read strictly: whatever is missing or odd is an error, never a zero.

Rates are per second of guest time, latencies and run times in nanoseconds, bandwidth in bytes
per second. fio counts after its ramp time, so the ramp is in none of these figures.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from errno import EILSEQ

from harness.metrics.node import MeasurementError, Node, parse

_MIXED = "mixed"
_LATENCIES = ("lat", "clat", "slat")
_NS_PER_MS = 1_000_000
_COMPLAINTS = re.compile(rb"\Averify: .*?\n(?=\{)", re.DOTALL)
"""What verifying readers write into the output for each bad block, before the document; they mix their lines."""


def read_fio(
    data: bytes, roles: Mapping[str, int], file: str = "fio.json", window: int | None = None
) -> dict[str, dict[str, float]]:
    """The figures of each role by their names in a ratio; ``data`` is fio's JSON, with jobs named after roles.

    ``roles`` maps the role to its block size in bytes, ``window`` is the run time that was asked for, in ns. fio counts
    the I/Os that it starts before the end of the window, yet divides by the longer time in which those in flight come
    back: 64 requests of 400 ms would lose a sixth of their rate in a window of 2 s; its io_bytes has the stragglers of
    both ends. So rates are the counted I/Os over the window, times the block size for ``bw``. A job without I/O, when
    another had some, was starved: its rates are zero, and it has no latencies.

    Raises MeasurementError for a document that is truncated, lacks a field, holds other jobs than ``roles`` or one
    that failed, and when no job did any I/O.
    """
    document = Node(parse(_COMPLAINTS.sub(b"", data), file), file, "")
    figures: dict[str, dict[str, float]] = {}
    for job in document.nodes("jobs"):
        name = job.text("jobname")
        if name in figures:
            raise MeasurementError(file, f'job "{name}" is reported twice', remedy="set group_reporting with numjobs")
        figures[name] = dict(_figures(job, name, file, window, roles.get(name, 0)))
    if missing := sorted(roles.keys() - figures.keys()):
        raise MeasurementError(file, f"no job for role {', '.join(missing)}")
    if extra := sorted(figures.keys() - roles.keys()):
        raise MeasurementError(file, f"a job that is not a role of this load: {', '.join(extra)}")
    if not any(own["total_ios"] for own in figures.values()):
        remedy = "lengthen window.runtime or look at console.txt"
        raise MeasurementError(file, "no job did any I/O in the window", remedy=remedy)
    return figures


def bytes_read(data: bytes, file: str) -> dict[str, int]:
    """What each job read, with what was in flight at the end. Raises MeasurementError."""
    jobs = Node(parse(_COMPLAINTS.sub(b"", data), file), file, "").nodes("jobs")
    return {job.text("jobname"): job.node("read").whole("io_bytes") for job in jobs}


def _figures(job: Node, name: str, file: str, window: int | None, bs: int) -> Iterator[tuple[str, float]]:
    """The figures of one job: all its directions together."""
    error, bad = job.whole("error"), job.whole("total_err") if "total_err" in job else None
    # A job that goes on after a bad block ends with the first such error.
    if error and not (bad and error == job.whole("first_error") == EILSEQ):
        raise MeasurementError(file, f'fio job "{name}" failed with error {error}')
    ways = [_MIXED] if _MIXED in job else [way for way in ("read", "write", "trim") if way != "trim" or way in job]
    parts = [part for way in ways if (part := job.node(way)).whole("total_ios")]
    iops = sum(part.whole("total_ios") / _seconds(part, window) for part in parts)
    yield from (("iops", float(iops)), ("bw", float(iops * bs)))
    yield "total_ios", float(sum(part.whole("total_ios") for part in parts))
    yield "runtime", float(max((part.whole("runtime") for part in parts), default=0) * _NS_PER_MS)
    if bad is not None:
        yield "verify.bad", float(bad)
    for kind in _LATENCIES if parts else ():
        yield from ((f"{kind}.{key}", value) for key, value in _latency([part.node(f"{kind}_ns") for part in parts]))


def _seconds(part: Node, window: int | None) -> float:
    """The time over which a direction counted its I/Os. A job that ended early counted for less."""
    runtime = part.whole("runtime") * _NS_PER_MS
    counted = runtime if window is None else min(runtime, window)
    return max(counted, _NS_PER_MS) / 1e9


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

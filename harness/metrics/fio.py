# SPDX-License-Identifier: GPL-2.0-only
"""fio's own JSON, read strictly: whatever is missing or odd is an error, never a zero.

Rates are per second of guest time, latencies and run times in nanoseconds, bandwidth in bytes
per second. fio counts after its ramp time, so the ramp is in none of these figures.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from errno import EILSEQ

from harness.metrics.node import MeasurementError, Node, parse
from harness.scenario.metric_names import BAD_BLOCKS

_DIRECTIONS = ("read", "write", "trim")
_MIXED = "mixed"
_LATENCIES = ("lat", "clat", "slat")
_NS_PER_MS = 1_000_000
_COMPLAINTS = re.compile(rb"\Averify: .*?\n(?=\{)", re.DOTALL)
"""What verifying readers write into the output for each bad block, before the document; they mix their lines."""


@dataclass(frozen=True)
class Latency:
    """``percentiles`` maps ``p50``, ``p99.9`` ... to ns; empty where fio did not record them.

    The percentiles of reads and writes that fio counted apart cannot be combined, so a mix has
    them only under ``unified_rw_reporting``.
    """

    count: int
    mean: float
    max: float
    percentiles: Mapping[str, float]


@dataclass(frozen=True)
class Sample:
    """One job over one window: all its directions together. ``runtime`` is the longest, in ns.

    A job that was starved of all I/O has zero ``iops`` and no latencies. ``bad`` counts blocks that a reader could not
    verify; None where nothing is verified.
    """

    iops: float
    bw: float
    total_ios: int
    runtime: int
    latency: Mapping[str, Latency]
    bad: int | None = None

    def metrics(self) -> dict[str, float]:
        """Every figure by the name it has in a ratio: ``iops``, ``bw``, ``lat.mean``, ``clat.p99.9`` ..."""
        figures = {"iops": self.iops, "bw": self.bw, "total_ios": float(self.total_ios), "runtime": float(self.runtime)}
        if self.bad is not None:
            figures[BAD_BLOCKS] = float(self.bad)
        for kind, latency in self.latency.items():
            figures[f"{kind}.mean"] = latency.mean
            figures[f"{kind}.max"] = latency.max
            figures.update({f"{kind}.{name}": value for name, value in latency.percentiles.items()})
        return figures


def read_fio(
    data: bytes, roles: Mapping[str, int], file: str = "fio.json", window: int | None = None
) -> dict[str, Sample]:
    """The sample of each role, from ``fio --output-format=json`` whose jobs are named after roles.

    ``roles`` maps the role to its block size in bytes, ``window`` is the run time that was asked
    for, in ns. fio counts the I/Os that it starts before the end of the window, yet goes on until
    those in flight are back and divides by the longer time: 64 requests of 400 ms would lose a
    sixth of their rate in a window of 2 s. Its io_bytes has the stragglers of both ends and would
    gain as much. So rates are the counted I/Os over the window, times the block size for ``bw``.

    Raises MeasurementError when the document is truncated, lacks a field, holds other jobs than
    ``roles``, reports a job that failed, or when no job did any I/O. A job without I/O, when
    another had some, was starved, which is a result.
    """
    document = Node(parse(_COMPLAINTS.sub(b"", data), file), file, "")
    document.text("fio version")
    samples: dict[str, Sample] = {}
    for job in document.nodes("jobs"):
        name = job.text("jobname")
        if name in samples:
            raise MeasurementError(file, f'job "{name}" is reported twice', remedy="set group_reporting with numjobs")
        samples[name] = _sample(job, name, file, window, roles.get(name, 0))
    _check_roles(samples.keys(), roles, file)
    if not any(sample.total_ios for sample in samples.values()):
        raise MeasurementError(
            file, "no job did any I/O in the window", remedy="lengthen window.runtime or look at console.txt"
        )
    return samples


def _check_roles(found: Collection[str], wanted: Collection[str], file: str) -> None:
    missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if missing:
        raise MeasurementError(file, f"no job for role {', '.join(missing)}")
    if extra:
        raise MeasurementError(file, f"a job that is not a role of this load: {', '.join(extra)}")


def _sample(job: Node, name: str, file: str, window: int | None, bs: int) -> Sample:
    error, bad = job.whole("error"), job.whole("total_err") if "total_err" in job else None
    # A job that goes on after a bad block ends with the first such error.
    if error and not (bad and error == job.whole("first_error") == EILSEQ):
        raise MeasurementError(file, f'fio job "{name}" failed with error {error}')
    parts = [part for part in _directions(job) if part.whole("total_ios")]
    if not parts:
        return Sample(iops=0.0, bw=0.0, total_ios=0, runtime=0, latency={}, bad=bad)
    iops = sum(part.whole("total_ios") / _seconds(part, window) for part in parts)
    return Sample(
        iops=iops,
        bw=iops * bs,
        total_ios=sum(part.whole("total_ios") for part in parts),
        runtime=max(part.whole("runtime") for part in parts) * _NS_PER_MS,
        latency={kind: _combined([_latency(part.node(f"{kind}_ns")) for part in parts]) for kind in _LATENCIES},
        bad=bad,
    )


def _seconds(part: Node, window: int | None) -> float:
    """The time over which a direction counted its I/Os. A job that ended early counted for less."""
    runtime = part.whole("runtime") * _NS_PER_MS
    counted = runtime if window is None else min(runtime, window)
    return max(counted, _NS_PER_MS) / 1e9


def _directions(job: Node) -> list[Node]:
    if _MIXED in job:
        return [job.node(_MIXED)]
    return [job.node(name) for name in _DIRECTIONS if name != "trim" or name in job]


def _latency(node: Node) -> Latency:
    percentiles: dict[str, float] = {}
    if "percentile" in node:
        table = node.node("percentile")
        percentiles = {f"p{table.key_number(key):g}": table.number(key) for key in table}
    return Latency(node.whole("N"), node.number("mean"), node.number("max"), percentiles)


def _combined(parts: Sequence[Latency]) -> Latency:
    if len(parts) == 1:
        return parts[0]
    count = sum(part.count for part in parts)
    mean = sum(part.mean * part.count for part in parts) / count if count else 0.0
    return Latency(count, mean, max(part.max for part in parts), {})

# SPDX-License-Identifier: GPL-2.0-only
"""Service times, seeks and rates of disks from fio's JSON output (``--output-format=json``) on the machine."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from harness.intake.fio_values import fio_size
from lab.base.errors import Misuse
from lab.base.reading import LIMIT, parse_json, read_regular

_REMEDY = "write it with fio --output-format=json --output=FILE JOB.fio"
_NS = 10**9
_RANDOM = {"randread": "read", "randwrite": "write"}
_SEQUENTIAL = {"read": "read", "write": "write"}


@dataclass(frozen=True)
class FioResult:
    """A job's result in one direction. ``latency`` is the mean completion latency in ns, ``rate`` in bytes/s.

    ``depth`` is iodepth times numjobs, ``device`` the last part of its file's name.
    """

    job: str
    device: str
    rw: str
    bs: int
    depth: int
    iops: float
    rate: float
    latency: float
    source: str

    @property
    def random(self) -> bool:
        return self.rw in _RANDOM

    @property
    def words(self) -> str:
        return f"{self.source}: job {self.job}, {self.rw} of {self.bs} bytes at depth {self.depth}"


def read_results(path: Path) -> tuple[FioResult, ...]:
    """Results of jobs that only read or only write. Raises Misuse for a file that is no output of fio."""
    jobs, shared = _jobs(path)
    return tuple(result for job in jobs for result in _of_job(job, shared, path.name))


def reported_iops(path: Path) -> dict[str, float]:
    """Reads and writes a second of each job, by its name; of clones their sum. Raises Misuse."""
    totals: dict[str, float] = {}
    for job in _jobs(path)[0]:
        sides = (job.get(side) for side in ("read", "write"))
        rates = [side.get("iops") for side in sides if isinstance(side, dict)]
        total = sum(float(rate) for rate in rates if isinstance(rate, int | float) and rate > 0)
        name = str(job.get("jobname", ""))
        if total:
            totals[name] = totals.get(name, 0.0) + total
    return totals


def _jobs(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The results of all jobs, and the options that they share."""
    try:
        text = read_regular(path, LIMIT).decode("utf-8", "replace")
        # fio writes warnings in front of the document.
        document = parse_json(text[max(text.find("{"), 0) :])
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror}", remedy="check the path") from error
    except ValueError as error:
        raise Misuse(f"{path} is no JSON: {error}", remedy=_REMEDY) from error
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise Misuse(f'{path} has no list "jobs": it is no output of fio', remedy=_REMEDY)
    common = document.get("global options")
    return jobs, common if isinstance(common, dict) else {}


def _of_job(job: Mapping[str, Any], common: Mapping[str, Any], source: str) -> Iterator[FioResult]:
    own = job.get("job options")
    options = {key: str(value) for key, value in {**common, **(own if isinstance(own, dict) else {})}.items()}
    rw = options.get("rw", options.get("readwrite", "read"))
    side = job.get((_RANDOM | _SEQUENTIAL).get(rw, ""))
    if not isinstance(side, dict):
        return
    latency = side.get("clat_ns", side.get("lat_ns"))
    mean = latency.get("mean") if isinstance(latency, dict) else None
    try:
        bs = fio_size(options.get("bs", options.get("blocksize", "4k")))
        depth = int(options.get("iodepth", "1")) * int(options.get("numjobs", "1"))
    except ValueError:
        return
    iops, rate = side.get("iops"), side.get("bw_bytes")
    if all(isinstance(value, int | float) and value > 0 for value in (iops, rate, mean)):
        device = PurePosixPath(options.get("filename", "")).name
        name = str(job.get("jobname", "?"))[:40]
        yield FioResult(name, device, rw, bs, depth, float(iops), float(rate), float(mean), source)  # type: ignore[arg-type]


def service_result(results: tuple[FioResult, ...], device: str, *, random: bool) -> FioResult | None:
    """The result that says what one request of a device takes: of that device, else of a file of no known device.

    A random job counts only at depth 1: at others its latency includes waiting.
    """
    able = [result for result in results if result.random is random and (result.depth == 1 or not random)]
    return next((result for name in (device, "") for result in able if result.device == name), None)


def access_time(result: FioResult, rate: int, rotation: int) -> int:
    """Nanoseconds of a seek: the latency less the transfer and half a revolution, at least 0."""
    return max(0, round(result.latency - result.bs * _NS / rate - rotation / 2))

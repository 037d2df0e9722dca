# SPDX-License-Identifier: GPL-2.0-only
"""fio's JSON, from files that fio 3.39 wrote; it agrees with latencies, /proc/diskstats and the modelled disk."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from errno import EILSEQ
from pathlib import Path
from typing import Any

import pytest

from harness.figures import fio
from harness.figures.boot import LoadFiles, MeasurementError, parse
from harness.figures.fio import disagreements
from harness.scenario.events import Event
from harness.scenario.model import Load, Role, Status
from lab.topology.load import load_topology
from tests.unit.analysis_samples import MS, SOLO, null_topology, role

FIXTURES = Path(__file__).parent / "fixtures"
RAN = 201 * 10**6
"""ns that the recorded jobs ran."""


def read_fio(
    data: bytes, roles: Iterable[str] = ("victim",), window: int = RAN, numjobs: int = 1, file: str = "fio.json"
) -> dict[str, dict[str, float]]:
    named = {name: Role(name, ("d",), "randread", 4096, 1, "libaio", True, numjobs=numjobs) for name in roles}
    return fio.read_fio(data, Load("load", named, window, 0), file)


def recorded(name: str) -> bytes:
    return (FIXTURES / f"fio-{name}.json").read_bytes()


def altered(name: str, change: Callable[[Any], None]) -> bytes:
    document = json.loads(recorded(name))
    change(document)
    return json.dumps(document).encode()


def test_one_direction_is_read_as_fio_reports_it() -> None:
    sample = read_fio(recorded("aio"))["victim"]
    read = json.loads(recorded("aio"))["jobs"][0]["read"]
    figures = sample
    assert figures["iops"] == pytest.approx(read["iops"])
    assert figures["bw"] == pytest.approx(read["iops"] * 4096)
    assert figures["runtime"] == read["runtime"] * 1e6
    assert figures["lat.p99.9"] == read["lat_ns"]["percentile"]["99.900000"]
    assert figures["clat.p50"] == read["clat_ns"]["percentile"]["50.000000"]
    assert figures["slat.max"] == read["slat_ns"]["max"]


def test_rates_are_over_the_window_or_the_time_of_a_job_that_ended_before() -> None:
    # 64 requests of 400 ms over 2 s, as fio reports them: 160 started, 223 seen to end, 401 ms of waiting.
    def slow(document: Any) -> None:
        document["jobs"][0]["read"].update(total_ios=160, io_bytes=223 * 4096, runtime=2401, iops=66.6389)
        document["jobs"][0]["read"]["lat_ns"]["max"] = 401 * 10**6

    sample = read_fio(altered("aio", slow), window=2 * 10**9)["victim"]
    assert sample["iops"] == 80
    assert sample["bw"] == 80 * 4096
    assert sample["runtime"] == 2401 * 10**6

    def short(document: Any) -> None:
        document["jobs"][0]["read"].update(total_ios=300, runtime=1500)

    assert read_fio(altered("aio", short), window=2 * 10**9)["victim"]["iops"] == 200


def test_rates_of_a_job_that_outlives_its_window_are_over_the_time_it_ran() -> None:
    """20,000 buffered writes, then an fsync until 20.009 s: 999.55 a second, not 20,000 in the 1.5 s of the window."""

    def late(document: Any) -> None:
        document["jobs"][0]["read"].update(total_ios=20_000, runtime=20_009)
        document["jobs"][0]["read"]["lat_ns"]["max"] = 10**6

    sample = read_fio(altered("aio", late), window=1500 * 10**6)["victim"]
    assert sample["iops"] == pytest.approx(20_000 / 20.009)
    assert sample["bw"] == pytest.approx(4096 * 20_000 / 20.009)


def test_a_mix_is_the_sum_of_its_directions_and_has_percentiles_if_fio_counted_it_together() -> None:
    sample = read_fio(recorded("mix"), ("hog", "victim"))["hog"]
    hog = next(job for job in json.loads(recorded("mix"))["jobs"] if job["jobname"] == "hog")
    read, write = hog["read"], hog["write"]
    assert read["total_ios"] and write["total_ios"]
    assert sample["iops"] == pytest.approx(read["iops"] + write["iops"])
    assert sample["bw"] == pytest.approx(sample["iops"] * 4096)
    assert sample["total_ios"] == read["total_ios"] + write["total_ios"]

    def unequal(document: Any) -> None:
        hog = next(job for job in document["jobs"] if job["jobname"] == "hog")
        hog["read"]["lat_ns"].update(N=30, mean=20, max=60)
        hog["write"]["lat_ns"].update(N=10, mean=100, max=100)

    sample = read_fio(altered("mix", unequal), ("hog", "victim"))["hog"]
    assert (sample["lat.mean"], sample["lat.max"]) == (40, 100)
    apart = read_fio(recorded("mix"), ("hog", "victim"))["hog"]
    together = read_fio(recorded("unified"), ("hog",))["hog"]
    assert not [name for name in apart if ".p" in name]
    assert "lat.p99" in together


def drop(*path: str | int) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return change


def put(value: object, *path: str | int) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (drop("jobs"), '"jobs" is missing'),
        (drop("jobs", 0, "read", "runtime"), 'jobs[0].read.runtime" is missing'),
        (drop("jobs", 0, "read", "lat_ns"), 'jobs[0].read.lat_ns" is missing'),
        (drop("jobs", 0, "error"), 'jobs[0].error" is missing'),
        (put(5, "jobs", 0, "error"), 'job "victim" failed with error 5'),
        (put("many", "jobs", 0, "read", "runtime"), "is not a figure: 'many'"),
        (put(-1, "jobs", 0, "read", "total_ios"), "is not a figure: -1"),
        (put(True, "jobs", 0, "read", "runtime"), "is not a figure: True"),
        (put(1.5, "jobs", 0, "read", "total_ios"), "is not a whole number: 1.5"),
        (put(0, "jobs", 0, "read", "total_ios"), "no job did any I/O"),
        (put([], "jobs"), "no job for role victim"),
        (put({}, "jobs"), '"jobs" is not a list'),
        (put("hog", "jobs", 0, "jobname"), "no job for role victim"),
        (put(float("nan"), "jobs", 0, "read", "iops"), "NaN is not a figure"),
    ],
)
def test_what_is_missing_or_odd_is_named(change: Callable[[Any], None], says: str) -> None:
    with pytest.raises(MeasurementError) as caught:
        read_fio(altered("aio", change), file="solo.json")
    assert caught.value.file == "solo.json"
    assert says in caught.value.message


@pytest.mark.parametrize("said", [b"", b"r : Saving output of prerun in r.prerun.txt\n"])
@pytest.mark.parametrize("cut", [b" at file /lab/y\n", b" at file /lab/y, length 65536 "])
def test_bad_blocks_of_a_verifying_reader_are_counted_and_other_errors_fail(said: bytes, cut: bytes) -> None:
    def verified(bad: int, error: int, first: int) -> bytes:
        def change(document: Any) -> None:
            document["jobs"][0].update(error=error, total_err=bad, first_error=first)

        complaint = b"verify: bad magic header 0, wanted acca at file /lab/x offset 0, length 4096\n"
        return (said if bad else b"") + bad * (complaint + cut) + altered("aio", change)

    def read(data: bytes) -> float:
        return read_fio(data)["victim"]["verify.bad"]

    assert (read(verified(0, 0, 0)), read(verified(7, EILSEQ, EILSEQ))) == (0, 7)
    assert "verify.bad" not in read_fio(recorded("aio"))["victim"]
    for bad, error, first in ((7, 5, EILSEQ), (7, 5, 5), (0, EILSEQ, EILSEQ)):
        with pytest.raises(MeasurementError, match=f"failed with error {error}"):
            read(verified(bad, error, first))


def test_errors_of_a_load_in_which_io_may_fail_are_counted() -> None:
    def change(document: Any) -> None:
        document["jobs"][0].update(error=5, total_err=8, first_error=5)
        document["jobs"][0]["read"]["total_ios"] += 8

    def read(events: tuple[Event, ...]) -> dict[str, float]:
        load = Load("load", {"victim": role("victim", "d")}, RAN, 0, events=events)
        return fio.read_fio(altered("aio", change), load, "fio.json")["victim"]

    failing = read((Event(0, disk="d0", write="config/badblocks", to="+0-7", errors=True),))
    assert failing == read_fio(recorded("aio"))["victim"] | {"errors": 8}
    with pytest.raises(MeasurementError, match="failed with error 5"):
        read(())


def test_jobs_that_all_end_early_measured_no_window() -> None:
    """As a clone of fio without a file did: it ended after 2 ms, and with it the other, which had one I/O."""

    def ran(milliseconds: int) -> dict[str, dict[str, float]]:
        def change(document: Any) -> None:
            document["jobs"][0]["read"].update(runtime=milliseconds, total_ios=1)
            document["jobs"][0]["read"]["lat_ns"].update(max=10**6)

        return read_fio(altered("aio", change), window=200_000_000)

    with pytest.raises(MeasurementError, match="all jobs ended after 3 ms of a window of 200 ms"):
        ran(2)
    assert ran(99)["victim"]["total_ios"] == 1, "one I/O that began by the middle of the window may be the last"


def test_a_role_without_io_was_starved_when_another_had_some() -> None:
    def starve(document: Any) -> None:
        job = next(job for job in document["jobs"] if job["jobname"] == "victim")
        job["read"].update(total_ios=0, iops=0.0, bw_bytes=0)

    samples = read_fio(altered("mix", starve), ("hog", "victim"))
    assert samples["victim"] == {"iops": 0.0, "bw": 0.0, "total_ios": 0.0, "runtime": 0.0}
    assert samples["hog"]["iops"] > 0


def test_jobs_that_are_no_role_reported_twice_or_failed_are_refused() -> None:
    with pytest.raises(MeasurementError, match=r"^fio\.json: is empty"):
        read_fio(b"")
    with pytest.raises(MeasurementError, match="not a role of this load: hog"):
        read_fio(recorded("mix"))

    def twice(document: Any) -> None:
        document["jobs"] *= 2

    def more(document: Any) -> None:
        document["jobs"] += [{**document["jobs"][0], "jobname": name} for name in "gfedcba"]

    with pytest.raises(MeasurementError, match="not a role of this load: a, b, c, d, e, f, g"):
        read_fio(altered("aio", more))
    with pytest.raises(MeasurementError, match="no job for role a, b, c, d, e, f, g"):
        read_fio(recorded("aio"), ("victim", *"gfedcba"))
    with pytest.raises(MeasurementError, match='victim" is reported 2 times, not 1'):
        read_fio(altered("aio", twice))
    with pytest.raises(MeasurementError, match="fio: pid=0, err=1"):
        read_fio(recorded("failed"))


@pytest.mark.parametrize("length", [0, 1, 700, -3])
def test_a_truncated_file_is_refused(length: int) -> None:
    with pytest.raises(MeasurementError):
        read_fio(recorded("aio")[:length])


def test_what_is_no_json_is_quoted_with_its_first_60_bytes() -> None:
    with pytest.raises(MeasurementError, match=f'it starts with "{{\ufffd{58 * "a"}"$'):
        parse(b" {\xff" + 70 * b"a", "fio.json")


def test_a_job_need_not_count_discards() -> None:
    without = altered("aio", lambda document: document["jobs"][0].pop("trim", None))
    assert read_fio(without) == read_fio(recorded("aio"))


SECTORS = 8
"""Of an I/O of 4 KiB."""


def texts(disagreeing: Iterable[tuple[Status, str]]) -> list[str]:
    """The kernel's own counters are its fault, and nothing else is."""
    every = [*disagreeing]
    assert all((status is Status.FAIL) == ("/proc/diskstats" in text) for status, text in every)
    return [text for _, text in every]


def said(
    ios: float,
    done: float,
    *,
    lat: float = 1.0,
    load: Load = SOLO,
    longest: float = 0.0,
    sharing: float = 0.0,
    iostats: str = "1",
) -> list[str]:
    """What 64 slots in a window of 8 s disagree with: ``done`` I/Os in diskstats, ``lat`` and ``longest`` in ms."""
    figures: dict[tuple[str, str, str], float] = {}
    for each, count in (("fast", ios), ("other", sharing)):
        own = {"total_ios": count, "lat.mean": lat * MS, "lat.max": longest * MS, "runtime": 8000.0 * MS}
        figures |= {(load.name, each, name): value for name, value in {**own, "disk.sectors": done * SECTORS}.items()}
    return texts(disagreements(LoadFiles({}, null_topology(), load), {"iostats": iostats}, figures))


def test_no_more_bytes_are_moved_in_a_window_than_with_its_ramp() -> None:
    assert said(1000, 1000) == []
    assert said(1001, 1000) == [
        "4100096 bytes of LUN fast in the window, the kernel's /proc/diskstats has 4096000 with the ramp",
    ]
    assert said(1001, 0, iostats="0") == []
    buffered = replace(SOLO, roles={"fast": replace(SOLO.roles["fast"], direct=False)})
    assert said(1001, 1000, load=buffered) == []
    several = replace(SOLO.roles["fast"], options={"bssplit": "4k/50:8k/50"})
    assert said(1001, 1000, load=replace(SOLO, roles={"fast": several})) == []
    both = replace(SOLO, roles={"fast": role("fast", "fast"), "other": role("other", "fast")})
    assert said(600, 1000, load=both, sharing=400) == []
    assert said(600, 1000, load=both, sharing=401)


def test_ios_fit_into_the_slots_of_the_queue() -> None:
    """64 slots for 8 s are 512 s: 128,000 I/Os of 4 ms; the first and the last of a slot reach out by their latency."""
    assert said(128_000, 10**6, lat=4) == []
    assert said(134_400, 10**6, lat=4) == ["134400 I/Os of fast, 4000000 ns each: more than 64 at a time are in flight"]
    assert said(134_400, 10**6, lat=4, longest=201) == []


def handled(counted: float, served: int, *, ran: float = 2000.0, time: float = 2000.0, ramp: int = 1000) -> list[str]:
    """What a reader with one request in flight disagrees with, for whom a disk served so many in ``time`` ms."""
    topology = load_topology("calibration-tcmu", near=Path())
    load = Load("solo", {"one": role("one", "alone", iodepth=1)}, 2000 * MS, ramp * MS)

    def state(at: float, done: int) -> bytes:
        path = {"queued": 0, "requests": done, "bytes": done * 4096}
        return json.dumps({"time": int(at * MS), "disks": {}, "links": {}, "paths": {"alone": path}}).encode()

    files = {"solo.before.disks.json": state(0, 0), "solo.after.disks.json": state(time, served)}
    own = {"total_ios": counted, "lat.mean": 0.0, "lat.max": 0.0, "runtime": ran * MS, "disk.sectors": 1e9}
    figures = {("solo", "one", name): value for name, value in own.items()}
    return texts(disagreements(LoadFiles(files, topology, load), {}, figures))


def test_a_modelled_disk_serves_what_fio_counts_but_for_what_is_in_flight() -> None:
    """One request may be in one count alone at each end, and the disk's window may be shorter by a known time."""
    assert handled(2200, 2203) == handled(2206, 2203) == []
    assert handled(2310, 2200) == ["2310 I/Os of one, solo.after.disks.json has 2200"]
    assert handled(2204, 2200) and not handled(2204, 2200, time=1998.0)
    assert not handled(2310, 2200, ran=1900.0) and not handled(2310, 2200, ramp=0)

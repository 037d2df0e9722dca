# SPDX-License-Identifier: GPL-2.0-only
"""fio's counts against latencies, /proc/diskstats and the modelled disk, on figures whose limits are computed here."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from harness.figures.boot import LoadFiles
from harness.figures.fio import disagreements
from harness.scenario.model import Load, Status
from lab.topology.load import load_topology
from tests.unit.analysis_samples import MS, SOLO, null_topology, role

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

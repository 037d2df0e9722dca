# SPDX-License-Identifier: GPL-2.0-only
"""What the sampler and the disk handler leave behind; the files in fixtures/samples are of a boot of 6.1.

It ran load together of scenarios/calibration/tcmu.yaml: two disks of 8 MB/s on a link of 12 MB/s, one on its own.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.metrics.figures import handled_figures
from harness.metrics.node import MeasurementError
from harness.metrics.occupancy import HandlerWindow, Samples, read_handler, read_samples
from lab.topology.load import load_topology
from tests.unit.analysis_samples import load, role

FIXTURES = Path(__file__).parent / "fixtures" / "samples"
SAMPLES = (FIXTURES / "together.samples.json").read_bytes()
BEFORE = (FIXTURES / "together.before.disks.json").read_bytes()
AFTER = (FIXTURES / "together.after.disks.json").read_bytes()


def samples(data: bytes = SAMPLES) -> Samples:
    return read_samples(data, "together.samples.json")


def handler(before: bytes = BEFORE, after: bytes = AFTER) -> HandlerWindow:
    return read_handler(before, after, "together")


def test_samples_of_a_boot() -> None:
    seen = samples()
    assert set(seen.series) == {
        *(f"{kind}[{lun}]" for kind in ("inflight", "device_busy") for lun in ("stream", "seeking", "left", "right")),
        *("inflight[alone]", "device_busy[alone]", "host_busy[loop]"),
    }
    host = seen.series["host_busy[loop]"]
    assert (host.count, host.max, host.ended) == (1002, 12, "")
    assert host.mean == pytest.approx(12, rel=0.01)
    assert host.values[12] > 0.99 * host.count
    assert len(host.parts) == 100
    assert seen.series["inflight[stream]"].mean == 0.0
    assert seen.ended - seen.began == pytest.approx(10**10, rel=1e-4)
    assert (seen.period, seen.missed) == (9_973_000, 0)
    assert 0 < seen.cost < 0.01
    assert seen.cpus == 1
    two = json.loads(SAMPLES)
    two["cpu"]["ticks"] *= 2
    assert samples(json.dumps(two).encode()).cpus == 2


def test_rates_and_seeks_at_the_disks_are_those_of_the_window_alone() -> None:
    files = {"together.before.disks.json": BEFORE, "together.after.disks.json": AFTER}
    topology = load_topology("calibration-tcmu", near=Path())
    both = load("together", role("pair", ("left", "right")), role("one", "alone"))
    figures = dict(handled_figures(files, both, topology))
    assert figures["together", "pair", "members.bw"] == pytest.approx(12e6, rel=0.01)
    assert figures["together", "one", "members.iops"] == pytest.approx(8e6 / 65536, rel=0.01)
    assert not list(handled_figures({}, both, topology))
    with pytest.raises(MeasurementError, match="counted nothing for alone"):
        list(
            handled_figures({name: data.replace(b'"alone"', b'"gone"') for name, data in files.items()}, both, topology)
        )
    after = json.loads(AFTER)
    after["disks"]["left"]["seeks"] = 458
    files = {"together.before.disks.json": BEFORE, "together.after.disks.json": json.dumps(after).encode()}
    topology = load_topology("calibration-tcmu", near=Path())
    both = load("together", role("pair", ("left", "right")), role("idle", "seeking"))
    figures = dict(handled_figures(files, both, topology))
    # 458 of left's 916 requests, none of right's 915.
    assert figures["together", "pair", "members.seeks"] == pytest.approx(458 / 1831)
    assert ("together", "idle", "members.seeks") not in figures, "no request, no share"


def test_counters_of_a_boot() -> None:
    use = handler()
    assert use.time == pytest.approx(10**10, rel=1e-4)
    assert use.links["narrow"] == pytest.approx(1, abs=1e-3)
    assert use.links["wide"] == pytest.approx(8 / 12, abs=1e-3)
    # Each of the two has half of 12 MB/s, so 8 MB/s stand still for a quarter of the time.
    assert use.disks["left"].waited == pytest.approx(1 / 4, abs=1e-3)
    assert use.disks["alone"].waited == 0.0
    assert {name: round(disk.busy, 2) for name, disk in use.disks.items()} == {
        **dict.fromkeys(("left", "right", "alone"), 1.0),
        **dict.fromkeys(("stream", "seeking"), 0.0),
    }
    assert use.paths["left"].bytes + use.paths["right"].bytes == pytest.approx(120e6, rel=0.01)
    assert use.paths["left"].depth == pytest.approx(4, rel=0.01)
    assert use.paths["stream"].requests == 0


def changed(data: bytes, *path: str, to: Any) -> bytes:
    """The document with another value at ``path``, or without it where that is None."""
    document = json.loads(data)
    *folders, last = path
    place = document
    for key in folders:
        place = place[key]
    if to is None:
        del place[last]
    else:
        place[last] = to
    return json.dumps(document).encode()


HOST = ("series", "host_busy[loop]")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (SAMPLES[:-40], "not complete JSON"),
        (changed(SAMPLES, "period", to=None), 'field "period" is missing'),
        (changed(SAMPLES, "cpu", "ticks", to=0), 'field "cpu.ticks" is zero: the sampler did not see the load begin'),
        (changed(SAMPLES, *HOST, "count", to=7), "does not add up"),
        (changed(SAMPLES, *HOST, "max", to=-1), "is not a figure"),
        (changed(SAMPLES, *HOST, "histogram", to={"many": 3}), "is not a figure"),
        (changed(SAMPLES, *HOST, "parts", to=["x"]), "something else than numbers"),
        (changed(SAMPLES, "ended", to=1), "ends before it begins"),
    ],
)
def test_samples_that_cannot_be_believed(data: bytes, says: str) -> None:
    with pytest.raises(MeasurementError, match=says):
        samples(data)


def test_a_series_that_ended_says_why() -> None:
    data = changed(SAMPLES, "ended_early", to={"host_busy[loop]": "No such device"})
    assert samples(data).series["host_busy[loop]"].ended == "No such device"


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (AFTER, BEFORE, "no time passed"),
        (BEFORE, changed(AFTER, "disks", "left", to=None), "other rows"),
        (BEFORE, changed(AFTER, "links", "narrow", "busy", to=1), "went backwards"),
        (BEFORE, changed(AFTER, "paths", "left", "queued", to=None), "is missing"),
    ],
)
def test_counters_that_cannot_be_believed(before: bytes, after: bytes, says: str) -> None:
    with pytest.raises(MeasurementError, match=says):
        handler(before, after)

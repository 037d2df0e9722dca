# SPDX-License-Identifier: GPL-2.0-only
"""What the sampler and the disk handler leave behind; the files in fixtures/samples are of a boot of 6.1.

It ran load together of scenarios/calibration/tcmu.yaml: two disks of 8 MB/s on a link of 12 MB/s, one on its own.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.base.checkout import SCENARIOS
from harness.figures.boot import LoadFiles, MeasurementError
from harness.figures.read import figures_of
from harness.figures.samples import HandlerWindow, Samples, Series, disk_figures, read_handler, read_samples
from harness.scenario.load import read_scenario
from harness.scenario.ratio import ExpressionError, Names, parse_ratio, sampled_names
from lab.base.errors import InputErrors
from lab.topology.load import load_topology
from lab.topology.model import Driver, Lun, Topology
from tests.unit.analysis_samples import TOGETHER, load, null_topology, role
from tests.unit.store_samples import files

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
    two["spent"] = (two["ended"] - two["began"]) // 2
    seen = samples(json.dumps(two).encode())
    assert seen.cpus == 2
    assert seen.cost == pytest.approx(0.5)


def test_times_of_the_cpu_are_in_ns_and_in_ticks_of_older_labs() -> None:
    passed = json.loads(SAMPLES)["cpu"]
    for resolution in (1, 2, 10_000_000):
        times = {"elapsed": passed["ticks"] * 10**7, "idle": passed["idle"] * 10**7, "resolution": resolution}
        assert samples(changed(SAMPLES, "cpu", to=times)) == replace(samples(), in_ticks=resolution > 1)
    exact = samples(changed(SAMPLES, "cpu", to={"elapsed": 20 * 10**9, "idle": 5 * 10**9 + 1, "resolution": 1}))
    assert (exact.idle, exact.cpus) == ((5 * 10**9 + 1) / (20 * 10**9), 2)


def test_a_window_shorter_than_half_of_a_tick_has_a_cpu() -> None:
    began = json.loads(SAMPLES)["began"]
    short = changed(changed(SAMPLES, "cpu", to={"ticks": 1, "idle": 0}), "ended", to=began + 25_000_000)
    assert samples(short).cpus == 1


@pytest.mark.parametrize(("resolution", "idle"), [(1, 10**10 + 1), (10**7, 14 * 10**9)])
def test_no_cpu_is_idle_for_longer_than_the_window(resolution: int, idle: int) -> None:
    """In ticks somewhat longer, as the kernel takes iowait back: 4.62 s of 3.998 in a boot of 7.2."""
    times = {"elapsed": 10**10, "idle": idle, "resolution": resolution}
    with pytest.raises(MeasurementError, match=rf'"cpu.idle" is {idle} ns of {10**10} ns'):
        samples(changed(SAMPLES, "cpu", to=times))
    times["idle"] = 10**10 if resolution == 1 else 13 * 10**9
    assert samples(changed(SAMPLES, "cpu", to=times)).idle == 1.0


def test_rates_and_seeks_at_the_disks_are_those_of_the_window_alone() -> None:
    files = {"together.before.disks.json": BEFORE, "together.after.disks.json": AFTER}
    topology = load_topology("calibration-tcmu", near=Path())
    both = load("together", role("pair", ("left", "right")), role("one", "alone"))
    figures = dict(disk_figures(LoadFiles(files, topology, both), {}))
    assert figures["together", "pair", "members.bw"] == pytest.approx(12e6, rel=0.01)
    assert figures["together", "one", "members.iops"] == pytest.approx(8e6 / 65536, rel=0.01)
    for name, data in files.items():
        assert not list(disk_figures(LoadFiles({name: data}, topology, both), {}))
    with pytest.raises(MeasurementError, match="counted nothing for alone"):
        gone = {name: data.replace(b'"alone"', b'"gone"') for name, data in files.items()}
        list(disk_figures(LoadFiles(gone, topology, both), {}))
    others = {name: data.replace(b'"right"', b'"r"').replace(b'"left"', b'"l"') for name, data in files.items()}
    with pytest.raises(MeasurementError, match="counted nothing for left"):
        list(disk_figures(LoadFiles(others, topology, both), {}))
    after = json.loads(AFTER)
    after["disks"]["left"]["seeks"] = 458
    files = {"together.before.disks.json": BEFORE, "together.after.disks.json": json.dumps(after).encode()}
    topology = load_topology("calibration-tcmu", near=Path())
    both = load("together", role("pair", ("left", "right")), role("idle", "seeking"))
    figures = dict(disk_figures(LoadFiles(files, topology, both), {}))
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
        (changed(SAMPLES, "cpu", to={"elapsed": 0, "idle": 0}), 'field "cpu.elapsed" is zero'),
        (changed(SAMPLES, "cpu", to={"elapsed": 7}), 'field "cpu.idle" is missing'),
        (changed(SAMPLES, "cpu", to={"idle": 7}), 'field "cpu.elapsed" is missing'),
        (changed(SAMPLES, *HOST, "count", to=1003), "does not add up"),
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
        (BEFORE, BEFORE, "no time passed"),
        (BEFORE, changed(AFTER, "disks", "left", to=None), "other rows"),
        (BEFORE, changed(AFTER, "links", "narrow", "busy", to=1), "went backwards"),
        (BEFORE, changed(AFTER, "paths", "alone", "bytes", to=0), "went backwards"),
        (BEFORE, changed(AFTER, "paths", "left", "queued", to=None), "is missing"),
    ],
)
def test_counters_that_cannot_be_believed(before: bytes, after: bytes, says: str) -> None:
    with pytest.raises(MeasurementError, match=says):
        handler(before, after)


HISTOGRAMS: Mapping[str, Mapping[int, int]] = {"fast": {0: 196, 5: 4}, "slow": {32: 200}}


def series(histogram: Mapping[int, int]) -> dict[str, object]:
    total = sum(value * count for value, count in histogram.items())
    table = {str(value): count for value, count in histogram.items()}
    count = sum(histogram.values())
    return {"count": count, "sum": total, "max": max(histogram), "larger": 0, "histogram": table, "parts": []}


def figures(topology: Topology, load: object = TOGETHER, **more: Mapping[int, int]) -> dict[tuple[str, str], float]:
    """Figures of load together that were sampled, by role and metric."""
    name = "together.samples.json"
    document = json.loads(files()[name])
    held = "device_busy" if topology.hbas["nullb"].driver is Driver.TCM_LOOP else "inflight"
    document["cpu"] = {"ticks": 200, "idle": 150}
    document["series"] = {f"{held}[{lun}]": series(histogram) for lun, histogram in HISTOGRAMS.items()}
    document["series"] |= {f"host_busy[{host}]": series(histogram) for host, histogram in more.items()}
    seen = figures_of({**files(), name: json.dumps(document).encode()}, topology, (load,))  # type: ignore[arg-type]
    return {key[1:]: value for key, value in seen.items() if key[1] in ("lun", "host", "guest")}


def test_tags_are_held_free_or_waited_for() -> None:
    found = figures(null_topology())
    assert found["lun", "fast.tags.mean"] == 0.1
    assert found["lun", "fast.tags.max"] == 5
    assert found["lun", "fast.tags.none"] == 0.98
    assert found["lun", "fast.waiting.mean"] == 63.9
    assert (found["lun", "slow.tags.mean"], found["lun", "slow.tags.none"]) == (32, 0)
    assert found["host", "nullb.tags.mean"] == pytest.approx(32.1)
    assert found["host", "nullb.tags.free"] == pytest.approx(31.9)
    assert found["guest", "cpu.idle"] == 0.75


def test_a_host_holds_the_tags_of_its_own_luns() -> None:
    topology = null_topology()
    hosts = {**topology.hbas, "other": replace(topology.hbas["nullb"], name="other")}
    luns = {**topology.luns, "slow": replace(topology.luns["slow"], hba="other")}
    found = figures(replace(topology, hbas=hosts, luns=luns))
    assert (found["host", "nullb.tags.mean"], found["host", "other.tags.mean"]) == (0.1, 32)


def test_a_scsi_host_counts_commands_and_not_the_tags_of_requests_that_wait() -> None:
    topology = null_topology()
    host = replace(topology.hbas["nullb"], driver=Driver.TCM_LOOP, cmd_per_lun=16)
    topology = replace(topology, hbas={"nullb": host})
    found = figures(topology, nullb={40: 100, 44: 100})
    assert found["host", "nullb.commands.mean"] == 42
    assert (found["lun", "fast.commands.mean"], found["lun", "fast.commands.none"]) == (0.1, 0.98)
    assert not [metric for _, metric in found if ".tags." in metric]


def test_free_tags_are_those_that_can_queue_leaves_in_a_single_set() -> None:
    topology = null_topology()
    topology = replace(topology, hbas={"nullb": replace(topology.hbas["nullb"], cmd_per_lun=16)})
    assert figures(topology)["host", "nullb.tags.free"] == pytest.approx(31.9)
    topology = null_topology()
    host = topology.hbas["nullb"]
    for several in (replace(host, hw_queues=2), replace(host, poll_queues=1)):
        assert ("host", "nullb.tags.free") not in figures(replace(topology, hbas={"nullb": several}))


def test_waiting_requests_and_free_tags_are_those_of_sampled_luns() -> None:
    shallow = replace(TOGETHER, roles={**TOGETHER.roles, "slow": role("slow", "slow", iodepth=16)})
    assert figures(null_topology(), shallow)["lun", "slow.waiting.mean"] == 0
    topology = null_topology()
    disks = {**topology.disks, "third": replace(topology.disks["slow"], name="third")}
    luns = {**topology.luns, "third": Lun("third", "nullb", ("third",))}
    found = figures(replace(topology, disks=disks, luns=luns))
    assert ("host", "nullb.tags.free") not in found
    assert ("lun", "fast.tags.mean") in found


@pytest.mark.parametrize(
    "change",
    [
        *({"options": {key: "5"}} for key in ("rate", "rate_iops", "thinktime")),
        {"direct": False},
        {"ioengine": "psync"},
    ],
)
def test_a_role_that_paces_itself_does_not_wait_for_tags(change: dict[str, object]) -> None:
    paced = replace(role("fast", "fast"), **change)  # type: ignore[arg-type]
    found = figures(null_topology(), replace(TOGETHER, roles={**TOGETHER.roles, "fast": paced}))
    assert ("lun", "fast.waiting.mean") not in found
    assert found["lun", "slow.waiting.mean"] == 32


NAMES = Names(("none",), {"together": ("fast",)}, sampled={"none": sampled_names(null_topology())})


@pytest.mark.parametrize(
    "text",
    ["none.together.lun.fast.tags.mean", "none.together.host.nullb.tags.free / 64", "none.together.guest.cpu.idle"],
)
def test_sampled_figures_can_be_operands(text: str) -> None:
    assert parse_ratio(text, NAMES).left.path[:2] == ("none", "together")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("none.together.lun.fats.tags.mean", r"no lun of arm none: fats.*fast"),
        ("none.together.lun.fast.tags.free", r"no sampled figure of a lun: tags.free"),
        ("none.together.host.h0.tags.free", r"no host of arm none: h0"),
        ("none.together.guest.idle", r"no figure of the guest: idle"),
        ("none.together.fast.iops / bound.none.together.lun.fast.tags.mean", r"no role of load together: lun"),
    ],
)
def test_what_no_sample_names_is_refused(text: str, says: str) -> None:
    with pytest.raises(ExpressionError, match=says):
        parse_ratio(text, NAMES)


def test_a_diagnosis_of_each_arm_is_one_for_every_arm_that_has_what_it_names(tmp_path: Path) -> None:
    text = (SCENARIOS / "null-shared-tags.yaml").read_text()
    of = read_scenario("null-shared-tags")
    named = [sorted({one.ratio.left.path[0] for one in diagnosis.when}) for diagnosis in of.diagnoses]
    assert named[: len(of.arms)] == [[arm] for arm in of.arms]
    path = tmp_path / "null-shared-tags.yaml"
    path.write_text(text.replace("*.together.lun.slow.tags.mean / 32", "*.together.lun.slwo.tags.mean / 32"))
    with pytest.raises(InputErrors, match="no lun of arm mq-deadline: slwo"):
        read_scenario(str(path))


def test_series_without_samples_and_windows_of_one_ns() -> None:
    assert Series(0, 0, 0, 0, {}, ()).mean == 0.0
    at_once = changed(SAMPLES, "ended", to=json.loads(SAMPLES)["began"])
    assert samples(at_once).cost == json.loads(SAMPLES)["spent"]
    later = changed(BEFORE, "time", to=json.loads(BEFORE)["time"] + 1)
    assert read_handler(BEFORE, later, "together").time == 1

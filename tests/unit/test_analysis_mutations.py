# SPDX-License-Identifier: GPL-2.0-only
"""One-line mutations of judge, limits and metrics that the other tests do not notice: a test for each."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.figures.boot import MeasurementError
from harness.figures.read import figures_of, overridden, read_tried
from harness.figures.samples import read_handler, read_samples
from harness.judge.cells import CellResult, Ensemble, Evidence, Unavailable, _mean, window_values
from harness.judge.verdict import judge
from harness.limits.bottleneck import NOTHING, bottleneck, changes
from harness.limits.filling import Flow, FlowChoice, FlowElement, FlowKind, fill
from harness.limits.limits import arm_bound
from harness.limits.queues import ElementKind
from harness.scenario.model import Arm, Status
from lab.base.record import Outcome
from lab.topology.model import Lun
from tests.unit.analysis_samples import AT_MOST, SHARE, TOGETHER, cell, claim, control, load, null_topology, ratio, role
from tests.unit.analysis_samples import scenario as sample
from tests.unit.bottleneck_samples import disks, each, held, named, scenario, use
from tests.unit.store_samples import files, sampled
from tests.unit.test_bottleneck import TWO, bucket_load
from tests.unit.test_figures_counters import RR, TWO_PATHS
from tests.unit.test_figures_fio import altered, read_fio
from tests.unit.test_figures_samples import AFTER, BEFORE, SAMPLES, changed
from tests.unit.test_figures_samples import figures as sampled_figures


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_ensemble_is_of_finite_values(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Ensemble({1: 1.0, 2: value})


def test_of_several_reasons_the_worst_status_counts_whatever_the_order() -> None:
    dead = replace(cell("none", 2, 5), status=Status.FAIL, figures={}, reasons=("it died",))
    for results in (
        [CellResult("none", 1, Status.SKIP, ("no null_blk",)), dead],
        [replace(dead, seed=1), CellResult("none", 2, Status.SKIP, ("no",))],
    ):
        verdict = judge(sample([claim()]), results)
        assert (verdict.claims[0].judgement.status, verdict.claims[0].sentence) == (Status.FAIL, "arm none: it died")


def test_windows_are_compared_as_far_as_all_boots_have_them() -> None:
    model = sample([claim()], arms=["none", "red"])
    many, few = cell("none", 1, 95), cell("red", 1, 95)
    results = {
        ("none", 1): replace(many, windows=(many.figures,) * 3),
        ("red", 1): replace(few, windows=(few.figures,) * 2),
    }
    results["blue", 1] = cell("blue", 1, 95)
    assert window_values(SHARE, 1, Evidence(model, results)) == (0.95, 0.95)
    assert window_values(SHARE, 1, Evidence(model, {("none", 1): many, ("red", 1): few})) == ()


def test_windows_of_both_kernels_are_paired() -> None:
    """100 and 90 I/Os a second over 50 and 60 of BASE."""
    against = ratio("none.together.fast.iops", "baseline.none.together.fast.iops")
    ours, base = (
        {
            ("none", 1): replace(
                cell("none", 1, first), windows=tuple(cell("none", 1, iops).figures for iops in (first, last))
            )
        }
        for first, last in ((100, 90), (50, 60))
    )
    evidence = Evidence(sample([claim(of=against)]), ours, base)
    assert window_values(against, 1, evidence) == (2.0, 1.5)
    with pytest.raises(Unavailable) as lacking:
        window_values(against, 1, Evidence(evidence.scenario, ours))
    assert (lacking.value.status, lacking.value.reason) == (Status.SKIP, "no BASE kernel given")


def test_a_mutant_that_hangs_one_guest_and_kills_another_is_not_red() -> None:
    dead = [
        replace(cell("none", seed, 5), status=Status.FAIL, figures={}, reasons=("it died",), outcome=outcome)
        for seed, outcome in ((1, Outcome.HANG), (2, Outcome.OOPS), (3, Outcome.HANG))
    ]
    model = sample([claim()], [replace(control(AT_MOST, SHARE, mutant="no-fair-tags"), hangs=True)])
    judged = judge(model, dead, mutant="no-fair-tags").controls[0].judgement
    assert judged is not None and judged.status is Status.ERROR


def test_a_window_without_io_counts_in_the_mean() -> None:
    assert _mean([0.0, 4.0]) == 2.0
    assert _mean([1.0, 4.0]) == pytest.approx(2.0)


def test_the_least_latency_is_that_of_the_requests_that_nr_requests_lets_in() -> None:
    arm = Arm("few", null_topology(), {"nr_requests": "8"}, {})
    # 8 in flight on a LUN that finishes 8 / 4 ms.
    assert arm_bound(arm, load("solo", role("fast", "fast")), "fast", "lat.mean") == pytest.approx(4e6)


def test_a_depth_that_nothing_waits_for_does_not_bind() -> None:
    arm, of = bucket_load()
    host = replace(arm.topology.hbas["loop"], can_queue=16, cmd_per_lun=16)
    arm = replace(arm, topology=replace(arm.topology, hbas={"loop": host}))
    full = replace(TWO, luns={"serial-1": held(14), "serial-8": held(2)}, hosts={"loop": held(16)})
    found = bottleneck(arm, of, [full], {"hog": 4096, "victim": 4096})
    assert [one.binds for one in found.elements if one.kind is ElementKind.LUN_DEPTH] == [False]
    arm, of = bucket_load()
    host = replace(arm.topology.hbas["loop"], can_queue=128, cmd_per_lun=128)
    full = replace(TWO, luns={"serial-1": held(64), "serial-8": held(64)}, hosts={"loop": held(128)})
    arm = replace(arm, topology=replace(arm.topology, hbas={"loop": host}))
    # Their token buckets give 250 and 2,000 I/Os a second.
    moved = {"hog": 150 * 4096, "victim": 1200 * 4096}
    assert bottleneck(arm, of, [full], moved).label == "role.hog, victim.iodepth"


def test_a_pace_limits_the_load_where_each_disk_of_each_role_keeps_it() -> None:
    arm, of = bucket_load()
    paced = replace(of.roles["victim"], options={"rate_iops": "100"})
    idle = replace(TWO, luns={name: held(1) for name in TWO.luns}, hosts={"loop": held(2)})
    of = replace(of, roles={**of.roles, "victim": paced})
    assert bottleneck(arm, of, [idle], {"hog": 50 * 4096, "victim": 100 * 4096}).label == NOTHING
    arm, of = bucket_load()
    both = replace(of.roles["hog"], disks=("serial-1", "serial-8"), options={"rate_iops": "100"})
    idle = replace(TWO, luns={name: held(1) for name in TWO.luns}, hosts={"loop": held(2)})
    of = replace(of, roles={"hog": both})
    assert bottleneck(arm, of, [idle], {"hog": 100 * 4096}).label == NOTHING
    assert bottleneck(arm, of, [idle], {"hog": 196 * 4096}).label == "role.hog.pace"


def test_a_faster_processor_makes_times_of_links_and_disks_longer() -> None:
    model = scenario("devices")
    arm, of = model.arms["link"], model.loads["stream"]
    links = {name: replace(link, cost=1000) for name, link in arm.topology.links.items()}
    times = {"rate": 1000, "seek": 1000, "rotation": 1000, "service": 1000}
    slow = {name: replace(disk, **times) for name, disk in arm.topology.disks.items()}  # type: ignore[arg-type]
    arm = replace(arm, topology=replace(arm.topology, links=links, disks=slow))
    seen = use(each(2, 1), idle=0.0, disks=disks(2, 0.5), links={"wire": 0.5})
    found = bottleneck(arm, of, [seen], dict.fromkeys(of.roles, 1e6))
    (slower,) = [one for one in changes(arm, of, found) if one.named]
    assert (slower.label, slower.arm.topology.links["wire"].cost) == ("cpu", 1250)
    (faster,) = (one for one in changes(arm, of, found) if one.label == "link.wire")
    assert faster.arm.topology.links["wire"].cost == 800
    quick = next(one for one in changes(arm, of, found) if one.says == "a quarter faster" and "disk.d0" in one.label)
    for change, rate, time in ((slower, 800, 1250), (quick, 1250, 800)):
        disk = change.arm.topology.disks["d0"]
        assert (disk.rate, disk.seek, disk.rotation, disk.service) == (rate, time, time, time)


def test_what_is_left_is_filled_from_the_level_that_was_reached() -> None:
    narrow, wide = FlowElement(FlowKind.LINK, "narrow", 1.0), FlowElement(FlowKind.LINK, "wide", 1.0)
    flows = [Flow("a", 1.0, {narrow: 0.1, wide: 0.01}), Flow("b", 1.0, {wide: 0.01})]
    filled = fill(flows)
    assert dict(filled.rates) == pytest.approx({"a": 10.0, "b": 90.0})
    assert filled.full == {narrow, wide}


def test_a_choice_gets_what_a_fixed_flow_leaves_of_a_shared_link() -> None:
    """With each at x, 100 - x of the shared link and 20 of the other are left to the one that may choose: x is 60."""
    shared, other = FlowElement(FlowKind.LINK, "shared", 1.0), FlowElement(FlowKind.LINK, "other", 1.0)
    choice = FlowChoice(1.0, ({shared: 1 / 100}, {other: 1 / 20}))
    flows = [Flow("fixed", 1.0, {shared: 1 / 100}), Flow("chooses", 1.0, {}, (choice,))]
    assert dict(fill(flows).rates) == pytest.approx({"fixed": 60.0, "chooses": 60.0}, rel=1e-5)


def mix(**read: int) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        hog = next(job for job in document["jobs"] if job["jobname"] == "hog")
        hog["read"]["lat_ns"].update(read)
        hog["write"]["lat_ns"].update(N=10, mean=100.0, max=100)

    return change


def test_the_latency_of_a_mix_is_weighted_and_its_maximum_that_of_both() -> None:
    hog = read_fio(altered("mix", mix(N=30, mean=20, max=60)), ("hog", "victim"))["hog"]
    assert (hog["lat.mean"], hog["lat.max"]) == (40.0, 100.0)


def test_samples_add_up_and_cost_a_share_of_the_window() -> None:
    ticks = json.loads(SAMPLES)["cpu"]["ticks"]
    assert read_samples(changed(SAMPLES, "cpu", "idle", to=ticks + 1), "x").idle == 1.0
    count = json.loads(SAMPLES)["series"]["host_busy[loop]"]["count"]
    with pytest.raises(MeasurementError, match="does not add up"):
        read_samples(changed(SAMPLES, "series", "host_busy[loop]", "count", to=count + 1), "x")
    document = json.loads(SAMPLES)
    seen = read_samples(changed(SAMPLES, "spent", to=(document["ended"] - document["began"]) // 2), "x")
    assert seen.cost == pytest.approx(0.5)


def test_a_window_of_no_time_and_counters_that_fall_are_refused() -> None:
    with pytest.raises(MeasurementError, match="no time passed"):
        read_handler(BEFORE, BEFORE, "together")
    fallen = changed(AFTER, "paths", "alone", "bytes", to=json.loads(BEFORE)["paths"]["alone"]["bytes"] - 1)
    with pytest.raises(MeasurementError, match="went backwards"):
        read_handler(BEFORE, fallen, "together")


def test_waiting_requests_and_free_tags_are_those_of_sampled_luns() -> None:
    shallow = replace(TOGETHER, roles={**TOGETHER.roles, "slow": role("slow", "slow", iodepth=16)})
    assert sampled_figures(null_topology(), shallow)["lun", "slow.waiting.mean"] == 0
    topology = null_topology()
    disks = {**topology.disks, "third": replace(topology.disks["slow"], name="third")}
    luns = {**topology.luns, "third": Lun("third", "nullb", ("third",))}
    found = sampled_figures(replace(topology, disks=disks, luns=luns))
    assert ("host", "nullb.tags.free") not in found
    assert ("lun", "fast.tags.mean") in found


def test_the_cost_of_an_io_is_that_of_all_processors() -> None:
    of = sampled("together", "fast", "slow")
    document = json.loads(of["together.samples.json"])
    document["cpu"]["ticks"] *= 2
    document["cpu"]["idle"] = 0
    of["together.samples.json"] = json.dumps(document).encode()
    seen = read_samples(of["together.samples.json"], "x")
    figures = figures_of(files(together=95.0) | of, null_topology(), (TOGETHER,))
    assert seen.cpus == 2
    assert figures["together", "fast", "cpu.per_io"] == pytest.approx((2 - seen.cost) * 1e9 / 175)


def test_the_busiest_path_is_the_one_with_most_requests() -> None:
    rows = "== /proc/diskstats\n 252 0 nullb0 {} 0 0 0 0 0 0 0 0 0 0\n 252 1 nullb1 {} 0 0 0 0 0 0 0 0 0 0\n"
    measured = files() | {"together.before": rows.format(0, 0).encode(), "together.after": rows.format(30, 10).encode()}
    both = load("together", role("fast", ("fast", "slow")), role("slow", "slow"))
    figures = figures_of(measured, null_topology(), (both,))
    assert figures["together", "fast", "paths.busiest"] == 0.75


def test_a_tried_knob_was_accepted_or_not() -> None:
    assert read_tried(b"knob\t/sys/x\t1\t5\n") == {("tried", "accepted", "knob"): 1, ("tried", "effective", "knob"): 5}
    with pytest.raises(MeasurementError, match="0 or 1"):
        read_tried(b"knob\t/sys/x\t2\t5\n")


def test_a_count_that_one_path_lacks_was_changed() -> None:
    """One of two paths runs with the count that was asked for, the other with 1."""
    table = RR.replace("128 1", "128 100")
    assert table != RR
    assert list(overridden({**files(), "mp.table": table.encode(), "kmsg": b""}, TWO_PATHS))


def test_a_disk_that_takes_as_long_as_its_link_is_named_itself() -> None:
    seen = use(each(2, 4), disks=disks(2, 1.0, 0.4), links={"wire": 0.6})
    assert named("devices", "disk.stream", seen).label == "disk.d0..1"

# SPDX-License-Identifier: GPL-2.0-only
"""Claims of what a run cannot show are not judged, unless the scenario says that they are meant."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.judge.cells import CellResult, Evidence
from harness.judge.verdict import judge
from harness.judge.visible import TOO_BUSY, cannot_show, reached, unseen, unseen_change
from harness.scenario.load import read_scenario
from harness.scenario.model import Bound, Ratio, Scenario, Status, Unseen
from harness.scenario.timing import Clock
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL
from lab.base.units import show_time
from tests.unit.analysis_samples import claim, ratio, scenario

SCENARIOS = Path(__file__).parents[2] / "scenarios"
COST = ratio("baseline.none.together.fast.cpu.per_io", "none.together.fast.cpu.per_io")
RATE = ratio("none.together.fast.iops", "baseline.none.together.fast.iops")
ALONE = ratio("none.solo.fast.cpu.per_io")
WAITING = (
    "2 jobs took turns on a busy CPU: what they execute is counted, waiting for locks and cache lines is not visible;"
    " meant: [parallel-jobs] in the scenario judges it so"
)


def model(of: Ratio, *meant: Unseen, before: bool = False) -> Scenario:
    """A scenario with one claim: three tenths better than on the BASE kernel. ``before``: stored without the key."""
    made = scenario([claim(Bound(">= 1.3", 1.3, None), of)])
    return replace(made, meant=None if before else meant)


def cell(speed: float, idle: float = 0.0) -> CellResult:
    figures = {("together", "guest", "cpu.idle"): idle, ("solo", "guest", "cpu.idle"): idle}
    for load, role in (("solo", "fast"), ("together", "fast"), ("together", "slow")):
        figures |= {(load, role, "iops"): 100 * speed, (load, role, "cpu.per_io"): 5e6 / speed}
        figures |= {(load, role, "disk.merges"): 5.0}
    return CellResult("none", 1, Status.PASS, figures=figures)


def judged(made: Scenario, idle: float = 0.0) -> tuple[Status, int, str]:
    """The new kernel executes 3 % less for an I/O, as 6.1 does of raid10 against 5.10."""
    verdict = judge(made, [cell(1.03, idle)], [cell(1.0, idle)])
    return verdict.status, verdict.exit_code, verdict.claims[0].judgement.reason


@pytest.mark.parametrize(("of", "reason"), [(COST, WAITING), (RATE, TOO_BUSY)])
def test_a_lock_that_one_cpu_cannot_show_fails_no_claim(of: Ratio, reason: str) -> None:
    assert judged(model(of)) == (Status.DONE, EXIT_CANNOT_JUDGE, reason)
    # One of two windows on a busy CPU is enough, and idle time that was not recorded may have been none.
    busy, idle = cell(1.03, 0.0), cell(1.0, 0.9)
    unknown = replace(idle, figures={key: value for key, value in idle.figures.items() if key[2] != "cpu.idle"})
    for pair in ((busy, idle), (idle, busy), (unknown, unknown)):
        assert judge(model(of), [pair[0]], [pair[1]]).claims[0].judgement.reason == reason


@pytest.mark.parametrize(("of", "meant"), [(COST, Unseen.PARALLEL), (RATE, Unseen.CPU)])
def test_what_is_meant_is_judged(of: Ratio, meant: Unseen) -> None:
    assert judged(model(of, meant)) == (Status.FAIL, EXIT_FAIL, "")
    others = [each for each in Unseen if each is not meant]
    assert judged(model(of, *others))[0] is Status.DONE


def test_a_cost_is_judged_where_nothing_waits_unseen() -> None:
    wall = replace(model(COST), clock=Clock.WALL)
    evidence = Evidence(wall, {("none", 1): cell(1.0)}, {("none", 1): cell(1.0)})
    assert cannot_show(COST, evidence, (1,)) == ""
    assert judged(model(COST), idle=0.2)[0] is Status.FAIL
    assert judged(model(ALONE))[0] is Status.PASS


@pytest.mark.parametrize(
    ("left", "right", "busy"),
    [
        ("together.fast.disk.merges", "together.slow.disk.merges", False),
        ("together.fast.disk.merges", "solo.fast.disk.merges", True),
        ("together.fast.disk.merges", "together.fast.iops", True),
    ],
)
def test_two_counts_of_one_window_do_not_depend_on_the_guests_speed(left: str, right: str, busy: bool) -> None:
    verdict = judge(model(ratio(f"none.{left}", f"none.{right}")), [cell(1.0)])
    assert (verdict.claims[0].judgement.reason == TOO_BUSY) is busy
    assert verdict.claims[0].judgement.status is (Status.DONE if busy else Status.FAIL)


def test_a_run_from_before_the_key_is_judged_as_it_was() -> None:
    assert judged(model(COST, before=True))[0] is Status.FAIL
    assert judged(model(RATE, before=True))[2] == TOO_BUSY


SECTORS = 8 * 1000
"""Of 1,000 I/Os of 4 KiB."""


def cached(share: float, metric: str = "bw", *, direct: bool = False, meant: tuple[Unseen, ...] | None = ()) -> str:
    """Why a rate of a writer is not judged whose disk moved ``share`` of what the writer did."""
    made = scenario([claim()])
    load = made.loads["solo"]
    role = replace(load.roles["fast"], direct=direct)
    made = replace(made, loads={"solo": replace(load, roles={"fast": role})}, meant=meant)
    figures = {("solo", "fast", "total_ios"): 1000.0, ("solo", "fast", "disk.sectors"): SECTORS * share}
    figures |= {("solo", "fast", metric): 1.0, ("solo", "guest", "cpu.idle"): 0.9}
    cells = {("none", 1): CellResult("none", 1, Status.PASS, figures=figures)}
    line = unseen(made, cells.values())
    assert bool(line) == (share < 0.5 and not direct)
    reason = cannot_show(ratio(f"none.solo.fast.{metric}"), Evidence(made, cells), (1,))
    assert not reason or line.endswith(reason.partition(":")[0])
    return reason


def test_a_page_cache_that_does_not_fill_is_no_device() -> None:
    assert cached(0.03) == (
        "the device moved 3% of what the buffered fast did in the page cache: its device is not visible; "
        "meant: [page-cache] in the scenario judges it so"
    )
    assert cached(0.03, "lat.mean")
    judged_so = (cached(0.5), cached(0.03, direct=True), cached(0.03, meant=(Unseen.CACHED,)))
    assert judged_so == ("", "", "")
    assert cached(0.03, "members.bw") == cached(0.03, "members.writes") == cached(0.03, meant=None) == ""
    made = scenario(arms=["none", "red"])
    load = replace(made.loads["solo"], roles={"fast": replace(made.loads["solo"].roles["fast"], direct=False)})
    made = replace(made, loads={"solo": load})

    def seen(arm: str, disk: float, members: float, idle: float = 0.9) -> CellResult:
        figures = {("solo", "fast", "total_ios"): 1000.0, ("solo", "guest", "cpu.idle"): idle}
        figures |= {
            ("solo", "fast", f"{where}.sectors"): SECTORS * share
            for where, share in (("disk", disk), ("members", members))
        }
        return CellResult(arm, 1, Status.PASS, figures=figures)

    assert reached(load, load.roles["fast"], seen("none", 0.03, 0.6).figures) == 0.6
    assert reached(load, load.roles["fast"], {**seen("none", 0, 0).figures, ("solo", "fast", "total_ios"): 0.0}) is None
    line = unseen(made, [seen("none", 0.3, 0.2), seen("red", 0.1, 0.2)])
    assert line.endswith("in red, solo the device moved 20% of what the buffered fast did in the page cache")


def test_the_busiest_window_of_parallel_jobs_and_the_largest_scale_are_named() -> None:
    made = scenario(arms=["none", "red"])
    line = unseen(made, [replace(cell(1.0, 0.1), arm="none"), replace(cell(1.0, 0.02), arm="red")])
    assert line.endswith("in red, together the CPU was 98% busy, and 2 jobs took turns")
    assert unseen(made, [cell(1.0, 0.2)]) == "" and judged(model(RATE), idle=0.2)[2] == ""
    late = changed_scenario(published=9 * SECOND)
    assert unseen(late, ()).endswith("shows later than 8 s (together)")
    scaled = replace(late.arms["none"], topology=replace(late.arms["none"].topology, scale=8))
    assert unseen(replace(late, arms={"red": scaled, **late.arms}), ()).endswith("shows later than 1 s (together)")


def test_the_machines_driver_is_named_where_another_plays_it() -> None:
    made = scenario()
    arm = made.arms["none"]

    def line(**of_hba: str) -> str:
        hba = replace(arm.topology.hbas["nullb"], **of_hba)  # type: ignore[arg-type]
        topology = replace(arm.topology, hbas={"nullb": hba})
        return unseen(replace(made, arms={"none": replace(arm, topology=topology)}), ())

    said = "the machine's driver nvme: null_blk with 64 tags plays it, which is other code"
    captured_before_the_key = line(model="NVMe (nvme)")
    assert line(original_driver="nvme") == captured_before_the_key == said
    assert line(model="PERC H730P (Mini)") == line(original_driver="null_blk") == ""


SECOND = 10**9


def changed_scenario(load: str = "together", published: int = 0, scale: int = 1, driver: str = "") -> Scenario:
    """``load`` stands for a test of ``published`` ns, on a topology whose HBA had this ``driver``."""
    made = replace(scenario([claim()]), meant=())
    arms = {
        name: replace(
            arm,
            topology=replace(
                arm.topology,
                scale=scale,
                hbas={host: replace(hba, original_driver=driver) for host, hba in arm.topology.hbas.items()},
            ),
        )
        for name, arm in made.arms.items()
    }
    own = made.loads[load]
    return replace(made, arms=arms, loads={**made.loads, load: replace(own, published=published)})


def why(made: Scenario, text: str) -> str:
    return cannot_show(ratio(text), Evidence(made, {("none", 1): cell(1.0, idle=0.9)}), (1,))


@pytest.mark.parametrize("metric", ["iops", "lat.mean", "cpu.per_io", "disk.merges"])
def test_a_window_shorter_than_the_published_test_is_said(metric: str) -> None:
    made = changed_scenario(published=300 * SECOND)
    shown = show_time(made.loads["together"].runtime)
    assert why(made, f"none.together.fast.{metric}") == (
        f"what the test of 300 s shows later than {shown} is not visible; meant: [short-window] in the scenario"
        " judges it so"
    )
    assert unseen(made, ()) == f"what a test of 300 s shows later than {shown} (together)"
    meant = replace(made, meant=(Unseen.SHORT,))
    assert why(made, f"none.solo.fast.{metric}") == why(meant, f"none.together.fast.{metric}") == ""


def test_a_scaled_window_is_shorter_on_the_machine() -> None:
    """Times are longer by the scale: a window as long as the test has a tenth of its I/Os."""
    runtime = changed_scenario().loads["together"].runtime
    for published, scale, hides in ((runtime, 1, False), (runtime + 1, 1, True), (runtime, 10, True)):
        made = changed_scenario(published=published, scale=scale)
        assert bool(why(made, "none.together.fast.iops")) is bool(unseen(made, ())) is hides
    assert f"later than {show_time(runtime // 10)}" in why(made, "none.together.fast.iops")


@pytest.mark.parametrize("figure", ["fast.iops", "lun.fast.tags.mean", "host.nullb.tags.free", "guest.cpu.idle"])
def test_a_claim_about_a_driver_that_another_plays_is_not_judged(figure: str) -> None:
    made = changed_scenario(driver="nvme")
    assert why(made, f"none.together.{figure}") == (
        "the code of nvme, played by null_blk, is not visible; meant: [other-driver] in the scenario judges it so"
    )
    meant, same = replace(made, meant=(Unseen.DRIVER,)), changed_scenario(driver="null_blk")
    assert why(meant, f"none.together.{figure}") == why(same, f"none.together.{figure}") == ""
    before = replace(changed_scenario(published=300 * SECOND, driver="nvme"), meant=None)
    assert why(before, f"none.together.{figure}") == "", "stored before the keys"


def test_a_claim_about_the_disks_of_another_hba_is_judged() -> None:
    made = changed_scenario(driver="nvme")
    arm = made.arms["none"]
    own, luns = arm.topology.hbas["nullb"], arm.topology.luns
    hbas = {"nullb": own, "other": replace(own, name="other", original_driver="")}
    luns = {**luns, "fast": replace(luns["fast"], hba="other")}
    made = replace(made, arms={"none": replace(arm, topology=replace(arm.topology, hbas=hbas, luns=luns))})
    elsewhere = ("fast.iops", "lun.fast.tags.mean", "host.other.tags.free")
    assert [why(made, f"none.together.{figure}") for figure in elsewhere] == ["", "", ""]
    affected = ("slow.iops", "lun.slow.tags.mean", "host.nullb.tags.free", "guest.cpu.idle")
    assert all(why(made, f"none.together.{figure}") for figure in affected)


class Hidden(dict[tuple[str, str, str], float]):
    """Figures of a window in which the CPU is never idle, and no device moves what its role does."""

    def get(self, key: tuple[str, str, str], default: Any = None) -> Any:
        return {"cpu.idle": 0.0, "total_ios": 1.0, "disk.sectors": 0.0}.get(key[2], default)


SHIPPED = sorted(path for path in SCENARIOS.rglob("*.yaml") if path.parent.name in ("scenarios", "selftest", "wall"))


def test_only_three_shipped_claims_could_be_hidden_by_what_is_not_meant() -> None:
    """Whatever their boots measure: those of buffered roles, each of which was run (PASS on 6.1).

    Aside from a busy CPU, whose rule is older than the key, and few I/Os, which another count may leave judged.
    """
    hidden: dict[str, set[str]] = {}
    for path in SHIPPED:
        made = read_scenario(str(path))
        made = replace(made, meant=(*(made.meant or ()), Unseen.CPU, Unseen.FEW))
        cells = {(arm, 1): CellResult(arm, 1, Status.PASS, figures=Hidden()) for arm in made.arms}
        evidence = Evidence(made, cells, cells)
        ratios = [entry.ratio for entry in made.claims] + [entry.ratio for entry in made.controls]
        for each in ratios:
            if reason := cannot_show(each, evidence, (1,)):
                hidden.setdefault(made.name, set()).add(reason.rpartition("meant: ")[2].partition(" in ")[0])
    assert len(SHIPPED) > 60
    assert hidden == {key: {"[page-cache]"} for key in ("md-stripe-cache", "shared-queue-tuning", "throttle-bios")}


def test_the_loader_reads_how_long_the_published_test_ran(tmp_path: Path) -> None:
    """It is part of the digest where it is written, and nothing where it is not."""
    text, path = (SCENARIOS / "fair-tags.yaml").read_text(), tmp_path / "fair-tags.yaml"
    stock = read_scenario("fair-tags")
    path.write_text(text.replace("runtime: ", "of: 300s, runtime: "))
    made = read_scenario(str(path))
    assert {load.published for load in made.loads.values()} == {300 * SECOND}
    assert {load.published for load in stock.loads.values()} == {0} and made.digest != stock.digest


def test_the_key_changes_no_digest(tmp_path: Path) -> None:
    """So boots of before are found again; io-cost means what its two jobs execute."""
    stock = read_scenario("io-cost")
    assert stock.meant == (Unseen.PARALLEL,)
    path = tmp_path / "io-cost.yaml"
    text = (SCENARIOS / "io-cost.yaml").read_text()
    path.write_text(text.replace("meant: [parallel-jobs]\n", ""))
    other = read_scenario(str(path))
    assert (other.meant, other.digest) == ((), stock.digest)


def windowed(figures: Mapping[str, float]) -> CellResult:
    """The window of 8 s of ``solo``: figures of fast, with the CPU idle."""
    every = {("solo", "fast", name): value for name, value in figures.items()}
    return CellResult("none", 1, Status.PASS, figures={**every, ("solo", "guest", "cpu.idle"): 0.9})


def decided(
    expect: Bound, metric: str, figures: Mapping[str, float], *meant: Unseen, right: str | None = None
) -> tuple[Status, str]:
    made = replace(scenario([claim(expect, ratio(f"none.solo.fast.{metric}", right))]), meant=meant)
    (verdict,) = judge(made, [windowed(figures)]).claims
    return verdict.judgement.status, verdict.judgement.reason


@pytest.mark.parametrize(
    ("metric", "value", "count", "expect", "status"),
    [
        # Up to 20 I/Os in 8 s are 2.5 a second, or 10,240 bytes.
        ("iops", 0.875, 7, Bound(">= 0.8", 0.8, None), Status.DONE),
        ("iops", 0.875, 7, Bound(">= 1", 1.0, None), Status.DONE),
        ("iops", 0.875, 7, Bound("<= 2.5", None, 2.5), Status.PASS),
        ("iops", 0.875, 7, Bound(">= 2.6", 2.6, None), Status.FAIL),
        ("iops", 0.0, 0, Bound(">= 2.6", 2.6, None), Status.FAIL),
        ("iops", 2.375, 19, Bound("2 .. 3", 2.0, 3.0), Status.DONE),
        ("iops", 2.5, 20, Bound("2 .. 3", 2.0, 3.0), Status.PASS),
        ("bw", 3584.0, 7, Bound("<= 10240", None, 10240.0), Status.PASS),
        ("bw", 3584.0, 7, Bound("<= 10000", None, 10000.0), Status.DONE),
        # With 7 instead of 20 the mean may be as low as 7/20 of it, and nothing says how high.
        ("lat.mean", 2e9, 7, Bound(">= 7e8", 7e8, None), Status.PASS),
        ("lat.mean", 2e9, 7, Bound(">= 8e8", 8e8, None), Status.DONE),
        ("lat.mean", 2e9, 7, Bound("<= 6e8", None, 6e8), Status.FAIL),
        ("disk.merges", 3.0, 7, Bound("<= 2", None, 2.0), Status.FAIL),
    ],
)
def test_few_ios_decide_only_what_any_such_number_would(
    metric: str, value: float, count: int, expect: Bound, status: Status
) -> None:
    """Below 20, one I/O more or less is more than the 5 % to which device models are exact."""
    figures = {metric: value, "total_ios": float(count)}
    assert decided(expect, metric, figures)[0] is status
    if status is Status.DONE:
        says = f"{count} I/Os decide none.solo.fast.{metric}: what more of them show is not visible; meant: [few-ios]"
        assert decided(expect, metric, figures)[1] == f"{says} in the scenario judges it so"
        assert decided(expect, metric, figures, Unseen.FEW)[0] in (Status.PASS, Status.FAIL)


def test_few_ios_on_both_sides_and_at_modelled_disks() -> None:
    both = ratio("none.solo.fast.iops", "none.solo.fast.iops")
    made = replace(scenario([claim(Bound("1 .. 1", 1.0, 1.0), both)]), meant=())
    assert judge(made, [windowed({"iops": 0.875, "total_ios": 7.0})]).claims[0].judgement.status is Status.DONE
    # The disk had 100 requests in 8 of 10 s: what the page cache made of 7 large I/Os.
    at_least, seven = Bound(">= 1", 1.0, None), {"members.bw": 2.0, "total_ios": 7.0}
    assert decided(at_least, "members.bw", {**seven, "members.requests": 25.0})[0] is Status.PASS
    assert decided(at_least, "members.bw", {**seven, "members.requests": 24.0})[0] is Status.DONE


def test_a_rate_of_few_ios_above_its_bound_is_no_fault_of_the_model() -> None:
    """One of 8 I/Os may have been served before the window, one of 100 explains 1 %: bound 16,000 a second."""
    bound = "bound.none.solo.fast.iops"
    for count, status in ((8.0, Status.DONE), (100.0, Status.ERROR)):
        figures = {"iops": 1.049 * 16_000, "total_ios": count}
        assert decided(Bound("0.98 .. 1.1", 0.98, 1.1), "iops", figures, right=bound)[0] is status


def test_the_fewest_ios_are_in_every_report() -> None:
    assert unseen(
        scenario(), [windowed({"total_ios": 7.0}), windowed({"total_ios": 3.0}), windowed({"total_ios": 20.0})]
    ) == ("steady rates where few I/Os decide: in none, solo 3 I/Os of fast")
    assert unseen(scenario(), [windowed({"total_ios": 20.0})]) == ""


def test_a_job_that_outlives_its_window_decides_nothing() -> None:
    """Requests in flight at the end of 8 s explain what the longest of them took, and 5 % of the window is no more."""
    ran = {"total_ios": 2e4, "iops": 999.55, "disk.merges": 4.0, "disk.writes": 4.0, "cpu.per_io": 1.0}
    says = "the job of fast ran 20.0 s of a window of 8 s"
    late = {**ran, "runtime": 20.009e9, "lat.max": 1e6}
    for metric in ("iops", "disk.merges", "cpu.per_io"):
        assert decided(Bound("<= 1000", None, 1e3), metric, late) == (Status.DONE, f"inconclusive: {says}")
        assert decided(Bound("<= 1000", None, 1e3), metric, late, *Unseen)[0] is Status.DONE
        for within in ({"runtime": 8.39e9, "lat.max": 1e6}, {"runtime": 20.009e9, "lat.max": 12e9}, {}):
            assert decided(Bound("<= 1000", None, 1e3), metric, {**ran, **within})[0] is Status.PASS
    # Two counts to the end of the job are of one interval.
    assert decided(Bound("<= 1", None, 1.0), "disk.merges", late, right="none.solo.fast.disk.writes")[0] is Status.PASS
    assert unseen(scenario(), [windowed(late)]) == f"rates of a window that a job outlives: in none, solo {says}"


def changed(hunk: str, file: str = "drivers/md/raid10.c", cpus: int = 1) -> str:
    """The line for a diff of one hunk, without the words that each has."""
    made = scenario()
    arm = made.arms["none"]
    topology = replace(arm.topology, processors=replace(arm.topology.processors, cpus=cpus))
    diff = f"diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n{hunk}"
    line = unseen_change(diff, [made, replace(made, arms={"none": replace(arm, topology=topology)})])
    head, tail = "the series changes ", "; a scenario with machine: {cpus: N} counts it"
    assert line == "" or (line.startswith(head) and line.endswith(tail))
    return line.removeprefix(head).removesuffix(tail)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("locks", "spin_lock_irq(&conf->resync_lock);"),
        ("locks", "raw_spin_unlock(&rq->lock);"),
        ("locks", "write_seqlock_irq(&conf->resync_lock);"),
        ("locks", "mutex_lock(&q->sysfs_lock);"),
        ("locks", "down_read(&q->limits_lock);"),
        ("locks", "struct rw_semaphore lock;"),
        ("atomics", "atomic_inc(&conf->nr_pending);"),
        ("atomics", "atomic_long_read(&ref->count);"),
        ("atomics", "refcount_set(&rq->ref, 1);"),
        ("atomics", "percpu_ref_tryget_live(&q->q_usage_counter);"),
        ("atomics", "this_cpu_inc(*counter);"),
        ("atomics", "if (try_cmpxchg(&pool->first, &old, new))"),
        ("atomics", "if (!test_and_set_bit(nr, &word))"),
        ("atomics", "set_bit(R1BIO_IsSync, &r1_bio->state);"),
        ("memory barriers", "smp_mb__before_atomic();"),
        ("memory barriers", "smp_wmb();"),
        ("memory barriers", "depth = READ_ONCE(tags->depth);"),
        ("memory barriers", "rcu_read_lock();"),
        ("the layout of a struct", "} ____cacheline_aligned_in_smp;"),
    ],
)
def test_code_that_needs_several_cpus_is_named(kind: str, code: str) -> None:
    hunk = f"@@ -1,2 +1,3 @@ static void wait(void)\n \tint depth;\n+\t{code}\n"
    assert changed(hunk) == f"{kind} (drivers/md/raid10.c)"
    assert changed(hunk.replace("+\t", " \t")) == changed(hunk, cpus=2) == ""
    assert changed(hunk.replace(f"+\t{code}", f"+\t/* {code} */")) == changed(hunk, "Documentation/block.rst") == ""


MEMBER = "\tint depth;\n"


@pytest.mark.parametrize(
    ("hunk", "layout"),
    [
        (f"@@ -9,2 +9,3 @@ struct request {{\n \tint tag;\n+{MEMBER}", True),
        (f" struct request {{\n-{MEMBER} \tint tag;\n+{MEMBER}", True),
        (f" struct request {{\n #ifdef CONFIG_A\n+{MEMBER}", True),
        ("@@ -9,2 +9,3 @@ struct request {\n+\t/* a tag; a depth */\n", False),
        (f" struct request {{\n \tint tag;\n }};\n+static int one(void)\n+{{\n+{MEMBER}", False),
        (f"+struct fresh {{\n+{MEMBER}+}};\n", False),
        (f"@@ -9,2 +9,3 @@ struct request *alloc(void)\n+{MEMBER}", False),
    ],
)
def test_a_member_that_moves_changes_the_layout_of_its_struct(hunk: str, layout: bool) -> None:
    assert changed(hunk, "block/blk.h") == ("the layout of a struct (block/blk.h)" if layout else "")


def test_a_change_without_a_file_or_a_hunk_is_of_no_struct() -> None:
    assert unseen_change("+\tint a;\n", [scenario()]) == changed("+\tint a;\n") == ""


def test_kinds_and_files_are_named_together() -> None:
    hunk = "@@ -1 +1 @@ f(void)\n-\tspin_lock(&lock);\n+\tsmp_mb();\n"
    assert changed(hunk) == "locks (drivers/md/raid10.c), memory barriers (drivers/md/raid10.c)"
    assert changed("@@ -1 +1 @@ f(void)\n-\tresync_block = write_blocked;\n+\tint comb = lock_step;\n") == ""

# SPDX-License-Identifier: GPL-2.0-only
"""Claims of what a run cannot show are not judged, unless the scenario says that they are meant."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge.cells import CellResult
from harness.judge.operands import Evidence
from harness.judge.verdict import judge
from harness.judge.visible import TOO_BUSY, cannot_show, unseen
from harness.scenario.load import load_scenario
from harness.scenario.model import Bound, Clock, Ratio, Scenario, Status, Unseen
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL
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
    return CellResult("none", 1, Status.PASS, figures=figures)


def judged(made: Scenario, idle: float = 0.0) -> tuple[Status, int, str]:
    """The new kernel executes 3 % less for an I/O, as 6.1 does of raid10 against 5.10."""
    verdict = judge(made, [cell(1.03, idle)], [cell(1.0, idle)])
    return verdict.status, verdict.exit_code, verdict.claims[0].judgement.reason


@pytest.mark.parametrize(("of", "reason"), [(COST, WAITING), (RATE, TOO_BUSY)])
def test_a_lock_that_one_cpu_cannot_show_fails_no_claim(of: Ratio, reason: str) -> None:
    assert judged(model(of)) == (Status.DONE, EXIT_CANNOT_JUDGE, reason)


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
    assert cached(0.03, "members.bw") == cached(0.03, meant=None) == ""


def test_the_machines_driver_is_named_where_another_plays_it() -> None:
    made = scenario()
    arm = made.arms["none"]
    host = replace(arm.topology.hbas["nullb"], model="NVMe (nvme)")

    def line(model: str) -> str:
        topology = replace(arm.topology, hbas={"nullb": replace(host, model=model)})
        return unseen(replace(made, arms={"none": replace(arm, topology=topology)}), ())

    assert line("NVMe (nvme)") == "the machine's driver nvme: null_blk with 64 tags plays it, which is other code"
    assert line("3ware 8506-4") == line("(null_blk)") == ""


def test_the_key_changes_no_digest(tmp_path: Path) -> None:
    """So boots of before are found again; io-cost means what its two jobs execute."""
    stock = load_scenario("io-cost", search=SCENARIOS)
    assert stock.meant == (Unseen.PARALLEL,)
    path = tmp_path / "io-cost.yaml"
    text = (SCENARIOS / "io-cost.yaml").read_text()
    path.write_text(text.replace("meant: [parallel-jobs]\n", ""))
    other = load_scenario(str(path), search=SCENARIOS)
    assert (other.meant, other.digest) == ((), stock.digest)

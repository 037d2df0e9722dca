# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios on the wall clock: their boots in turn, windows inside a boot, and a verdict by interval."""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge.cells import CellResult, missing_cell, result_of_boot
from harness.judge.verdict import Verdict, judge, judge_in_sequence, unmade, verdict_document
from harness.noise import Rule, scatter, stopping_rule
from harness.report.claims import JudgedRun, noise
from harness.report.terminal.run import Detail
from harness.report.terminal.scenario import describe_scenario
from harness.run.plan import expand, guest_job
from harness.scenario.model import Load, Status
from harness.scenario.timing import Clock
from lab.base.record import BootRecord, Outcome
from lab.topology.model import Driver
from tests.unit.analysis_samples import SOLO, TOGETHER, cell, claim, control, ratio, scenario
from tests.unit.format_samples import FACTS
from tests.unit.scenario_text import GOOD, load, mistakes
from tests.unit.test_report_terminal import shown_run

ARMS = ("none", "red")
BOOTS = 12
MODEL = replace(scenario([claim()], [control()], ARMS), clock=Clock.WALL, seeds=BOOTS, windows=3)
RULE = stopping_rule(BOOTS)
SEEDS = tuple(range(1, BOOTS + 1))
GOOD_RATIOS = (95, 97, 96, 99, 94, 93)
BROAD = (95, 97, 96, 99, 94, 85)


def both(ratios: Sequence[float]) -> list[CellResult]:
    made = [
        one for seed, value in enumerate(ratios, start=1) for one in (cell("none", seed, value), cell("red", seed, 5))
    ]
    later = range(len(ratios) + 1, BOOTS + 1)
    return [*made, *(missing_cell(arm, seed) for seed in later for arm in ARMS)]


def in_sequence(results: Sequence[CellResult], rule: Rule = RULE) -> Verdict:
    def judged(seeds: Sequence[int]) -> Verdict:
        return judge(MODEL, results, None, seeds, rule=rule)

    return judge_in_sequence(rule, SEEDS, results, judged)


def test_rounds_and_windows_go_there_and_back() -> None:
    cells = [(arm.name, seed) for arm, seed in expand(MODEL, seeds=3)]
    assert cells == [("none", 1), ("red", 1), ("red", 2), ("none", 2), ("none", 3), ("red", 3)]

    def order(seed: int) -> list[str]:
        return [one.name for one in guest_job(MODEL, MODEL.arms["none"], seed).loads]

    assert order(2) == ["together.1", "solo.1", "solo.2", "together.2", "together.3", "solo.3"]
    assert order(1) == ["solo.1", "together.1", "together.2", "solo.2", "solo.3", "together.3"]
    plain = scenario([claim()])
    assert [one.name for one in guest_job(plain, plain.arms["none"], 2).loads] == ["solo", "together"]
    assert SOLO.windows(1) == (SOLO,)


def record(loads: Sequence[Load], iops: Sequence[float]) -> BootRecord:
    """A boot that left fio's record and counters of each load, with so many requests a second."""
    fixture = json.loads((Path(__file__).parent / "fixtures" / "fio-aio.json").read_bytes())
    files = {"readback": b"device\t/lab/fast\tnullb0\ndevice\t/lab/slow\tnullb1\n"}
    counters = "== /proc/stat\ncpu  {0} 0 0 {1} 0 0 0 0 0 0\n== /proc/diskstats\n"
    rows = "".join(f" 252 {number} nullb{number} 0 0 0 0 0 0 0 0 0 0 0\n" for number in range(2))
    for one, rate in zip(loads, iops, strict=True):
        jobs = [json.loads(json.dumps(fixture["jobs"][0])) for _ in one.roles]
        for job, role in zip(jobs, one.roles, strict=True):
            job["jobname"] = role
            job["read"].update(total_ios=round(rate * one.runtime / 1e9), runtime=one.runtime // 10**6)
        options = {**fixture["global options"], "runtime": f"{one.runtime // 1000}us"}
        files[f"{one.name}.json"] = json.dumps({**fixture, "jobs": jobs, "global options": options}).encode()
        files[f"{one.name}.before"] = (counters.format(0, 0) + rows).encode()
        files[f"{one.name}.after"] = (counters.format(10, 90) + rows).encode()
    return BootRecord(Path(), Outcome.BYE, "", (), files, "d", {}, {}, {})


def test_a_boot_s_figure_is_the_geometric_mean_of_all_its_windows() -> None:
    windows = (*SOLO.windows(2), *TOGETHER.windows(2))
    result = result_of_boot(
        MODEL.arms["none"], 1, record(windows, (100, 400, 50, 50)), (SOLO, TOGETHER), 2, release="6.1"
    )
    assert result.status is Status.PASS, result.reasons
    assert result.figures["solo", "fast", "iops"] == pytest.approx(200)
    assert result.figures["together", "slow", "iops"] == pytest.approx(50)
    assert {key[0] for key in result.figures} == {"solo", "together"}
    result = result_of_boot(MODEL.arms["none"], 1, record(SOLO.windows(2), (100, 100)), (SOLO,), 3, release="6.1")
    assert result.status is Status.ERROR


def test_the_first_look_decides_a_clear_result_and_no_other() -> None:
    verdict = in_sequence(both(GOOD_RATIOS))
    assert (verdict.status, verdict.seeds) == (Status.PASS, SEEDS[:6])
    seen = verdict.claims[0].judgement.interval
    assert seen is not None and (seen.low, seen.high) == pytest.approx((0.93, 0.99))
    assert not unmade(verdict)
    assert judge(MODEL, both(GOOD_RATIOS), None, SEEDS[:6]).claims[0].judgement.interval == seen
    verdict = in_sequence(both(BROAD))
    assert verdict.status is Status.MISS
    assert verdict.seeds == SEEDS
    assert unmade(verdict)
    whole = in_sequence(both((*BROAD, *[96] * 6)))
    assert (whole.status, whole.seeds) == (Status.PASS, SEEDS)


def test_what_never_clears_is_done_with_a_number_of_boots() -> None:
    verdict = in_sequence(both((91, 89) * 6))
    assert (verdict.status, verdict.exit_code) == (Status.DONE, 125)
    assert "not even 64 boots a side" in verdict.claims[0].sentence
    verdict = in_sequence(both((98, 86, 97) * 4))
    assert "more boots a side would decide (boots: " in verdict.claims[0].sentence
    assert not verdict.open


def test_controls_have_intervals_and_fewer_than_six_boots_decide_nothing() -> None:
    results = [cell(arm, seed, 95) for seed in SEEDS[:6] for arm in ARMS]
    verdict = in_sequence(results)
    assert verdict.status is Status.ERROR
    judgement = verdict.controls[0].judgement
    assert judgement is not None and judgement.interval is not None
    model = replace(MODEL, claims=(claim(), claim(of=ratio("none.together.slow.iops"), optional=True)))
    results = both(GOOD_RATIOS)
    verdict = judge(model, results, None, SEEDS[:6], rule=RULE)
    assert not verdict.open
    undecided = replace(MODEL, claims=(claim(optional=True),))
    assert not judge(undecided, both(BROAD), None, SEEDS[:6], rule=RULE).open
    same = replace(control(), ratio=claim().ratio, expect=claim().expect)
    assert judge(replace(undecided, controls=(same,)), both(BROAD), None, SEEDS[:6], rule=RULE).open
    short = stopping_rule(2)
    results = [cell(arm, seed, 95) for seed in (1, 2) for arm in ARMS]
    verdict = judge_in_sequence(short, (1, 2), results, lambda seeds: judge(MODEL, results, None, seeds, rule=short))
    assert verdict.status is Status.DONE
    assert "6 boots a side at least" in verdict.claims[0].sentence


def test_a_boot_that_went_wrong_decides_at_once() -> None:
    results = both(GOOD_RATIOS[:2])
    dead = CellResult("red", 2, Status.FAIL, ("it oopsed",), outcome=Outcome.OOPS)
    results = [dead if (one.arm, one.seed) == ("red", 2) else one for one in results]
    verdict = in_sequence(results)
    assert (verdict.status, verdict.seeds) == (Status.FAIL, (1, 2))
    assert not unmade(verdict)


def test_a_boot_of_base_that_lacks_is_made_before_a_look_and_one_that_died_decides() -> None:
    of = ratio("none.together.fast.iops", "baseline.none.together.fast.iops")
    model, results = replace(MODEL, claims=(claim(of=of),), controls=()), both(GOOD_RATIOS)
    whole = [cell(arm, seed, 96) for seed in SEEDS[:6] for arm in ARMS]
    dead = CellResult("red", 6, Status.FAIL, ("it oopsed",), outcome=Outcome.OOPS)

    def beside(base: Sequence[CellResult]) -> Verdict:
        return judge_in_sequence(
            RULE, SEEDS, (*results, *base), lambda seeds: judge(model, results, base, seeds, rule=RULE)
        )

    verdict = beside(whole)
    assert (verdict.status, verdict.seeds, unmade(verdict)) == (Status.PASS, SEEDS[:6], False)
    assert unmade(beside([*whole[:-1], missing_cell("red", 6)]))
    verdict = beside([*whole[:-1], dead])
    assert (verdict.status, unmade(verdict)) == (Status.ERROR, False)
    assert not unmade(beside([*whole[:-2], missing_cell("none", 6), dead]))


def test_the_document_and_the_report_have_the_interval() -> None:
    verdict = in_sequence(both(GOOD_RATIOS))
    document = verdict_document(verdict)
    json.dumps(document, allow_nan=False)
    assert document["claims"][0]["interval"]["rounds"] == 6
    text = shown_run(JudgedRun(MODEL, verdict, FACTS), 120, Detail.FULL)
    assert "measured 0.9565, 96.9 % within 0.9300 .. 0.9900 by 6 boots a side: " in text
    assert "1 claim held (6 boots a side)" in text
    assert "interval" not in verdict_document(judge(scenario([claim()]), both(GOOD_RATIOS)[:6]))["claims"][0]


def test_a_scenario_says_when_it_is_judged(tmp_path: Path) -> None:
    text = describe_scenario(replace(load(GOOD, tmp_path), clock=Clock.WALL, seeds=12, windows=3))
    assert "clock: wall; 12 boots of each arm at most, 3 windows each; judged after 6, 12" in text


def wall(text: str = GOOD) -> str:
    return text.replace("clock: virtual", "clock: wall").replace("seeds: 2", "boots: 8\nwindows: 2")


def test_what_a_scenario_of_the_wall_clock_may_say(tmp_path: Path) -> None:
    assert "needs a ramp of at least 1 s" in mistakes(wall().replace("ramp: 1s", "ramp: 100ms"), tmp_path)
    quick = GOOD.replace("{scheduler: none}", "{scheduler: none, io_timeout: 4000}")
    assert load(quick.replace("seeds: 2", "pause: 9s"), tmp_path).pause == 9 * 10**9
    assert "twice the request timeout" in mistakes(quick.replace("seeds: 2", "pause: 8s"), tmp_path)


def test_an_hba_with_a_model_names_its_controller_on_the_wall_clock(tmp_path: Path) -> None:
    inline = QUEUES.replace("driver: null_blk", "model: Samsung PM1733, driver: null_blk")
    text = wall(GOOD.replace("topology: neighbours", inline).replace("hba.cmd_per_lun: 64", "hba.can_queue: 32"))
    text = text.replace("limited: {hba.cmd_per_lun: 16}", "limited: {hba.can_queue: 16}")
    assert "topology queues: which of QEMU's controllers is HBA h?" in mistakes(text, tmp_path)
    chosen = load(text.replace("driver: null_blk", "driver: null_blk, controller: nvme"), tmp_path)
    assert {hba.driver for arm in chosen.arms.values() for hba in arm.topology.hbas.values()} == {Driver.NVME}


QUEUES = """\
topology:
  topology: queues
  memory: 512M
  disks: {p0: {size: 1G, service: 1ms}, p1: {size: 1G, service: 1ms}}
  hbas: {h: {driver: null_blk, can_queue: 64, hw_queues: 2}}
  luns: {p0: {hba: h, disks: [p0]}, p1: {hba: h, disks: [p1]}}"""


def test_hardware_queues_are_counted_against_the_cpus_of_the_clock(tmp_path: Path) -> None:
    text = GOOD.replace("topology: neighbours", QUEUES).replace("cmd_per_lun: 64", "can_queue: 32")
    text = text.replace("limited: {hba.cmd_per_lun: 16}", "limited: {hba.can_queue: 16}")
    arms = load(wall(text), tmp_path).arms.values()
    assert {(hba.driver, hba.hw_queues) for arm in arms for hba in arm.topology.hbas.values()} == {(Driver.NVME, 2)}
    said = "arm shared: hba h: hw_queues 2: the kernel makes no more queues than CPUs, and the guest has 1"
    assert said in mistakes(text, tmp_path)
    assert "hw_queues 3: the machine has 2 processors" in mistakes(
        wall(text).replace("hw_queues: 2", "hw_queues: 3"), tmp_path
    )


def test_scatter_of_boots_and_of_windows_are_separated() -> None:
    dice = random.Random(1)  # noqa: S311
    boots = [dice.gauss(0, 0.1) for _ in range(400)]
    seen = scatter([[math.exp(boot + dice.gauss(0, 0.03)) for _ in range(3)] for boot in boots])
    assert seen is not None and (seen.boots, seen.windows) == pytest.approx((0.1, 0.03), rel=0.1)
    alike = scatter([[math.exp(dice.gauss(0, 0.1)) for _ in range(3)] for _ in range(400)])
    assert alike is not None and alike.boots < 0.02
    exact = scatter([[1.0, math.exp(2)], [math.exp(4), math.exp(6)]])
    assert exact is not None and (exact.boots**2, exact.windows**2) == pytest.approx((8 - 2 / 2, 2))
    assert scatter([[1.0, 0.0], [1.0, 1.0]]) is None
    assert scatter([[1.0], [1.1]]) is None


def test_a_verdict_says_what_its_boots_and_windows_scatter_by() -> None:
    def windows(one: CellResult, *shares: float) -> CellResult:
        figures = tuple(
            {key: value * share if key[0] == "together" else value for key, value in one.figures.items()}
            for share in shares
        )
        return replace(one, windows=figures)

    results = [windows(one, 1.1, 1 / 1.1) for one in both(GOOD_RATIOS) if one.status is Status.PASS]
    verdict = judge(MODEL, results, None, SEEDS[:6], rule=RULE)
    seen = verdict.claims[0].judgement.scatter
    assert seen is not None and seen.windows == pytest.approx(math.log(1.1) * math.sqrt(2))
    assert seen.boots == 0
    assert "boots scatter by 0.0 %, windows by 13.5 %" in noise(verdict.claims[0].judgement)
    assert verdict_document(verdict)["claims"][0]["scatter"]["boots"] == 0

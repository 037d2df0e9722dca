# SPDX-License-Identifier: GPL-2.0-only
"""Claims and controls over ensembles, up to the verdict."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.cells import CellResult, agreed, skipped
from harness.judge.claims import ClaimVerdict, ControlVerdict
from harness.judge.verdict import Verdict, judge
from harness.scenario.model import Bound, Status
from lab.base.record import Outcome
from tests.unit.analysis_samples import AT_LEAST, AT_MOST, SEEDS, SHARE, cell, cells, claim, control, ratio, scenario

BOUND_CLAIM = claim(
    Bound("0.98 .. 1.02", 0.98, 1.02), ratio("none.together.fast.iops", "bound.none.together.fast.iops")
)


def judged(*together: float) -> Verdict:
    return judge(scenario([claim()]), cells("none", *together))


def only(verdict: Verdict) -> ClaimVerdict:
    return verdict.claims[0]


def test_a_claim_that_holds_under_every_seed_passes() -> None:
    verdict = judged(95, 97, 91)
    assert (verdict.status, verdict.exit_code) == (Status.PASS, 0)
    ensemble = only(verdict).judgement.ensemble
    assert ensemble is not None
    assert (ensemble.low, ensemble.median, ensemble.high) == (0.91, 0.95, 0.97)
    assert only(verdict).sentence == "it keeps it"


def test_a_claim_that_fails_under_every_seed_fails() -> None:
    verdict = judged(5, 7, 6)
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    assert only(verdict).sentence == "it starves"


def test_seeds_that_disagree_are_inconclusive() -> None:
    verdict = judged(95, 89, 92)
    assert (verdict.status, verdict.exit_code) == (Status.DONE, 125)
    assert "the bound lies inside the ensemble (it holds under seed 1, 3 only)" in only(verdict).sentence


def test_an_optional_claim_is_shown_and_not_counted() -> None:
    verdict = judge(scenario([claim(), claim(AT_MOST, optional=True)]), cells("none", 95, 95, 95))
    assert verdict.status is Status.PASS
    assert verdict.claims[1].judgement.status is Status.FAIL


def test_a_missing_requirement_skips_with_all_reasons() -> None:
    results = [skipped("none", seed, ("no CONFIG_A", "no CONFIG_B")) for seed in SEEDS]
    verdict = judge(scenario([claim()]), results)
    assert (verdict.status, verdict.exit_code) == (Status.SKIP, 125)
    assert only(verdict).sentence == "arm none: no CONFIG_A; no CONFIG_B"


@pytest.mark.parametrize(
    ("status", "lab_broke", "code"),
    [
        (Status.ERROR, False, 125),
        (Status.ERROR, True, 128),
        (Status.MISS, False, 125),
        (Status.FAIL, False, 1),
    ],
)
def test_one_bad_boot_decides(status: Status, lab_broke: bool, code: int) -> None:
    bad = CellResult("none", 2, status, ("as it was",), outcome=Outcome.LOST, lab_broke=lab_broke)
    verdict = judge(scenario([claim()]), [cell("none", 1, 95), bad, cell("none", 3, 95)])
    assert (verdict.status, verdict.exit_code) == (status, code)
    assert only(verdict).judgement.status is status
    assert "as it was" in only(verdict).sentence


def test_a_planned_cell_without_a_record_is_missed() -> None:
    verdict = judge(scenario([claim()]), cells("none", 95, 95), seeds=SEEDS)
    assert (verdict.status, verdict.exit_code) == (Status.MISS, 125)
    assert verdict.incidents[0].reasons == ("arm none under seed 3 was not measured",)


def test_a_figure_that_was_not_recorded_is_an_error() -> None:
    verdict = judge(scenario([claim(of=ratio("none.solo.fast.lat.p99.9"))]), cells("none", 1, 1, 1))
    assert verdict.status is Status.ERROR
    assert "recorded no solo.fast.lat.p99.9" in only(verdict).sentence


def test_a_right_side_of_zero_is_an_error() -> None:
    results = [cell("none", seed, 1, solo=0) for seed in SEEDS]
    assert judge(scenario([claim()]), results).status is Status.ERROR


@pytest.mark.parametrize(
    ("red", "status"), [((5, 5, 5), Status.PASS), ((90, 90, 90), Status.ERROR), ((5, 90, 5), Status.DONE)]
)
def test_an_arm_control_must_be_red(red: tuple[float, ...], status: Status) -> None:
    results = cells("none", 95, 95, 95) + cells("red", *red)
    verdict = judge(scenario([claim()], [control()], ["none", "red"]), results)
    assert verdict.status is status
    if status is Status.ERROR:
        assert "cannot turn red" in verdict.controls[0].sentence


def on_mutant(*together: float, mutant: str = "no-fair-tags") -> ControlVerdict:
    model = scenario([claim()], [control(AT_MOST, SHARE, mutant="no-fair-tags")])
    return judge(model, cells("none", *together), mutant=mutant).controls[0]


def test_a_mutant_control_is_judged_on_its_mutant_only() -> None:
    red = on_mutant(10, 20, 30)
    assert red.judgement is not None
    assert (red.judgement.status, red.sentence) == (Status.PASS, "red, as it must be")
    green = on_mutant(95, 95, 95)
    assert green.judgement is not None
    assert green.judgement.status is Status.ERROR
    assert on_mutant(10, 20, 30, mutant="lifo-wake").judgement is None


def test_a_mutant_that_kills_its_kernel_is_red() -> None:
    dead = replace(cell("none", 2, 95), status=Status.FAIL, reasons=("the kernel hung",), figures={})
    results = [cell("none", 1, 95), dead, cell("none", 3, 95)]
    model = scenario([claim()], [control(AT_MOST, SHARE, mutant="no-fair-tags")])
    verdict = judge(model, results, mutant="no-fair-tags")
    judged = verdict.controls[0].judgement
    assert judged is not None
    assert (judged.status, judged.ensemble) == (Status.PASS, None)
    assert "the kernel hung" in verdict.controls[0].sentence
    assert verdict.status is Status.FAIL


def test_a_mutant_control_is_listed_and_not_counted() -> None:
    verdict = judge(scenario([claim()], [control(mutant="no-fair-tags")]), cells("none", 95, 95, 95))
    assert verdict.status is Status.PASS
    assert verdict.controls[0].judgement is None
    assert verdict.controls[0].sentence == "not run: needs a kernel with the mutant no-fair-tags"


def test_a_claim_about_the_device_needs_a_guest_with_time_to_spare() -> None:
    model = scenario([BOUND_CLAIM])
    assert judge(model, cells("none", 7990, 8000, 7950)).status is Status.PASS
    busy = judge(model, cells("none", 7990, 8000, 7950, idle=0.19))
    assert busy.status is Status.DONE
    assert "idle for less than a fifth" in only(busy).sentence
    assert judge(scenario([claim()]), cells("none", 95, 95, 95, idle=0.0)).status is Status.PASS


def test_a_baseline_is_compared_when_it_was_given() -> None:
    against = scenario([claim(of=ratio("none.together.fast.iops", "baseline.none.together.fast.iops"))])
    results = cells("none", 95, 95, 95)
    alone = judge(against, results)
    assert alone.status is Status.SKIP
    assert only(alone).sentence == "no BASE kernel given"
    assert judge(against, results, cells("none", 100, 100, 100)).status is Status.PASS
    assert judge(against, results, cells("none", 1000, 1000, 1000)).status is Status.FAIL


def test_a_scenario_without_claims_is_done_not_passed() -> None:
    assert judge(scenario(), cells("none", 1, 1, 1)).status is Status.DONE


def test_repetitions_must_leave_one_digest() -> None:
    first = cell("none", 1, 95)
    assert agreed([first, first]) is first
    differing = agreed([first, replace(first, digest="other")])
    assert differing.status is Status.ERROR
    assert "not repeatable" in differing.reasons[0]


@given(st.lists(st.floats(0.01, 1e6), min_size=3, max_size=3), st.floats(0.01, 10))
def test_a_claim_is_as_its_seeds_are(together: list[float], least: float) -> None:
    verdict = judge(scenario([claim(Bound("", least, None))]), cells("none", *together))
    held = [value / 100.0 >= least for value in together]
    expected = Status.PASS if all(held) else Status.DONE if any(held) else Status.FAIL
    assert verdict.status is expected


@given(st.permutations(cells("none", 95, 80, 91)))
def test_the_order_of_cells_does_not_matter(results: list[CellResult]) -> None:
    assert judge(scenario([claim(AT_LEAST)]), results) == judged(95, 80, 91)

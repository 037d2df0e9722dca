# SPDX-License-Identifier: GPL-2.0-only
"""Cells and how they end, the roll-up, and claims that are known to fail on some kernels."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.cells import (
    ENDINGS,
    LAB_BROKE,
    WORST_FIRST,
    CellResult,
    Ensemble,
    Evidence,
    Unavailable,
    _mean,
    common_result,
    ending,
    ensemble_of,
    exit_code,
    result_of_boot,
    roll_up,
    window_values,
)
from harness.judge.claims import XFAIL, XPASS, JudgedCondition, ReproductionVerdict
from harness.judge.verdict import Verdict, judge, verdict_document
from harness.report.claims import conclusion
from harness.scenario.model import Bound, Claim, KnownFailure, Reproduction, Scenario, Status
from lab.base.record import BootRecord, Outcome
from tests.unit.analysis_samples import AT_LEAST, SEEDS, SHARE, cell, cells, claim, ensemble, ratio, scenario
from tests.unit.format_samples import printed

KNOWN = KnownFailure(">= 5.8, < 5.14", "tags are first come, first served", "https://example.org/fix")
OLD, NEW = "5.10.0-46-amd64", "6.1.0-50-amd64"


def known_claim(*, optional: bool = False) -> Claim:
    return replace(claim(optional=optional), known=(replace(KNOWN, kernels="4.19"), KNOWN))


def judged(*together: float, release: str = OLD, model: Scenario | None = None) -> Verdict:
    return judge(model or scenario([known_claim()]), cells("none", *together), release=release)


def test_an_expected_failure_does_not_fail_the_run() -> None:
    verdict = judged(5, 6, 7)
    (one,) = verdict.claims
    assert (verdict.status, verdict.exit_code) == (Status.PASS, 0)
    assert (one.word, one.judgement.status, one.known) == (XFAIL, Status.FAIL, KNOWN)
    assert one.sentence == (
        "known to fail on kernels >= 5.8, < 5.14: tags are first come, first served (https://example.org/fix)"
    )
    assert conclusion(verdict) == "1 claim failed as known (exit 0)"
    assert "XFAIL  hold  the share is kept" in printed(scenario([known_claim()]), verdict)


def test_an_unexpected_pass_fails_the_run_and_says_why() -> None:
    verdict = judged(95, 96, 97)
    (one,) = verdict.claims
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    assert (one.word, one.judgement.status) == (XPASS, Status.PASS)
    assert "the expectation is out of date" in one.sentence
    assert conclusion(verdict) == "1 claim held although known to fail (exit 1)"
    assert "XPASS  hold  the share is kept" in printed(scenario([known_claim()]), verdict)


@pytest.mark.parametrize("release", [NEW, "", "next-20240101"])
@pytest.mark.parametrize(("figure", "status", "word"), [(5, Status.FAIL, "FAIL"), (95, Status.PASS, "PASS")])
def test_other_kernels_are_judged_as_ever(release: str, figure: float, status: Status, word: str) -> None:
    verdict = judged(figure, figure, figure, release=release)
    assert (verdict.status, verdict.claims[0].word, verdict.claims[0].known) == (status, word, None)


def test_a_claim_that_is_made_for_other_kernels_decides_nothing() -> None:
    other = replace(claim(), kernels=">= 5.8, < 5.14")
    model = scenario([other, claim()])
    assert [(one.word, one.optional) for one in judged(5, 6, 7, model=model).claims] == [("FAIL", False)] * 2
    verdict = judged(95, 96, 97, release=NEW, model=model)
    assert [(one.word, one.optional) for one in verdict.claims] == [("SKIP", True), ("PASS", False)]
    assert verdict.claims[0].sentence == "it is made for kernels >= 5.8, < 5.14"
    assert (verdict.status, conclusion(verdict)) == (Status.PASS, "1 claim held (3 seeds) (exit 0)")
    assert judged(95, 96, 97, release=NEW, model=scenario([other])).status is Status.DONE


def test_an_expected_failure_hides_nothing_else() -> None:
    verdict = judged(95, 5, 95)
    assert (verdict.status, verdict.claims[0].word) == (Status.DONE, "DONE")
    assert "inconclusive" in verdict.claims[0].sentence
    model = scenario([known_claim(), claim()])
    assert judged(5, 5, 5, model=model).status is Status.FAIL
    mixed = judge(model, [cell("none", seed, 5) for seed in SEEDS], release=OLD)
    assert conclusion(mixed) == "1 claim failed (exit 1)"


@pytest.mark.parametrize("outcome", [Outcome.OOPS, Outcome.HANG])
def test_a_kernel_that_dies_is_not_the_failure_that_was_known(outcome: Outcome) -> None:
    dead = [CellResult("none", seed, Status.FAIL, ("it died",), outcome=outcome) for seed in SEEDS]
    verdict = judge(scenario([known_claim()]), dead, release=OLD)
    assert (verdict.status, verdict.exit_code, verdict.claims[0].word) == (Status.FAIL, 1, "FAIL")


def test_optional_claims_decide_nothing_however_they_end() -> None:
    for figure, word in ((5, XFAIL), (95, XPASS)):
        verdict = judged(figure, figure, figure, model=scenario([known_claim(optional=True)]))
        assert (verdict.status, verdict.claims[0].word) == (Status.DONE, word)


def test_the_document_has_the_word_and_the_entry() -> None:
    document = verdict_document(judged(5, 5, 5))
    (one,) = document["claims"]
    assert document["schema"] == 3
    assert (one["status"], one["word"], one["known"]["kernels"]) == ("FAIL", XFAIL, KNOWN.kernels)
    assert verdict_document(judged(5, 5, 5, release=NEW))["claims"][0]["known"] is None


FAIL, ERROR, MISS, PASS, DONE, SKIP = WORST_FIRST
ANY = st.sampled_from(WORST_FIRST)


@pytest.mark.parametrize(
    ("outcome", "warned", "status", "code"),
    [
        (Outcome.BYE, False, PASS, 0),
        (Outcome.BYE, True, ERROR, 125),
        (Outcome.NOT_READY, False, MISS, 125),
        (Outcome.LATE, False, MISS, 125),
        (Outcome.OOPS, False, FAIL, 1),
        (Outcome.OOPS, True, FAIL, 1),
        (Outcome.HANG, True, FAIL, 1),
        (Outcome.DOUBTFUL, True, ERROR, 125),
        (Outcome.NO_MEMORY, False, ERROR, 125),
        (Outcome.UNFIT, False, ERROR, 125),
        (Outcome.GARBLED, False, ERROR, 128),
        (Outcome.LOST, True, ERROR, 128),
    ],
)
def test_every_ending(outcome: Outcome, warned: bool, status: Status, code: int) -> None:
    assert ending(outcome, warned=warned)[0] is status
    assert exit_code(status, lab_broke=outcome in LAB_BROKE) == code


def test_no_outcome_is_forgotten() -> None:
    assert set(ENDINGS) == set(Outcome)


def test_only_boots_invalidated_by_the_host_are_repeated() -> None:
    assert {outcome for outcome in Outcome if outcome.invalidated_by_host} == {Outcome.LATE, Outcome.LOST}


@pytest.mark.parametrize(
    ("incidents", "required", "status"),
    [
        ([PASS], [PASS], PASS),
        ([PASS], [PASS, DONE], DONE),
        ([PASS], [PASS, SKIP], SKIP),
        ([PASS], [SKIP, DONE], DONE),
        ([SKIP, PASS], [PASS], PASS),
        ([PASS], [PASS, FAIL], FAIL),
        ([ERROR], [FAIL], FAIL),
        ([FAIL], [SKIP], FAIL),
        ([ERROR], [PASS], ERROR),
        ([MISS], [PASS], MISS),
        ([MISS], [ERROR, SKIP], ERROR),
        ([PASS], [], DONE),
    ],
)
def test_parts_roll_up(incidents: list[Status], required: list[Status], status: Status) -> None:
    assert roll_up(incidents, required) is status


@given(st.lists(ANY), st.lists(ANY))
def test_a_run_passes_only_when_all_that_is_required_held(incidents: list[Status], required: list[Status]) -> None:
    passed = roll_up(incidents, required) is PASS
    assert passed == (bool(required) and set(required) == {PASS} and not {FAIL, ERROR, MISS} & set(incidents))


@given(ANY, st.booleans())
def test_only_a_judged_failure_exits_with_1(status: Status, lab_broke: bool) -> None:
    code = exit_code(status, lab_broke=lab_broke)
    assert (code == 1) == (status is FAIL)
    assert (code == 0) == (status is PASS)
    assert code in (0, 1, 125, 128)


@pytest.mark.parametrize(
    ("warnings", "shown"),
    [(1, "a 0"), (3, "a 0; a 1; a 2"), (4, "a 0; a 1; a 2; and 1 more"), (5, "a 0; a 1; a 2; and 2 more")],
)
def test_warnings_of_the_kernel_are_quoted_up_to_three(warnings: int, shown: str) -> None:
    record = BootRecord(
        Path("x"), Outcome.BYE, "bye", tuple(f"a {number}" for number in range(warnings)), {}, "d", {}, {}, {}
    )
    arm = scenario([claim()]).arms["none"]
    result = result_of_boot(arm, 1, record, [], release="6.1")
    assert (result.status, result.reasons) == (
        Status.ERROR,
        (f"the kernel complained after it was ready: {shown}",),
    )
    hung = result_of_boot(arm, 1, replace(record, outcome=Outcome.HANG, detail=""), [], release="6.1")
    assert hung.reasons == ("the kernel hung after it was ready",)
    said = result_of_boot(arm, 1, replace(record, outcome=Outcome.HANG, detail="in step 3"), [], release="6.1")
    assert said.reasons == ("the kernel hung after it was ready: in step 3",)


def test_repetitions_name_each_digest_once_and_the_first_that_failed() -> None:
    first = cell("none", 3, 95)
    assert common_result([first, first]) is first
    assert common_result([first, replace(first, digest="other")]).status is Status.ERROR
    differing = common_result(
        [replace(first, digest="a" * 20), replace(first, digest="b" * 20), replace(first, digest=None)]
    )
    assert differing.reasons == (
        f"arm none under seed 3 is not repeatable: its digests are {'a' * 12}, {'b' * 12}, none",
    )
    assert (differing.lab_broke, differing.figures) == (True, {})
    dead = replace(first, status=Status.FAIL, reasons=("it died",))
    for ended in (dead, replace(dead, digest=None)):
        assert common_result([first, ended]) is ended and common_result([ended, first]) is ended


def test_a_document_has_its_figures_in_order_and_seeds_that_nobody_planned_too() -> None:
    first = cell("none", 8, 95)
    turned = replace(first, figures=dict(reversed(list(first.figures.items()))))
    verdict = judge(scenario([claim()]), [turned, cell("none", 2, 95), cell("none", 1, 95)])
    assert verdict.seeds == (1, 2, 8)
    names = [list(each["figures"]) for each in verdict_document(verdict)["cells"]]
    assert names == [sorted(each) for each in names]


def test_a_mean_is_geometric_where_it_can_be_and_none_of_rounding() -> None:
    values = [number / 7 for number in range(1, 60)]
    assert [_mean([value] * count) for count in (1, 3) for value in values] == values * 2
    # A window without I/O counts.
    assert [_mean([0.0, 4.0]), _mean([1.0, 4.0])] == pytest.approx([2.0, 2.0])


def test_an_ensemble_has_the_seeds_of_its_arm_alone() -> None:
    key = ("together", "fast", "iops")
    found = ensemble_of([*cells("none", 95, 80, 91), *cells("red", 5)], "none", key)
    assert found is not None and (found.low, found.median, found.high) == (80, 91, 95)
    assert found.holding(AT_LEAST) == (1, 2, 3) and found.holding(Bound("<= 91", None, 91)) == (2, 3)
    assert ensemble_of(cells("none", 95), "red", key) is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_ensemble_is_of_finite_values(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Ensemble({1: 1.0, 2: value})


@pytest.mark.parametrize(
    ("values", "says"),
    [((1.0,), "r = 1"), ((1.0, 1.0001), "r = 1"), ((1.0, 1.25), "r = 1 .. 1.25"), ((), "r not measured")],
)
def test_a_condition_is_quoted_with_three_digits(values: Sequence[float], says: str) -> None:
    assert str(JudgedCondition("r", ">= 1", ensemble(*values) if values else None, True)) == says


def test_a_reproduction_is_off_by_a_share_of_the_report() -> None:
    entry = Reproduction("as reported", SHARE, 0.5, "", "")
    assert ReproductionVerdict(**vars(entry), ensemble=ensemble(0.4, 0.6, 0.65)).off == pytest.approx(0.2)
    assert ReproductionVerdict(**vars(replace(entry, reported=None)), ensemble=ensemble(0.4)).off is None


def test_windows_are_compared_as_far_as_all_boots_have_them() -> None:
    model = scenario([claim()], arms=["none", "red"])
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
    evidence = Evidence(scenario([claim(of=against)]), ours, base)
    assert window_values(against, 1, evidence) == (2.0, 1.5)
    with pytest.raises(Unavailable) as lacking:
        window_values(against, 1, Evidence(evidence.scenario, ours))
    assert (lacking.value.status, lacking.value.reason) == (Status.SKIP, "no BASE kernel given")


def test_of_several_reasons_the_worst_status_counts_whatever_the_order() -> None:
    dead = replace(cell("none", 2, 5), status=Status.FAIL, figures={}, reasons=("it died",))
    for results in (
        [CellResult("none", 1, Status.SKIP, ("no null_blk",)), dead],
        [replace(dead, seed=1), CellResult("none", 2, Status.SKIP, ("no",))],
    ):
        verdict = judge(scenario([claim()]), results)
        assert (verdict.claims[0].judgement.status, verdict.claims[0].sentence) == (Status.FAIL, "arm none: it died")

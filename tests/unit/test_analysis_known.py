# SPDX-License-Identifier: GPL-2.0-only
"""Every row of the table of endings, the roll-up, and claims that are known to fail on some kernels."""

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.judge.cells import ENDINGS, LAB_BROKE, WORST_FIRST, CellResult, ending, exit_code, roll_up, worst
from harness.judge.claims import XFAIL, XPASS
from harness.judge.verdict import Verdict, judge, verdict_document
from harness.report.claims import JudgedRun, conclusion
from harness.report.terminal.run import print_verdict
from harness.scenario.model import Claim, KnownFailure, Scenario, Status
from lab.base.record import Outcome
from tests.unit.analysis_samples import SEEDS, cell, cells, claim, scenario
from tests.unit.format_samples import FACTS

KNOWN = KnownFailure(">= 5.8, < 5.14", "tags are first come, first served", "https://example.org/fix")
OLD, NEW = "5.10.0-46-amd64", "6.1.0-50-amd64"


def known_claim(*, optional: bool = False) -> Claim:
    return replace(claim(optional=optional), known=(replace(KNOWN, kernels="4.19"), KNOWN))


def judged(*together: float, release: str = OLD, model: Scenario | None = None) -> Verdict:
    return judge(model or scenario([known_claim()]), cells("none", *together), release=release)


def shown(verdict: Verdict) -> str:
    out = io.StringIO()
    print_verdict(Console(file=out, width=200), JudgedRun(scenario([known_claim()]), verdict, FACTS))
    return out.getvalue()


def test_an_expected_failure_does_not_fail_the_run() -> None:
    verdict = judged(5, 6, 7)
    (one,) = verdict.claims
    assert (verdict.status, verdict.exit_code) == (Status.PASS, 0)
    assert (one.word, one.judgement.status, one.known) == (XFAIL, Status.FAIL, KNOWN)
    assert one.sentence == (
        "known to fail on kernels >= 5.8, < 5.14: tags are first come, first served (https://example.org/fix)"
    )
    assert conclusion(verdict) == "1 claim failed as known (exit 0)"
    assert "XFAIL  hold  the share is kept" in shown(verdict)


def test_an_unexpected_pass_fails_the_run_and_says_why() -> None:
    verdict = judged(95, 96, 97)
    (one,) = verdict.claims
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    assert (one.word, one.judgement.status) == (XPASS, Status.PASS)
    assert "the expectation is out of date" in one.sentence
    assert conclusion(verdict) == "1 claim held although known to fail (exit 1)"
    assert "XPASS  hold  the share is kept" in shown(verdict)


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


@given(st.lists(ANY, min_size=1))
def test_worst_is_the_first_of_the_order(statuses: list[Status]) -> None:
    assert all(WORST_FIRST.index(worst(statuses)) <= WORST_FIRST.index(status) for status in statuses)


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

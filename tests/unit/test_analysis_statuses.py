# SPDX-License-Identifier: GPL-2.0-only
"""Every row of the table of endings, and the roll-up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.statuses import ENDINGS, WORST_FIRST, ending, exit_code, roll_up, worst
from harness.scenario.model import Status
from lab.base.record import Outcome

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
        (Outcome.UNFIT, False, ERROR, 125),
        (Outcome.GARBLED, False, ERROR, 128),
        (Outcome.LOST, True, ERROR, 128),
    ],
)
def test_every_ending(outcome: Outcome, warned: bool, status: Status, code: int) -> None:
    judged = ending(outcome, warned=warned)
    assert judged.status is status
    assert exit_code(judged.status, lab_broke=judged.lab_broke) == code


def test_no_outcome_is_forgotten() -> None:
    assert set(ENDINGS) == set(Outcome)


def test_only_what_the_host_spoilt_is_made_again() -> None:
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
def test_only_a_judged_failure_convicts(status: Status, lab_broke: bool) -> None:
    code = exit_code(status, lab_broke=lab_broke)
    assert (code == 1) == (status is FAIL)
    assert (code == 0) == (status is PASS)
    assert code in (0, 1, 125, 128)

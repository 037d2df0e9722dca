# SPDX-License-Identifier: GPL-2.0-only
"""When a selftest counts as passed."""

import pytest

from harness.judge.cells import CellResult
from harness.judge.verdict import Verdict
from harness.scenario.model import Selftest, Status
from harness.studies.selftest import shortfalls


def verdict(status: Status, code: int, reason: str = "") -> Verdict:
    cells = (CellResult("plain", 1, status, (reason,)),)
    return Verdict("s", "0", status, code, (1,), (), (), (), cells)


def test_its_own_status_code_and_words_are_a_pass() -> None:
    wanted = Selftest(Status.FAIL, 1, says="panic")
    assert list(shortfalls(wanted, verdict(Status.FAIL, 1, "a panic in the window"))) == []


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (verdict(Status.PASS, 1, "panic"), "status is PASS, must be FAIL"),
        (verdict(Status.FAIL, 128, "panic"), "exit code is 128, must be 1"),
        (verdict(Status.FAIL, 1, "something else"), 'the reasons lack "panic"'),
    ],
)
def test_each_departure_is_named(got: Verdict, said: str) -> None:
    (only,) = shortfalls(Selftest(Status.FAIL, 1, says="panic"), got)
    assert only.startswith(said)

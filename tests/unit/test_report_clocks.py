# SPDX-License-Identifier: GPL-2.0-only
from dataclasses import replace

import pytest

from harness.analysis.claims import ClaimVerdict, Judgement
from harness.analysis.ensemble import Ensemble
from harness.analysis.interval import Interval
from harness.analysis.verdict import Verdict
from harness.report.clocks import Pair, page, rows
from harness.scenario.model import Status
from tests.unit.format_samples import everything

INTERVAL = Interval(low=0.70, high=0.78, centre=0.74, level=0.0156, rounds=6)


def verdict(*values: float, that: str = "it falls", interval: Interval | None = None) -> Verdict:
    ensemble = Ensemble(dict(enumerate(values, start=1))) if values else None
    judgement = Judgement(Status.PASS, ensemble, interval=interval)
    claim = ClaimVerdict(that, "a / b", "<= 1", False, judgement, "")
    return replace(everything(), claims=(claim,), controls=(), reproductions=())


def pair(virtual: Verdict, wall: Verdict) -> Pair:
    return Pair("lvm-shared-bus", "6.1", virtual, wall, "QEMU 7.2, TCG")


@pytest.mark.parametrize(("value", "agree"), [(0.72, True), (0.697, True), (0.78, True), (0.60, False), (0.90, False)])
def test_ratios_agree_where_they_overlap(value: float, agree: bool) -> None:
    (row,) = rows(pair(verdict(value), verdict(0.74, interval=INTERVAL)))
    assert row.agree is agree
    assert row.wall == "0.7400 [0.7000 .. 0.7800], 6 boots"


def test_without_an_interval_the_range_of_boots_counts() -> None:
    (row,) = rows(pair(verdict(0.70, 0.71), verdict(0.72, 0.75)))
    assert row.agree is False
    (row,) = rows(pair(verdict(0.70, 0.73), verdict(0.72, 0.75)))
    assert row.agree is True


def test_what_was_not_measured_or_stands_in_one_file_alone() -> None:
    (row,) = rows(pair(verdict(), verdict(0.74, interval=INTERVAL)))
    assert (row.virtual, row.agree) == ("-", None)
    assert rows(pair(verdict(0.7), verdict(0.7, that="another"))) == ()


def test_the_page() -> None:
    text = page([pair(verdict(0.60), verdict(0.74, interval=INTERVAL))], "blklab clocks")
    assert "## lvm-shared-bus on 6.1" in text
    assert "| it falls | 0.6000 | 0.7400 [0.7000 .. 0.7800], 6 boots | **differ** |" in text

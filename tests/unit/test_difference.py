# SPDX-License-Identifier: GPL-2.0-only
"""The one rule by which two sides differ: what is no difference, what is one, and what is worth a mark."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import fitted
from harness.grid.lines import KernelSide, ratio_line
from harness.judge.cells import CellResult, Ensemble
from harness.judge.claims import Judgement
from harness.judge.difference import (
    ArmFigure,
    Difference,
    NullEvidence,
    Precision,
    Significance,
    compare_cells,
    compare_figures,
    figure_difference,
    null_evidence,
    widest,
)
from harness.record.store import KernelFacts
from harness.scenario.model import Status
from lab.base.record import Outcome
from tests.unit.analysis_samples import cell, cells, ensemble, ratio

SMALL = NullEvidence(layout=0.25, seeds=0.3, single=0.5, pairs=4, arms=fitted.LEAST_ARMS, where="x")
FINE = replace(SMALL, layout=0.01, single=0.02)
EXACT = Precision(exact=True, alike=True)


def between(before: Sequence[float], after: Sequence[float], null: NullEvidence | None = None) -> Difference:
    return Difference(ensemble(*before), ensemble(*after), exact=True, evidence=null)


@pytest.mark.parametrize(
    ("before", "after", "null", "wanted"),
    [
        ((100, 102), (101, 103), None, Significance.NONE),
        ((100, 102), (102, 104), None, Significance.NONE),
        ((100, 102), (103, 104), None, Significance.REAL),
        ((100, 102), (95.5, 96), None, Significance.MARKED),
        ((60, 140), (50, 59), None, Significance.MARKED),
        ((100, 100), (105, 105), None, Significance.REAL),
        ((100, 100), (105.1, 105.1), None, Significance.MARKED),
        ((100, 100), (95.3, 95.3), None, Significance.REAL),
        ((100, 100), (95.1, 95.1), None, Significance.MARKED),
        ((0, 0), (1, 1), None, Significance.MARKED),
        ((-100, -100), (-94, -94), None, Significance.MARKED),
        # Single values: a factor of two, or more than any two boots.
        ((100,), (201, 202), None, Significance.MARKED),
        ((100,), (199, 200), None, Significance.UNKNOWN),
        ((1.2,), (56.0,), None, Significance.MARKED),
        ((10.0,), (20.0,), None, Significance.MARKED),
        ((10.0,), (19.9,), None, Significance.UNKNOWN),
        ((0.0,), (1.0,), None, Significance.MARKED),
        ((0.0,), (0.0,), None, Significance.UNKNOWN),
        ((100,), (150,), SMALL, Significance.UNKNOWN),
        ((100,), (151,), SMALL, Significance.MARKED),
        ((100, 100), (151,), SMALL, Significance.MARKED),
        ((0,), (1,), SMALL, Significance.MARKED),
        ((100,), (102.1,), FINE, Significance.MARKED),
        # Exactly what layout moves is no difference; it may move a figure by a factor, and no fall is above 100 %.
        ((100, 100), (125, 125), SMALL, Significance.REAL),
        ((100, 100), (126, 126), SMALL, Significance.MARKED),
        ((100, 100), (100.9, 101), FINE, Significance.REAL),
        ((100, 100), (102, 102), FINE, Significance.MARKED),
        ((100, 103), (102, 104), FINE, Significance.NONE),
        ((100, 100), (34, 34), replace(SMALL, layout=2.0), Significance.REAL),
        ((100, 100), (20, 20), replace(SMALL, layout=2.0), Significance.MARKED),
    ],
)
def test_a_difference_is_where_ranges_are_apart_and_marked_where_it_is_large(
    before: Sequence[float], after: Sequence[float], null: NullEvidence | None, wanted: Significance
) -> None:
    assert between(before, after, null).mark is between(after, before, null).mark is wanted
    lone = 1 in map(len, (before, after))
    # Nothing is exact that does not say so, and single values may then be noise.
    assert not lone or Difference(ensemble(*before), ensemble(*after)).mark is Significance.UNKNOWN
    assert Difference(ensemble(*before), None, exact=True).mark is Significance.UNKNOWN


VALUES = st.dictionaries(st.integers(1, 4), st.floats(0, 1e9), min_size=1)
SHARES = st.floats(0, 3)
NULLS = st.builds(NullEvidence, SHARES, SHARES, SHARES, st.just(4), st.just(3), st.just("x"), st.booleans())


@given(VALUES, VALUES, st.none() | NULLS, st.booleans())
def test_the_rule_is_symmetric(
    before: dict[int, float], after: dict[int, float], null: NullEvidence | None, exact: bool
) -> None:
    one, other = Ensemble(before), Ensemble(after)
    forwards, backwards = Difference(one, other, exact, null), Difference(other, one, exact, null)
    assert (forwards.size, forwards.sign, forwards.mark) == (backwards.size, -backwards.sign, backwards.mark)
    if forwards.size and one.median:
        assert forwards.share is not None and math.copysign(1, forwards.share) == forwards.sign


@given(st.lists(st.floats(1, 1e7), min_size=2, max_size=2), st.lists(st.floats(1, 1e7), min_size=2, max_size=2))
def test_cells_are_compared_alike_in_both_directions(rates: list[float], others: list[float]) -> None:
    """Above and below 1,000 IOPS a role among several is of another kind, with another threshold."""
    one, other = ([cell("none", seed, value, 5.0) for seed, value in enumerate(side, 1)] for side in (rates, others))
    for precision in (EXACT, replace(EXACT, alike=False)):
        forwards = [*compare_figures(one, other, ("iops",), precision)]
        backwards = [*compare_figures(other, one, ("iops",), precision)]
        assert {row.figure: (row.size, row.mark, row.threshold) for row in forwards} == {
            row.figure: (row.size, row.mark, row.threshold) for row in backwards
        }


@pytest.mark.parametrize(("value", "wanted"), [(101.5, Significance.REAL), (103.0, Significance.MARKED)])
def test_under_other_seeds_a_figure_differs_by_more_than_any_two_boots(value: float, wanted: Significance) -> None:
    before, after = ensemble(100, 100), Ensemble({3: value, 4: value})
    assert Difference(before, after, exact=True, evidence=FINE).mark is wanted
    assert between((100, 100), (value, value), FINE).mark is Significance.MARKED


def test_between_configurations_other_seeds_count_as_equal_ones() -> None:
    general = SMALL.between_configurations()
    other = Ensemble({3: 105.1, 4: 105.1})
    assert (general.layout, general.single, general.general) == (0.05, 0.5, True)
    assert Difference(ensemble(100, 100), other, exact=True, evidence=general).mark is Significance.MARKED
    assert Difference(ensemble(100, 100), other, exact=True, evidence=SMALL).mark is Significance.REAL
    assert replace(SMALL, single=0.01).between_configurations().single == 0.05


@pytest.mark.parametrize(
    ("before", "after", "share", "size", "sign"),
    [
        (ensemble(100, 120), ensemble(99), -0.1, 1 / 9, -1),
        (ensemble(0), ensemble(5), None, math.inf, 1),
        (ensemble(5), ensemble(0), -1.0, math.inf, -1),
        (None, ensemble(5), None, 0.0, 0),
        (ensemble(5), None, None, 0.0, 0),
    ],
)
def test_the_share_is_of_the_median_before_and_the_size_of_the_smaller_one(
    before: Ensemble | None, after: Ensemble | None, share: float | None, size: float, sign: int
) -> None:
    found = Difference(before, after)
    assert found.share is None if share is None else found.share == pytest.approx(share)
    assert found.size == pytest.approx(size)
    assert found.sign == sign
    assert found.apart is (sign != 0)


def test_a_figure_whose_kinds_differ_has_the_wider_threshold() -> None:
    known = {"rate, one role": FINE, "rate, several roles": SMALL}
    one = CellResult("a", 1, Status.PASS, figures={("l", "r", "iops"): 5000.0})
    two = replace(one, figures={**one.figures, ("l", "s", "iops"): 6000.0})
    figure, wide = ArmFigure("a", "l", "r", "iops"), replace(EXACT, known=known)
    assert figure_difference(figure, [one], [one], wide).evidence == FINE
    for sides in (([one], [two]), ([two], [one])):
        null = figure_difference(figure, *sides, wide).evidence
        assert null and (null.layout, null.single) == (0.25, 0.5)
        # Of a kind without null pairs the general thresholds hold.
        null = figure_difference(figure, *sides, replace(wide, known={"rate, one role": FINE})).evidence
        assert null and (null.layout, null.single) == (0.05, 1.0)
    assert widest([None, None]) is None
    assert figure_difference(figure, [one], [one], Precision(exact=False, alike=True, known=known)).evidence is None


@pytest.mark.parametrize(("ios", "marked"), [((76, 77), False), ((7600, 7700), True)])
def test_a_counter_of_a_window_moves_by_what_one_of_its_ios_counts(ios: tuple[int, int], *, marked: bool) -> None:
    """236 and 238 requests of 76 and 77 I/Os are those of a null pair."""
    known = {"counter below 1,000, one role": NullEvidence(0.008, 0.008, 0.008, 10, 10, "")}
    before, after = (
        CellResult("a", 1, Status.PASS, figures={("l", "r", "disk.requests"): count, ("l", "r", "total_ios"): total})
        for count, total in zip((236.0, 238.0), ios, strict=True)
    )
    figure = ArmFigure("a", "l", "r", "disk.requests")
    assert figure_difference(figure, [before], [after], replace(EXACT, known=known)).marked is marked


def test_a_claim_has_the_evidence_of_its_quotient_and_may_turn() -> None:
    judged = {0: Judgement(Status.FAIL, ensemble(0.5)), 1: Judgement(Status.PASS, ensemble(0.6))}
    kernels = (KernelFacts(release, release, "Debian", release) for release in ("6.1", "6.2", "6.3"))
    sides = {place: KernelSide(kernel, cells("none", 50)) for place, kernel in enumerate(kernels)}
    of = ratio("none.together.fast.iops", "none.solo.fast.iops")
    line = ratio_line("the share", of, judged, sides, exact=True)
    change, null = line.difference(0, 1), null_evidence()
    solo, slow = (null[f"rate, {company}"].single for company in ("one role", "several roles, below 1,000 IOPS"))
    assert change.turned and change.evidence is not None and change.evidence.general
    assert change.evidence.single == pytest.approx((1 + solo) * (1 + slow) - 1)
    lost = line.difference(0, 2)
    assert (lost.turned, lost.mark, lost.statuses) == (False, Significance.UNKNOWN, (Status.FAIL, None))


def test_what_one_side_lacks_has_the_reason_of_the_side_that_failed() -> None:
    died = CellResult("red", 1, Status.FAIL, ("it died", "at once"), outcome=Outcome.OOPS)
    before, after = [cell("none", 1, 95), cell("red", 1, 5)], [cell("none", 1, 80), died]
    rows = [*compare_cells(before, after, ("iops",), Precision())]
    assert [(".".join(row.figure), row.reason) for row in rows] == [
        *((f"none.{name}.iops", "") for name in ("solo.fast", "together.fast", "together.slow")),
        *((f"red.{name}.iops", "FAIL: it died; at once") for name in ("solo.fast", "together.fast", "together.slow")),
    ]
    assert [row.mark for row in rows] == [Significance.UNKNOWN] * 6
    extra = replace(after[0], figures={**after[0].figures, ("more", "fast", "iops"): 1.0})
    last = [row for row in compare_cells(before[:1], [extra], ("iops",), Precision()) if row.before is None]
    assert [(row.figure.load, row.reason) for row in last] == [("more", "measured on one side only")]


def test_a_boot_without_figures_gives_none_a_kind_and_no_other_arm_a_reason() -> None:
    lost, (made,) = CellResult("none", 1, Status.ERROR, ("killed",), outcome=Outcome.LOST), cells("none", 95)
    made = replace(made, seed=2)
    precision = replace(EXACT, known=null_evidence())
    assert [*compare_figures([lost, made], [made], ("iops",), precision)] == [
        *compare_figures([made], [made], ("iops",), precision)
    ]
    died = CellResult("red", 1, Status.FAIL, ("it oopsed",), outcome=Outcome.OOPS)
    reasons = {change.reason for change in compare_figures([died], [made], ("iops",), precision)}
    assert reasons == {"measured on one side only"}

# SPDX-License-Identifier: GPL-2.0-only
"""Ratios and bounds: the grammar, and the character at which a mistake stands."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.limits import bounds
from harness.scenario.metric_names import METRICS
from harness.scenario.model import Bound, Operand
from harness.scenario.ratio import ExpressionError, Names, parse_bound, parse_ratio

KNOWN = Names(("shared", "one-queue", "64"), {"solo": ("victim",), "lopsided": ("hog", "victim")})


def test_operands() -> None:
    ratio = parse_ratio("one-queue.solo.victim.lat.p99.9/bound.64.lopsided.hog.bw", KNOWN)
    assert ratio.left == Operand("figure", ("one-queue", "solo", "victim", "lat.p99.9"))
    assert ratio.right == Operand("bound", ("64", "lopsided", "hog", "bw"))
    assert parse_ratio(" 1.5 / shared.solo.victim.iops ", KNOWN).left == Operand("number", (), 1.5)
    assert parse_ratio("shared.solo.victim.iops", KNOWN).right is None
    right = parse_ratio("shared.solo.victim.iops / baseline.shared.solo.victim.iops", KNOWN).right
    assert right == Operand("baseline", ("shared", "solo", "victim", "iops"))


def test_what_an_arm_tries_is_an_operand() -> None:
    known = replace(KNOWN, tried={"shared": ("stack.md0.queue.max_sectors_kb",)})
    ratio = parse_ratio("shared.tried.accepted.stack.md0.queue.max_sectors_kb", known)
    assert ratio.left.path == ("shared", "tried", "accepted", "stack.md0.queue.max_sectors_kb")
    for text, says in (
        ("shared.tried.refused.stack.md0.queue.max_sectors_kb", "no result of a try refused"),
        ("shared.tried.effective.stack.md0.queue.nr_requests", "no setting under try: stack.md0.queue.nr_requests"),
        ("bound.shared.tried.accepted.stack.md0.queue.max_sectors_kb", "no load tried"),
    ):
        with pytest.raises(ExpressionError, match=says):
            parse_ratio(text, known)


def test_the_metrics_with_a_bound_are_those_that_the_analysis_knows() -> None:
    assert {name for name, metric in METRICS.items() if metric.bounded} == set(bounds.METRICS)


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_can_be_named(metric: str) -> None:
    assert parse_ratio(f"shared.solo.victim.{metric} / 2", KNOWN).left.path[3] == metric


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("sharde.solo.victim.iops", 0, "no arm sharde, did you mean shared?"),
        ("shared.sole.victim.iops", 7, "no load sole, did you mean solo?"),
        ("shared.solo.hog.iops", 12, "no role of load solo: hog"),
        ("shared.solo.victim.iosp", 19, "no metric iosp, did you mean iops?"),
        ("1 / baseline.shared.sole.victim.iops", 20, "no load sole"),
        ("shared.solo.victim.lat.max / bound.shared.solo.victim.lat.max", 54, "no metric with a bound: lat.max"),
        ("shared.solo.victim", 0, "expected arm.load.role.metric"),
        ("shared..victim.iops", 0, "expected arm.load.role.metric"),
        ("", 0, "an operand is missing"),
        ("/ 1", 0, "an operand is missing"),
        ("shared.solo.victim.iops /", 25, "an operand is missing"),
        ("shared.solo.victim.iops 2", 24, 'expected /, got "2"'),
        ("shared.solo.victim.iops / 2 / 3", 28, 'expected the end, got "/"'),
        ("shared.solo.victim.iops * 2", 24, 'unexpected "*"'),
        ("__import__('os')", 10, 'unexpected "("'),
        ("shared.solo.victim.iops / 0", 26, "division by zero"),
        ("shared.solo.victim.iops / 0.0", 26, "division by zero"),
        ("1 / 2", 4, "neither operand is measured"),
        ("3", 0, "a number alone measures nothing"),
        ("bound.shared.solo.victim.iops / 2", 32, "neither operand is measured"),
        ("shared.solo.victim.iops / shared.solo.victim.iops", 26, "always 1"),
    ],
)
def test_mistakes_in_a_ratio_are_reported_at_their_character(text: str, offset: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_ratio(text, KNOWN)
    assert message in caught.value.message
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (">= 0.9", (0.9, 1, 5), (0.89, 0)),
        ("> 0.9", (0.91,), (0.9, 0.1)),
        ("<= 0.15", (0.15, 0), (0.16,)),
        ("< 0.15", (0.14,), (0.15, 1)),
        ("0.98 .. 1.02", (0.98, 1, 1.02), (0.97, 1.03)),
        ("1..2", (1, 2), (0.5, 3)),
    ],
)
def test_bounds(text: str, inside: tuple[float, ...], outside: tuple[float, ...]) -> None:
    bound = parse_bound(text)
    assert all(bound.holds(value) for value in inside)
    assert not any(bound.holds(value) for value in outside)
    assert bound.text == text


@pytest.mark.parametrize(
    "text", ["", "0.9", ">= ", "=> 1", ">= -1", "1 .. ", "2 .. 1", ">= 0", "< 0", ">= 1 2", "1e5", "9" * 400]
)
def test_text_that_is_no_bound_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_bound(text)


@given(st.text(max_size=80))
def test_no_text_breaks_the_parsers(text: str) -> None:
    for parse in (parse_bound, lambda each: parse_ratio(each, KNOWN)):
        try:
            parse(text)
        except ExpressionError as error:
            assert 0 <= error.offset <= len(text)


@given(st.floats(0, 10**6), st.floats(0, 10**6))
def test_an_interval_holds_between_its_ends(low: float, high: float) -> None:
    bound = Bound("", min(low, high), max(low, high))
    assert bound.holds(low)
    assert bound.holds(high)
    assert not bound.holds(max(low, high) + 1)

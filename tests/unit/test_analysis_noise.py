# SPDX-License-Identifier: GPL-2.0-only
"""Intervals, the stopping rule, and what made-up runs with known truth say of both."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.noise import (
    ERROR,
    FEWEST_ROUNDS,
    MOST_ROUNDS,
    Decision,
    Interval,
    decide,
    finest_level,
    interval,
    more_rounds,
    scatter,
    stopping_rule,
)
from harness.scenario.model import Bound, Status
from tools.noise import Noise, page, rehearse

AT_LEAST = Bound(">= 0.9", 0.9, None)
BETWEEN = Bound("0.98 .. 1.02", 0.98, 1.02)
POSITIVE = st.lists(st.floats(0.01, 100), min_size=FEWEST_ROUNDS, max_size=30)


def test_an_interval_is_the_range_of_six_values_or_the_mean_of_the_outermost() -> None:
    seen = interval([1.0, 1.1, 0.9, 1.05, 1.2, 0.95], 1 / 64)
    assert seen is not None and (seen.low, seen.high) == pytest.approx((0.9, 1.2))
    assert (seen.level, seen.rounds) == (1 / 64, 6)
    seen = interval([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], 2 / 64)
    assert seen is not None and (seen.low, seen.high) == pytest.approx((math.sqrt(2), math.sqrt(32 * 16)))
    assert interval([1.0] * 5, ERROR) is None
    assert interval([], 1.0) is None
    assert interval([1.0] * 6, ERROR) is not None
    seen = interval([0.0] * 5 + [6.0], 1 / 64)
    assert seen is not None and (seen.low, seen.centre, seen.high) == (0.0, 1.0, 6.0)


@pytest.mark.parametrize("value", [3.0, 0.1, 7.0, 1e-9])
def test_what_never_differs_has_an_interval_of_no_width(value: float) -> None:
    for count in (6, 9, 12):
        seen = interval([value] * count, ERROR)
        assert seen is not None and (seen.low, seen.centre, seen.high) == (value, value, value)
    assert decide(stopping_rule(12), [value] * 6, Bound("", value, value)).status is Status.PASS


@pytest.mark.parametrize(
    ("edges", "opened", "within", "outside"),
    [
        ((0.9, None), "", True, False),
        ((0.9, None), "low", False, False),
        ((0.91, None), "", False, False),
        ((None, 1.0), "", True, False),
        ((None, 1.0), "high", False, False),
        ((None, 0.99), "", False, False),
        ((1.0, None), "", False, False),
        ((1.0, None), "low", False, True),
        ((1.01, None), "", False, True),
        ((None, 0.9), "", False, False),
        ((None, 0.9), "high", False, True),
        ((None, 0.89), "", False, True),
        ((0.5, 0.8), "", False, True),
        ((1.1, 1.2), "", False, True),
    ],
)
def test_an_interval_at_a_bound(
    edges: tuple[float | None, float | None], opened: str, within: bool, outside: bool
) -> None:
    seen = Interval(0.9, 1.0, 0.95, 1 / 64, 6)
    expect = Bound("", *edges, low_open=opened == "low", high_open=opened == "high")
    assert (seen.within(expect), seen.outside(expect)) == (within, outside)


@pytest.mark.parametrize(
    ("count", "steps", "low", "centre", "high"),
    [
        (20, 1, 0.5, 9.5, 18.5),  # ten pairs of neighbours
        (12, 1, 0.0, 5.5, 10.5),  # the fifth and the tenth batch have two
        (12, 2, 0.5, 5.5, 10.0),  # the first two together; the last two, 9 and (10, 11)
        (10, 1, 0.0, 4.5, 9.0),
    ],
)
def test_more_than_ten_values_are_batches(count: int, steps: int, low: float, centre: float, high: float) -> None:
    for shift in (0.0, -30.0):  # logarithms, and values that have none
        values = [number + shift if shift else math.exp(number) for number in range(count)]
        seen = interval(values, steps / 1024)
        assert seen is not None and (seen.level, seen.rounds) == (steps / 1024, count)
        ends = [each - shift if shift else math.log(each) for each in (seen.low, seen.centre, seen.high)]
        assert ends == pytest.approx([low, centre, high], abs=1e-9)
    assert [finest_level(number) for number in (1, 6, 10, 11)] == [1 / 2, 1 / 64, 1 / 1024, 1 / 1024]


@given(POSITIVE, st.floats(0.1, 10))
def test_it_moves_with_its_values(values: list[float], factor: float) -> None:
    one, scaled = interval(values, 1 / 64), interval([factor * value for value in values], 1 / 64)
    assert one is not None and scaled is not None
    assert min(values) * 0.999999 <= one.low <= one.high <= max(values) * 1.000001
    assert (scaled.low, scaled.high) == pytest.approx((factor * one.low, factor * one.high))


@pytest.mark.parametrize("count", [6, 9, 13])
def test_it_covers_the_truth_as_often_as_it_says(count: int) -> None:
    dice = random.Random(count)  # noqa: S311
    level, trials, below, above = 4 * finest_level(count), 800, 0, 0
    for _ in range(trials):
        # Symmetric about 1, and far from normal: two deviations, thirty times apart.
        values = [math.exp(dice.gauss(0, dice.choice((0.01, 0.3)))) for _ in range(count)]
        seen = interval(values, level)
        assert seen is not None
        below += seen.low > 1
        above += seen.high < 1
    allowed = 4 * math.sqrt(level * (1 - level) / trials)
    assert [below / trials, above / trials] == pytest.approx([level, level], abs=allowed)


@pytest.mark.parametrize("rounds", range(FEWEST_ROUNDS, MOST_ROUNDS + 1))
def test_the_looks_share_the_error(rounds: int) -> None:
    rule = stopping_rule(rounds)
    assert rule.looks[-1].rounds == rounds
    assert all(look.rounds >= FEWEST_ROUNDS and look.level >= finest_level(look.rounds) for look in rule.looks)
    assert ERROR - 0.0095 <= sum(look.level for look in rule.looks) <= ERROR


@pytest.mark.parametrize(
    ("rounds", "looks"),
    [
        (5, []),
        (6, [(6, 1 / 64)]),
        (11, [(11, 25 / 1024)]),
        (12, [(6, 1 / 64), (12, 9 / 1024)]),
        # A third of 0.025 is less than 1/64; what is left is halved.
        (24, [(6, 1 / 64), (12, 4 / 1024), (24, 5 / 1024)]),
        (40, [(10, 8 / 1024), (20, 8 / 1024), (40, 9 / 1024)]),
    ],
)
def test_looks_and_their_levels(rounds: int, looks: list[tuple[int, float]]) -> None:
    assert [(look.rounds, look.level) for look in stopping_rule(rounds).looks] == looks


def test_fewer_than_six_boots_a_side_decide_nothing() -> None:
    assert decide(stopping_rule(5), [2.0] * 5, AT_LEAST) == Decision(Status.DONE, None, 1)


@pytest.mark.parametrize(
    ("values", "bound", "status"),
    [
        ([0.95, 0.97, 0.96, 0.99, 0.94, 0.93], AT_LEAST, Status.PASS),
        ([0.5, 0.6, 0.4, 0.5, 0.3, 0.55], AT_LEAST, Status.FAIL),
        ([0.95, 0.97, 0.96, 0.99, 0.94, 0.89], AT_LEAST, Status.DONE),
        ([1.0, 1.01, 0.99, 1.0, 1.0, 1.01], BETWEEN, Status.PASS),
        ([1.03, 1.04, 1.03, 1.05, 1.03, 1.04], BETWEEN, Status.FAIL),
        ([1.0, 1.01, 0.99, 1.0, 1.0, 1.03], BETWEEN, Status.DONE),
        ([1.0] * 6, Bound("> 1", 1.0, None, low_open=True), Status.FAIL),
        ([0.0] * 6, Bound("<= 0.5", None, 0.5), Status.PASS),
    ],
)
def test_decisions(values: list[float], bound: Bound, status: Status) -> None:
    decision = decide(stopping_rule(6), values, bound)
    assert decision.status is status
    assert (decision.more is None) == (status is not Status.DONE)


def test_a_decision_falls_at_a_look_and_stays() -> None:
    rule = stopping_rule(12)
    late = decide(rule, [0.95] * 6 + [0.1] * 6, AT_LEAST)
    assert late.status is Status.PASS
    assert late.interval is not None and late.interval.rounds == 6
    rule = stopping_rule(12)
    undecided = [0.85, 0.95, 0.95, 0.95, 0.95, 0.95]
    between = decide(rule, [*undecided, *[0.95] * 5], AT_LEAST)
    assert between.status is Status.DONE
    assert between.interval is not None and between.interval.rounds == 6
    assert decide(rule, [*undecided, *[0.95] * 6], AT_LEAST).status is Status.PASS


# Six values, exp(s) and exp(-s) by turns, have the deviation 1.0954 s (sqrt(6 / 5)) about 1. The level of the last look
# is 3/128 from 7 rounds on, 25/1024 at 10 and 11, 9/1024 at 12 and 13, 17/1024 at 14 and 15. Its normal quantile and
# that of the power (0.8416) add up to 2.829, 2.812, 3.217 and 2.971, so r rounds do where deviation / distance is at
# most sqrt(r) over that: 0.935 (7), 0.9997 (8), 1.060 (9), 1.125 (10), 1.180 (11), 1.077 (12), 1.121 (13), 1.259 (14).
@pytest.mark.parametrize(
    ("ratio", "more"),
    [
        (0.93, 1),
        (0.94, 2),
        (0.999, 2),
        (1.0, 3),
        (1.07, 4),
        (1.12, 4),
        (1.13, 5),
        (1.17, 5),
        (1.19, 8),
        (1.25, 8),
        (1.27, 9),
    ],
)
def test_the_rounds_that_would_decide_follow_from_deviation_and_distance(ratio: float, more: int) -> None:
    deviation = ratio * 0.1 / math.sqrt(6 / 5)
    values = [math.exp(sign * deviation) for sign in (1, -1) * 3]
    for edges in ((math.exp(-0.1), None), (None, math.exp(0.1)), (math.exp(-0.1), 1e9), (1e-9, math.exp(0.1))):
        assert more_rounds(values, Bound("", *edges)) == more
    # Not positive: differences, not quotients.
    assert more_rounds([sign * deviation for sign in (1, -1) * 3], Bound("", -0.1, None)) == more


@pytest.mark.parametrize(("values", "more"), [([], 6), ([1.0], 5), ([1.0] * 5, 1), ([1.0] * 6, 1), ([1.0] * 9, 1)])
def test_without_a_distance_the_fewest_rounds_are_asked_for(values: list[float], more: int) -> None:
    """A ratio of positive values has no distance from 0, and fewer than two values have no deviation."""
    assert more_rounds(values, Bound(">= 0", 0.0, None)) == more
    if len(values) < 2:
        assert more_rounds(values, Bound(">= 0.5", 0.5, None)) == more
    # Two values have one: factors of four about 1, and 0.9 is nearer than 64 rounds tell.
    assert more_rounds([0.25, 4.0], Bound(">= 0.9", 0.9, None)) is None
    # As many rounds more as there are would not be more.
    assert more_rounds([0.99, 1.01] * 6, Bound("", 0.5, None)) == 1


def test_one_more_run_of_that_length_decides_four_times_of_five() -> None:
    noise = Noise("n", 0.08, 0.0)
    truth = 0.93
    more = more_rounds([truth * math.exp(sign * 0.08 * math.sqrt(2)) for sign in (1, -1) * 10], Bound("", 1.0, None))
    assert more is not None
    share = rehearse(noise, truth, rounds=20 + more, windows=1, trials=300)[0][Status.FAIL]
    assert 0.7 <= share <= 0.95


@pytest.mark.parametrize(
    "noise",
    [
        Noise("even", 0.05, 0.05),
        Noise("drifting", 0.05, 0.05, drift=0.02),
        Noise("stolen", 0.05, 0.05, stolen=0.1),
        Noise("boots only", 0.1, 0.0),
    ],
    ids=lambda noise: str(noise.name),
)
def test_the_rule_keeps_its_promise(noise: Noise) -> None:
    at_the_bound, _ = rehearse(noise, 1.0, trials=250)
    allowed = ERROR + 3 * math.sqrt(ERROR * (1 - ERROR) / 250)
    assert at_the_bound[Status.FAIL] <= allowed
    assert at_the_bound[Status.PASS] <= allowed


def test_it_stops_early_where_all_is_clear() -> None:
    verdicts, rounds = rehearse(Noise("busy", 0.05, 0.05), 0.5, trials=100)
    assert (verdicts[Status.FAIL], rounds) == (1, 6)


def test_the_page_is_made_of_its_seed_alone() -> None:
    text = page(trials=2)
    assert text == page(trials=2)
    assert text.count("\n| ") == 1 + 25


def test_scatter_between_rounds_excludes_that_of_their_windows() -> None:
    """Means of 0.1 and 1.1 have the variance 0.5, of which windows with 0.02 make 0.02 / 2."""
    rounds = [[math.exp(0.0), math.exp(0.2)], [math.exp(1.0), math.exp(1.2)]]
    got = scatter(rounds)
    assert got is not None
    assert got.boots == pytest.approx(0.7)
    assert got.windows == pytest.approx(math.sqrt(0.02))


def test_scatter_needs_two_of_each_and_positive_ratios() -> None:
    two = [[1.0, math.exp(2)], [math.exp(4), math.exp(6)]]
    assert scatter(two[:1]) is None and scatter([two[0], [1.0]]) is None and scatter([two[0], [1.0, -1.0]]) is None
    seen = scatter([[1.0, math.exp(2)], [1.0, math.exp(2)]])
    # Equal boots: the variance of their means is less than the windows give, which is no scatter of boots.
    assert seen is not None and (seen.boots, seen.windows) == pytest.approx((0.0, math.sqrt(2)))

# SPDX-License-Identifier: GPL-2.0-only
"""The posterior over commits, and what simulated histories with known truth say of it."""

import math
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bisect.search import Ends, Posterior, search

MANY = 10**6
"""Degrees of freedom with which Student's distribution is nearly the normal one."""
ENDS = Ends(good=1.0, bad=0.0, deviation=0.5, freedom=MANY)


def test_ends_come_from_what_was_measured() -> None:
    ends = Ends.of([1.0, 1.2, 0.8], [0.5, 0.3])
    assert [ends.good, ends.bad] == pytest.approx([1.0, 0.4])
    assert ends.deviation == pytest.approx(math.sqrt((0.04 + 0.04 + 0.02) / 3))
    assert ends.freedom == 3
    assert ends.apart == pytest.approx(0.6 / ends.deviation)
    with pytest.raises(ValueError, match="two measurements"):
        Ends.of([1.0], [0.5, 0.3])
    with pytest.raises(ValueError, match="do not scatter"):
        Ends.of([1.0, 1.0], [0.5, 0.5])


def test_bayes_rule() -> None:
    posterior = Posterior.of(ENDS, 4).updated(1, 1.0)
    # The ratio of likelihoods of 1.0 under the good and the bad mean is exp(2).
    weights = [1, 1, math.exp(2), math.exp(2)]
    assert posterior.chances == pytest.approx([weight / sum(weights) for weight in weights], rel=1e-4)


def test_a_deviation_known_by_few_measurements_convinces_less() -> None:
    known, few = (Posterior.of(Ends(1.0, 0.0, 0.5, freedom), 2).updated(0, 1.0) for freedom in (MANY, 3))
    # Student's density at 2 deviations over that at none, with 3 degrees of freedom: (1 + 4/3)^-2.
    assert few.chances[0] / few.chances[1] == pytest.approx((7 / 3) ** -2)
    assert few.chances[0] > known.chances[0]


def test_a_ratio_in_the_middle_says_nothing_and_one_far_from_both_breaks_nothing() -> None:
    flat = Posterior.of(ENDS, 8)
    assert flat.updated(3, 0.5).chances == pytest.approx(flat.chances)
    assert sum(flat.updated(3, 1e9).chances) == pytest.approx(1)


@given(st.lists(st.tuples(st.integers(0, 15), st.floats(-3, 4)), max_size=20))
def test_it_stays_a_probability(measurements: list[tuple[int, float]]) -> None:
    posterior = Posterior.of(ENDS, 16)
    for at, ratio in measurements:
        posterior = posterior.updated(at, ratio)
    assert math.fsum(posterior.chances) == pytest.approx(1)
    place = posterior.next_place()
    assert place is not None and 0 <= place < 15


@pytest.mark.parametrize("truth", [0, 1, 100, 255])
def test_without_noise_it_needs_the_logarithm(truth: int) -> None:
    measured: list[int] = []

    def measure(place: int) -> tuple[float]:
        measured.append(place)
        return (0.0 if place >= truth else 1.0,)

    suspects, chance = search(Posterior.of(Ends(1.0, 0.0, 0.01, MANY), 256), measure)
    assert ([*suspects], len(measured)) == ([truth], 8)
    assert chance > 0.999


def test_what_lies_between_two_that_could_be_tested_is_one() -> None:
    posterior = Posterior(ENDS, (0.1, 0.2, 0.3, 0.3, 0.1))
    assert posterior.likeliest() == (range(2, 3), 0.3)
    found, chance = posterior.likeliest({1, 2})
    assert found == range(1, 4)
    assert chance == pytest.approx(0.8)
    assert posterior.next_place({0, 1, 2}) == 3
    assert posterior.next_place({0, 1, 2, 3}) is None


def test_histories_with_noise_and_a_known_culprit() -> None:
    ends, noise, right = Ends(-1.0, 1.0, 1.0, MANY), Random(1), 0  # noqa: S311
    measured: list[int] = []

    def measure(truth: int, place: int) -> tuple[float]:
        measured.append(place)
        return (noise.gauss(1.0 if place >= truth else -1.0, 1.0),)

    for _ in range(150):
        truth = noise.randrange(256)
        suspects, _ = search(Posterior.of(ends, 256), partial(measure, truth))
        right += [*suspects] == [truth]
    # 99 % by its own account; three standard errors of 150 trials below that.
    assert right / 150 >= 0.99 - 3 * math.sqrt(0.99 * 0.01 / 150)
    # Eight steps of five repeats each are wrong with a probability of 10 %, for 40 measurements.
    assert len(measured) / 150 < 24

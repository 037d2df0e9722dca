# SPDX-License-Identifier: GPL-2.0-only
"""Names into ranges and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.topology.ranges import in_ranges, range_names


@pytest.mark.parametrize(
    ("names", "short"),
    [
        ((), ""),
        (("wire",), "wire"),
        (("d0", "d1"), "d0..1"),
        (("d08", "d09", "d10"), "d08..10"),
        (("d9", "d10"), "d9..10"),
        (("a0", "b1"), "a0, b1"),
        (("d0", "d1", "d3"), "d0..1, d3"),
        (("s1-up", "s2-up"), "s1..2-up"),
    ],
)
def test_names_are_shortened_to_ranges(names: tuple[str, ...], short: str) -> None:
    assert in_ranges(names) == short


@given(st.integers(0, 900), st.integers(2, 90))
def test_a_range_expands_to_the_names_it_was_made_from(first: int, count: int) -> None:
    names = tuple(f"d{number:03d}" for number in range(first, first + count))
    assert range_names(in_ranges(names)) == names

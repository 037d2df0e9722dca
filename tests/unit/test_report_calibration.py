# SPDX-License-Identifier: GPL-2.0-only
"""Headings of the table that shows several kernels."""

from harness.studies.calibration import headings


def test_what_a_distribution_appends_is_left_out() -> None:
    assert headings(["5.10.0-46-amd64", "6.12.107+deb13-amd64"]) == ["5.10.0", "6.12.107"]


def test_unless_it_is_all_that_tells_them_apart() -> None:
    both = ["6.1.0-50-amd64", "6.1.0-51-amd64"]
    assert headings(both) == both

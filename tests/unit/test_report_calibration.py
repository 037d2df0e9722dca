# SPDX-License-Identifier: GPL-2.0-only
"""Headings of the table that shows several kernels."""

from harness.studies.calibration import headings


def test_what_a_distribution_appends_is_left_out() -> None:
    assert headings(["5.10.0-46-amd64", "6.12.107+deb13-amd64"]) == ["5.10.0", "6.12.107"]


def test_a_suffix_is_kept_when_releases_differ_only_in_it() -> None:
    both = ["6.1.0-50-amd64", "6.1.0-51-amd64"]
    assert headings(both) == both

# SPDX-License-Identifier: GPL-2.0-only
"""Kernel releases in their order."""

import itertools

import pytest

from lab.kernels.model import Release

IN_ORDER = [
    "2.4.21",
    "5.10",
    "5.10.0-9-amd64",
    "5.10.0-46-amd64",
    "6.1-rc1",
    "6.1-rc10",
    "6.1",
    "6.1.0-50-amd64",
    "6.1.9",
    "6.1.176",
    "6.12.107+deb13-amd64",
    "7.2-rc3",
    "7.2",
]


@pytest.mark.parametrize(("older", "newer"), list(itertools.pairwise(IN_ORDER)))
def test_order(older: str, newer: str) -> None:
    assert Release.parse(older) < Release.parse(newer)
    assert not Release.parse(newer) < Release.parse(older)


@pytest.mark.parametrize("text", IN_ORDER)
def test_text_is_kept(text: str) -> None:
    assert str(Release.parse(text)) == text
    assert Release.parse(text) == Release.parse(text)


def test_a_missing_number_is_nought_and_debian_candidates_come_before_their_release() -> None:
    assert Release.parse("5.10") == Release.parse("5.10.0")
    assert hash(Release.parse("5.10")) == hash(Release.parse("5.10.0"))
    assert Release.parse("7.2~rc3-1~exp1") < Release.parse("7.2.0-1")


@pytest.mark.parametrize(("text", "series"), [("6.12.107+deb13-amd64", "6.12"), ("7.2-rc3", "7.2"), ("6.10", "6.10")])
def test_series(text: str, series: str) -> None:
    assert Release.parse(text).series == series


@pytest.mark.parametrize("text", ["", "linux", "6", "v6.1"])
def test_what_is_no_release(text: str) -> None:
    with pytest.raises(ValueError, match="not a kernel release"):
        Release.parse(text)

# SPDX-License-Identifier: GPL-2.0-only
"""Debian's fields and versions."""

import itertools
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.packages.sources import paragraphs
from lab.packages.version import version_key

IN_ORDER = ["1.0~rc1-1", "1.0-1~bpo12+1", "1.0-1", "1.0-1+b1", "1.0a-1", "1.0+x-1", "1.9-1", "1.10-1", "1:0.1-1"]


@pytest.mark.parametrize(("older", "newer"), list(itertools.pairwise(IN_ORDER)))
def test_order(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


def test_no_revision_is_revision_zero() -> None:
    assert version_key("0") == version_key("0-0")


VERSIONS = st.from_regex(r"([0-2]:)?[0-2][0-2a+~.]{0,4}(-[0-2a+~.]{1,3})?", fullmatch=True)


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="dpkg is the judge")
@settings(max_examples=60)
@given(VERSIONS, VERSIONS)
def test_order_is_that_of_dpkg(one: str, other: str) -> None:
    judged = subprocess.run(["dpkg", "--compare-versions", one, "lt", other], check=False, capture_output=True)
    assert (version_key(one) < version_key(other)) == (judged.returncode == 0)


def test_paragraphs() -> None:
    text = "# a comment\nPackage: a\nDepends: b,\n c\n\n\nPackage: d\nUrl: http://x:1\n"
    assert list(paragraphs(text)) == [{"package": "a", "depends": "b,\nc"}, {"package": "d", "url": "http://x:1"}]

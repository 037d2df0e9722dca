# SPDX-License-Identifier: GPL-2.0-only
"""Mailboxes that are hostile to a parser, or large."""

from contextlib import suppress
from pathlib import Path

import pytest

from harness.patch.series import read_series
from lab.base.errors import Misuse
from tests.unit.series_samples import series_of

NESTED = "".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(2000))


@pytest.mark.parametrize("head", ["From: ((((", f"From: {'(' * 50_000}", "Subject: =?x?q?", f"From: a\n{NESTED}"])
def test_mails_that_no_parser_reads_are_no_traceback(head: str, tmp_path: Path) -> None:
    """Whether Python's parser reads one depends on its version."""
    path = series_of(tmp_path, f"{head}\nSubject: x\n\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n")
    with suppress(Misuse):
        (patch,) = read_series(path)
        assert patch.file == path


def test_a_mailbox_is_read_in_linear_time_and_bounded(tmp_path: Path) -> None:
    """A hundred thousand separators; the line of each mail was counted from the start of the file."""
    separator = "From 0123abcd Mon Sep 17 00:00:00 2001\n"
    many = series_of(tmp_path, *[f"{separator}Subject: x\n\nx\n"] * 100_000)
    with pytest.raises(Misuse, match=r"series\.mbox has 100000 mails, more than 10000"):
        read_series(many)
    few = [f"{separator}Subject: {n}\n\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n" for n in range(20)]
    patches = read_series(series_of(tmp_path, *few))
    lines = series_of(tmp_path, *few).read_text().splitlines()
    assert [patch.line for patch in patches] == [n for n, line in enumerate(lines, 1) if line.startswith("From ")]

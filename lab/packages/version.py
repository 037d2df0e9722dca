# SPDX-License-Identifier: GPL-2.0-only
"""Debian package versions as sortable keys (Debian policy, section 5.6.12)."""

import re

_PARTS = re.compile(r"(\D*)(\d*)")

Key = tuple[int, tuple[tuple[tuple[int, ...], int], ...], tuple[tuple[tuple[int, ...], int], ...]]


def version_key(version: str) -> Key:
    """A key that orders versions as dpkg does: ``~`` before the end, the end before letters."""
    epoch, _, rest = version.rpartition(":")
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return int(epoch or 0), _key(upstream), _key(revision)


def _key(text: str) -> tuple[tuple[tuple[int, ...], int], ...]:
    # A bare zero is the same as nothing, as in a revision that is not there.
    parts = [(words, digits) for words, digits in _PARTS.findall(text if text.strip("0") else "") if words or digits]
    # The closing part stands for "nothing more": it sorts behind ~ and before any letter.
    return (*((_weights(words), int(digits or 0)) for words, digits in parts), ((0,), 0))


def _weights(words: str) -> tuple[int, ...]:
    return (*(-1 if c == "~" else ord(c) if c.isalpha() else ord(c) + 256 for c in words), 0)

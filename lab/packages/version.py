# SPDX-License-Identifier: GPL-2.0-only
"""Debian package versions as sortable keys (Debian policy, section 5.6.12)."""

import re

_PARTS = re.compile(r"(\D*)(\d*)")

_NOTHING = ((0,), 0)

Key = tuple[int, tuple[tuple[tuple[int, ...], int], ...], tuple[tuple[tuple[int, ...], int], ...]]


def version_key(version: str) -> Key:
    """A key that orders versions as dpkg does: ``~`` before the end, the end before letters."""
    epoch, _, rest = version.rpartition(":")
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return int(epoch or 0), _key(upstream), _key(revision)


def _key(text: str) -> tuple[tuple[tuple[int, ...], int], ...]:
    parts = [(_weights(words), int(digits or 0)) for words, digits in _PARTS.findall(text) if words or digits]
    # dpkg continues past the end as if empty words and zeros followed for ever. A zero at the start is
    # the only part that looks the same, so two such parts give the order of an infinite sequence.
    return (*(() if parts == [_NOTHING] else parts), _NOTHING, _NOTHING)


def _weights(words: str) -> tuple[int, ...]:
    return (*(-1 if c == "~" else ord(c) if c.isalpha() else ord(c) + 256 for c in words), 0)

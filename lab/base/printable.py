# SPDX-License-Identifier: GPL-2.0-only
"""Text of a guest without what a terminal would obey."""

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """``text`` with control characters and changes of direction as ``\\xNN`` or ``\\uNNNN``; tabs and newlines stay."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)

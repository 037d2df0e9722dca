# SPDX-License-Identifier: GPL-2.0-only
"""The ``expect:`` of a claim: ``>= 0.9``, ``<= 0.15``, ``> 1``, ``< 1`` or ``0.98 .. 1.02``."""

import re

from harness.scenario.expression import ExpressionError
from harness.scenario.model import Bound

_NUMBER = r"(\d{1,15}(?:\.\d{1,15})?)"
_ONE_SIDED = re.compile(rf"\s*(>=|<=|>|<)\s*{_NUMBER}\s*")
_INTERVAL = re.compile(rf"\s*{_NUMBER}\s*\.\.\s*{_NUMBER}\s*")
BOUND_PATTERN = rf"{_ONE_SIDED.pattern}|{_INTERVAL.pattern}"


def parse_bound(text: str) -> Bound:
    """Raises ExpressionError for text that is no bound, and for a bound that always or never holds."""
    if match := _ONE_SIDED.fullmatch(text):
        op, limit = match[1], float(match[2])
        if limit == 0 and op in {">=", "<"}:
            word = "always" if op == ">=" else "never"
            raise ExpressionError(match.start(1), f'"{text.strip()}" {word} holds: no figure is negative')
        if op.startswith(">"):
            return Bound(text, limit, None, low_open=op == ">")
        return Bound(text, None, limit, high_open=op == "<")
    if match := _INTERVAL.fullmatch(text):
        low, high = float(match[1]), float(match[2])
        if low > high:
            raise ExpressionError(
                match.start(1), f"the interval {text.strip()} is empty", "write the smaller limit first"
            )
        return Bound(text, low, high)
    raise ExpressionError(0, f'expected a bound, got "{text[:60]}"', 'such as ">= 0.9", "<= 0.15" or "0.98 .. 1.02"')

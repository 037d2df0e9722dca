# SPDX-License-Identifier: GPL-2.0-only
"""Ranges of kernels in scenario files (``lab.kernels.ranges``)."""

from harness.scenario.ratio import ExpressionError
from lab.kernels import ranges
from lab.kernels.ranges import RANGE_PATTERN, KernelRange, RangeError
from lab.kernels.release import Release

__all__ = ["RANGE_PATTERN", "is_in", "parse_range"]


def parse_range(text: str) -> KernelRange:
    """Raises ExpressionError for text that is no range, and for an empty range."""
    try:
        return ranges.parse_range(text)
    except RangeError as error:
        raise ExpressionError(error.offset, error.message, error.remedy) from error


def is_in(release: str, kernels: str) -> bool:
    """Whether a kernel is in the range. False for a release that cannot be parsed."""
    try:
        version = Release.parse(release)
    except ValueError:
        return False
    return parse_range(kernels).has(version)

# SPDX-License-Identifier: GPL-2.0-only
"""Ranges of kernels in scenario files (``lab.kernels.ranges``)."""

from lab.kernels.ranges import parse_range
from lab.kernels.release import Release

__all__ = ["is_in", "parse_range"]


def is_in(release: str, kernels: str) -> bool:
    """Whether a kernel is in the range. False for a release that cannot be parsed."""
    try:
        version = Release.parse(release)
    except ValueError:
        return False
    return parse_range(kernels).has(version)

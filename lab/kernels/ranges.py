# SPDX-License-Identifier: GPL-2.0-only
"""Ranges of kernel releases, as scenarios, mutants, fixups and configuration fragments write them.

A range is ``>= 5.8``, ``< 5.14`` or both with a comma between them, or one version alone, which
means everything that starts with its numbers: ``5.10`` is the whole series with its release
candidates. ``<=`` and ``>`` are refused, as it is unclear whether ``<= 5.14`` includes 5.14.9.

A kernel is known by its own release (``uname -r``) as ``lab.kernels.release`` orders it: 5.14-rc3
lies before 5.14, and ``< 5.14-rc1`` leaves the candidates out. Where a distribution keeps the patch
level out of the release (Debian's ``6.1.0-50-amd64`` is 6.1.176), only series can be told apart.
"""

import re
from dataclasses import dataclass

from lab.kernels.release import Release

_VERSION = r"\d{1,4}\.\d{1,4}(?:\.\d{1,5})?(?:-rc\d{1,3})?"
_ALONE = re.compile(rf"\s*({_VERSION})\s*", re.ASCII)
_LIMITS = re.compile(rf"\s*(?:>=\s*({_VERSION})\s*(?:,\s*<\s*({_VERSION})\s*)?|<\s*({_VERSION})\s*)", re.ASCII)
RANGE_PATTERN = f"{_ALONE.pattern}|{_LIMITS.pattern}".replace(r"\d", "[0-9]")


class RangeError(ValueError):
    """Text that is no range. ``offset`` counts characters from 0; ``remedy`` may be empty."""

    def __init__(self, offset: int, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.offset, self.message, self.remedy = offset, message, remedy


@dataclass(frozen=True)
class KernelRange:
    """Kernels from ``least`` on and before ``below`` (None is no limit), or those that ``alone`` names."""

    least: Release | None = None
    below: Release | None = None
    alone: Release | None = None

    def has(self, release: Release) -> bool:
        if self.alone is not None:
            return _starts(self.alone, release)
        above = self.least is None or release >= self.least
        return above and (self.below is None or release < self.below)


def parse_range(text: str) -> KernelRange:
    """Raises RangeError for text that is no range and for a range without kernels in it."""
    if match := _ALONE.fullmatch(text):
        return KernelRange(alone=Release.parse(match[1]))
    match = _LIMITS.fullmatch(text)
    if match is None:
        raise RangeError(0, f'expected kernels, got "{text[:60]}"', 'such as "5.10" or ">= 5.8, < 5.14"')
    least, below = (Release.parse(limit) if limit else None for limit in (match[1], match[2] or match[3]))
    if least and below and least >= below:
        raise RangeError(match.start(1), f"no kernel is in {text.strip()}", "put the older version first")
    return KernelRange(least, below)


def _starts(named: Release, release: Release) -> bool:
    if "-rc" in named.text:
        return (named.numbers, named.candidate) == (release.numbers, release.candidate)
    written = named.text.count(".") + 1
    return named.numbers[:written] == release.numbers[:written]

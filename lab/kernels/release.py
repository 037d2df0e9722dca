# SPDX-License-Identifier: GPL-2.0-only
"""Kernel releases as ordered values."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_FORM = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:[-~]rc(\d+))?(.*)")
_CHUNK = re.compile(r"(\d+)|(\D+)")
_FINAL = 1 << 30


@dataclass(frozen=True, order=True)
class Release:
    """A release such as ``6.1.176``, ``7.2-rc3`` or ``6.12.107+deb13-amd64``.

    Ordered by number, a release candidate before its final release, then by what follows, in
    which digits count as numbers. ``5.10`` equals ``5.10.0``.
    """

    numbers: tuple[int, int, int, int]
    candidate: int
    local: tuple[tuple[int, str], ...]
    text: str = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> "Release":
        """Raises ValueError when ``text`` does not start as a kernel release does."""
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise ValueError(f'"{text}" is not a kernel release such as 6.1, 7.2-rc3 or 6.12.107+deb13-amd64')
        major, minor, patch, sublevel = (int(match[group] or 0) for group in (1, 2, 3, 4))
        candidate = _FINAL if match[5] is None else int(match[5])
        local = tuple((int(digits), "") if digits else (-1, words) for digits, words in _CHUNK.findall(match[6]))
        return cls((major, minor, patch, sublevel), candidate, local, text.strip())

    @property
    def series(self) -> str:
        """Major and minor number, such as ``6.1``."""
        return f"{self.numbers[0]}.{self.numbers[1]}"

    def __str__(self) -> str:
        return self.text


def series_of(release: str) -> str:
    """``6.1`` for 6.1.0-50-amd64; the text itself where it is no release."""
    try:
        return Release.parse(release).series
    except ValueError:
        return release


def by_release(release: str) -> tuple[bool, Release | None, str]:
    """Sort key of releases by version; text that is no release comes last."""
    try:
        return False, Release.parse(release), release
    except ValueError:
        return True, None, release


def short_releases(releases: Sequence[str]) -> list[str]:
    """Releases without the distribution's suffix, if they remain distinct."""
    short = [re.split(r"[-+]", release)[0] for release in releases]
    return short if len(set(short)) == len(set(releases)) else [*releases]

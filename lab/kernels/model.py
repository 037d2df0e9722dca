# SPDX-License-Identifier: GPL-2.0-only
"""A kernel as the rest of the lab sees it, and kernel releases as ordered values.

Scenarios, mutants, fixups and fragments write ranges of releases. A range is ``>= 5.8``, ``< 5.14`` or both with a
comma between them, or one version alone, which means everything that starts with its numbers: ``5.10`` is the whole
series with its release candidates. ``<=`` and ``>`` are refused, as it is unclear whether ``<= 5.14`` includes 5.14.9.
Where a distribution keeps the patch level out of the release (Debian's ``6.1.0-50-amd64`` is 6.1.176), only series
can be told apart.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_FORM = re.compile(r"([0-9]+)\.([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?(?:[-~]rc([0-9]+))?(.*)")
_CHUNK = re.compile(r"([0-9]+)|([^0-9]+)")
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


_VERSION = r"[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,5})?(?:-rc[0-9]{1,3})?"
_ALONE = re.compile(rf"\s*({_VERSION})\s*", re.ASCII)
_LIMITS = re.compile(rf"\s*(?:>=\s*({_VERSION})\s*(?:,\s*<\s*({_VERSION})\s*)?|<\s*({_VERSION})\s*)", re.ASCII)
RANGE_PATTERN = f"{_ALONE.pattern}|{_LIMITS.pattern}"


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


EVERY_KERNEL = KernelRange()


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


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be booted from files on this host.

    ``modules`` is the folder that holds ``modules.dep`` and friends, complete and readable (made
    by depmod where the source had none); module files may be .ko, .ko.xz or .ko.zst. ``config``
    maps ``CONFIG_X`` to ``y``, ``m`` or its value; options that are not set are absent.
    ``vmlinux`` is the image's uncompressed ELF, to be booted through its PVH note (saves seconds of
    decompression under emulation), None where the image has none. ``digest`` identifies image and
    modules together: sha256 in hex. ``mutant`` names the patch that breaks it on purpose. ``build``
    identifies the recipe of a kernel that was built here (options, fixups, compiler), empty for any other.
    ``fresh``: it was built now, and not in the cache.
    """

    spec: str
    release: str
    version: Release
    origin: str
    image: Path
    vmlinux: Path | None
    modules: Path
    config: Mapping[str, str]
    digest: str
    mutant: str = ""
    build: str = ""
    fresh: bool = field(default=False, compare=False)

    def has(self, option: str) -> bool:
        """Whether ``CONFIG_<option>`` is built in or a module."""
        return self.config.get(f"CONFIG_{option}") in ("y", "m")

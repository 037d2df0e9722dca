# SPDX-License-Identifier: GPL-2.0-only
"""Every kernel package that Debian's suites list or the cache keeps, and ranges of them (``--kernels``)."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lab.base.cache import Cache
from lab.base.errors import BlklabError, Misuse
from lab.base.units import Tell
from lab.kernels import debian, store
from lab.kernels.release import Release
from lab.packages import sources
from lab.packages.apt import Archive
from lab.packages.store import read_pins

SUITES = (
    *("bullseye", "bullseye-security", "bookworm", "bookworm-security", "bookworm-backports"),
    *("trixie", "trixie-security", "trixie-backports", "forky", "sid"),
)
ALL = "debian:all"
_TO = ".."
_END = re.compile(r"debian:(\d+\.\d+)")


@dataclass(frozen=True)
class Offer:
    """One version of the image package."""

    version: str
    suite: str
    cached: bool = False

    @property
    def series(self) -> str:
        return Release.parse(self.version).series

    @property
    def spec(self) -> str:
        return f"debian:{self.version}"


def offers(cache: Cache, tell: Tell) -> tuple[Offer, ...]:
    """What the suites list and what is cached, oldest version first; ``tell`` hears of suites that fail."""
    listed: dict[str, Offer] = {}
    archive = Archive(cache, sources.debian(), tell)
    for suite in SUITES:
        try:
            for image in debian.offered(archive, suite):
                listed.setdefault(image.version, Offer(image.version, suite))
        except BlklabError as error:
            tell(f"{suite} is not listed: {error.message}")
    listed.update((offer.version, offer) for offer in _offers_of_cache(cache))
    return tuple(sorted(listed.values(), key=lambda offer: Release.parse(offer.version)))


def expand(text: str, listed: Callable[[], Sequence[Offer]]) -> tuple[str, ...]:
    """Specs, each once: ``A .. B`` is the newest of each series from A to B, ``debian:all`` every version.

    ``listed`` is only called for these two. Raises Misuse for a range that cannot be read.
    """
    words, specs = text.split(), list[str]()
    while words:
        word = words.pop(0)
        if words[:1] == [_TO]:
            if len(words) == 1:
                raise _no_range(f"{word} {_TO}")
            specs += _between(word, words[1], listed)
            del words[:2]
        elif word == _TO or (_TO in word and word.startswith("debian:")):
            raise _no_range(word)
        elif word == ALL:
            specs += (offer.spec for offer in listed())
        else:
            specs.append(word)
    return tuple(dict.fromkeys(specs))


def _between(first: str, last: str, listed: Callable[[], Sequence[Offer]]) -> Iterator[str]:
    """The ends are in it even where nothing offers them: they are reported as missing then."""
    ends = [match[1] if (match := _END.fullmatch(end)) else "" for end in (first, last)]
    if not all(ends) or Release.parse(ends[0]) > Release.parse(ends[1]):
        raise _no_range(f"{first} {_TO} {last}")
    low, high = map(Release.parse, ends)
    known = {*ends, *(offer.series for offer in listed())}
    for series in sorted(known, key=Release.parse):
        if low <= Release.parse(series) <= high:
            yield f"debian:{series}"


def _no_range(text: str) -> Misuse:
    return Misuse(
        f'"{text}" is not a range of kernels',
        remedy='two series of Debian kernels, the older one first: "debian:6.12 .. debian:7.3"',
    )


def _offers_of_cache(cache: Cache) -> Iterator[Offer]:
    for pin in read_pins(cache, "debian-"):
        if cache.find(store.KIND, pin.digest) is not None:
            image = pin.packages[0]
            yield Offer(image.version, image.suite, cached=True)

# SPDX-License-Identifier: GPL-2.0-only
"""Kernels as Debian packages them: ``debian:`` and a series, an exact package version, or a suite.

Also every kernel package that the suites list or the cache keeps, and ranges of them (``--kernels``).
"""

import gzip
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base.cache import Cache
from lab.base.errors import BlklabError, CannotJudge, LabBroken, Misuse
from lab.base.units import Tell
from lab.kernels import store
from lab.kernels.model import EVERY_KERNEL, Kernel, KernelRange, Release
from lab.packages import sources
from lab.packages.apt import Archive, Package
from lab.packages.store import Choose, Pin, read_pin, read_pins, unpacked

# Series to the suites that carry it: groups in order of preference, the newest within a group wins.
SERIES: dict[str, tuple[tuple[str, ...], ...]] = {
    "5.10": (("bullseye", "bullseye-security"),),
    "6.1": (("bookworm", "bookworm-security"),),
    "6.12": (("trixie", "trixie-security"), ("bookworm-backports",)),
    "7.2": (("forky",), ("trixie-backports",), ("sid",)),
}
# Any other series has passed through one of these.
_OTHERS = (("sid",), ("forky",), ("trixie-backports",), ("bookworm-backports",))
_CODENAMES = {"11": "bullseye", "12": "bookworm", "13": "trixie", "14": "forky"}

_SERIES_FORM = re.compile(r"[0-9]+\.[0-9]+(?:\.[0-9]+)?")
_VERSION_FORM = re.compile(r"(?:[0-9]+:)?[0-9]+\.[0-9]+\.[0-9]+[A-Za-z0-9.+~]*-[A-Za-z0-9.+~]+")
_SUITE_FORM = re.compile(r"[a-z]+(?:-[a-z]+)*")
IMAGES = r"linux-image-[0-9]+\.[0-9]+\.[0-9]+(?!.*(?:cloud|rt|unsigned|dbg|debug)).*-amd64"
"""Of every kernel that a suite lists; no cloud, real-time, unsigned or debug kernels."""
_CHANGELOG = "changelog.gz"
_PARTS = re.compile(r"(linux-(?:image|binary|modules|base)-[0-9][^\s,|]*) \(=")


def resolve(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """``wanted`` is what follows ``debian:``. Raises CannotJudge when no suite has such a kernel."""
    pin = f"debian-{wanted}"
    return fetched(f"debian:{wanted}", pin, choice(wanted), "debian", cache, refresh=refresh, tell=tell)


def pinned(spec: str, cache: Cache) -> Pin | None:
    """The packages of a kernel that was resolved, None for one that is not Debian's."""
    kind, _, wanted = spec.partition(":")
    return read_pin(cache, f"debian-{wanted}") if kind == "debian" else None


def fetched(
    spec: str,
    pin: str,
    choose: Choose,
    distribution: str,
    cache: Cache,
    *,
    refresh: bool,
    tell: Tell,
) -> Kernel:
    """The kernel of the packages that are pinned as ``pin``, or that ``choose`` takes from the ``distribution``."""
    made = unpacked(
        cache,
        pin,
        choose,
        tell,
        distribution=distribution,
        kind=store.KIND,
        finish=store_unpacked,
        refresh=refresh,
    )
    return store.load(made.folder, spec, origin_of(distribution.title(), made.pin))


def suites_of(series: str) -> Sequence[Sequence[str]]:
    """Groups of suites that carry the kernels of a series, in order of preference."""
    return SERIES.get(series, _OTHERS)


def origin_of(distribution: str, pin: Pin) -> str:
    """Where a pinned kernel comes from, in words."""
    first = pin.packages[0]
    unlisted = " and ".join(package.name.split("-")[1] for package in pin.packages if not package.listed)
    note = f" ({unlisted} from the pool, with a checksum that no list signs)" if unlisted else ""
    return f"{distribution} {first.suite}, {first.name} {first.version}{note}"


def store_unpacked(tree: Path, into: Path, pin: Pin) -> None:
    """Keep the kernel of an unpacked tree. Raises LabBroken when there is not exactly one."""
    names = ", ".join(package.name for package in pin.packages)
    what = f"kernels with image, configuration and modules in {names}, 1 expected"
    changelogs = sorted(tree.glob("usr/share/doc/linux-*/changelog*.gz"))
    store.keep_only(tree, into, lambda number: LabBroken(f"{number} {what}"))
    if changelogs:
        shutil.copyfile(changelogs[0], into / _CHANGELOG)


def changelog(kernel: Kernel) -> str:
    """That of its package; empty where it is not kept, as that of packages unpacked by earlier versions."""
    path = kernel.image.parent / _CHANGELOG
    return gzip.decompress(path.read_bytes()).decode(errors="replace") if path.is_file() else ""


def choice(wanted: str) -> Choose:
    if _SERIES_FORM.fullmatch(wanted):
        return _newest_in(suites_of(Release.parse(wanted).series), wanted)
    if _VERSION_FORM.fullmatch(wanted):
        return _exactly(wanted)
    if _SUITE_FORM.fullmatch(wanted):
        return _newest_in(((wanted,),), "")
    raise Misuse(
        f'"debian:{wanted}" is not a kernel',
        remedy="give a series (debian:6.1) or stable release (debian:6.1.176), a package version (debian:6.1.176-1) or"
        " a suite (debian:trixie)",
    )


def _newest_in(groups: Sequence[Sequence[str]], series: str) -> Choose:
    """The newest kernel of a series or stable release (any when empty) in the first group of suites that has one."""
    named = KernelRange(alone=Release.parse(series)) if series else EVERY_KERNEL
    return lambda archive: with_parts(
        archive, newest(archive, groups, f"kernel {series}".strip(), IMAGES, named.has, named=named.alone)
    )


def _exactly(version: str) -> Choose:
    rebuilt = re.search(r"~(bpo|deb)([0-9]+)", version)
    if rebuilt is not None:
        pocket = {"bpo": "backports", "deb": "security"}[rebuilt[1]]
        groups: Sequence[Sequence[str]] = ((f"{_CODENAMES.get(rebuilt[2], f'debian{rebuilt[2]}')}-{pocket}",),)
    else:
        groups = suites_of(Release.parse(version).series)
    what = f"kernel {version} (any more)"
    return lambda archive: with_parts(
        archive, newest(archive, groups, what, IMAGES, lambda offered: offered.text == version)
    )


def newest(
    archive: Archive,
    groups: Sequence[Sequence[str]],
    what: str,
    pattern: str,
    wanted: Callable[[Release], bool] = lambda _: True,
    *,
    named: Release | None = None,
) -> Package:
    """The newest of the packages in the first group of suites that has one. Raises CannotJudge, which names ``what``.

    Of each group only the suites are asked that the host can reach; all when it can reach none, for the error's sake.
    For a release ``named`` of a later major version than may follow that of sid, no other group is asked.
    """
    for group in groups:
        suites = [suite for suite in group if archive.distribution.has(suite)] or group
        listed = (package for suite in suites for package in archive.search(suite, pattern))
        versions = [(Release.parse(package.version), package) for package in listed]
        if fit := [pair for pair in versions if wanted(pair[0])]:
            return max(fit, key=lambda pair: pair[0])[1]
        last = max((version for version, _ in versions), default=None)
        if named and last and group == ("sid",) and named.numbers[:2] > (last.numbers[0] + 1, 0):
            raise CannotJudge(f"Debian has no {what} yet: the newest of sid is {last}", remedy="choose another kernel")
    every = [suite for group in groups for suite in group]
    raise CannotJudge(
        f"no {what} in Debian's {', '.join(every)}",
        remedy=f"name an archive that still has it, such as {sources.archive_variable(every[0])}=URI, "
        "or choose another kernel",
    )


def with_parts(archive: Archive, image: Package) -> list[Package]:
    """``image`` and the packages of the same version that hold its parts.

    One image package holds everything up to 6.18, whose linux-base-* is documentation. From 6.19 on it is empty and
    needs linux-binary-*, linux-modules-* and linux-base-*. A suite lists an old linux-binary-* for longer than the
    other two, as it has a source package of its own (linux-signed-amd64); their files are in the pool for longer still.
    """
    parts = _PARTS.findall(image.depends)
    if not any(name.startswith("linux-modules-") for name in parts):
        return [image]
    return [image, *(_part(archive, image, name) for name in parts)]


def _part(archive: Archive, image: Package, name: str) -> Package:
    for package in archive.search(image.suite, re.escape(name)):
        if package.version == image.version:
            return package
    path = image.path.replace("/linux-signed-amd64/", "/linux/").replace(f"/{image.name}_", f"/{name}_")
    try:
        return archive.unlisted(image.suite, name, image.version, path)
    except CannotJudge as error:
        raise CannotJudge(
            f"{image.suite} lists {image.name} {image.version} without its {name}, and its pool has no {path}",
            remedy=f"name an archive that still has it: {sources.archive_variable(image.suite)}=URI",
        ) from error


SUITES = (
    *("bullseye", "bullseye-security", "bookworm", "bookworm-security", "bookworm-backports"),
    *("trixie", "trixie-security", "trixie-backports", "forky", "sid"),
)
ALL = "debian:all"
RANGE = ".."
_END = re.compile(r"debian:([0-9]+\.[0-9]+)")


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
    """What the suites list and what is cached, oldest version first; ``tell`` hears of suites that fail.

    Raises the error of the last one when all fail.
    """
    listed: dict[str, Offer] = {}
    archive, failures = Archive(cache, sources.debian(), tell), list[BlklabError]()
    for suite in SUITES:
        try:
            for image in archive.search(suite, IMAGES):
                listed.setdefault(image.version, Offer(image.version, suite))
        except BlklabError as error:
            tell(f"{suite} is not listed: {error.message}")
            failures.append(error)
    if len(failures) == len(SUITES):
        raise failures[-1]
    listed.update((offer.version, offer) for offer in cached_offers(cache))
    return tuple(sorted(listed.values(), key=lambda offer: Release.parse(offer.version)))


def expand(text: str, listed: Callable[[], Sequence[Offer]], *, lenient: bool = True) -> tuple[str, ...]:
    """Specs, each once: ``A .. B`` is the newest of each series from A to B, ``debian:all`` every version.

    ``listed`` is only called for these two. Raises Misuse for a range that cannot be read, CannotJudge unless
    ``lenient`` for one with an end that nothing offers.
    """
    words, specs = text.split(), list[str]()
    while words:
        word = words.pop(0)
        if words[:1] == [RANGE]:
            if len(words) == 1:
                raise _no_range(f"{word} {RANGE}")
            specs += _between(word, words[1], listed, lenient=lenient)
            del words[:2]
        elif word == RANGE or (RANGE in word and word.startswith("debian:")):
            raise _no_range(word)
        elif word == ALL:
            specs += (offer.spec for offer in listed())
        else:
            specs.append(word)
    return tuple(dict.fromkeys(specs))


def _between(first: str, last: str, listed: Callable[[], Sequence[Offer]], *, lenient: bool) -> Iterator[str]:
    """With ``lenient`` the ends are in it even where nothing offers them: they are reported as missing then."""
    ends = [match[1] if (match := _END.fullmatch(end)) else "" for end in (first, last)]
    if not all(ends) or Release.parse(ends[0]) > Release.parse(ends[1]):
        raise _no_range(f"{first} {RANGE} {last}")
    low, high = map(Release.parse, ends)
    known = {offer.series for offer in listed()}
    if not lenient and not known.issuperset(ends):
        raise CannotJudge(
            f"Debian's suites have no kernel {' or '.join(sorted({*ends} - known))}",
            remedy=f"name one of {', '.join(sorted(known, key=Release.parse))}",
        )
    for series in sorted(known.union(ends), key=Release.parse):
        if low <= Release.parse(series) <= high:
            yield f"debian:{series}"


def _no_range(text: str) -> Misuse:
    return Misuse(
        f'"{text}" is not a range of kernels',
        remedy='two series of Debian kernels, the older one first: "debian:6.12 .. debian:7.3"',
    )


def cached_offers(cache: Cache) -> Iterator[Offer]:
    """The kernels that were fetched."""
    for pin in read_pins(cache, "debian-"):
        if cache.find(store.KIND, pin.digest) is not None:
            image = pin.packages[0]
            yield Offer(image.version, image.suite, cached=True)

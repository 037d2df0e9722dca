# SPDX-License-Identifier: GPL-2.0-only
"""Kernels as Debian packages them: ``debian:`` and a series, an exact package version, or a suite."""

import re
from collections.abc import Sequence
from pathlib import Path

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.kernels import store
from lab.kernels.model import Kernel
from lab.kernels.release import Release
from lab.packages import sources
from lab.packages.apt import Archive, Package, Tell
from lab.packages.store import Choose, Pin, unpacked

# Series to the suites that carry it: groups in order of preference, the newest within a group wins.
SERIES: dict[str, tuple[tuple[str, ...], ...]] = {
    "5.10": (("bullseye", "bullseye-security"),),
    "6.1": (("bookworm",), ("bookworm-security",)),
    "6.12": (("trixie",), ("trixie-security",), ("bookworm-backports",)),
    "7.2": (("forky",), ("trixie-backports",), ("sid",)),
}
# Any other series has passed through one of these.
_OTHERS = (("sid",), ("forky",), ("trixie-backports",), ("bookworm-backports",))
_BACKPORTS = {"11": "bullseye-backports", "12": "bookworm-backports", "13": "trixie-backports", "14": "forky-backports"}

_SERIES_FORM = re.compile(r"\d+\.\d+")
_VERSION_FORM = re.compile(r"(?:\d+:)?\d+\.\d+\.\d+[A-Za-z0-9.+~]*-[A-Za-z0-9.+~]+")
_SUITE_FORM = re.compile(r"[a-z]+(?:-[a-z]+)*")
_IMAGES = r"linux-image-\d+\.\d+\.\d+(?!.*(?:cloud|rt|unsigned|dbg|debug)).*-amd64"
_PARTS = re.compile(r"linux-(?:image|binary|modules|base)-\d.*")


def resolve(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """``wanted`` is what follows ``debian:``. Raises CannotJudge when no suite has such a kernel."""
    return _resolve(f"debian:{wanted}", f"debian-{wanted}", _choice(wanted), cache, refresh=refresh, tell=tell)


def resolve_distro(codename: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """The newest kernel that the host's Debian release packages."""
    choose = _newest_in(((codename,),), "")
    return _resolve("distro", f"distro-debian-{codename}", choose, cache, refresh=refresh, tell=tell)


def _resolve(spec: str, pin: str, choose: Choose, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    made = unpacked(
        cache,
        lambda: Archive(cache, sources.debian(), tell),
        pin,
        choose,
        kind=store.KIND,
        finish=store_unpacked,
        refresh=refresh,
    )
    return store.load(made.folder, spec, origin_of("Debian", made.pin))


def suites_of(series: str) -> Sequence[Sequence[str]]:
    """Groups of suites that carry the kernels of a series, in order of preference."""
    return SERIES.get(series, _OTHERS)


def origin_of(distribution: str, pin: Pin) -> str:
    """Where a pinned kernel comes from, in words."""
    first = pin.packages[0]
    return f"{distribution} {first.suite}, {first.name} {first.version}"


def store_unpacked(tree: Path, into: Path, pin: Pin) -> None:
    """Keep the kernel of an unpacked tree. Raises LabBroken when there is not exactly one."""
    found = store.find_parts(tree)
    if len(found) != 1:
        names = ", ".join(package.name for package in pin.packages)
        raise LabBroken(f"{len(found)} kernels with image, configuration and modules in {names}, 1 expected")
    store.store(found[0], into)


def _choice(wanted: str) -> Choose:
    if _SERIES_FORM.fullmatch(wanted):
        return _newest_in(suites_of(wanted), wanted)
    if _VERSION_FORM.fullmatch(wanted):
        return _exactly(wanted)
    if _SUITE_FORM.fullmatch(wanted):
        return _newest_in(((wanted,),), "")
    raise Misuse(
        f'"debian:{wanted}" is not a kernel',
        remedy="give a series (debian:6.1), a package version (debian:6.1.176-1) or a suite (debian:trixie)",
    )


def _newest_in(groups: Sequence[Sequence[str]], series: str) -> Choose:
    """The newest kernel of ``series`` (any when empty) in the first group of suites that has one."""

    def choose(archive: Archive) -> list[Package]:
        for group in groups:
            images = [image for suite in served(archive, group) for image in archive.search(suite, _IMAGES)]
            wanted = [image for image in images if series in ("", Release.parse(image.version).series)]
            if wanted:
                newest = max(wanted, key=lambda image: Release.parse(image.version))
                return with_parts(archive, newest)
        raise not_found(f"kernel {series}".strip(), groups)

    return choose


def _exactly(version: str) -> Choose:
    backport = re.search(r"~bpo(\d+)", version)
    if backport is not None:
        groups: Sequence[Sequence[str]] = ((_BACKPORTS.get(backport[1], f"debian{backport[1]}-backports"),),)
    else:
        groups = suites_of(Release.parse(version).series)

    def choose(archive: Archive) -> list[Package]:
        for suite in (suite for group in groups for suite in served(archive, group)):
            for image in archive.search(suite, _IMAGES):
                if image.version == version:
                    return with_parts(archive, image)
        raise not_found(f"kernel {version} (any more)", groups)

    return choose


def served(archive: Archive, group: Sequence[str]) -> Sequence[str]:
    """The suites that the host can reach; the whole group when it can reach none, for the error's sake."""
    return [suite for suite in group if archive.distribution.has(suite)] or group


def with_parts(archive: Archive, image: Package) -> list[Package]:
    """``image`` and the packages of the same version that it is split into (from 7.x on)."""
    chosen, queue = dict[str, Package](), [image]
    while queue:
        package = queue.pop(0)
        chosen[package.name] = package
        for needed in (alternatives[0] for alternatives in package.depends):
            if needed.relation == "=" and needed.name not in chosen and _PARTS.fullmatch(needed.name):
                queue.append(archive.find(package.suite, needed.name, needed.version))
    return list(chosen.values())


def not_found(what: str, groups: Sequence[Sequence[str]]) -> CannotJudge:
    """That none of the suites has it, and where to look for it."""
    suites = [suite for group in groups for suite in group]
    return CannotJudge(
        f"no {what} in Debian's {', '.join(suites)}",
        remedy=f"name an archive that still has it, such as {sources.archive_variable(suites[0])}=URI, "
        "or choose another kernel",
    )

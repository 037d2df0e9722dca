# SPDX-License-Identifier: GPL-2.0-only
"""Kernels as Ubuntu packages them: ``ubuntu:`` and a series or a release's code name."""

import platform
import re
from collections.abc import Sequence
from pathlib import Path

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, Misuse
from lab.base.units import Tell
from lab.kernels import debian
from lab.kernels.model import Kernel
from lab.kernels.release import Release
from lab.packages.apt import Archive, Package
from lab.packages.store import Choose

RELEASES = ("noble", "jammy", "focal", "bionic", "xenial")
"""Long-term releases, newest first. With their updates they have 4.4, 4.15, 4.18 and every second series since."""
_SERIES = re.compile(r"\d+\.\d+")
_RELEASE = re.compile(r"[a-z]+")
_IMAGE = r"linux-image-(?:unsigned-)?{series}\.\d+-\d+-generic"


def resolve(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """``wanted`` is what follows ``ubuntu:``. Raises CannotJudge when no release has such a kernel."""
    if _SERIES.fullmatch(wanted):
        choose = _newest_of(wanted)
    elif _RELEASE.fullmatch(wanted):
        choose = default_of(wanted)
    else:
        raise Misuse(f'"ubuntu:{wanted}" is not a kernel', remedy="give a series (ubuntu:4.15) or a code name (noble)")
    pin = f"ubuntu-{wanted}"
    return debian.fetched(f"ubuntu:{wanted}", pin, choose, "ubuntu", cache, refresh=refresh, tell=tell)


def default_of(codename: str) -> Choose:
    """What linux-image-generic depends on, in ``codename`` or its updates."""

    def choose(archive: Archive) -> list[Package]:
        suites = (codename, f"{codename}-updates")
        metas = [archive.search(suite, "linux-image-generic")[:1] for suite in suites]
        meta = max((packages[0] for packages in metas if packages), key=lambda package: Release.parse(package.version))
        names = re.findall(_IMAGE.format(series=r"\d+\.\d+"), meta.depends)
        return _with_modules(archive, archive.find(meta.suite, names[0]))

    return choose


def _newest_of(series: str) -> Choose:
    """The newest kernel of ``series`` in the newest release that has one."""
    pattern = _IMAGE.format(series=re.escape(series))

    def choose(archive: Archive) -> Sequence[Package]:
        for codename in RELEASES:
            images = [image for pocket in ("-updates", "") for image in archive.search(f"{codename}{pocket}", pattern)]
            if images:
                # A signed image and its unsigned twin have one version; the signed one has the shorter name.
                return _with_modules(
                    archive, max(images, key=lambda image: (Release.parse(image.version), -len(image.name)))
                )
        raise CannotJudge(
            f"no kernel {series} in Ubuntu's {', '.join(RELEASES)}", remedy="choose another one, such as ubuntu:5.4"
        )

    return choose


def _with_modules(archive: Archive, image: Package) -> list[Package]:
    """Ubuntu splits modules off; null_blk and the SCSI target live in modules-extra."""
    release = re.sub(r"linux-image-(?:unsigned-)?", "", image.name)
    parts = [f"linux-modules-{release}", f"linux-modules-extra-{release}"]
    # From 26.04 on there is no -extra: everything is in linux-modules.
    return [image, *(package for name in parts for package in archive.search(image.suite, re.escape(name))[:1])]


_CHOICES = {"debian": debian.choice, "ubuntu": default_of}


def resolve_distro(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """Raises Misuse when the host is neither Debian nor Ubuntu."""
    name, codename = _host()
    if name not in _CHOICES:
        raise Misuse(
            f"this host is {name or 'of an unknown distribution'}: `distro` needs Debian or Ubuntu",
            remedy="name a kernel, such as KERNEL=debian:6.1 or KERNEL=path:DIR",
        )
    pin = f"distro-{name}-{codename}"
    return debian.fetched("distro", pin, _CHOICES[name](codename), name, cache, refresh=refresh, tell=tell)


def _host() -> tuple[str, str]:
    """The host's ID and code name from os-release."""
    try:
        facts = platform.freedesktop_os_release()
    except OSError:
        return "", ""
    return facts.get("ID", ""), facts.get("VERSION_CODENAME", "") or _debian_testing()


def _debian_testing() -> str:
    """Debian testing has no code name in os-release, but "trixie/sid" in debian_version."""
    path = Path("/etc/debian_version")
    return path.read_text().strip().partition("/")[0] if path.exists() else ""

# SPDX-License-Identifier: GPL-2.0-only
"""Kernels as Ubuntu packages them: ``ubuntu:`` and a series or a release's code name; the host's distribution's newest.

``mainline:v6.12`` is a kernel of kernel.org as Ubuntu's mainline archive builds it, by virtme-ng's downloader. That
archive is not signed and not mirrored: use these kernels for a quick test, and tree: or debian: for a verdict.
"""

import importlib.util
import os
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.base.process import BOUND, run
from lab.base.units import Tell
from lab.kernels import debian, store
from lab.kernels.model import Kernel, Release
from lab.packages.apt import Archive, Package
from lab.packages.store import Choose

RELEASES = ("noble", "jammy", "focal", "bionic", "xenial")
"""Long-term releases, newest first. With their updates they have 4.4, 4.15, 4.18 and every second series since."""
_SERIES = re.compile(r"[0-9]+\.[0-9]+")
_RELEASE = re.compile(r"[a-z]+")
_IMAGE = r"linux-image-(?:unsigned-)?{series}\.[0-9]+-[0-9]+-generic"


def resolve(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """``wanted`` is what follows ``ubuntu:``. Raises CannotJudge when no release has such a kernel."""
    pin = f"ubuntu-{wanted}"
    return debian.fetched(f"ubuntu:{wanted}", pin, choice(wanted), "ubuntu", cache, refresh=refresh, tell=tell)


def choice(wanted: str) -> Choose:
    if _SERIES.fullmatch(wanted):
        return _newest_of(wanted)
    if _RELEASE.fullmatch(wanted):
        return default_of(wanted)
    raise Misuse(f'"ubuntu:{wanted}" is not a kernel', remedy="give a series (ubuntu:4.15) or a code name (noble)")


def default_of(codename: str) -> Choose:
    """What linux-image-generic depends on, in ``codename`` or its updates."""

    def choose(archive: Archive) -> list[Package]:
        suites = (codename, f"{codename}-updates")
        metas = [archive.search(suite, "linux-image-generic")[:1] for suite in suites]
        meta = max((packages[0] for packages in metas if packages), key=lambda package: Release.parse(package.version))
        names = re.findall(_IMAGE.format(series=r"[0-9]+\.[0-9]+"), meta.depends)
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


DOWNLOADER = "virtme_ng"
_FORM = re.compile(r"v[0-9]+\.[0-9]+(?:\.[0-9]+)?(?:-rc[0-9]+)?")
# The downloader writes below the home folder that it is told.
_FETCH = "import sys; from virtme_ng.mainline import KernelDownloader as Fetch; Fetch(sys.argv[1], 'amd64')"
_ABSENT = re.compile(r"error: 404|could not find kernel packages")
_REMEDY = "build it from source instead: KERNEL=tree:PATH@REV"


def resolve_mainline(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """``wanted`` is a tag such as ``v6.12``. Raises CannotJudge when the archive has no such kernel,
    LabBroken when virtme-ng is not installed or the archive is out of reach.
    """

    def fill(into: Path) -> None:
        _demand_downloader()
        tell(f"fetching mainline {wanted}")
        home = into / ".home"
        home.mkdir()
        _fetch(wanted, home)
        tree = next((image.parents[1] for image in sorted(home.rglob("boot/vmlinuz-*"))), home)
        store.keep_only(
            tree,
            into,
            lambda number: LabBroken(
                f"the packages of mainline {wanted} hold {number} kernels, 1 expected", remedy=_REMEDY
            ),
        )
        run(["rm", "-rf", str(home)])

    folder = cache.entry(store.KIND, f"mainline-{wanted}", fill)
    return store.load(folder, f"mainline:{wanted}", f"Ubuntu's mainline archive, {wanted}, fetched by virtme-ng")


def demand_tag(wanted: str) -> None:
    if _FORM.fullmatch(wanted) is None:
        raise Misuse(f'"mainline:{wanted}" is not a kernel', remedy="give a tag of kernel.org, such as mainline:v6.12")


def _demand_downloader() -> None:
    if importlib.util.find_spec(DOWNLOADER) is None:
        raise LabBroken(
            "virtme-ng, which fetches mainline kernels, is not installed",
            remedy=f"pip install --require-hashes -r requirements/shell.txt in the virtual environment; or {_REMEDY}",
        )


def _fetch(wanted: str, home: Path) -> None:
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    try:
        run([*BOUND, sys.executable, "-c", _FETCH, wanted], cwd=home, env=environment, hint=_REMEDY)
    except LabBroken as error:
        last = error.message.strip().splitlines()[-1]
        if _ABSENT.search(error.message):
            raise CannotJudge(f"the mainline archive has no {wanted}: {last}", remedy=_REMEDY) from error
        raise LabBroken(
            f"mainline {wanted} cannot be fetched: {last}", remedy=f"check the network; or {_REMEDY}"
        ) from error

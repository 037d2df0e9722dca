# SPDX-License-Identifier: GPL-2.0-only
"""The newest kernel that the host's own distribution packages."""

import platform
import re
from pathlib import Path

from lab.base.cache import Cache
from lab.base.errors import Misuse
from lab.base.units import Tell
from lab.kernels import debian, store
from lab.kernels.model import Kernel
from lab.kernels.release import Release
from lab.packages import sources
from lab.packages.apt import Archive, Package
from lab.packages.store import Choose, unpacked

_UBUNTU_IMAGES = r"linux-image-(?:unsigned-)?\d+\.\d+\.\d+-\d+-generic"


def resolve(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """Raises Misuse when the host is neither Debian nor Ubuntu."""
    name, codename = _host()
    if name == "debian":
        return debian.resolve_distro(codename, cache, refresh=refresh, tell=tell)
    if name == "ubuntu":
        return resolve_ubuntu(codename, cache, refresh=refresh, tell=tell)
    raise Misuse(
        f"this host is {name or 'of an unknown distribution'}: `distro` needs Debian or Ubuntu",
        remedy="name a kernel, such as KERNEL=debian:6.1 or KERNEL=path:DIR",
    )


def resolve_ubuntu(codename: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    made = unpacked(
        cache,
        lambda: Archive(cache, sources.ubuntu(), tell),
        f"distro-ubuntu-{codename}",
        newest_ubuntu(codename),
        kind=store.KIND,
        finish=debian.store_unpacked,
        refresh=refresh,
    )
    return store.load(made.folder, "distro", debian.origin_of("Ubuntu", made.pin))


def newest_ubuntu(codename: str) -> Choose:
    """What linux-image-generic depends on, in ``codename`` or its updates."""

    def choose(archive: Archive) -> list[Package]:
        suites = (codename, f"{codename}-updates")
        metas = [archive.search(suite, "linux-image-generic")[:1] for suite in suites]
        meta = max((found[0] for found in metas if found), key=lambda package: Release.parse(package.version))
        names = [needed.name for alternatives in meta.depends for needed in alternatives]
        name = next(name for name in names if re.fullmatch(_UBUNTU_IMAGES, name))
        return _with_modules(archive, archive.find(meta.suite, name))

    return choose


def _with_modules(archive: Archive, image: Package) -> list[Package]:
    """Ubuntu splits modules off; null_blk and the SCSI target live in modules-extra."""
    release = re.sub(r"linux-image-(?:unsigned-)?", "", image.name)
    parts = [f"linux-modules-{release}", f"linux-modules-extra-{release}"]
    # From 26.04 on there is no -extra: everything is in linux-modules.
    found = [archive.search(image.suite, re.escape(name))[:1] for name in parts]
    return [image, *(packages[0] for packages in found if packages)]


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

# SPDX-License-Identifier: GPL-2.0-only
"""Kernels in package files of any distribution (.deb, .rpm), and images whose modules are in another folder."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from lab.base.cache import Cache
from lab.base.digest import canonical, digest_bytes, known_digest
from lab.base.errors import LabBroken, Misuse
from lab.base.process import run
from lab.base.units import Tell
from lab.kernels import store
from lab.packages.apt import BOUND

_UNPACK = {
    ".deb": ("dpkg-deb", "-x", "{package}", "{into}"),
    # bsdtar of libarchive reads every compression that distributions use for their packages.
    ".rpm": ("bsdtar", "-xf", "{package}", "-C", "{into}"),
}
_INSTALL = {".deb": "apt-get install dpkg", ".rpm": "apt-get install libarchive-tools"}
_SPLIT = (
    "Ubuntu: linux-image, linux-modules and linux-modules-extra; Debian from 6.19 on: linux-binary, linux-modules and "
    "linux-base; Fedora and RHEL: kernel-core, kernel-modules-core, kernel-modules and kernel-modules-internal; "
    "openSUSE: kernel-default"
)


def packages_in(parts: Sequence[Path]) -> tuple[Path, ...]:
    """The package files among ``parts`` and in the folders among them; empty when there is none."""
    listed = (sorted(part.iterdir()) if part.is_dir() else [part] for part in parts)
    return tuple(path for paths in listed for path in paths if path.suffix in _UNPACK and path.is_file())


def stored(packages: Sequence[Path], cache: Cache, tell: Tell) -> Path:
    """The cache entry with the one kernel that ``packages`` hold together, unpacked over one another.

    Raises Misuse when a part of it is missing, LabBroken when a package cannot be unpacked.
    """
    key = digest_bytes(canonical(["packages", *(known_digest(package) for package in packages)]))

    def fill(into: Path) -> None:
        root = into / ".unpacked"
        root.mkdir()
        for package in packages:
            tell(f"unpacking {package.name}")
            _unpack(package, root)
        store.keep_only(root, into, lambda _: _not_one(root, packages))
        run(["rm", "-rf", str(root)])

    return cache.entry(store.KIND, key, fill)


def _unpack(package: Path, root: Path) -> None:
    words = [word.format(package=package, into=root) for word in _UNPACK[package.suffix]]
    hint = _INSTALL[package.suffix]
    if shutil.which(words[0]) is None:
        raise LabBroken(f"{package.name} cannot be unpacked: {words[0]} is not installed", remedy=hint)
    try:
        run([*BOUND, *words], hint=hint)
    except LabBroken as error:
        raise LabBroken(f"{package} cannot be unpacked: {error.message}", remedy=error.remedy) from error


def _not_one(root: Path, packages: Sequence[Path]) -> Misuse:
    parts = {path.name.removeprefix("vmlinuz-"): ["image"] for path in root.glob("boot/vmlinuz-*")}
    parts |= {path.parent.name: ["image"] for path in root.glob("**/lib/modules/*/vmlinuz")}
    for path in root.glob("**/lib/modules/*"):
        if next(path.rglob("*.ko*"), None):
            parts.setdefault(path.name, []).append("modules")
    held = "; ".join(f"{' and '.join(what)} of {release}" for release, what in sorted(parts.items())) or "no kernel"
    return Misuse(
        f"{', '.join(package.name for package in packages)}: {held}; expected image, configuration and modules of one",
        remedy=f"name the packages with all parts of one kernel, separated by commas (path:A,B). {_SPLIT}",
    )

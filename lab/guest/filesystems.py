# SPDX-License-Identifier: GPL-2.0-only
"""What guests with filesystems or cgroups have besides: mkfs and its libraries from packages, and a few verbs."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lab.base.cache import Cache
from lab.base.contents import demand_intact
from lab.base.digest import digest_bytes
from lab.base.errors import CannotJudge, LabBroken
from lab.guest import initramfs
from lab.guest.initramfs import ArchiveEntry
from lab.guest.payload import LIBRARY_FOLDER, LOADER, SUITE, Payload, with_further_steps
from lab.guest.trim import needed_libraries
from lab.packages import sources
from lab.packages.apt import Archive
from lab.packages.store import newest, unpacked


@dataclass(frozen=True)
class Maker:
    """Where mkfs of a filesystem is in its packages."""

    program: str
    packages: tuple[str, ...]


_COMMON = ("libblkid1", "libuuid1")
MAKERS: Mapping[str, Maker] = {
    "ext4": Maker("usr/sbin/mke2fs", ("e2fsprogs", "libext2fs2t64", "libcom-err2", *_COMMON)),
    "xfs": Maker("usr/sbin/mkfs.xfs", ("xfsprogs", "libinih1", "liburcu8t64", *_COMMON)),
    "btrfs": Maker("usr/sbin/mkfs.btrfs", ("btrfs-progs", "liblzo2-2", "libzstd1", "zlib1g", "libudev1", *_COMMON)),
}


def added(cache: Cache, payload: Payload, types: Collection[str]) -> Payload:
    """The payload with mkfs for these ``types``, fetched once, and a runner that knows filesystems and cgroups.

    Raises LabBroken.
    """
    own = with_further_steps(payload, "layers.sh", ("readlink", "sync", "tee"))
    entries = dict(own.entries)
    for name in sorted(types):
        entries |= _maker(_tree(cache, name), name, entries)
    return replace(own, entries=entries)


def _tree(cache: Cache, name: str) -> Path:
    packages = MAKERS[name].packages
    pin = f"payload-{SUITE}-{name}-{digest_bytes(' '.join(packages).encode())[:12]}"
    choose = newest(*((SUITE, package) for package in packages))
    try:
        return unpacked(cache, lambda: Archive(cache, sources.debian()), pin, choose, kind="payload").folder
    except CannotJudge as error:
        # mkfs is a part of the lab: its absence says nothing about the kernel.
        raise LabBroken(f"mkfs.{name} cannot be fetched: {error.message}", remedy=error.remedy) from error


def _maker(root: Path, name: str, there: Mapping[str, ArchiveEntry]) -> dict[str, ArchiveEntry]:
    program = demand_intact(root / MAKERS[name].program).read_bytes()
    entries = {f"bin/mkfs.{name}": initramfs.regular(program, executable=True)}
    entries |= {path: initramfs.regular(data) for path, data in _libraries(root, program, there)}
    return entries


def _libraries(root: Path, program: bytes, there: Mapping[str, ArchiveEntry]) -> Iterator[tuple[str, bytes]]:
    """The libraries below a program that the payload does not have, each once."""
    waiting, seen = list(needed_libraries(program)), {LOADER}
    while waiting:
        name = waiting.pop()
        if name in seen or f"lib64/{name}" in there:
            continue
        seen.add(name)
        data = demand_intact(root / LIBRARY_FOLDER / name).read_bytes()
        yield f"lib64/{name}", data
        waiting += needed_libraries(data)

# SPDX-License-Identifier: GPL-2.0-only
"""What guests with filesystems, loop devices or cgroups have besides: programs from packages, and a few verbs."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lab.base.cache import Cache
from lab.base.contents import demand_intact
from lab.guest import initramfs
from lab.guest.initramfs import ArchiveEntry
from lab.guest.payload import LIBRARY_FOLDER, LOADER, Payload, packages, with_further_steps
from lab.guest.trim import needed_libraries
from lab.packages.lock import pin_name


@dataclass(frozen=True)
class Maker:
    """The program that makes a layer: its name in the guest, and where it is in its packages."""

    name: str
    program: str
    packages: tuple[str, ...]


_COMMON = ("libblkid1", "libuuid1")
MAKERS: Mapping[str, Maker] = {
    "ext4": Maker("mkfs.ext4", "usr/sbin/mke2fs", ("e2fsprogs", "libext2fs2t64", "libcom-err2", *_COMMON)),
    "xfs": Maker("mkfs.xfs", "usr/sbin/mkfs.xfs", ("xfsprogs", "libinih1", "liburcu8t64", *_COMMON)),
    "btrfs": Maker(
        "mkfs.btrfs",
        "usr/sbin/mkfs.btrfs",
        ("btrfs-progs", "liblzo2-2", "libzstd1", "zlib1g", "libudev1", *_COMMON),
    ),
    "loop": Maker("losetup", "usr/sbin/losetup", ("mount", "libsmartcols1")),
}


def added(cache: Cache, payload: Payload, layers: Collection[str]) -> Payload:
    """The payload with the makers of these ``layers``, fetched once, and a runner that knows them and cgroups.

    Raises LabBroken.
    """
    own = with_further_steps(payload, "layers.sh", applets=("readlink", "sync", "tee"))
    entries = dict(own.entries)
    for name in sorted(layers):
        entries |= _maker(_tree(cache, name), MAKERS[name], entries)
    own = replace(own, entries=entries)
    return with_further_steps(own, "loop.sh", "even_further", ()) if "loop" in layers else own


def _tree(cache: Cache, name: str) -> Path:
    maker = MAKERS[name]
    return packages(cache, pin_name(f"payload-{name}", maker.packages), maker.packages, maker.name).folder


def _maker(root: Path, maker: Maker, there: Mapping[str, ArchiveEntry]) -> dict[str, ArchiveEntry]:
    program = demand_intact(root / maker.program).read_bytes()
    libraries = {path: initramfs.regular(data) for path, data in _libraries(root, program, there)}
    return {f"bin/{maker.name}": initramfs.regular(program, executable=True), **libraries}


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

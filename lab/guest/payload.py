# SPDX-License-Identifier: GPL-2.0-only
"""The programs of every guest: busybox, fio, dmsetup, mdadm, tc and their libraries, and what makes layers of some.

They come from the packages of ``lab/packages/trixie.lock``, unpacked into the cache, so that the payload's bytes do
not depend on the host. Archives are in the "newc" format (Documentation/driver-api/early-userspace/buffer-format.rst).
"""

import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from lab.base.cache import Cache
from lab.base.contents import demand_intact
from lab.base.digest import digest_bytes
from lab.base.units import Tell, silent
from lab.guest.steps import SENT
from lab.native.elf import drop_libraries, needed_libraries
from lab.packages import lock
from lab.packages.lock import pin_name
from lab.packages.store import Unpacked

_ALIGN = 4
_KIND = "payload"


@dataclass(frozen=True)
class ArchiveEntry:
    """One file of an archive; ``mode`` holds type and permissions as in stat(2)."""

    mode: int
    data: bytes = b""


def folder() -> ArchiveEntry:
    return ArchiveEntry(stat.S_IFDIR | 0o755)


def regular(data: bytes, *, executable: bool = False) -> ArchiveEntry:
    return ArchiveEntry(stat.S_IFREG | (0o755 if executable else 0o644), data)


def symlink(target: str) -> ArchiveEntry:
    return ArchiveEntry(stat.S_IFLNK | 0o777, target.encode())


def archive(entries: Mapping[str, ArchiveEntry]) -> bytes:
    """Archive of ``entries`` (path relative to the root -> ArchiveEntry), with the folders that they need.

    Sorted by path, owned by root, times and inode numbers independent of the host. Archives can
    be concatenated: the kernel unpacks one after the other.
    """
    complete = dict(entries)
    for path in entries:
        parts = path.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            complete.setdefault("/".join(parts[:depth]), folder())
    members = [_member(number, path, complete[path]) for number, path in enumerate(sorted(complete), start=1)]
    return b"".join([*members, _member(0, "TRAILER!!!", ArchiveEntry(0))])


def _member(number: int, path: str, entry: ArchiveEntry) -> bytes:
    name = path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % value for value in fields)
    return _pad(header + name) + _pad(entry.data)


def _pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGN)


PACKAGES = (
    *("busybox-static", "fio", "dmsetup", "mdadm", "iproute2", "libmnl0", "libc6", "libaio1t64", "libnuma1", "zlib1g"),
    *("libdevmapper1.02.1", "libselinux1", "libudev1"),
)

PIN = pin_name("payload", PACKAGES)

LIBRARY_FOLDER = "usr/lib/x86_64-linux-gnu"
LOADER = "ld-linux-x86-64.so.2"
LIBRARIES = (
    *("libc.so.6", "libm.so.6", "libaio.so.1t64", "libnuma.so.1", "libz.so.1"),
    *("libdevmapper.so.1.02.1", "libselinux.so.1", "libudev.so.1", "libmnl.so.0"),
)
"""Shared objects of the guest, without the loader."""

PROGRAMS = {
    "bin/fio": "usr/bin/fio",
    "bin/dmsetup": "usr/sbin/dmsetup",
    "bin/mdadm": "usr/sbin/mdadm",
    "bin/tc": "usr/sbin/tc",
}
"""Path of a program in the guest to its path in the package."""

_APPLETS = (
    *("sh", "mount", "stty", "uname", "sleep", "reboot", "mkdir", "ln", "cat", "tr", "dmesg", "rm", "sha256sum", "tee"),
    *("base64", "gzip", "wc", "insmod", "tail", "head", "yes", "cp", "cpio", "ifconfig", "readlink", "sync", "dd"),
)
_HERE = Path(__file__).parent


_SPIN, _BRIEF_SPIN = (b"\x48\x81\xf9" + (nanoseconds - 1).to_bytes(4, "little") for nanoseconds in (1_280_000, 12_800))
"""``cmp $NANOSECONDS-1,%rcx``, the end of the loop by which fio calibrates the CPU's clock 51 times at each start
(get_cycles_per_msec in gettime.c). No job uses that clock: each has clocksource=clock_gettime.
"""


@dataclass(frozen=True)
class Payload:
    """``entries`` go into every initramfs; ``versions`` maps package to version, for the record."""

    entries: Mapping[str, ArchiveEntry]
    versions: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        return digest_bytes(archive(self.entries))


def fetch(cache: Cache, tell: Tell) -> Payload:
    """The payload from the cache, downloaded if necessary, whose fio calibrates its clock briefly. Raises LabBroken."""
    tree = _tree(cache, tell)
    versions = {package.name: package.version for package in tree.pin.packages}
    return _with_spin(assemble(tree.folder, versions), _SPIN, _BRIEF_SPIN)


def with_whole_calibration(payload: Payload) -> Payload:
    """The payload with fio as it is packaged, for guests whose instructions are not counted."""
    return _with_spin(payload, _BRIEF_SPIN, _SPIN)


def _with_spin(payload: Payload, there: bytes, wanted: bytes) -> Payload:
    """The payload with another end of fio's calibration; unchanged where fio's compiler wrote that loop otherwise."""
    fio = payload.entries["bin/fio"]
    if fio.data.count(there) != 1:
        return payload
    return replace(payload, entries={**payload.entries, "bin/fio": replace(fio, data=fio.data.replace(there, wanted))})


def busybox(cache: Cache, tell: Tell) -> Path:
    """The static busybox of the payload."""
    return demand_intact(_tree(cache, tell).folder / "usr/bin/busybox")


def _tree(cache: Cache, tell: Tell) -> Unpacked:
    return lock.fetch(cache, PIN, PACKAGES, "the guest payload", tell, kind=_KIND)


def assemble(root: Path, versions: Mapping[str, str]) -> Payload:
    """Payload from ``root``, where the packages were unpacked. Raises LabBroken when a file is absent."""
    keep = {*LIBRARIES, LOADER}
    verbs = sorted(path.name for path in (_HERE / "verbs").glob("*.sh") if path.name not in SENT)
    scripts = ("runner.sh", *(f"verbs/{name}" for name in verbs))
    entries = {
        "bin/busybox": regular(_read(root, "usr/bin/busybox"), executable=True),
        "init": regular((_HERE / "init").read_bytes(), executable=True),
        **{name: regular((_HERE / name).read_bytes()) for name in scripts},
        f"lib64/{LOADER}": regular(_read(root, f"{LIBRARY_FOLDER}/{LOADER}"), executable=True),
        "lib/x86_64-linux-gnu": symlink("/lib64"),
    }
    for applet in _APPLETS:
        entries[f"bin/{applet}"] = symlink("busybox")
    for name, source in PROGRAMS.items():
        entries[name] = regular(drop_libraries(_read(root, source), keep), executable=True)
    for name in LIBRARIES:
        entries[f"lib64/{name}"] = regular(drop_libraries(_read(root, f"{LIBRARY_FOLDER}/{name}"), keep))
    for name in ("dev", "proc", "sys", "out", "lab", "job", "modules", "tmp", "run"):
        entries[name] = folder()
    return Payload(entries, dict(versions))


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


def with_makers(cache: Cache, payload: Payload, layers: Collection[str]) -> Payload:
    """The payload with the makers of these ``layers`` and their libraries, fetched once. Raises LabBroken."""
    entries = dict(payload.entries)
    for name in sorted(layers):
        entries |= _maker(_tree_of_maker(cache, name), MAKERS[name], entries)
    return replace(payload, entries=entries)


def _tree_of_maker(cache: Cache, layer: str) -> Path:
    maker = MAKERS[layer]
    pin = pin_name(f"payload-{layer}", maker.packages)
    return lock.fetch(cache, pin, maker.packages, maker.name, silent, kind=_KIND).folder


def _maker(root: Path, maker: Maker, there: Mapping[str, ArchiveEntry]) -> dict[str, ArchiveEntry]:
    program = _read(root, maker.program)
    libraries = {path: regular(data) for path, data in _libraries(root, program, there)}
    return {f"bin/{maker.name}": regular(program, executable=True), **libraries}


def _libraries(root: Path, program: bytes, there: Mapping[str, ArchiveEntry]) -> Iterator[tuple[str, bytes]]:
    """The libraries below a program that the payload does not have, each once."""
    waiting, seen = list(needed_libraries(program)), {LOADER}
    while waiting:
        name = waiting.pop()
        if name in seen or f"lib64/{name}" in there:
            continue
        seen.add(name)
        data = _read(root, f"{LIBRARY_FOLDER}/{name}")
        yield f"lib64/{name}", data
        waiting += needed_libraries(data)


def _read(root: Path, name: str) -> bytes:
    return demand_intact(root / name).read_bytes()

# SPDX-License-Identifier: GPL-2.0-only
"""Host programs of one Debian release, unpacked into the cache and started by that release's own loader.

They run on any x86-64 host, whatever its C library, so QEMU and the compiler are the same bytes on each.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.base.cache import Cache
from lab.base.errors import LabBroken, Misuse
from lab.base.host import search_path
from lab.base.units import Tell, silent
from lab.packages import lock
from lab.packages.lock import SUITE
from lab.packages.store import Pin, Unpacked, read_pin

OVERRIDE, HOST = "BLKLAB_TOOLS", "host"
KIND = "toolset"
PRELOAD = "BLKLAB_PRELOAD"
"""Names a library to be loaded into the program. LD_PRELOAD would load it into the host's shell as well."""
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = "ld-linux-x86-64.so.2"
_SCRIPT = 1000  # bytes: more than ``_script`` writes
_UNUSED = (
    *("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/bug"),
    *(f"{LIBRARIES}/{name}" for name in ("gconv", "audit")),
)


@dataclass(frozen=True)
class Toolset:
    """``programs``: a name, the program's path in the packages, and the words that each call begins with (``@``: below
    the folder). ``sealed``: a program and a folder of the host that it would look into.
    """

    name: str
    packages: tuple[str, ...]
    programs: tuple[tuple[str, str, tuple[str, ...]], ...]
    sealed: tuple[tuple[str, str], ...] = ()

    @property
    def pin(self) -> str:
        return lock.pin_name(self.name, self.packages)


def wanted() -> bool:
    """Whether compiler and depmod are the lab's own: unless BLKLAB_TOOLS is ``host``. Raises Misuse."""
    chosen = os.environ.get(OVERRIDE) or ""
    if chosen not in ("", HOST):
        raise Misuse(f"{OVERRIDE}={chosen}: expected {HOST}", remedy=f"unset it, or set it to {HOST} for those in PATH")
    return not chosen


def is_cached(cache: Cache, toolset: Toolset) -> bool:
    """Whether ``fetch`` downloads nothing."""
    pin = read_pin(cache, toolset.pin)
    return pin is not None and cache.find(KIND, pin.digest) is not None


def fetch(cache: Cache, toolset: Toolset, tell: Tell) -> Unpacked:
    """The toolset from the cache, downloaded if necessary, whose programs are files of its folder. Raises LabBroken."""
    what, finish = f"{toolset.name} of {SUITE}", partial(_finish, toolset)
    return lock.fetch(cache, toolset.pin, toolset.packages, what, tell, kind=KIND, finish=finish)


def loads_itself(program: Path) -> bool:
    """Whether the program is one of a toolset, which takes ``PRELOAD`` instead of LD_PRELOAD."""
    with program.open("rb") as file:
        return PRELOAD.encode() in file.read(_SCRIPT)


def _finish(toolset: Toolset, tree: Path, into: Path, _: Pin) -> None:
    for name in _UNUSED:
        shutil.rmtree(tree / name, ignore_errors=True)
    for item in tree.iterdir():
        item.rename(into / item.name)
    for sealed, folder in toolset.sealed:
        _seal(into / sealed, folder)
    for name, program, words in toolset.programs:
        script = into / name
        script.write_text("\n".join(_script(program, words)) + "\n")
        script.chmod(0o755)


def _seal(program: Path, folder: str) -> None:
    """Give the program a folder that does not exist in place of one of the host's. Raises LabBroken."""
    there, nowhere = (f"{name}\0".encode() for name in (folder, "/nonexistent".ljust(len(folder), "_")))
    data = program.read_bytes()
    if data.count(there) != 1:
        raise LabBroken(f"{program.name} does not name {folder} once", remedy="report this as a bug of blklab")
    program.write_bytes(data.replace(there, nowhere))


def _script(program: str, words: tuple[str, ...]) -> Iterator[str]:
    """A shell script that starts the program with the libraries next to it, and none of the host's."""
    yield "#!/bin/sh"
    yield "here=${0%/*}"
    yield f"lib=$here/{LIBRARIES}"
    given = " ".join(f'"$here/{word[1:]}"' if word.startswith("@") else word for word in words)
    preload = f'${{{PRELOAD}:+--preload "${PRELOAD}"}}'
    yield f'exec "$lib/{LOADER}" --library-path "$lib" {preload} --argv0 "${{0##*/}}" "$here/{program}" {given} "$@"'


QEMU, QEMU_ELF, DEPMOD = "qemu-system-x86_64", "usr/bin/qemu-system-x86_64", "depmod"
HOST_TOOLS = Toolset(
    "host-tools",
    (
        *("qemu-system-x86", "qemu-system-data", "seabios", "kmod", "libc6", "libaio1t64", "libatomic1", "libblkid1"),
        *("libbpf1", "libcap2", "libcapstone5", "libdaxctl1", "libelf1t64", "libfdt1", "libffi8", "libfuse3-4"),
        *("libglib2.0-0t64", "libgmp10", "libgnutls30t64", "libhogweed6t64", "libibverbs1", "libidn2-0"),
        *("libjpeg62-turbo", "libkmod2", "liblzma5", "libmount1", "libndctl6", "libnettle8t64", "libnl-3-200"),
        *("libnl-route-3-200", "libnuma1", "libp11-kit0", "libpcre2-8-0", "libpixman-1-0", "libpmem1"),
        *("libpng16-16t64", "librdmacm1t64", "libsasl2-2", "libseccomp2", "libselinux1", "libslirp0", "libssl3t64"),
        *("libtasn1-6", "libudev1", "libunistring5", "liburing2", "libuuid1", "libvdeplug2t64", "libzstd1", "zlib1g"),
    ),
    ((QEMU, QEMU_ELF, ("-L", "@/usr/share/qemu", "-L", "@/usr/share/seabios")), (DEPMOD, "usr/bin/kmod", ())),
    # Modules and firmware of the host's QEMU are of another version.
    ((QEMU_ELF, "/usr/lib/x86_64-linux-gnu/qemu"), (QEMU_ELF, "/usr/share/qemu")),
)


def depmod() -> str:
    """The program that lists the dependencies of kernel modules. Raises LabBroken."""
    if wanted():
        return str(fetch(Cache.default(), HOST_TOOLS, silent).intact / DEPMOD)
    return shutil.which(DEPMOD, path=search_path()) or DEPMOD

# SPDX-License-Identifier: GPL-2.0-only
"""What is written in C, built reproducibly by the host's compiler: programs of the guest and libraries for QEMU."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from lab.base.cache import Cache
from lab.base.compiler import COMPILER, REMEDY, SECONDS, compiler_version
from lab.base.contents import demand_intact
from lab.base.digest import canonical, digest_bytes
from lab.base.process import run

KIND = "program"
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Werror")
DIALECT = ("-std=c11", "-D_GNU_SOURCE", "-I.")
ROOT = Path(__file__).parent
PLUGINS = ROOT / "profile"
_STRIPPED = "-s"
_FLAGS = (*DIALECT, "-O2", "-static", "-Wl,--build-id=none", _STRIPPED)
_LIBRARY = ("-std=gnu11", "-O2", "-shared", "-fPIC", "-Wl,--build-id=none")


@dataclass(frozen=True)
class Program:
    """Groups of folders below ``ROOT`` whose C files make it up; ``wanted_for`` ends an error's sentence.

    ``flags`` are the compiler's, beside those of every program.
    """

    groups: tuple[tuple[str, ...], ...]
    wanted_for: str
    flags: tuple[str, ...] = ()

    def sources(self) -> tuple[Path, ...]:
        """The C files and headers in the order in which they are linked: by group, then by name.

        The order determines addresses, and so the digests of base archives.
        """
        groups = (
            sorted(chain(*((ROOT / folder).iterdir() for folder in folders)), key=lambda path: path.name)
            for folders in self.groups
        )
        return tuple(path for path in chain(*groups) if path.suffix in {".c", ".h"})


DISKD, RECEIVE, SAMPLER, PROCESS_SAMPLER = "diskd", "receive", "sampler", "process-sampler"
_SAMPLER = Program((("common",), ("sampler",)), "queues are sampled by a C program")
PROGRAMS = {
    DISKD: Program((("common", "diskd"),), "the disks of driver tcmu are modelled by a C program"),
    RECEIVE: Program((("receive",),), "the guest receives its job through a C program"),
    SAMPLER: _SAMPLER,
    PROCESS_SAMPLER: replace(_SAMPLER, flags=("-DJOBS_ARE_PROCESSES",)),
}

PROFILE, EXECUTED = "profile.so", "executed.so"
"""The plugins that observe what a guest executes; native/profile/plugin.c and executed.c say how."""
_PLUGIN_PARTS = {
    PROFILE: ("functions.c", "marker.c", "memory.c", "plugin.c", "stack.c", "tree.c"),
    EXECUTED: ("executed.c", "marker.c", "memory.c"),
}
# include/qemu/qemu-plugin.h of each release: QEMU refuses a plugin of another version of the interface.
_INTERFACES = (((9, 2), 4), ((9, 1), 3), ((9, 0), 2), ((6, 0), 1))


@dataclass(frozen=True)
class Steady:
    """``path`` is the library that keeps QEMU's main loop off the virtual clock while the CPU executes (steady.c).

    ``digest`` is the sha256 of its source in hex.
    """

    path: Path
    digest: str


def build(cache: Cache, name: str, *, symbols: bool = False) -> bytes:
    """A program of ``PROGRAMS`` as a static ELF file, from the cache when this compiler has built it before.

    With ``symbols`` it has its symbol table; code and addresses are the same. Raises LabBroken when there is no
    compiler, or when it cannot build the sources.
    """
    program = PROGRAMS[name]
    flags = tuple(flag for flag in (*_FLAGS, *program.flags) if not (symbols and flag == _STRIPPED))
    return _compile(cache, name, program.sources(), (*flags, *WARNINGS), program.wanted_for).read_bytes()


def plugin(cache: Cache, version: tuple[int, ...], library: str = PROFILE) -> Path:
    """The plugin for this version of QEMU. Raises LabBroken as ``build`` does."""
    flags = (*_LIBRARY, *WARNINGS, "-fvisibility=hidden", f"-DPLUGIN_API={interface(version)}")
    parts = (*(PLUGINS / name for name in _PLUGIN_PARTS[library]), *sorted(PLUGINS.glob("*.h")))
    return _compile(cache, library, parts, flags, "a profile is counted by a library in C")


def interface(version: tuple[int, ...]) -> int:
    """The version of the plugin interface that this version of QEMU wants."""
    return next(number for first, number in _INTERFACES if version >= first)


def steady(cache: Cache) -> Steady:
    """The library to preload into QEMU. Raises LabBroken as ``build`` does."""
    source, flags = ROOT / "steady.c", (*_LIBRARY, "-Wall", "-Wextra", "-Werror")
    why = "the library that is preloaded into QEMU is written in C"
    path = _compile(cache, "steady.so", (source,), flags, why, linked=("-ldl",))
    return Steady(path, digest_bytes(source.read_bytes()))


def _compile(
    cache: Cache,
    name: str,
    sources: Iterable[Path],
    flags: Sequence[str],
    wanted_for: str,
    *,
    linked: Sequence[str] = (),
) -> Path:
    """The file made of C ``sources``, in their order; headers among them only count for the key."""
    files = {str(path.relative_to(ROOT)): digest_bytes(path.read_bytes()) for path in sources}
    key = digest_bytes(canonical([name, files, flags, linked, compiler_version(wanted_for)]))

    def fill(into: Path) -> None:
        listed = [file for file in files if file.endswith(".c")]
        # The result contains no path of this host.
        words = [COMPILER, *flags, f"-ffile-prefix-map={ROOT}=.", "-o", str(into / name), *listed, *linked]
        run(words, cwd=ROOT, timeout=SECONDS, hint=REMEDY)

    return demand_intact(cache.entry(KIND, key, fill) / name)

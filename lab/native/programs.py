# SPDX-License-Identifier: GPL-2.0-only
"""The guest's C programs, built reproducibly as static ELF files by the host's compiler."""

from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from lab.base.cache import Cache
from lab.base.compiler import compile_c, compiler_version
from lab.base.contents import demand_intact
from lab.base.digest import canonical, digest_bytes

KIND = "program"
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Werror")
DIALECT = ("-std=c11", "-D_GNU_SOURCE", "-I.")
ROOT = Path(__file__).parent
_STRIPPED = "-s"
_FLAGS = (*DIALECT, "-O2", "-static", "-Wl,--build-id=none", _STRIPPED)


def _name(path: Path) -> str:
    return path.name


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
        groups = (sorted(chain(*((ROOT / name).iterdir() for name in names)), key=_name) for names in self.groups)
        return tuple(path for path in chain(*groups) if path.suffix in {".c", ".h"})


DISKD, RECEIVE, SAMPLER, PROCESS_SAMPLER = "diskd", "receive", "sampler", "process-sampler"
_SAMPLER = Program((("common",), ("sampler",)), "queues are sampled by a C program")
PROGRAMS = {
    DISKD: Program((("common", "diskd"),), "the disks of driver tcmu are modelled by a C program"),
    RECEIVE: Program((("receive",),), "the guest receives its job through a C program"),
    SAMPLER: _SAMPLER,
    PROCESS_SAMPLER: replace(_SAMPLER, flags=("-DJOBS_ARE_PROCESSES",)),
}


def build(cache: Cache, name: str) -> bytes:
    """A program of ``PROGRAMS`` as a static ELF file, from the cache when this compiler has built it before.

    Raises LabBroken when there is no compiler, or when it cannot build the sources.
    """
    return _build(cache, name, (*_FLAGS, *PROGRAMS[name].flags))


def build_with_symbols(cache: Cache, name: str) -> bytes:
    """The same program with its symbol table: the code and its addresses are those of ``build``."""
    return _build(cache, name, tuple(flag for flag in (*_FLAGS, *PROGRAMS[name].flags) if flag != _STRIPPED))


def _build(cache: Cache, name: str, flags: tuple[str, ...]) -> bytes:
    program = PROGRAMS[name]

    def fill(into: Path) -> None:
        files = [str(path.relative_to(ROOT)) for path in program.sources() if path.suffix == ".c"]
        compile_c(ROOT, files, (*flags, *WARNINGS), into / name)

    return demand_intact(cache.entry(KIND, _key(program, flags), fill) / name).read_bytes()


def _key(program: Program, flags: tuple[str, ...]) -> str:
    files = {str(path.relative_to(ROOT)): digest_bytes(path.read_bytes()) for path in program.sources()}
    return digest_bytes(canonical([files, flags, compiler_version(program.wanted_for)]))

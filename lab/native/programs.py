# SPDX-License-Identifier: GPL-2.0-only
"""The lab's own programs of the guest, built by the host's compiler: statically, and to the same bytes each time."""

from dataclasses import dataclass
from pathlib import Path

from lab.base.cache import Cache
from lab.base.compiler import compile_c, compiler_version
from lab.base.contents import demand_intact
from lab.base.digest import canonical, digest_bytes

KIND = "program"
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Werror")
DIALECT = ("-std=c11", "-D_GNU_SOURCE")
ROOT = Path(__file__).parent
_FLAGS = (*DIALECT, "-O2", "-static", "-Wl,--build-id=none", "-s")


@dataclass(frozen=True)
class Program:
    """``folders`` and single files below ``ROOT`` whose C files make it up; ``wanted_for`` ends an error's sentence."""

    parts: tuple[str, ...]
    wanted_for: str

    def sources(self) -> tuple[Path, ...]:
        """The C files and headers, sorted by path."""
        found: set[Path] = set()
        for part in self.parts:
            path = ROOT / part
            found.update(path.iterdir() if path.is_dir() else [path])
        return tuple(sorted(path for path in found if path.suffix in {".c", ".h"}))


DISKD, RECEIVE, SAMPLER = "diskd", "receive", "sampler"
PROGRAMS = {
    DISKD: Program(("diskd",), "the disks of driver tcmu are a C program"),
    RECEIVE: Program(("receive",), "what takes a job into the guest is a C program"),
    SAMPLER: Program(
        ("sampler", "diskd/process.c", "diskd/process.h"), "what samples queues in the guest is a C program"
    ),
}


def build(cache: Cache, name: str) -> bytes:
    """A program of ``PROGRAMS`` as a static ELF file, from the cache when this compiler has built it before.

    Raises LabBroken when there is no compiler, or when it cannot build the sources.
    """
    program = PROGRAMS[name]

    def fill(into: Path) -> None:
        files = [str(path.relative_to(ROOT)) for path in program.sources() if path.suffix == ".c"]
        compile_c(ROOT, files, (*_FLAGS, *WARNINGS), into / name)

    return demand_intact(cache.entry(KIND, _key(program), fill) / name).read_bytes()


def _key(program: Program) -> str:
    files = {str(path.relative_to(ROOT)): digest_bytes(path.read_bytes()) for path in program.sources()}
    return digest_bytes(canonical([files, _FLAGS, compiler_version(program.wanted_for)]))

# SPDX-License-Identifier: GPL-2.0-only
"""Building the disk handler with the host's compiler: statically, and to the same bytes each time."""

from pathlib import Path

from lab.cache import Cache
from lab.compiler import compile_c, compiler_version
from lab.digest import canonical, digest_bytes

KIND = "diskd"
PROGRAM = "diskd"
SOURCES = Path(__file__).parent
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Werror")
DIALECT = ("-std=c11", "-D_GNU_SOURCE")
_FLAGS = (*DIALECT, "-O2", "-static", "-Wl,--build-id=none", "-s")


def program(cache: Cache) -> bytes:
    """The handler as a static ELF program, from the cache when this compiler has built it before.

    Raises LabBroken when there is no compiler, or when it cannot build the sources.
    """
    return (cache.entry(KIND, _key(), _build) / PROGRAM).read_bytes()


def sources() -> tuple[Path, ...]:
    """The C files and headers, sorted by name."""
    return tuple(sorted(path for path in SOURCES.iterdir() if path.suffix in {".c", ".h"}))


def _key() -> str:
    files = {path.name: digest_bytes(path.read_bytes()) for path in sources()}
    version = compiler_version("the disks of driver tcmu are a C program")
    return digest_bytes(canonical([files, _FLAGS, version]))


def _build(into: Path) -> None:
    files = [path.name for path in sources() if path.suffix == ".c"]
    compile_c(SOURCES, files, (*_FLAGS, *WARNINGS), into / PROGRAM)

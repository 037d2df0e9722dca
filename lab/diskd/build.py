# SPDX-License-Identifier: GPL-2.0-only
"""Building the disk handler with the host's compiler: statically, and to the same bytes each time."""

import shutil
from pathlib import Path

from lab.cache import Cache
from lab.digest import canonical, digest_bytes
from lab.errors import LabBroken
from lab.process import run

KIND = "diskd"
PROGRAM = "diskd"
SOURCES = Path(__file__).parent
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Werror")
DIALECT = ("-std=c11", "-D_GNU_SOURCE")
_FLAGS = (*DIALECT, "-O2", "-static", "-Wl,--build-id=none", "-s")
_COMPILER = "gcc"
_REMEDY = "apt-get install gcc libc6-dev, or what scripts/host-packages names on other distributions"
_TIMEOUT = 120


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
    return digest_bytes(canonical([files, _FLAGS, _compiler_version()]))


def _compiler_version() -> str:
    if shutil.which(_COMPILER) is None:
        raise LabBroken("there is no C compiler, and the disks of driver tcmu are a C program", remedy=_REMEDY)
    return run([_COMPILER, "--version"], timeout=_TIMEOUT, hint=_REMEDY).stdout.decode(errors="replace")


def _build(into: Path) -> None:
    # Relative names and no time stamps: the bytes do not depend on where or when it is built.
    files = [path.name for path in sources() if path.suffix == ".c"]
    argv = [_COMPILER, *_FLAGS, *WARNINGS, f"-ffile-prefix-map={SOURCES}={PROGRAM}", "-o", str(into / PROGRAM), *files]
    run(argv, cwd=SOURCES, timeout=_TIMEOUT, hint=_REMEDY)

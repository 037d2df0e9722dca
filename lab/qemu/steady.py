# SPDX-License-Identifier: GPL-2.0-only
"""The library that keeps QEMU's main loop off the virtual clock while the CPU executes; steady.c says why."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.cache import Cache
from lab.digest import canonical, digest_bytes
from lab.errors import LabBroken
from lab.process import run

KIND = "steady"
LIBRARY = "steady.so"
_SOURCE = Path(__file__).parent / "steady.c"
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,--build-id=none")
_COMPILERS = ("cc", "gcc", "clang")
_INSTALL = "install a C compiler: sudo apt-get install gcc libc6-dev"


@dataclass(frozen=True)
class Steady:
    """``library`` is to be preloaded into QEMU; ``digest`` is that of its source, sha256 in hex."""

    library: Path
    digest: str


def steady(cache: Cache) -> Steady:
    """The library, built by the host's compiler when the cache has none. Raises LabBroken without a compiler."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise LabBroken("no C compiler: QEMU's main loop cannot be kept steady", remedy=_INSTALL)
    source = _SOURCE.read_bytes()
    version = run([compiler, "--version"], hint=_INSTALL).stdout.decode(errors="replace")
    digest = digest_bytes(source)

    def fill(into: Path) -> None:
        # Compiled from a bare name, so that no path of this host gets into the library.
        (into / _SOURCE.name).write_bytes(source)
        run([compiler, *_FLAGS, "-o", LIBRARY, _SOURCE.name, "-ldl"], cwd=into, hint=_INSTALL)

    key = digest_bytes(canonical([digest, version, _FLAGS]))
    return Steady(cache.entry(KIND, key, fill) / LIBRARY, digest)

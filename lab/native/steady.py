# SPDX-License-Identifier: GPL-2.0-only
"""The library that keeps QEMU's main loop off the virtual clock while the CPU executes; steady.c says why."""

from dataclasses import dataclass
from pathlib import Path

from lab.base.cache import Cache
from lab.base.compiler import compile_c, compiler_version
from lab.base.contents import demand_intact
from lab.base.digest import canonical, digest_bytes

KIND = "steady"
LIBRARY = "steady.so"
_SOURCE = Path(__file__).parent / "steady.c"
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,--build-id=none")


@dataclass(frozen=True)
class Steady:
    """``path`` is a library to be preloaded into QEMU; ``digest`` is that of its source, sha256 in hex."""

    path: Path
    digest: str


def steady(cache: Cache) -> Steady:
    """The library, built by the host's compiler when the cache has none. Raises LabBroken without a compiler."""
    digest = digest_bytes(_SOURCE.read_bytes())
    version = compiler_version("QEMU's main loop is kept steady by a library in C")

    def fill(into: Path) -> None:
        compile_c(_SOURCE.parent, [_SOURCE.name, "-ldl"], _FLAGS, into / LIBRARY)

    entry = cache.entry(KIND, digest_bytes(canonical([digest, version, _FLAGS])), fill)
    return Steady(demand_intact(entry / LIBRARY), digest)

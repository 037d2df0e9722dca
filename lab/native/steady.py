# SPDX-License-Identifier: GPL-2.0-only
"""The library that keeps QEMU's main loop off the virtual clock while the CPU executes; see steady.c."""

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
    """``path`` is a library to preload into QEMU; ``digest`` is the sha256 of its source in hex."""

    path: Path
    digest: str


def steady(cache: Cache) -> Steady:
    """The library, built by the host's compiler when the cache has none. Raises LabBroken without a compiler."""
    digest = digest_bytes(_SOURCE.read_bytes())
    version = compiler_version("the library that is preloaded into QEMU is written in C")

    def fill(into: Path) -> None:
        compile_c(_SOURCE.parent, [_SOURCE.name, "-ldl"], _FLAGS, into / LIBRARY)

    entry = cache.entry(KIND, digest_bytes(canonical([digest, version, _FLAGS])), fill)
    return Steady(demand_intact(entry / LIBRARY), digest)

# SPDX-License-Identifier: GPL-2.0-only
"""The plugins that observe what a guest executes; native/profile/plugin.c and executed.c say how."""

from pathlib import Path

from lab.base.cache import Cache
from lab.base.compiler import compile_c, compiler_version
from lab.base.contents import demand_intact
from lab.base.digest import canonical, digest_bytes

KIND = "plugin"
PROFILE, EXECUTED = "profile.so", "executed.so"
_PARTS = {
    PROFILE: ("functions.c", "marker.c", "memory.c", "plugin.c", "stack.c", "tree.c"),
    EXECUTED: ("executed.c", "marker.c", "memory.c"),
}
SOURCES = Path(__file__).parent / "profile"
_FLAGS = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror"),
    *("-shared", "-fPIC", "-fvisibility=hidden", "-Wl,--build-id=none"),
)
# include/qemu/qemu-plugin.h of each release: QEMU refuses a plugin of another version of the interface.
_INTERFACES = (((9, 2), 4), ((9, 1), 3), ((9, 0), 2), ((6, 0), 1))


def interface(version: tuple[int, ...]) -> int:
    """The version of the plugin interface that this version of QEMU wants."""
    return next(number for first, number in _INTERFACES if version >= first)


def plugin(cache: Cache, version: tuple[int, ...], library: str = PROFILE) -> Path:
    """The plugin for this version of QEMU, built by the host's compiler when the cache has none. Raises LabBroken."""
    flags = (*_FLAGS, f"-DPLUGIN_API={interface(version)}")
    compiler = compiler_version("a profile is counted by a library in C")
    sources = {path.name: digest_bytes(path.read_bytes()) for path in sorted(SOURCES.iterdir())}

    def fill(into: Path) -> None:
        compile_c(SOURCES, _PARTS[library], flags, into / library)

    return demand_intact(
        cache.entry(KIND, digest_bytes(canonical([library, sources, compiler, flags])), fill) / library
    )

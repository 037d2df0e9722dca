# SPDX-License-Identifier: GPL-2.0-only
"""The packages of the lab's own programs, each by version and sha256, so that they are the same bytes on every host.

Where the archive has no version of the lock any more, the newest of its suite are used, and ``departures`` names them.
"""

import functools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from lab.base.cache import Cache
from lab.base.digest import digest_bytes
from lab.base.errors import CannotJudge, LabBroken
from lab.base.units import Tell
from lab.packages.apt import Archive, Package
from lab.packages.store import Choose, Finish, Pin, Unpacked, as_pinned, move_tree, read_pins, unpacked

SUITE = "trixie"
FILE = Path(__file__).with_name(f"{SUITE}.lock")
_SHOWN = 12  # hex digits of a digest


@functools.cache
def packages() -> Mapping[str, Package]:
    """Every package of the lock by name, as the suite listed it."""
    lines = (line.split() for line in FILE.read_text().splitlines() if not line.startswith("#"))
    return {
        name: Package(SUITE, name, version, sha256, int(size), "", path) for name, version, sha256, size, path in lines
    }


@functools.cache
def digest() -> str:
    return digest_bytes(FILE.read_bytes())[:_SHOWN]


def pin_name(name: str, names: Sequence[str]) -> str:
    """Another lock or another list of packages is another pin, with its own cache entry."""
    return f"{name}-{SUITE}-{digest()}-{digest_bytes(' '.join(names).encode())[:_SHOWN]}"


def locked(names: Sequence[str], tell: Tell) -> Choose:
    """Choose the lock's version of each package or, where the archive lacks any of them, the newest of all."""
    pin = Pin(SUITE, tuple(packages()[name] for name in names))

    def choose(archive: Archive) -> Sequence[Package]:
        try:
            return as_pinned(pin, archive)
        except CannotJudge as error:
            tell(f"{error.message}: the newest packages of {SUITE} take the place of those in {FILE.name}")
            return archive.newest(SUITE, names)

    return choose


def fetch(
    cache: Cache, pin: str, names: Sequence[str], what: str, tell: Tell, *, kind: str, finish: Finish = move_tree
) -> Unpacked:
    """Packages of the lock, unpacked. Raises LabBroken, which says ``what`` they are, when they cannot be fetched."""
    try:
        return unpacked(cache, pin, locked(names, tell), tell, kind=kind, finish=finish)
    except CannotJudge as error:
        # It says nothing about a kernel.
        raise LabBroken(f"{what} cannot be fetched: {error.message}", remedy=error.remedy) from error


def departures(cache: Cache) -> tuple[str, ...]:
    """``NAME VERSION`` of the packages in use that are not those of the lock."""
    pins = (pin for pin in read_pins(cache, "") if f"-{SUITE}-{digest()}-" in pin.name)
    used = {package for pin in pins for package in pin.packages}
    unlike = {
        f"{package.name} {package.version}" for package in used if package.sha256 != packages()[package.name].sha256
    }
    return tuple(sorted(unlike))


def state(cache: Cache) -> str:
    """What a report says about the packages."""
    unlike = departures(cache)
    return f"{FILE.name} {digest()}{' except ' if unlike else ''}{', '.join(unlike)}"


def write(archive: Archive, names: Collection[str]) -> None:
    """Lock the newest version of each package."""
    offered = archive.newest(SUITE, sorted(set(names)))
    rows = (f"{row.name} {row.version} {row.sha256} {row.size} {row.path}" for row in offered)
    lines = ("# SPDX-License-Identifier: GPL-2.0-only", '# Made by "make lock".', *sorted(rows))
    FILE.write_text("\n".join(lines) + "\n")
    forget()


def forget() -> None:
    """Read the file again at its next use."""
    packages.cache_clear()
    digest.cache_clear()

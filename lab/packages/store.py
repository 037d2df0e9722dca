# SPDX-License-Identifier: GPL-2.0-only
"""Packages pinned by version and checksum at first use, and kept unpacked in the cache.

A pin is the file ``pins/<name>.json`` in the cache. As long as it exists, the same bytes are used: without
the network if they are still unpacked, else fetched again.
"""

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lab.base.cache import Cache
from lab.base.contents import demand_all_intact
from lab.base.digest import digest_bytes
from lab.base.errors import CannotJudge, LabBroken
from lab.base.process import BOUND, run
from lab.base.reading import read_json
from lab.base.units import Tell
from lab.packages import sources
from lab.packages.apt import Archive, Package, gone

_SCHEMA = 1
_PINNED = ("suite", "name", "version", "sha256")
"""What a pin has of a package; of one that its suite does not list the path too."""


@dataclass(frozen=True)
class Pin:
    """The packages behind one name, in the order in which they were chosen."""

    name: str
    packages: tuple[Package, ...]

    @property
    def digest(self) -> str:
        """Identifies the packages' bytes: sha256 in hex."""
        return digest_bytes("\n".join(sorted(package.sha256 for package in self.packages)).encode())


@dataclass(frozen=True)
class Unpacked:
    """A complete folder made from the pinned packages."""

    folder: Path
    pin: Pin

    @property
    def intact(self) -> Path:
        """The folder, of which each file is looked at once. Raises LabBroken for one that was damaged."""
        _demand_once(self.folder)
        return self.folder


_demand_once = functools.cache(demand_all_intact)

Choose = Callable[[Archive], Sequence[Package]]
Finish = Callable[[Path, Path, Pin], None]


def move_tree(tree: Path, into: Path, _: Pin) -> None:
    """Keep all files of the packages."""
    for item in tree.iterdir():
        item.rename(into / item.name)


def unpacked(
    cache: Cache,
    name: str,
    choose: Choose,
    tell: Tell,
    *,
    distribution: str = "debian",
    kind: str = "packages",
    finish: Finish = move_tree,
    refresh: bool = False,
) -> Unpacked:
    """The packages pinned as ``name``, unpacked; when there is no pin (or at ``refresh``) as ``choose`` says now.

    ``finish(tree, into, pin)`` makes the entry ``into`` of ``kind`` from the tree with all packages
    unpacked over one another. The archive is asked only when lists or packages must be fetched.
    Raises CannotJudge when a pinned version has vanished, LabBroken when nothing can be fetched.
    """
    pin = None if refresh else read_pin(cache, name)
    if pin is not None and (folder := cache.find(kind, pin.digest)):
        return Unpacked(folder, pin)
    offered = archive_of(distribution, cache, tell)
    if refresh:
        offered.renew()
    packages = tuple(_ask(offered, choose if pin is None else functools.partial(as_pinned, pin)))
    chosen = Pin(name, packages)

    def fill(into: Path) -> None:
        tree = into / ".unpacked"
        debs = into / ".debs"
        for deb in offered.fetch(packages, debs):
            run([*BOUND, "dpkg-deb", "-x", str(deb), str(tree)], hint="install dpkg")
            deb.unlink()
        debs.rmdir()
        finish(tree, into, chosen)
        run(["rm", "-rf", str(tree)])

    folder = cache.entry(kind, chosen.digest, fill)
    if pin is None:
        write_pin(cache, chosen)
    return Unpacked(folder, chosen)


def archive_of(distribution: str, cache: Cache, tell: Tell) -> Archive:
    """The archive of a distribution. Ubuntu's keys are those of this host, else those that Debian packages."""
    try:
        return Archive(cache, sources.DISTRIBUTIONS[distribution](), tell)
    except LabBroken:
        if distribution == "debian":
            raise
        names = ["ubuntu-keyring"]
        folder = unpacked(cache, names[0], lambda archive: archive.newest("trixie", names), tell).folder
        return Archive(cache, sources.ubuntu(keyrings=folder / "usr/share/keyrings"), tell)


def read_pin(cache: Cache, name: str) -> Pin | None:
    """The pin of that name, None when there is none. Raises LabBroken when it cannot be read."""
    path = _pin_path(cache, name)
    try:
        rows = read_json(path)["packages"]
        if not rows or any(not isinstance(word, str) for row in rows for word in row.values()):
            raise ValueError("not a list of packages")
        return Pin(name, tuple(Package(**row, listed="path" not in row) for row in rows))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise LabBroken(f"the pin {path} cannot be read: {error}", remedy=f"rm -r {path}; it is made again") from error


def read_pins(cache: Cache, prefix: str) -> Iterator[Pin]:
    """Every pin whose name starts with ``prefix``."""
    for path in sorted((cache.root / "pins").glob(f"{prefix}*.json")):
        if (pin := read_pin(cache, path.name.removesuffix(".json"))) is not None:
            yield pin


def write_pin(cache: Cache, pin: Pin) -> None:
    document = {
        "schema": _SCHEMA,
        "pinned": datetime.now(UTC).isoformat(timespec="seconds"),
        "packages": [
            {key: getattr(package, key) for key in (*_PINNED, *(() if package.listed else ("path",)))}
            for package in pin.packages
        ],
    }
    cache.write_text("pins", _pin_path(cache, pin.name).name, json.dumps(document, indent=2) + "\n")


def _pin_path(cache: Cache, name: str) -> Path:
    return cache.root / "pins" / f"{name}.json"


def _ask(archive: Archive, choose: Choose) -> Sequence[Package]:
    """The result of ``choose``; if it finds nothing, once more with updated package lists."""
    try:
        return choose(archive)
    except CannotJudge:
        archive.renew()
        return choose(archive)


def as_pinned(pin: Pin, archive: Archive) -> tuple[Package, ...]:
    """The packages of the pin, as the archive has them. Raises CannotJudge when it does not have one of them."""
    suites = dict.fromkeys(package.suite for package in pin.packages)
    offered = {
        (suite, package.name, package.version): package
        for suite in suites
        for package in archive.versions(suite, [pinned.name for pinned in pin.packages if pinned.suite == suite])
    }
    packages = []
    for pinned in pin.packages:
        exact = (pinned.suite, pinned.name, pinned.version)
        if exact not in offered and not pinned.path:
            raise gone(pinned.suite, f"{pinned.name} {pinned.version}")
        packages.append(offered[exact] if exact in offered else archive.unlisted(*exact, pinned.path))
        if packages[-1].sha256 != pinned.sha256:
            raise CannotJudge(
                f"{pinned.suite} offers {pinned.name} {pinned.version} with contents that differ from the pinned ones",
                remedy="use the archive that it was pinned from, or ask for a refresh of the pin",
            )
    return tuple(packages)

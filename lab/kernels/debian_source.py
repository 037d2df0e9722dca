# SPDX-License-Identifier: GPL-2.0-only
"""Kernels built from a packaged source: ``source:6.12`` is Debian's linux-source-6.12 with the lab's configuration.

``mutant:NAME`` is that source, or the tree that $BLKLAB_TREE names, with a mutant's patch.
"""

import os
import re
from pathlib import Path

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.base.units import Tell, silent
from lab.kernels import debian, mutants, tree
from lab.kernels.git import Checkout
from lab.kernels.model import Kernel
from lab.kernels.mutants import demand_known
from lab.kernels.tree import KernelSource
from lab.packages import sources
from lab.packages.apt import Archive, Package
from lab.packages.store import Finish, Pin, read_pin, unpacked

DEFAULT = "source:6.12"
TREE_VARIABLE = "BLKLAB_TREE"
_KIND = "sources"
_ID = "tree-id"
_FORM = re.compile(rf"([0-9]+\.[0-9]+)(?:\+({mutants.NAME_FORM}))?")


def resolve(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """``wanted`` is what follows ``source:``. Raises CannotJudge when Debian has no such source."""
    return tree.built(source_of(wanted, cache, refresh=refresh, tell=tell), cache, tell=tell)


def source_of(wanted: str, cache: Cache, *, refresh: bool = False, tell: Tell) -> KernelSource:
    """The source that ``resolve`` builds. Raises what it raises."""
    series, mutant = series_and_mutant(wanted)
    made = unpacked(
        cache,
        lambda: Archive(cache, sources.debian(), tell),
        _pin_name(series),
        lambda archive: [_package(archive, series)],
        kind=_KIND,
        finish=_import(tell),
        refresh=refresh,
    )
    package = made.pin.packages[0]
    return KernelSource(
        path=made.folder / "git",
        spec=f"source:{wanted}",
        title=f"Debian's {package.name} {package.version}",
        git_tree=(made.folder / _ID).read_text().strip(),
        mutant=mutant,
    )


def series_and_mutant(wanted: str) -> tuple[str, str]:
    match = _FORM.fullmatch(wanted)
    if match is None:
        raise Misuse(f'"source:{wanted}" is not a source', remedy="give a series, source:6.12, or source:6.12+MUTANT")
    if match[2]:
        demand_known(match[2])
    return match[1], match[2] or ""


def _pin_name(series: str) -> str:
    return f"source-debian-{series}"


def _package(archive: Archive, series: str) -> Package:
    name = f"linux-source-{series}"
    try:
        return debian.newest(archive, debian.suites_of(series), f"package {name}", re.escape(name))
    except CannotJudge as error:
        raise CannotJudge(
            error.message,
            remedy=f"tree:DIR@v{series} of a git clone that has this tag, or tree:DIR of a folder whose Makefile says "
            f"VERSION and PATCHLEVEL, such as the unpacked linux-{series}.tar.xz of kernel.org",
        ) from error


def kept_source(spec: str, cache: Cache) -> KernelSource | None:
    """What ``named_source`` returns if that needs no download, else None."""
    kind, _, wanted = spec.partition(":")
    if kind == "mutant":
        kind, _, wanted = base_spec().partition(":")
    series = re.match(r"source:([0-9]+\.[0-9]+)", f"{kind}:{wanted}")
    pin = read_pin(cache, _pin_name(series[1])) if series else None
    if series and (pin is None or cache.find(_KIND, pin.digest) is None):
        return None
    return named_source(spec, cache, silent)


def base_spec() -> str:
    """The spec of the source that mutants are made of: ``$BLKLAB_TREE`` (PATH or PATH@REV), else Debian's."""
    named = os.environ.get(TREE_VARIABLE, "")
    return f"tree:{named}" if named else DEFAULT


def resolve_mutant(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """``wanted`` is what follows ``mutant:``. Raises Misuse for a name that is no mutant's."""
    return tree.built(mutant_source(wanted, cache, refresh=refresh, tell=tell), cache, tell=tell)


def mutant_source(wanted: str, cache: Cache, *, refresh: bool = False, tell: Tell) -> KernelSource:
    """The source that ``resolve_mutant`` builds. Raises what it raises."""
    demand_known(wanted)
    kind, _, base = base_spec().partition(":")
    if kind == "tree":
        return tree.read_source(f"{base}+{wanted}")
    return source_of(f"{base}+{wanted}", cache, refresh=refresh, tell=tell)


def named_source(spec: str, cache: Cache, tell: Tell) -> KernelSource | None:
    """The source of a kernel that is built here, by the kernel's spec; None for any other kernel."""
    kind, _, wanted = spec.partition(":")
    match kind:
        case "source":
            return source_of(wanted, cache, tell=tell)
        case "mutant":
            return mutant_source(wanted, cache, tell=tell)
        case "tree":
            return tree.read_source(wanted)
    return None


def _import(tell: Tell) -> Finish:
    def finish(unpacked_tree: Path, into: Path, pin: Pin) -> None:
        """Keep the source as a git tree: what is built of it is checked out, patched or not."""
        archives = sorted(unpacked_tree.glob("usr/src/linux-source-*.tar.*"))
        if len(archives) != 1:
            raise LabBroken(f"{len(archives)} source archives in {pin.packages[0].name}, 1 expected")
        tell(f"reading {archives[0].name}")
        (into / _ID).write_text(Checkout(into).tree_of_archive(archives[0], tell) + "\n")

    return finish

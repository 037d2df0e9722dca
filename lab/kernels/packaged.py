# SPDX-License-Identifier: GPL-2.0-only
"""Kernels built from a packaged source: ``source:6.12`` is Debian's linux-source-6.12 with the lab's configuration.

``mutant:NAME`` is that source, or the tree that $BLKLAB_TREE names, with a mutant's patch.
"""

import os
import re
from pathlib import Path

from lab.base.cache import Cache
from lab.base.errors import LabBroken, Misuse
from lab.base.units import Tell
from lab.kernels import debian, mutants, tree
from lab.kernels.git import Checkout
from lab.kernels.model import Kernel
from lab.kernels.mutants import demand_known
from lab.kernels.tree import KernelSource
from lab.packages import sources
from lab.packages.apt import Archive
from lab.packages.store import Finish, Pin, unpacked

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
    name = f"linux-source-{series}"
    made = unpacked(
        cache,
        lambda: Archive(cache, sources.debian(), tell),
        f"source-debian-{series}",
        lambda archive: [debian.newest(archive, debian.suites_of(series), f"package {name}", re.escape(name))],
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

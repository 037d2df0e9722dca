# SPDX-License-Identifier: GPL-2.0-only
"""From what a person asks for (``KERNEL=``) to a kernel on this host."""

import platform
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from lab.base.cache import Cache
from lab.base.errors import Misuse
from lab.base.units import Tell, silent
from lab.kernels import debian, local
from lab.kernels.git import build_folders, commit_of, kernel_tree
from lab.kernels.model import Kernel
from lab.yaml.strict import quoted

DEFAULT = "distro"
_HERE = "."


class Provider(Protocol):
    """Makes a kernel out of what follows the colon of a spec (empty when there is no colon)."""

    def __call__(self, wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel: ...


Refuse = Callable[[str], object]
"""Raises Misuse for words that no kernel has, without fetching anything."""
FORMS: Mapping[str, str] = {
    "debian:": "debian:6.1 (a series; also a stable release, debian:6.1.176, an exact version, debian:6.1.176-1, or a "
    "suite, debian:trixie)",
    "ubuntu:": "ubuntu:5.4 (a series; also a release, ubuntu:noble)",
    "distro": "distro (the newest that this host's distribution packages)",
    "path:": "path:DIR (an unpacked package, an installed build, or a built tree; also packages, path:A.rpm,B.rpm, and "
    "an image with the folder of its modules, path:bzImage,DIR)",
    "tree:": "tree:PATH@REV (a commit of a git tree, built with kconfigs/; tree:PATH is a folder's content; +MUTANT "
    "behind it, and +debug for the kernel's own checks, as behind the next two)",
    "source:": "source:6.12 (Debian's linux-source-6.12, built the same way; source:6.12+MUTANT)",
    "mutant:": "mutant:no-fair-tags (the same as source:6.12+no-fair-tags, or of the tree that BLKLAB_TREE names)",
    "mainline:": "mainline:v6.12 (as Ubuntu's mainline archive has it; needs virtme-ng)",
    "host": "host (the one that this machine runs)",
    _HERE: ". (the kernel's git work tree that this folder is in, or its finished build; HEAD~1: a commit of it)",
}


def _provider(form: str) -> tuple[Provider, Refuse]:
    """A run imports neither what builds kernels nor other distributions."""
    table: dict[str, tuple[Provider, Refuse]] = {
        "debian:": (debian.resolve, debian.choice),
        "path:": (local.resolve_path, local.parts_of),
        "host": (local.resolve_host, str),
    }
    if form in ("tree:", "source:", "mutant:"):
        from lab.kernels import tree

        return partial(tree.resolve, form), partial(tree.demand, form)
    if form not in table:
        from lab.kernels import ubuntu

        table["ubuntu:"] = (ubuntu.resolve, ubuntu.choice)
        table["distro"] = (ubuntu.resolve_distro, str)
        table["mainline:"] = (ubuntu.resolve_mainline, ubuntu.demand_tag)
    return table[form]


def demand(spec: str) -> str:
    """The spec; of ``.`` and of a revision inside a kernel's work tree that of the tree.

    Raises Misuse for one that is in no known form, or names a mutant or files that do not exist.
    """
    spec = in_tree(spec) or spec
    _provided(spec)
    return spec


def in_tree(spec: str) -> str:
    """``tree:TOP`` of ``.``, or ``path:DIR`` of its finished build, ``tree:TOP@COMMIT`` of a revision; empty for all
    other words and outside of a tree. Raises Misuse for a build that is older than its sources."""
    if ":" in spec or spec in {*FORMS} - {_HERE}:
        return ""
    top = kernel_tree(Path.cwd())
    if top is None and spec == _HERE:
        raise Misuse(f"{Path.cwd()} is not in a git work tree of the kernel", remedy="cd into the tree, or tree:DIR")
    if top is None or spec == _HERE:
        build = local.finished_build(top, build_folders(Path.cwd())) if top else None
        return f"path:{build}" if build else f"tree:{top}" if top else ""
    try:
        return f"tree:{top}@{commit_of(top, spec)[:12]}"
    except Misuse:
        return ""


def check(spec: str) -> None:
    """Raise what ``resolve`` raises, as far as no download, build or copy is needed to know it."""
    _, wanted = _provided(spec)
    if spec.startswith("path:"):
        local.look(wanted)
    elif spec == "host":
        local.find_host(Path("/"), platform.release())


def resolve(spec: str, cache: Cache, *, refresh: bool = False, tell: Tell = silent) -> Kernel:
    """The kernel that ``spec`` names (``distro`` when empty), fetched and unpacked if need be.

    A packaged kernel is pinned at first use: later calls give the same one, without the network,
    until ``refresh``. ``tell`` hears what is being waited for. Raises Misuse for a spec in no known
    form, CannotJudge when there is no such kernel, LabBroken when it cannot be fetched or stored.
    """
    provider, wanted = _provided(spec)
    return provider(wanted, cache, refresh=refresh, tell=tell)


def _provided(spec: str) -> tuple[Provider, str]:
    """What makes the kernel, with what follows the colon. Raises what ``demand`` raises."""
    name, colon, wanted = (spec or DEFAULT).partition(":")
    if name + colon not in FORMS or bool(colon) != bool(wanted):
        known = "\n    ".join(("use one of:", *FORMS.values()))
        raise Misuse(f"{quoted(spec)} is not a kernel that blklab knows", remedy=known)
    provider, refuse = _provider(name + colon)
    refuse(wanted)
    return provider, wanted

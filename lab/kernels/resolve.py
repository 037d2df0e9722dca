# SPDX-License-Identifier: GPL-2.0-only
"""From what a person asks for (``KERNEL=``) to a kernel on this host."""

import platform
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol

from lab.base.cache import Cache
from lab.base.errors import Misuse
from lab.base.units import Tell, silent
from lab.kernels import local
from lab.kernels.model import Kernel
from lab.yaml.strict import quoted

DEFAULT = "distro"
FORMS = (
    "debian:6.1 (a series; also an exact version, debian:6.1.176-1, or a suite, debian:trixie)",
    "ubuntu:5.4 (a series; also a release, ubuntu:noble)",
    "distro (the newest that this host's distribution packages)",
    "path:DIR (an unpacked package, an installed build, or a built tree; also packages, path:A.rpm,B.rpm, and an image "
    "with the folder of its modules, path:bzImage,DIR)",
    "tree:PATH@REV (a commit of a git tree, built with kconfigs/; tree:PATH is a folder's content; +MUTANT behind it)",
    "source:6.12 (Debian's linux-source-6.12, built the same way; source:6.12+MUTANT)",
    "mutant:no-fair-tags (the same as source:6.12+no-fair-tags, or of the tree that BLKLAB_TREE names)",
    "mainline:v6.12 (as Ubuntu's mainline archive has it; needs virtme-ng)",
    "host (the one that this machine runs)",
)


class Provider(Protocol):
    """Makes a kernel out of what follows the colon of a spec (empty when there is no colon)."""

    def __call__(self, wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel: ...


PROVIDERS: Mapping[str, tuple[str, str, str]] = {
    "debian:": ("debian", "resolve", "choice"),
    "ubuntu:": ("ubuntu", "resolve", "choice"),
    "distro": ("ubuntu", "resolve_distro", ""),
    "path:": ("local", "resolve_path", "parts_of"),
    "tree:": ("tree", "resolve", "read_source"),
    "source:": ("packaged", "resolve", "series_and_mutant"),
    "mutant:": ("packaged", "resolve_mutant", "demand_known"),
    "mainline:": ("ubuntu", "resolve_mainline", "demand_tag"),
    "host": ("local", "resolve_host", ""),
}
"""Module, function, and what raises Misuse for words that no kernel has, without fetching anything.

A module is imported only when its form is used.
"""


def demand(spec: str) -> str:
    """The spec. Raises Misuse for one that is in no known form, or names a mutant or files that do not exist."""
    name, colon, wanted = (spec or DEFAULT).partition(":")
    if name + colon not in PROVIDERS or bool(colon) != bool(wanted):
        raise Misuse(f"{quoted(spec)} is not a kernel that blklab knows", remedy="\n    ".join(("use one of:", *FORMS)))
    module, _, refuse = PROVIDERS[name + colon]
    if refuse:
        getattr(import_module(f"lab.kernels.{module}"), refuse)(wanted)
    return spec


def check(spec: str) -> None:
    """Raise what ``resolve`` raises, as far as no download, build or copy is needed to know it."""
    wanted = _provider(demand(spec))[1]
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
    provider, wanted = _provider(demand(spec))
    return provider(wanted, cache, refresh=refresh, tell=tell)


def _provider(spec: str) -> tuple[Provider, str]:
    """With what follows the colon."""
    name, colon, wanted = (spec or DEFAULT).partition(":")
    module, function, _ = PROVIDERS[name + colon]
    provider: Provider = getattr(import_module(f"lab.kernels.{module}"), function)
    return provider, wanted

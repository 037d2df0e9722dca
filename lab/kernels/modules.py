# SPDX-License-Identifier: GPL-2.0-only
"""Which module files a guest needs, in the order in which to load them."""

import gzip
import lzma
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import zstandard

from lab.errors import LabBroken
from lab.kernels.model import Kernel

_SUFFIXES = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")


@dataclass(frozen=True)
class Closure:
    """``load`` holds module files in load order, dependencies first; ``builtin`` and ``missing``
    are those of the names asked for that need no file, and that this kernel does not have."""

    load: tuple[Path, ...]
    builtin: tuple[str, ...]
    missing: tuple[str, ...]


def module_name(path: Path | str) -> str:
    """The name under which the kernel knows a module: ``dm-mod.ko.xz`` is ``dm_mod``."""
    name = Path(path).name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name.replace("-", "_")


def module_closure(kernel: Kernel, names: Iterable[str]) -> Closure:
    """The files that ``modprobe`` would load for ``names``, each once. ``-`` and ``_`` are the same.

    Raises LabBroken when the kernel has no readable ``modules.dep``.
    """
    table = _dependencies(kernel.modules)
    builtin = _builtin(kernel.modules)
    load, needless, missing = dict[Path, None](), list[str](), list[str]()
    for name in names:
        wanted = module_name(name)
        if wanted in table:
            load.update(dict.fromkeys(table[wanted]))
        elif wanted in builtin:
            needless.append(name)
        else:
            missing.append(name)
    return Closure(tuple(load), tuple(needless), tuple(missing))


def read_module(path: Path) -> bytes:
    """A module's ELF, decompressed where the file is compressed."""
    stored = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(stored)
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().decompressobj().decompress(stored)
    if path.suffix == ".gz":
        return gzip.decompress(stored)
    return stored


@lru_cache(maxsize=8)
def _dependencies(modules: Path) -> Mapping[str, tuple[Path, ...]]:
    """Each module's name to its files in load order. modules.dep lists the last to load first."""
    table = {}
    for line in _lines(modules / "modules.dep"):
        target, _, needs = line.partition(":")
        table[module_name(target)] = tuple(modules / path for path in [*reversed(needs.split()), target])
    return table


@lru_cache(maxsize=8)
def _builtin(modules: Path) -> frozenset[str]:
    path = modules / "modules.builtin"
    return frozenset(map(module_name, _lines(path))) if path.exists() else frozenset()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError as error:
        raise LabBroken(f"{path}: {error.strerror}", remedy="remove this kernel from the cache, or run depmod") from error

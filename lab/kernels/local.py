# SPDX-License-Identifier: GPL-2.0-only
"""Kernels that are on this host already: ``path:DIR`` and ``host``."""

from lab.cache import Cache
from lab.errors import Misuse
from lab.kernels.model import Kernel
from lab.packages.apt import Tell


def resolve_path(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    raise Misuse("not yet")


def resolve_host(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    raise Misuse("not yet")

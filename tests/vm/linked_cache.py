# SPDX-License-Identifier: GPL-2.0-only
"""A cache that has some kinds of entries of another one."""

from collections.abc import Iterable
from pathlib import Path

from lab.base.cache import Cache


def linked_cache(root: Path, origin: Path, kinds: Iterable[str]) -> Cache:
    """The cache at ``root`` with the entries of ``kinds`` of the one at ``origin``, and no others."""
    cache = Cache(root)
    cache.write_text("marks", "empty", "")
    for kind in kinds:
        (origin / kind).mkdir(exist_ok=True)
        (root / kind).symlink_to(origin / kind)
    return cache

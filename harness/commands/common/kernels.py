# SPDX-License-Identifier: GPL-2.0-only
"""``--kernels``: from specs and ranges to kernels, and why one is missing."""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NoReturn

from harness.commands.common.options import given, tell
from lab.base.cache import Cache
from lab.base.errors import BlklabError, Misuse
from lab.kernels.model import Kernel
from lab.kernels.offers import expand, offers
from lab.kernels.resolve import resolve

FORMS = 'specs separated by spaces, ranges ("debian:6.12 .. debian:7.3", the newest of each series) and debian:all'


def add_kernels(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--kernels", action="append", type=given, metavar="SPECS", help=f"{FORMS}; may be repeated (default: {default})"
    )


def specs(named: Sequence[str], cache: Cache) -> tuple[str, ...]:
    """The specs that ``named`` lists, ranges replaced by what is in them. Raises Misuse."""
    return expand(" ".join(named), partial(offers, cache, tell))


def refuse_ranges() -> NoReturn:
    """What --dry-run passes to ``expand``: the kernels in a range are known only from the archive."""
    raise Misuse("--dry-run downloads nothing, and a range needs the archive's list", remedy="name the kernels")


def kernels(wanted: Sequence[str], cache: Cache, *, refresh: bool = False) -> Mapping[str, Kernel | BlklabError]:
    """Each kernel, or why there is none: a missing kernel does not stop the others. Raises Misuse."""
    return {spec: _kernel(spec, cache, refresh=refresh) for spec in wanted}


def _kernel(spec: str, cache: Cache, *, refresh: bool) -> Kernel | BlklabError:
    try:
        return resolve(spec, cache, refresh=refresh, tell=tell)
    except Misuse:
        raise
    except BlklabError as error:
        tell(f"{spec}: {error}")
        return error

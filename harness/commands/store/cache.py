# SPDX-License-Identifier: GPL-2.0-only
"""``blklab store cache``: list and delete cache entries."""

import argparse
from contextlib import suppress
from datetime import UTC, datetime
from math import inf

from harness.commands.common.options import kept_bytes, mib
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS, Misuse
from lab.yaml.strict import names, nearest, quoted

_DAY = 86400.0


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing, deleting = "list the entries, least recently used first", "delete entries not in use (default: all)"
    actions.add_parser("list", help=listing, description=f"{listing.capitalize()}.")
    prune = actions.add_parser("prune", help=deleting, description=f"{deleting.capitalize()}.")
    prune.add_argument("--kind", metavar="KIND", help="only this kind of entry, as shown by list")
    prune.add_argument("--older-than", type=_days, metavar="DAYS", help="only entries not used for DAYS")
    prune.add_argument("--keep", metavar="SIZE", help="delete the least recently used until SIZE is left (2G)")


def _days(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (days := float(text)) < inf:
            return days
    raise argparse.ArgumentTypeError(f"expected a number of days, 0 or more, got {text!r}")


def execute(options: argparse.Namespace) -> int:
    cache = Cache.default()
    if options.action == "list":
        _list(cache)
    else:
        _prune(cache, options)
    return EXIT_PASS


def _list(cache: Cache) -> None:
    entries = cache.entries()
    print(f"{cache.root}: {len(entries)} entries, {mib(sum(entry.size for entry in entries))}")
    for entry in entries:
        used = datetime.fromtimestamp(entry.last_used, UTC).strftime("%Y-%m-%d %H:%M")
        print(f"  {entry.kind:12} {entry.key[:24]:24} {mib(entry.size):>10}  used {used} UTC")


def _prune(cache: Cache, options: argparse.Namespace) -> None:
    known = {entry.kind for entry in cache.entries()}
    if options.kind is not None and options.kind not in known:
        raise Misuse(
            f"no entry is of kind {quoted(options.kind)}{nearest(options.kind, known)}",
            remedy=f"the kinds are {names(sorted(known))}" if known else "the cache is empty",
        )
    pruned = cache.prune(
        kind=options.kind,
        older_than=None if options.older_than is None else options.older_than * _DAY,
        keep_bytes=kept_bytes(options.keep),
    )
    print(f"removed {len(pruned.removed)} entries, {mib(pruned.freed)}")
    for entry in pruned.in_use:
        print(f"kept {entry.kind}/{entry.key}: in use")

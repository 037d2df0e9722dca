# SPDX-License-Identifier: GPL-2.0-only
"""``blklab list``."""

import argparse
import sys
from collections.abc import Sequence

from harness.base.checkout import WALL
from harness.commands.common.options import tell
from harness.limits.load import load_scenario
from harness.scenario.load import find_scenarios
from lab.base.cache import Cache
from lab.base.errors import EXIT_MISUSE, EXIT_PASS, InputErrors
from lab.kernels.debian import Offer, offers
from lab.topology.load import catalogue


def configure(parser: argparse.ArgumentParser) -> None:
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--topologies", action="store_true", help="list the topologies instead")
    instead.add_argument("--kernels", action="store_true", help="list the kernels that Debian packages instead")


def execute(options: argparse.Namespace) -> int:
    if options.topologies:
        _print_titles({topology.name: topology.title for topology in catalogue()})
        return EXIT_PASS
    if options.kernels:
        print(_kernels(offers(Cache.default(), tell)), end="")
        return EXIT_PASS
    titles, code = {}, EXIT_PASS
    for name in [*find_scenarios(), *(f"{WALL.name}/{name}" for name in find_scenarios(WALL))]:
        try:
            titles[name] = load_scenario(name).title
        except InputErrors as error:
            print(error, file=sys.stderr)
            code = EXIT_MISUSE
    _print_titles(titles)
    return code


def _kernels(listed: Sequence[Offer]) -> str:
    """A line for each version."""
    heads = ("series", "version", "suite", "cached")
    rows = [(offer.series, offer.version, offer.suite, "yes" if offer.cached else "no") for offer in listed]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows))
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _print_titles(titles: dict[str, str]) -> None:
    width = max(map(len, titles), default=0)
    for name, title in titles.items():
        print(f"{name:{width}}  {title}")

# SPDX-License-Identifier: GPL-2.0-only
"""``blklab zoo``: what the lab sees of published regressions, and what it sees where there is nothing."""

import argparse
from pathlib import Path

from rich.console import Console

from harness.commands.command import RESULT_PAGES, SCENARIOS, add_results, results_root, tell, write_page
from harness.commands.matrix import KERNELS
from harness.record.store import Store
from harness.report.terminal.progress import progress
from harness.studies.controls import FOLDER
from harness.studies.zoo.measure import NULL_PAIRS, Visit, visit
from harness.studies.zoo.page import zoo_page
from harness.studies.zoo.regressions import Regression, load_regressions
from harness.studies.zoo.score import Zoo
from harness.studies.zoo.table import print_zoo
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_LAB_BROKEN, EXIT_PASS, Misuse
from lab.kernels.model import Kernel
from lab.kernels.packaged import base_spec
from lab.kernels.resolve import resolve
from lab.qemu.probe import find_qemu
from lab.session import open_lab
from lab.yaml.strict import names, nearest

NAME = "zoo"
HELP = "write docs/results/zoo.md: published regressions and null pairs: what is missed, and false alarms"
_FILE = SCENARIOS / "zoo" / "regressions.yaml"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("regressions", nargs="*", metavar="REGRESSION", help="only these (default: all)")
    parser.add_argument("--kernels", default=KERNELS, metavar="SPECS", help=f"stock kernels (default: {KERNELS})")
    parser.add_argument("--source", default=base_spec(), metavar="SPEC", help="what mutants are made of: source:6.12")
    parser.add_argument(
        "--pairs", type=int, default=NULL_PAIRS, metavar="N", help=f"null pairs at most (default: {NULL_PAIRS})"
    )
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="boots side by side (default: one a core)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="the page (default: docs/results/zoo.md if all regressions are measured)",
    )
    add_results(parser)


def execute(options: argparse.Namespace) -> int:
    regressions = _chosen(load_regressions(_FILE, search=SCENARIOS), options.regressions)
    store = Store(results_root(options.results) / FOLDER)
    store.check()
    find_qemu()
    cache = Cache.default()
    lab = open_lab(cache, tell)
    stock = [resolve(spec, cache, tell=tell) for spec in dict.fromkeys(options.kernels.split())]

    def kernel(mutant: str) -> Kernel:
        return resolve(f"{options.source}+{mutant}" if mutant else options.source, cache, tell=tell)

    with progress(Console(stderr=True)) as listener:
        zoo = visit(Visit(lab, store, kernel, listener, options.jobs), regressions, stock, options.pairs)
    print_zoo(Console(), regressions, zoo)
    if page := page_of(options):
        write_page(page, zoo_page(regressions, zoo, f"QEMU {lab.qemu.version_text}", f"blklab {NAME}"))
        tell(f"{len(regressions)} regressions are in {page}")
    return _exit_code(zoo)


def page_of(options: argparse.Namespace) -> Path | None:
    """Where the page goes: a few regressions do not take the place of the page of all."""
    chosen: Path | None = options.out
    return chosen or (None if options.regressions else RESULT_PAGES / "zoo.md")


def _chosen(known: tuple[Regression, ...], wanted: list[str]) -> tuple[Regression, ...]:
    by_name = {one.name: one for one in known}
    for name in wanted:
        if name not in by_name:
            raise Misuse(f"no regression is called {name}{nearest(name, by_name)}", remedy=f"known: {names(by_name)}")
    return tuple(by_name[name] for name in wanted) or known


def _exit_code(zoo: Zoo) -> int:
    if zoo.missed or zoo.false_alarms or any(pair.alarms for pair in zoo.pairs):
        return EXIT_LAB_BROKEN
    return EXIT_PASS if zoo.detected else EXIT_CANNOT_JUDGE

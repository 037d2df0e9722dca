# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check zoo``: published regressions that the lab detects or misses, and false alarms on null pairs."""

import argparse
from pathlib import Path

from rich.console import Console

from harness.commands.common import options as shared
from harness.commands.common.boots import kernel_of, lab_of_host, mutants_of, specs, store_of, watched
from harness.commands.matrix import KERNELS
from harness.studies.controls import FOLDER
from harness.studies.zoo.page import print_zoo, zoo_page
from harness.studies.zoo.regressions import Regression, load_out_of_scope, load_regressions
from harness.studies.zoo.score import Visit, Zoo, visit
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_LAB_BROKEN, EXIT_PASS, Misuse
from lab.kernels.packaged import base_spec
from lab.yaml.strict import names, nearest

_FILE = shared.SCENARIOS / "zoo" / "regressions.yaml"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("regressions", nargs="*", metavar="REGRESSION", help="only these (default: all)")
    parser.add_argument(
        "--kernels", type=shared.given, default=KERNELS, metavar="SPECS", help=f"stock kernels (default: {KERNELS})"
    )
    parser.add_argument(
        "--source",
        type=shared.given,
        default=base_spec(),
        metavar="SPEC",
        help="source of the mutants (default: source:6.12)",
    )
    parser.add_argument(
        "--pairs",
        type=shared.number(0),
        metavar="N",
        help="most null pairs (default: one for each regression)",
    )
    shared.add_jobs(parser)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="the page (default: docs/results/zoo.md if all are measured)",
    )
    shared.add_results(parser)


def execute(options: argparse.Namespace) -> int:
    regressions = _chosen(load_regressions(_FILE, search=shared.SCENARIOS), options.regressions)
    store, lab = store_of(options, FOLDER), lab_of_host()
    wanted = specs([options.kernels], lab.cache)
    stock = [kernel_of(spec) for spec in wanted]
    further = {spec: kernel_of(spec) for one in regressions for spec in one.also if spec not in wanted}
    with watched() as listener:
        places = Visit(lab, store, mutants_of(options.source), listener, options.jobs)
        zoo = visit(places, regressions, stock, options.pairs, further)
    print_zoo(Console(), regressions, zoo)
    if page := page_of(options):
        out = load_out_of_scope(_FILE)
        shared.write_page(page, zoo_page(regressions, zoo, f"QEMU {lab.qemu.version_text}", "blklab check zoo", out))
        shared.tell(f"{len(regressions)} regressions written to {page}")
    return _exit_code(zoo)


def page_of(options: argparse.Namespace) -> Path | None:
    """The page to write: by default none when only some regressions were measured."""
    chosen: Path | None = options.out
    return chosen or (None if options.regressions else shared.PAGES / "zoo.md")


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

# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check thresholds``: how far layout alone moves each kind of figure; the data of ``blklab compare``."""

import argparse

from harness.base.files import write_json
from harness.commands.common import options as shared
from harness.commands.common.boots import lab_of_host, mutants_of, store_of, watched
from harness.judge.thresholds import DATA
from harness.studies.controls import FOLDER
from harness.studies.thresholds import document, evidence_of, null_figures, samples, threshold_page, zoo_differences
from harness.studies.zoo.regressions import load_regressions
from harness.studies.zoo.score import Visit
from lab.base.errors import EXIT_PASS, Misuse
from lab.kernels.packaged import base_spec
from lab.yaml.strict import names, nearest


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        help="measure only these and write nothing (default: all)",
    )
    parser.add_argument(
        "--source",
        type=shared.given,
        default=base_spec(),
        metavar="SPEC",
        help="source to build (default: source:6.12)",
    )
    shared.add_jobs(parser)
    shared.add_results(parser)


def execute(options: argparse.Namespace) -> int:
    regressions = load_regressions(shared.SCENARIOS / "zoo/regressions.yaml", search=shared.SCENARIOS)
    known = {one.scenario.name: one for one in samples(regressions, shared.SCENARIOS)}
    for name in options.scenarios:
        if name not in known:
            raise Misuse(f"thresholds do not use {name}{nearest(name, known)}", remedy=f"one of {names(known)}")
    store, lab = store_of(options, FOLDER), lab_of_host()
    chosen = [known[name] for name in options.scenarios or known]
    with watched() as listener:
        visit = Visit(lab, store, mutants_of(options.source), listener, options.jobs)
        kinds = evidence_of(null_figures(visit, chosen))
        zoo = () if options.scenarios else tuple(zoo_differences(visit, regressions, kinds))
    for name, one in kinds.items():
        print(f"{name}: {one.pairs} null pairs, medians {one.layout:.3%}, single boots {one.single:.3%}")
    if options.scenarios:
        return EXIT_PASS
    kernel = visit.resolve("").release
    write_json(DATA, document(kinds, kernel))
    page = shared.PAGES / "thresholds.md"
    measured_on = f"Kernel: {kernel}. QEMU {lab.qemu.version_text}"
    text = threshold_page(kinds, chosen, zoo, measured_on, "blklab check thresholds")
    shared.write_page(page, text)
    shared.tell(f"thresholds of {len(kinds)} kinds of figures written to {DATA.name} and {page}")
    return EXIT_PASS

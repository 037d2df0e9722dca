# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check thresholds``: how far layout alone moves each kind of figure; the data of ``blklab compare``."""

import argparse

from harness.base.checkout import PAGES, SCENARIOS
from harness.base.files import write_json
from harness.commands.common import options as shared
from harness.commands.common.boots import kernel_of
from harness.commands.common.measuring import FURTHER, add_source, measuring
from harness.judge.thresholds import DATA
from harness.scenario.model import Scenario
from harness.studies.evidence.rows import load_zoo, shipped_scenarios
from harness.studies.evidence.scorer import FOLDER
from harness.studies.thresholds import (
    SEVERAL,
    claim_moves,
    document,
    evidence_of,
    null_figures,
    samples,
    threshold_page,
)
from lab.base.errors import EXIT_PASS, Misuse
from lab.qemu.probe import find_qemu
from lab.yaml.strict import names, nearest


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        help="measure only these and write nothing (default: all)",
    )
    add_source(parser)
    shared.add_jobs(parser)
    shared.add_results(parser)


def _several(scenario: Scenario) -> bool:
    """Whether an arm has several CPUs: which of them share tags is chance, and two layouts do not bound chance."""
    return any(arm.topology.processors.several for arm in scenario.arms.values())


def execute(options: argparse.Namespace) -> int:
    regressions = load_zoo(SCENARIOS)
    known = {sample.scenario.name: sample for sample in samples(regressions, SCENARIOS)}
    for name in options.scenarios:
        if name not in known:
            raise Misuse(f"thresholds do not use {name}{nearest(name, known)}", remedy=f"one of {names(known)}")
    chosen = [known[name] for name in options.scenarios or known]
    measure = measuring(options, FOLDER)
    kinds = evidence_of(null_figures(measure, options.source, chosen))
    for name, shares in kinds.items():
        print(f"{name}: {shares.pairs} null pairs, layouts {shares.layout:.3%}, any two boots {shares.single:.3%}")
    if options.scenarios:
        return EXIT_PASS
    kernel = kernel_of(options.source).release
    virtual = [one for one in shipped_scenarios(SCENARIOS) if one.timing.exact and not _several(one)]
    claims = claim_moves(measure, (options.source, *FURTHER.split()), virtual)
    write_json(DATA, document(kinds, claims, kernel))
    page = PAGES / "thresholds.md"
    releases = ", ".join((kernel, *(kernel_of(spec).release for spec in SEVERAL)))
    measured_on = f"Kernels: {releases}. QEMU {find_qemu().version_text}"
    text = threshold_page(kinds, chosen, measured_on, "blklab check thresholds")
    shared.write_page(page, text)
    shared.tell(f"thresholds of {len(kinds)} kinds of figures written to {DATA.name} and {page}")
    return EXIT_PASS

# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check controls``: kernels with a known defect, and which scenario detects each."""

import argparse
from collections.abc import Mapping, Sequence
from string import ascii_letters

from rich.console import Console
from rich.table import Table

from harness.commands.common.boots import every_scenario, lab_of_host, mutants_of, store_of, watched
from harness.commands.common.options import add_jobs, add_results, add_seeds, given, tell
from harness.judge.claims import Judgement
from harness.judge.killers import UNPROVEN
from harness.report.format import value
from harness.scenario.model import Clock, Status
from harness.studies.controls import (
    FOLDER,
    Campaign,
    MutantTrial,
    Stock,
    arms_against,
    claim_kills,
    mutants_named,
    shortfalls,
    try_mutants,
    try_stock,
)
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_LAB_BROKEN, EXIT_PASS, Misuse
from lab.kernels.mutants import catalogue, demand_known
from lab.kernels.packaged import base_spec

_KINDS = ("tree:", "source:")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("mutants", nargs="*", metavar="MUTANT", help="only these (default: all in scenarios/mutants/)")
    parser.add_argument(
        "--source",
        type=given,
        default=base_spec(),
        metavar="SPEC",
        help="source of the mutants: source:6.12 (default), tree:PATH or tree:PATH@REV",
    )
    add_seeds(parser)
    parser.add_argument("--every-pair", action="store_true", help="run each mutant under each scenario")
    add_jobs(parser)
    add_results(parser)


def execute(options: argparse.Namespace) -> int:
    if not options.source.startswith(_KINDS):
        raise Misuse(
            f"--source {options.source}: mutants are built from source", remedy="--source source:6.12 or tree:PATH"
        )
    campaign = _campaign(options)
    store, lab, kernel = store_of(options, FOLDER), lab_of_host(), mutants_of(options.source)
    with watched() as listener:
        stock = tuple(try_stock(lab, campaign, kernel, store, listener))
        trials = tuple(try_mutants(lab, campaign, kernel, store, listener))
    print_campaign(Console(), campaign, stock, trials)
    wrong = tuple(shortfalls(campaign, stock, trials))
    for sentence in wrong:
        tell(sentence)
    return _exit_code(wrong, trials)


def _campaign(options: argparse.Namespace) -> Campaign:
    known = catalogue()
    for mutant in options.mutants:
        demand_known(mutant, known)
    virtual = tuple(one for one in every_scenario() if one.clock is Clock.VIRTUAL and one.selftest is None)
    mutants = tuple(options.mutants) or mutants_named(virtual)
    chosen = virtual
    if options.mutants and not options.every_pair:
        chosen = tuple(one for one in virtual if any(arms_against(one, mutant) for mutant in mutants))
    return Campaign(chosen, mutants, options.seeds, options.every_pair, options.jobs)


def _exit_code(wrong: Sequence[str], trials: Sequence[MutantTrial]) -> int:
    if not wrong:
        return EXIT_PASS
    return EXIT_CANNOT_JUDGE if any(trial.verdict is None for trial in trials) else EXIT_LAB_BROKEN


def print_campaign(console: Console, campaign: Campaign, stock: Sequence[Stock], trials: Sequence[MutantTrial]) -> None:
    console.print(_matrix(campaign, stock, trials))
    for letter, scenario in _letters(trials).items():
        console.print(f"{letter}  {scenario}", highlight=False)
    console.print("K detected by a control, k by a failed claim, . not detected, blank: not run\n")
    console.print(_kills(stock, trials))
    console.print(_claims(campaign, stock, trials))


def _letters(trials: Sequence[MutantTrial]) -> Mapping[str, str]:
    """Column heads of the matrix, where names do not fit."""
    return dict(zip(ascii_letters, dict.fromkeys(trial.scenario for trial in trials), strict=False))


def _matrix(campaign: Campaign, stock: Sequence[Stock], trials: Sequence[MutantTrial]) -> Table:
    letters = _letters(trials)
    marks = {(trial.mutant, trial.scenario): _mark(trial) for trial in trials}
    table = Table(title="mutants and scenarios")
    table.add_column("mutant", no_wrap=True)
    for letter in letters:
        table.add_column(letter, justify="center")
    clean = {one.scenario: "." if one.verdict.status is Status.PASS else str(one.verdict.status) for one in stock}
    table.add_row("(none)", *(clean.get(scenario, "") for scenario in letters.values()), end_section=True)
    for mutant in campaign.mutants:
        table.add_row(mutant, *(marks.get((mutant, scenario), "") for scenario in letters.values()))
    return table


def _mark(trial: MutantTrial) -> str:
    if trial.verdict is None:
        return "?"
    return "K" if trial.controls else "k" if trial.failed else "."


def _kills(stock: Sequence[Stock], trials: Sequence[MutantTrial]) -> Table:
    """Each control on its mutant, with the same figure on the unmodified kernel."""
    table = Table()
    for column in ("mutant", "scenario", "figure", "must be", "without it"):
        table.add_column(column, no_wrap=column in ("mutant", "scenario"))
    clean = {
        (one.scenario, mutant, control.that): _figure(control.judgement)
        for one in stock
        for mutant, verdict in one.judged.items()
        for control in verdict.controls
        if control.mutant == mutant
    }
    for trial in trials:
        if trial.verdict is None:
            table.add_row(trial.mutant, trial.scenario, trial.reason, "", "")
            continue
        for control in trial.verdict.controls:
            if control.mutant == trial.mutant:
                without = clean.get((trial.scenario, trial.mutant, control.that), "")
                table.add_row(trial.mutant, trial.scenario, _figure(control.judgement), control.expect, without)
    return table


def _claims(campaign: Campaign, stock: Sequence[Stock], trials: Sequence[MutantTrial]) -> Table:
    """Each claim with its figure on the kernel without a mutant, and what makes it fail."""
    table = Table(title="claims and what makes them fail")
    for column in ("scenario", "claim", "bound", "without it", "fails by"):
        table.add_column(column, no_wrap=column == "scenario")
    for one in claim_kills(campaign, stock, trials):
        by = "; ".join(f"{name}: {_figure(judgement)}" for name, judgement in one.by)
        known = ", ".join(name for name in one.claim.killers if name.startswith("kernels"))
        found = "; ".join(filter(None, (by, known))) or UNPROVEN
        table.add_row(one.scenario, one.claim.that, one.claim.expect, _figure(one.claim.judgement), found)
    return table


def _figure(judgement: Judgement | None) -> str:
    if judgement is None:
        return ""
    return judgement.reason if judgement.ensemble is None else value(judgement)

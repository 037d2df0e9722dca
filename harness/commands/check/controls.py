# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check controls``: kernels with a known defect, and which scenario detects each."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import cache as remembered
from pathlib import Path
from string import ascii_letters

from rich.console import Console
from rich.table import Column, Table

from harness.commands.common import options as shared
from harness.commands.common.boots import every_scenario, kernel_of, lab_of_host, specs, store_of, watched
from harness.limits.load import load_scenario
from harness.record.store import RunFolder, Store
from harness.run.plan import Request
from harness.run.runner import measured
from harness.scenario.load import find_scenarios
from harness.scenario.model import Clock, Scenario, Status
from harness.studies.controls import (
    FOLDER,
    Campaign,
    Measure,
    MutantTrial,
    Stock,
    arms_against,
    mutants_named,
    shortfalls,
    stored,
    try_further,
    try_mutants,
    try_stock,
)
from harness.studies.kills import claim_kills, kills_page, lacks_a_figure, mutant_rows
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_LAB_BROKEN, EXIT_PASS, BlklabError, CannotJudge, Misuse
from lab.kernels.model import Kernel
from lab.kernels.mutants import catalogue, demand_known
from lab.kernels.packaged import base_spec
from lab.qemu.probe import find_qemu
from lab.yaml.strict import names, nearest, quoted

_KINDS = ("tree:", "source:")
_FURTHER = "debian:6.1 debian:7.2 debian:5.10 ubuntu:4.18"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("mutants", nargs="*", metavar="MUTANT", help="only these (default: all in scenarios/mutants/)")
    parser.add_argument(
        "--source",
        type=shared.given,
        default=base_spec(),
        metavar="SPEC",
        help="source of the mutants: source:6.12 (default), tree:PATH or tree:PATH@REV",
    )
    parser.add_argument(
        "--kernels",
        type=shared.given,
        default=_FURTHER,
        metavar="SPECS",
        help=f"measure there what the source's build leaves open, in this order (default: {_FURTHER})",
    )
    parser.add_argument("--scenario", action="append", metavar="NAME", help="only this scenario; may be repeated")
    shared.add_seeds(parser)
    parser.add_argument("--every-pair", action="store_true", help="run each mutant under each scenario")
    parser.add_argument("--stored", action="store_true", help="boot nothing: show what stored runs say")
    shared.add_jobs(parser)
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the page (default: docs/results/controls.md if all are tried)"
    )
    shared.add_results(parser)


def execute(options: argparse.Namespace) -> int:
    if not options.source.startswith(_KINDS):
        raise Misuse(
            f"--source {options.source}: mutants are built from source", remedy="--source source:6.12 or tree:PATH"
        )
    campaign = _campaign(options)
    store, qemu = store_of(options, FOLDER), find_qemu()
    if options.stored:
        stock, trials = _tried(campaign, stored(store))
    else:
        stock, trials = _measured(campaign, options, store)
    print_campaign(Console(), campaign, stock, trials)
    if page := page_of(options):
        kills = tuple(claim_kills(campaign.scenarios, stock, trials))
        made_of = f"Source: {options.source}. QEMU {qemu.version_text}."
        shared.write_page(page, kills_page(kills, mutant_rows(stock, trials), made_of, "blklab check controls"))
        shared.tell(f"{len(kills)} claims written to {page}")
    wrong = tuple(shortfalls(campaign, stock, trials))
    for sentence in wrong:
        shared.tell(sentence)
    return _exit_code(wrong, trials)


def page_of(options: argparse.Namespace) -> Path | None:
    """The page to write: by default none when only some mutants or scenarios were tried."""
    chosen: Path | None = options.out
    return chosen or (None if options.mutants or options.scenario else shared.PAGES / "controls.md")


def _measured(
    campaign: Campaign, options: argparse.Namespace, store: Store
) -> tuple[tuple[Stock, ...], tuple[MutantTrial, ...]]:
    lab, kernel = lab_of_host(), remembered(_kernel)
    with watched() as listener:

        def measure(scenario: Scenario, spec: str, arms: tuple[str, ...]) -> RunFolder:
            seeds = options.seeds if scenario.clock is Clock.VIRTUAL else None
            return measured(lab, Request(scenario, kernel(spec), seeds, arms), store, listener, options.jobs)

        return _tried(campaign, measure)


def _kernel(spec: str) -> Kernel:
    """The kernel. Raises CannotJudge where it cannot be had: the others are measured."""
    try:
        return kernel_of(spec)
    except Misuse:
        raise
    except BlklabError as error:
        shared.tell(f"{spec}: {error}")
        raise CannotJudge(f"{spec}: {error.message}", remedy=error.remedy) from None


def _tried(campaign: Campaign, measure: Measure) -> tuple[tuple[Stock, ...], tuple[MutantTrial, ...]]:
    stock, trials = tuple(try_stock(campaign, measure)), tuple(try_mutants(campaign, measure))
    return (*stock, *try_further(campaign, measure, lacks_a_figure(stock, trials))), trials


def _campaign(options: argparse.Namespace) -> Campaign:
    known = catalogue()
    for mutant in options.mutants:
        demand_known(mutant, known)
    every = {one.name: one for one in (*every_scenario(), *_in_folders()) if one.selftest is None}
    for name in options.scenario or ():
        if name not in every:
            raise Misuse(f"no scenario {quoted(name)} here{nearest(name, every)}", remedy=f"one of {names(every)}")
    chosen = tuple(one for one in every.values() if not options.scenario or one.name in options.scenario)
    mutants = tuple(options.mutants) or mutants_named(chosen)
    if options.mutants and not options.every_pair:
        chosen = tuple(one for one in chosen if any(arms_against(one, mutant) for mutant in mutants))
    return Campaign(chosen, mutants, options.every_pair, options.source, specs([options.kernels], Cache.default()))


def _in_folders() -> Iterator[Scenario]:
    """Calibrations and scenarios on the wall clock."""
    for folder in (shared.SCENARIOS / "calibration", shared.WALL):
        for path in find_scenarios(folder).values():
            yield load_scenario(str(path), search=shared.SCENARIOS)


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
    scenarios = (Column(letter, justify="center") for letter in letters)
    table = Table(Column("mutant", no_wrap=True), *scenarios, title="mutants and scenarios")
    source = [one for one in stock if not one.kernel]
    clean = {one.scenario: "." if one.verdict.status is Status.PASS else str(one.verdict.status) for one in source}
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
    table = Table(*(Column(head, no_wrap=True) for head in ("mutant", "scenario")), "figure", "must be", "without it")
    for row in mutant_rows(stock, trials):
        table.add_row(*row)
    return table


def _claims(campaign: Campaign, stock: Sequence[Stock], trials: Sequence[MutantTrial]) -> Table:
    """Each claim with its figure on the kernel without a mutant, and what makes it fail."""
    scenario = Column("scenario", no_wrap=True)
    table = Table(scenario, "claim", "bound", "without it", "fails by", title="claims and what makes them fail")
    for one in claim_kills(campaign.scenarios, stock, trials):
        table.add_row(one.scenario, *one.row)
    return table

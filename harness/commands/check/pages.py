# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check pages``: the generated pages that need no boots."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.commands.check.agree import Page, agreement
from harness.commands.common.boots import every_scenario
from harness.commands.common.options import PAGES, SCENARIOS, add_results, results_root, tell, write_page
from harness.limits.load import load_scenario
from harness.profile.neighbours import neighbours_page
from harness.record.judging import judge_run, newest_runs
from harness.record.store import RunFolder, Store
from harness.scenario.model import Scenario
from harness.studies import field_reports, io_cost, noise
from harness.studies.field_reports import Measured
from harness.studies.noise import RehearsalPlan
from harness.studies.sensitivity import kept
from lab.base.errors import EXIT_FAIL, EXIT_PASS, Misuse
from lab.kernels.release import by_release
from lab.yaml.strict import names, nearest, quoted

COMMAND = "blklab check pages"
_COST = "io-cost"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"only these of {names(MAKERS)} (default: all)")
    add_results(parser)
    parser.add_argument("--out", type=Path, default=PAGES, metavar="DIR", help="folder (default: docs/results)")
    parser.epilog = (
        "Exit status: 1 when a ratio deviates and its scenario does not explain why."
        " zoo.md is written by blklab check zoo."
    )


def execute(options: argparse.Namespace) -> int:
    for name in options.pages:
        if name not in MAKERS:
            raise Misuse(f"no page is called {quoted(name)}{nearest(name, MAKERS)}", remedy=f"pages: {names(MAKERS)}")
    store, code = Store(results_root(options.results)), EXIT_PASS
    for name in options.pages or MAKERS:
        try:
            page = MAKERS[name](store)
        except Misuse as error:
            if options.pages:
                raise
            tell(f"{name}: not written: {error}")
            code = error.exit_code
            continue
        write_page(options.out / f"{name}.md", page.text)
        tell(f"{name}: written to {options.out / name}.md")
        for reason in page.unexplained:
            tell(f"{name}: {reason}")
            code = max(code, EXIT_FAIL)
    return code


def _field_reports(store: Store) -> Page:
    wanted = every_scenario()
    runs = [one for scenario in wanted if scenario.reproduces for one in of_every_series(store, scenario)]
    if not runs:
        raise Misuse(
            f"{store.root} holds no current run of a scenario that reproduces a report",
            remedy="blklab run sas-multipath --kernel debian:6.1",
        )
    sensitivities = [found for scenario in wanted for found in kept(store, scenario)]
    reasons = (f"deviates by more than a fifth, unexplained: {one}" for one in field_reports.unexplained(runs))
    return Page(field_reports.page(runs, COMMAND, sensitivities), tuple(reasons))


def _io_cost(store: Store) -> Page:
    runs = _measured(newest_runs(store, load_scenario(_COST, search=SCENARIOS)))
    if not runs:
        raise Misuse(f"{store.root} holds no current run of {_COST}", remedy=f"blklab run {_COST} --kernel debian:6.1")
    runs.sort(key=lambda run: by_release(run.release))
    return Page(io_cost.cost_page(runs, COMMAND))


def _profiles(store: Store) -> Page:
    scenario = load_scenario(_COST, search=SCENARIOS)
    found = [newest_runs(store, scenario, built=built) for built in (False, True)]
    packages, built = ([newest[series] for series in sorted(newest, key=by_release)] for newest in found)
    text = neighbours_page(packages, built, COMMAND)
    if not text:
        raise Misuse(
            f"{store.root} holds no profiles of one cell of {_COST} on two kernels",
            remedy="blklab profile debian:6.12 debian:7.2 null-blk-mq-deadline.libaio",
        )
    return Page(text)


MAKERS: Mapping[str, Callable[[Store], Page]] = {
    "field-reports": _field_reports,
    "io-cost": _io_cost,
    "profiles": _profiles,
    "agreement": lambda store: agreement(store, COMMAND),
    "noise": lambda _: Page(noise.page(RehearsalPlan())),
}


def of_every_series(store: Store, scenario: Scenario) -> list[Measured]:
    """The newest judged run of the current scenario on each kernel series: on a package, else on a build."""
    return _measured(newest_runs(store, scenario, built=True) | newest_runs(store, scenario))


def _measured(runs: Mapping[str, RunFolder]) -> list[Measured]:
    return [
        Measured(run.scenario, judge_run(run), kernel.release, series, run.facts.qemu, run.facts.run_id, kernel.spec)
        for series, run in runs.items()
        for kernel in (run.facts.kernel,)
    ]

# SPDX-License-Identifier: GPL-2.0-only
"""``blklab patch``: apply a series to a tree, measure base and series, and say whether it is worse."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from harness.base.files import write_atomic
from harness.commands.common.boots import bench_of, chosen_by, every_scenario, store_of
from harness.commands.common.dry_run import add_dry_run
from harness.commands.common.options import add_arms, add_jobs, add_results, add_seeds, number, tell, words_of
from harness.commands.patch_dry_run import dry_run, no_source
from harness.limits.load import load_scenario
from harness.patch.choice import BuiltChange, CodeChange, choice_lines
from harness.patch.report import exit_code, reply, summary
from harness.patch.series import Branch, Patch, branch_folder, read_series
from harness.patch.sources import Sources
from harness.patch.study import MeasuredSeries, Study, profiled
from harness.profile.mail import differential_lines
from harness.report.terminal.comparison import Compared, print_comparison
from harness.report.terminal.printing import console_of
from harness.scenario.model import Scenario
from lab.base.cache import Cache
from lab.base.errors import CannotJudge, Misuse
from lab.kernels.packaged import DEFAULT, named_source
from lab.kernels.resolve import demand
from lab.kernels.tree import KernelSource
from lab.yaml.strict import names, nearest

FOLDER = "patch"
MOST = 3


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("series", type=Path, metavar="SERIES", help="an mbox, or a folder of git format-patch")
    parser.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="NAME",
        help="only this scenario; may be repeated (default: chosen by the functions that the series touches)",
    )
    parser.add_argument(
        "--base",
        default=DEFAULT,
        metavar="TREE@REV",
        help=f"what it applies to: a git tree at a commit, tree:DIR@REV, or a packaged source (default: {DEFAULT})",
    )
    parser.add_argument("--each", action="store_true", help="measure each patch, compared with the one before it")
    parser.add_argument("--all", action="store_true", help="every scenario of the virtual clock")
    parser.add_argument(
        "--most", type=number(1), default=MOST, metavar="N", help=f"at most N chosen scenarios (default: {MOST})"
    )
    parser.add_argument("--no-profile", action="store_true", help="do not count instructions of what moved")
    add_dry_run(parser)
    add_seeds(parser)
    add_arms(parser)
    add_jobs(parser)
    add_results(parser)
    parser.set_defaults(alone={"all": ("scenario", "most"), "scenario": ("most",)})
    parser.epilog = (
        "Exit status: 0 same or better, 1 worse (a claim, a load or a boot), 125 cannot judge: it does not apply or"
        " build, or no scenario executes what it touches."
    )


def execute(options: argparse.Namespace) -> int:
    named = [load_scenario(name) for name in options.scenario]
    _demand_arms(options.arm, named)
    spec = demand(options.base if ":" in options.base else f"tree:{options.base}")
    series, cache = read_series(options.series), Cache.default()
    if options.dry_run:
        return dry_run(options, spec, series, cache, FOLDER)
    store = store_of(options, FOLDER)
    source = named_source(spec, cache, tell)
    if source is None:
        raise no_source(spec)
    branch = Branch(source, branch_folder(store.root, source))
    commits = branch.with_all(series)
    sources = Sources(branch.folder, branch.base, commits[-1])
    scenarios = named or _scenarios(options, sources)
    bench = bench_of(options, FOLDER)
    study = Study(branch, _title(options.base, source, branch), bench, tell, cache, options.seeds, options.arm)
    steps = [study.base()]
    if not scenarios:
        functions = study.changed_functions(steps[0], series[-1], commits[-1])
        scenarios = _chosen(options, BuiltChange(functions, sources))
    compared = list[MeasuredSeries]()
    applied = list(zip(series, commits, strict=True))
    for patch, commit in applied if options.each else applied[-1:]:
        steps.append(study.step(patch, commit))
        compared.append(study.compare(steps[-2], steps[-1], scenarios))
        _print(compared[-1])
    _reply(options, study, series, study.compare(steps[0], steps[-1], scenarios) if compared[1:] else compared[0])
    return exit_code(compared)


def _demand_arms(arms: Sequence[str], named: Sequence[Scenario]) -> None:
    """Raises Misuse, before a source is fetched, for an arm of none of the ``named`` scenarios, or of none at all."""
    known = {arm for scenario in named or every_scenario() for arm in scenario.arms} if arms else set()
    if unknown := [arm for arm in arms if arm not in known]:
        remedy = f"known: {names(sorted(known))}" if named else "blklab show SCENARIO lists its arms"
        raise Misuse(f"no scenario has an arm {unknown[0]}{nearest(unknown[0], known)}", remedy=remedy)


def _reply(options: argparse.Namespace, study: Study, series: Sequence[Patch], whole: MeasuredSeries) -> None:
    profile = None if options.no_profile else profiled(study.bench.lab, whole, tell)
    print("\n".join(["", *(differential_lines(profile) if profile else []), ""]))
    text, path = reply(series, whole, profile, _command(options)), study.branch.folder.parent / "reply.txt"
    write_atomic(path, text.encode())
    print(text, end="")
    tell(f"the reply is in {path}")


def _title(named: str, source: KernelSource, branch: Branch) -> str:
    """The base as its user names it, and what that was."""
    return f"{named} ({branch.base[:12] if source.revision else source.title.rpartition(' ')[2]})"


def _scenarios(options: argparse.Namespace, text: Sources) -> list[Scenario]:
    """The scenarios to measure, none where only a build of both sides tells what code differs. Raises CannotJudge."""
    if text.touched().certain:
        return _chosen(options, text)
    every = every_scenario()
    print("\n".join(choice_lines(chosen_by(text, every), len(every))))
    tell("headers, macros or data differ: both sides are built, and compared function by function")
    return every if options.all else []


def _chosen(options: argparse.Namespace, change: CodeChange) -> list[Scenario]:
    every = every_scenario()
    choice = chosen_by(change, every)
    print("\n".join(choice_lines(choice, len(every) if options.all else options.most)))
    if options.all:
        return every
    if not choice.candidates:
        raise CannotJudge(
            "no scenario executes what the series touches", remedy="--scenario NAME, or --all for all of them"
        )
    return [candidate.scenario for candidate in choice.candidates[: options.most]]


def _print(compared: MeasuredSeries) -> None:
    print(f"\n{compared.base.title} -> {compared.series.title}")
    tables = [
        Compared(outcome.scenario, "base", "series", outcome.changes)
        for outcome in compared.outcomes
        if outcome.changes
    ]
    if tables:
        print_comparison(console_of(), tables)
    print("\n".join(summary(compared)))


def _command(options: argparse.Namespace) -> str:
    names = ("base", "scenario", "each", "all", "most", "seeds", "arm")
    return shlex.join(["blklab", "patch", options.series.name, *words_of(options, *names, most=MOST)])

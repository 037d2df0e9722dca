# SPDX-License-Identifier: GPL-2.0-only
"""``blklab bisect``: the release, or the commit of a tree, that makes a claim fail."""

import argparse
import os
import shlex
from pathlib import Path

from harness.base.files import write_atomic
from harness.bisect.driver import Bisection
from harness.bisect.finding import Finding
from harness.bisect.noisy import NoisyBisection
from harness.bisect.notebook import State
from harness.bisect.oracle import CommitTrial, KernelOracle
from harness.bisect.report import mail, print_finding
from harness.bisect.repository import Repository, demand_repository
from harness.commands.bisect_releases import DEBIAN, by_release
from harness.commands.common import options as shared
from harness.commands.common.boots import bench_of, scenario_of, store_of
from harness.profile.differential import differential
from harness.profile.mail import differential_lines
from harness.profile.recorded import chosen_cell, profiles_of_runs
from harness.record.store import load_run
from harness.report.terminal.printing import console_of
from harness.run.bench import Bench
from harness.run.plan import run_command
from harness.scenario.model import Scenario
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_PASS, BlklabError, Misuse
from lab.base.reading import real


def configure(parser: argparse.ArgumentParser) -> None:
    shared.add_scenario(parser, nargs="?")
    parser.add_argument("--tree", type=Path, metavar="DIR", help="a git repository with the kernel's history")
    parser.add_argument("--good", metavar="REV", help="a commit, or a series (debian:6.12), on which the claims hold")
    parser.add_argument("--bad", metavar="REV", help="a commit, or a series (debian:7.3), on which a claim fails")
    parser.add_argument(
        "--figure", default="", metavar="NAME", help="between series: ARM.LOAD.ROLE.METRIC instead of the claims"
    )
    shared.add_seeds(parser)
    shared.add_arms(parser)
    shared.add_results(parser)
    shared.add_jobs(parser)
    parser.add_argument(
        "--ahead",
        type=shared.number(0),
        default=2 if (os.cpu_count() or 1) > 1 else 0,
        metavar="N",
        help="kernels built in advance (default: 2, on one core 0)",
    )
    parser.epilog = "Exit status: 0 found (a commit: verified), 125 not."


def execute(options: argparse.Namespace) -> int:
    _check(options)
    if options.good.startswith(DEBIAN):
        code = by_release(options)
        if options.tree is None or code != EXIT_PASS:
            return code
    scenario, tree = scenario_of(options, claims=True), real(options.tree)
    demand_repository(tree)
    folder = store_of(options).root / "bisect" / _key(options, scenario)
    folder.mkdir(parents=True, exist_ok=True)
    repository = Repository(tree, folder / "clone.git")
    state = State(scenario.digest, str(tree), repository.resolve(options.good), repository.resolve(options.bad))
    bench = bench_of(options)
    trial = CommitTrial(repository.folder, f"tree:{tree}", scenario, options.seeds, tuple(options.arm))
    oracle = KernelOracle(bench, trial, shared.tell)
    finding = _bisection(options, repository, oracle, state, folder).run()
    shared.tell(oracle.drift(state.good, state.bad))
    _report(finding, scenario, folder, _repeat(options, finding, tree), _differential(bench, oracle, finding))
    shared.tell(f"mail and state: {folder}")
    return EXIT_PASS if finding.verified else EXIT_CANNOT_JUDGE


def _bisection(
    options: argparse.Namespace, repository: Repository, oracle: KernelOracle, state: State, folder: Path
) -> Bisection | NoisyBisection:
    if oracle.scatters:
        # No build runs in advance: it would disturb measurements on the wall clock.
        return NoisyBisection(repository, oracle, state, folder, shared.tell)
    return Bisection(repository, oracle, state, folder, shared.tell, ahead=options.ahead)


def _check(options: argparse.Namespace) -> None:
    packaged = [str(end).startswith(DEBIAN) for end in (options.good, options.bad)]
    needed = ("scenario", "good", "bad") if all(packaged) else ("scenario", "tree", "good", "bad")
    lacking = [name for name in needed if getattr(options, name) is None]
    if lacking:
        raise Misuse(
            f"bisect needs {', '.join(lacking)}",
            remedy="make bisect NAME=shared-queue TREE=DIR GOOD=v6.1 BAD=v6.12, or GOOD=debian:6.1 BAD=debian:7.3",
        )
    if any(packaged) != all(packaged):
        raise Misuse(f"{options.good} and {options.bad} are not of one kind", remedy="two series, or two commits")
    if options.good == options.bad:
        raise Misuse(f"{options.good} is both ends", remedy="a good one and a bad one")
    if options.figure and not all(packaged):
        raise Misuse("--figure is for a bisection by release", remedy="leave it out, or give two series (debian:6.12)")


def _key(options: argparse.Namespace, scenario: Scenario) -> str:
    words = [str(real(options.tree)), options.good, options.bad, options.seeds, sorted(options.arm)]
    return f"{scenario.name}-{digest_bytes(canonical(words))[:12]}"


def _differential(bench: Bench, oracle: KernelOracle, finding: Finding) -> list[str]:
    """What the culprit changes in instructions per I/O, with its parent as the base; empty where nothing is counted."""
    if finding.culprit is None or oracle.scatters:
        return []
    measured = {step.commit.sha: step.seen.run for step in finding.steps if step.seen.run}
    commits = finding.culprit.parents[0], finding.culprit.sha
    if any(commit not in measured for commit in commits):
        return []
    runs = [load_run(bench.store.root / measured[commit]) for commit in commits]
    try:
        cell = chosen_cell(runs)
        kernels = [oracle.kernel(commit) for commit in commits]
        before, after = profiles_of_runs(bench.lab, runs, cell, kernels, shared.tell)
    except BlklabError as error:
        # The commit is found all the same.
        return [f"no profile: {error.message}"]
    return differential_lines(differential(before, after))


def _report(finding: Finding, scenario: Scenario, folder: Path, repeat: list[str], profile: list[str]) -> None:
    print_finding(console_of(), finding, scenario, repeat)
    text = mail(finding, scenario, repeat, profile)
    if text:
        write_atomic(folder / "mail.txt", text.encode())


def _repeat(options: argparse.Namespace, finding: Finding, tree: Path) -> list[str]:
    how = shared.words_of(options, "seeds", "arm")
    ends = ["--tree", str(tree), "--good", options.good, "--bad", options.bad]
    lines = [["blklab", "bisect", options.scenario, *ends, *how]]
    for commit in (finding.culprit,) if finding.culprit else ():
        for sha in (commit.parents[0], commit.sha):
            lines.append([*run_command(options.scenario, f"tree:{tree}@{sha}", options.seeds, options.arm)])
    return [shlex.join(words) for words in lines]

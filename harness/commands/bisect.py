# SPDX-License-Identifier: GPL-2.0-only
"""``blklab bisect``: the release, or the commit of a tree, that makes a claim fail."""

import os
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from harness.base.files import write_atomic
from harness.bisect.finding import Finding, mail, print_finding
from harness.bisect.notebook import KernelOracle, State
from harness.bisect.releases import bisect_releases, demand_figure, text
from harness.bisect.repository import Repository, demand_repository
from harness.bisect.search import Bisection, NoisyBisection
from harness.commands.boots import bench_of, kernel_of, scenario_of, specs, store_of
from harness.commands.options import ARMS, CONFIG, JOBS, NICE, RESULTS, SCENARIO, SEEDS, number, tell, words_of
from harness.commands.parser import Command, option
from harness.grid.lines import GridRow
from harness.grid.measure import Sweeper
from harness.profile.cells import chosen_cell, profiles_of_runs
from harness.profile.differential import differential
from harness.profile.report import differential_lines
from harness.record.store import load_run
from harness.report.terminal.printing import console_of
from harness.run.bench import Bench
from harness.run.plan import run_command
from harness.scenario.model import Scenario
from lab.base.cache import Cache
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_PASS, BlklabError, Misuse
from lab.base.reading import real
from lab.kernels import kconfig
from lab.kernels.git import commit_of
from lab.kernels.model import Release
from lab.session import ready_qemu

_DEBIAN = "debian:"


def _bisect(
    *,
    scenario: str,
    tree: Path | None,
    good: str,
    bad: str,
    figure: str,
    seeds: int | None,
    arms: Sequence[str],
    results: str | None,
    jobs: int,
    ahead: int,
) -> int:
    _check(scenario, tree, good, bad, figure)
    code = EXIT_PASS
    if good.startswith(_DEBIAN):
        series, bench_late = (good, bad), partial(bench_of, results, jobs)
        code, good, bad = _by_release(scenario, tree, series, figure=figure, seeds=seeds, arms=arms, bench=bench_late)
    if tree is None or code != EXIT_PASS:
        return code
    wanted, tree = scenario_of(scenario, seeds, arms, claims=True), real(tree)
    demand_repository(tree)
    key = digest_bytes(canonical([str(tree), good, bad, seeds, sorted(arms)]))[:12]
    folder = store_of(results).root / "bisect" / f"{wanted.name}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    repository = Repository(tree, folder / "clone.git")
    state = State(wanted.digest, str(tree), repository.resolve(good), repository.resolve(bad))
    bench = bench_of(results, jobs)
    oracle = KernelOracle(bench, repository.folder, f"tree:{tree}", wanted, tell, seeds, tuple(arms))
    if not wanted.timing.exact:
        # No build runs in advance: it would disturb measurements on the wall clock.
        finding = NoisyBisection(repository, oracle, state, folder, tell).run()
    else:
        finding = Bisection(repository, oracle, state, folder, tell, ahead=ahead).run()
    tell(oracle.drift(state.good, state.bad))
    ends = ["--tree", str(tree), "--good", good, "--bad", bad]
    repeat = [shlex.join(["blklab", "bisect", scenario, *ends, *words_of(seeds=seeds, arm=arms)])]
    for sha in (finding.culprit.parents[0], finding.culprit.sha) if finding.culprit else ():
        repeat.append(shlex.join(run_command(scenario, f"tree:{tree}@{sha}", seeds, arms)))
    _report(finding, wanted, folder, repeat, _differential(bench, oracle, finding))
    tell(f"mail and state: {folder}")
    return EXIT_PASS if finding.verified else EXIT_CANNOT_JUDGE


def _check(scenario: str, tree: Path | None, good: str, bad: str, figure: str) -> None:
    """Raises Misuse."""
    packaged = [end.startswith(_DEBIAN) for end in (good, bad)]
    given = {"scenario": scenario, "tree": tree or all(packaged), "good": good, "bad": bad}
    if lacking := [name for name, value in given.items() if not value]:
        raise Misuse(
            f"bisect needs {', '.join(lacking)}",
            remedy="make bisect NAME=shared-queue TREE=DIR GOOD=v6.1 BAD=v6.12, or GOOD=debian:6.1 BAD=debian:7.3",
        )
    if any(packaged) != all(packaged):
        raise Misuse(f"{good} and {bad} are not of one kind", remedy="two series, or two commits")
    if good == bad:
        raise Misuse(f"{good} is both ends", remedy="a good one and a bad one")
    if figure and not all(packaged):
        raise Misuse("--figure is for a bisection by release", remedy="leave it out, or give two series (debian:6.12)")


def _by_release(
    name: str,
    tree: Path | None,
    series: tuple[str, str],
    *,
    figure: str,
    seeds: int | None,
    arms: Sequence[str],
    bench: Callable[[], Bench],
) -> tuple[int, str, str]:
    """Print the two neighbouring packaged kernels between a good and a bad series; the exit status and their tags."""
    first, last = map(_series, series)
    backwards = first > last
    if tree is not None and (backwards or figure):
        raise Misuse(
            "git bisect finds the commit that makes a claim fail: not one that fixed it, and not one of a figure",
            remedy="leave out --tree, or give the older series as --good and no --figure",
        )
    if tree is not None:
        demand_repository(tree)
        for end in series:
            commit_of(tree, _tag(end))
    scenario = scenario_of(name, seeds, arms, claims=not figure)
    if figure:
        demand_figure(scenario, figure, arms)
    low, high = (series[1], series[0]) if backwards else series
    wanted = specs([low, "..", high], Cache.default())
    ready_qemu(Cache.default(), tell)
    row = GridRow.of(scenario, tuple(reversed(wanted)) if backwards else wanted)
    releases = bisect_releases(Sweeper(bench(), kernel_of, seeds, tuple(arms)), row, figure, tell)
    good, bad = (row.cells[place].kernel.spec for place in (releases.good, releases.bad))
    drifted = kconfig.drift(kernel_of(good).config, kernel_of(bad).config)
    command = ["blklab", "bisect", name, "--tree", "DIR", "--good", _tag(good), "--bad", _tag(bad)]
    onwards = "" if backwards or figure else shlex.join([*command, *words_of(seeds=seeds)])
    print("\n".join(text(releases, len(drifted.options), onwards)))
    return EXIT_CANNOT_JUDGE if releases.left else EXIT_PASS, _tag(good), _tag(bad)


def _series(spec: str) -> Release:
    try:
        return Release.parse(spec.removeprefix(_DEBIAN))
    except ValueError as error:
        raise Misuse(f"{spec} is not a series", remedy="such as debian:6.12") from error


def _tag(spec: str) -> str:
    """Stable releases are no line of history, so the tag is that of the series."""
    return f"v{_series(spec).series}"


def _differential(bench: Bench, oracle: KernelOracle, finding: Finding) -> list[str]:
    """What the culprit changes in instructions per I/O, with its parent as the base; empty where nothing is counted."""
    if finding.culprit is None or not oracle.scenario.timing.exact:
        return []
    runs_of = {step.commit.sha: step.seen.run for step in finding.steps if step.seen.run}
    commits = finding.culprit.parents[0], finding.culprit.sha
    if any(commit not in runs_of for commit in commits):
        return []
    runs = [load_run(bench.store.root / runs_of[commit]) for commit in commits]
    try:
        cell = chosen_cell(runs)
        kernels = [oracle.kernel(commit) for commit in commits]
        before, after = profiles_of_runs(bench.lab, runs, cell, kernels, tell)
    except BlklabError as error:
        # The commit is found all the same.
        return [f"no profile: {error.message}"]
    return differential_lines(differential(before, after))


def _report(finding: Finding, scenario: Scenario, folder: Path, repeat: list[str], profile: list[str]) -> None:
    print_finding(console_of(), finding, scenario, repeat)
    text = mail(finding, scenario, repeat, profile)
    if text:
        write_atomic(folder / "mail.txt", text.encode())


COMMANDS = {
    "bisect": Command(
        _bisect,
        (
            SCENARIO.but(nargs="?", default=""),
            option("--tree", type=Path, metavar="DIR", help="a git repository with the kernel's history"),
            option(
                "--good",
                default="",
                metavar="REV",
                help="a commit, or a series (debian:6.12), on which the claims hold",
            ),
            option(
                "--bad", default="", metavar="REV", help="a commit, or a series (debian:7.3), on which a claim fails"
            ),
            option(
                "--figure",
                default="",
                metavar="NAME",
                help="between series: ARM.LOAD.ROLE.METRIC instead of the claims",
            ),
            SEEDS,
            ARMS,
            RESULTS,
            JOBS,
            NICE,
            CONFIG,
            option(
                "--ahead",
                type=number(0),
                default=2 if (os.cpu_count() or 1) > 1 else 0,
                metavar="N",
                help="kernels built in advance (default: 2, on one core 0)",
            ),
        ),
        "Exit status: 0 found (a commit: verified), 125 not.",
    )
}

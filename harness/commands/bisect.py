# SPDX-License-Identifier: GPL-2.0-only
"""``blklab bisect``: the release, or the commit of a tree, that makes a claim fail."""

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from harness.base.files import write_atomic
from harness.base.plain import to_plain
from harness.bisect.finding import Finding, mail, odds_of, print_finding
from harness.bisect.notebook import KernelOracle, SeedOracle, State
from harness.bisect.releases import Releases, between, bisect_releases, demand_figure, text
from harness.bisect.repository import Repository, demand_repository
from harness.bisect.search import Bisection, NoisyBisection
from harness.commands.boots import bench_of, kernel_of, scenario_of, specs, store_of
from harness.commands.options import (
    ARMS,
    CONFIG,
    JOBS,
    NICE,
    RESULTS,
    SCENARIO,
    SEEDS,
    config_words,
    number,
    tell,
    words_of,
)
from harness.commands.parser import Command, option
from harness.grid.lines import GridRow
from harness.grid.measure import Sweeper
from harness.hunt.finds import KeptFind, find_file, read_find
from harness.profile.cells import chosen_cell, profiles_of_runs
from harness.profile.model import differential
from harness.profile.report import differential_lines
from harness.record.store import load_run
from harness.report.terminal import console_of
from harness.run.bench import Bench
from harness.run.plan import run_command
from harness.scenario.model import Scenario
from lab.base.cache import Cache
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_PASS, BlklabError, Misuse
from lab.base.reading import real
from lab.kernels import kconfig
from lab.kernels.git import commit_of
from lab.kernels.model import Kernel, Release
from lab.session import ready_qemu

_DEBIAN = "debian:"


class Bisect(Command):
    scenario: str = SCENARIO.but(nargs="?", default="")
    hunt: str = option(default="", metavar="NAME|FILE", help="the search of a find that blklab hunt made")
    tree: Path | None = option(type=Path, metavar="DIR", help="a git repository with the kernel's history")
    good: str = option(default="", metavar="REV", help="a commit, or a series (debian:6.12), on which the claims hold")
    bad: str = option(default="", metavar="REV", help="a commit, or a series (debian:7.3), on which a claim fails")
    figure: str = option(default="", metavar="NAME", help="between series: ARM.LOAD.ROLE.METRIC instead of the claims")
    seeds: int | None = SEEDS
    arms: Sequence[str] = ARMS
    results: str | None = RESULTS
    jobs: int = JOBS
    nice: int | None = NICE
    config: Path | None = CONFIG
    ahead: int = option(
        type=number(0),
        default=2 if (os.cpu_count() or 1) > 1 else 0,
        metavar="N",
        help="kernels built in advance (default: 2, on one core 0)",
    )
    epilog = "Exit status: 0 found (a commit: verified), 125 not."
    alone: ClassVar = {"hunt": ("scenario", "figure", "seeds", "arms")}

    def __call__(self) -> int:
        self._check()
        if self.kept:
            wanted = self.kept.planned
        else:
            wanted = scenario_of(self.scenario, self.seeds, self.arms, claims=not self.figure)
        code, ends = EXIT_PASS, (self.good, self.bad)
        if self.good.startswith(_DEBIAN):
            row = self._row(wanted)
            if self.kept:
                releases = between(row, self._oracle(self.kept, kernel_of).observed, tell)
            else:
                sweeper = Sweeper(self.bench, kernel_of, self.seeds, tuple(self.arms))
                releases = bisect_releases(sweeper, row, self.figure, tell)
            code, ends = self._told(releases)
        return code if self.tree is None or code != EXIT_PASS else self._by_commit(wanted, real(self.tree), ends)

    @cached_property
    def kept(self) -> KeptFind | None:
        return read_find(find_file(self.hunt)) if self.hunt else None

    @cached_property
    def bench(self) -> Bench:
        return bench_of(self.results, self.jobs)

    def _check(self) -> None:
        """Raises Misuse."""
        packaged = [end.startswith(_DEBIAN) for end in (self.good, self.bad)]
        given = {
            "scenario": self.scenario or self.hunt,
            "tree": self.tree or all(packaged),
            "good": self.good,
            "bad": self.bad,
        }
        if lacking := [name for name, value in given.items() if not value]:
            raise Misuse(
                f"bisect needs {', '.join(lacking)}",
                remedy="make bisect NAME=shared-queue TREE=DIR GOOD=v6.1 BAD=v6.12, or GOOD=debian:6.1 BAD=debian:7.3",
            )
        if any(packaged) != all(packaged):
            raise Misuse(f"{self.good} and {self.bad} are not of one kind", remedy="two series, or two commits")
        if self.good == self.bad:
            raise Misuse(f"{self.good} is both ends", remedy="a good one and a bad one")
        if self.figure and not all(packaged):
            raise Misuse(
                "--figure is for a bisection by release", remedy="leave it out, or give two series (debian:6.12)"
            )

    @property
    def words(self) -> list[str]:
        """Those of a command line."""
        named = ["--hunt", self.hunt] if self.hunt else [self.scenario]
        return ["blklab", "bisect", *named, *words_of(seeds=self.seeds, arm=self.arms), *config_words()]

    def again(self, spec: str) -> str:
        """The command that measures one kernel."""
        search = ["blklab", "hunt", "--kept", self.hunt, "--kernel", spec]
        words = search if self.hunt else run_command(self.scenario, spec, self.seeds, self.arms)
        return shlex.join([*words, *config_words()])

    def _oracle(self, kept: KeptFind, kernel: Callable[[str], Kernel], setting: str = "") -> SeedOracle:
        return SeedOracle(kept, setting, self.bench, kernel, tell)

    def _row(self, scenario: Scenario) -> GridRow:
        """The packaged kernels from a good series to a bad one."""
        series = self.good, self.bad
        first, last = map(_series, series)
        backwards = first > last
        if self.tree is not None and (backwards or self.figure):
            raise Misuse(
                "git bisect finds the commit that makes a claim fail: not one that fixed it, and not one of a figure",
                remedy="leave out --tree, or give the older series as --good and no --figure",
            )
        if self.tree is not None:
            demand_repository(self.tree)
            for end in series:
                commit_of(self.tree, _tag(end))
        if self.figure:
            demand_figure(scenario, self.figure, self.arms)
        low, high = (series[1], series[0]) if backwards else series
        wanted = specs([low, "..", high], Cache.default())
        ready_qemu(Cache.default(), tell)
        return GridRow.of(scenario, tuple(reversed(wanted)) if backwards else wanted)

    def _told(self, releases: Releases) -> tuple[int, tuple[str, str]]:
        """Print the two neighbouring packaged kernels that differ; the exit status and their tags."""
        good, bad = (releases.row.cells[place].kernel.spec for place in (releases.good, releases.bad))
        drifted = kconfig.drift(kernel_of(good).config, kernel_of(bad).config)
        tags = _tag(good), _tag(bad)
        command = [*self.words, "--tree", "DIR", "--good", tags[0], "--bad", tags[1]]
        onwards = "" if self.figure or _series(good) > _series(bad) else shlex.join(command)
        print("\n".join(text(releases, len(drifted.options), onwards)))
        if self.kept:
            print(odds_of(self.kept, releases.question, releases.seen.values()))
        return EXIT_CANNOT_JUDGE if releases.left else EXIT_PASS, tags

    def _by_commit(self, wanted: Scenario, tree: Path, ends: tuple[str, str]) -> int:
        demand_repository(tree)
        of_find = [to_plain(self.kept)] if self.kept else []
        key = digest_bytes(canonical([str(tree), *ends, self.seeds, sorted(self.arms), *of_find]))[:12]
        folder = store_of(self.results).root / "bisect" / f"{wanted.name}-{key}"
        folder.mkdir(parents=True, exist_ok=True)
        repository = Repository(tree, folder / "clone.git")
        state = State(wanted.digest, str(tree), repository.resolve(ends[0]), repository.resolve(ends[1]))
        kernels = KernelOracle(self.bench, repository, wanted, tell, self.seeds, tuple(self.arms))
        oracle = self._oracle(self.kept, kernels.kernel, kernels.setting) if self.kept else kernels
        if not wanted.timing.exact:
            # No build runs in advance: it would disturb measurements on the wall clock.
            finding = NoisyBisection(repository, oracle, state, folder, tell).run()
        else:
            finding = Bisection(repository, oracle, state, folder, tell, ahead=self.ahead).run()
        tell(kernels.drift(state.good, state.bad))
        if self.kept:
            finding = replace(finding, odds=odds_of(self.kept, finding.question, [step.seen for step in finding.steps]))
        sides = (finding.culprit.parents[0], finding.culprit.sha) if finding.culprit else ()
        repeat = [shlex.join([*self.words, "--tree", str(tree), "--good", ends[0], "--bad", ends[1]])]
        repeat += (self.again(f"tree:{tree}@{sha}") for sha in sides)
        _report(finding, wanted, folder, repeat, _differential(self.bench, kernels, finding))
        tell(f"mail and state: {folder}")
        return EXIT_PASS if finding.verified else EXIT_CANNOT_JUDGE


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


COMMANDS: dict[str, type[Command]] = {"bisect": Bisect}

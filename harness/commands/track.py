# SPDX-License-Identifier: GPL-2.0-only
"""``blklab track``: measure what changed since the last head of a tree, and name the commit that changed it."""

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import ClassVar

from harness.base.files import writing
from harness.bisect.repository import Repository, demand_repository
from harness.commands.boots import bench_of, chosen_by, distinct, kernels_of, specs, store_of
from harness.commands.options import DASK, JOBS, RESULTS, SEEDS, SOME_SCENARIOS, kernels, tell
from harness.commands.parser import Command, option
from harness.grid.cluster import elsewhere
from harness.grid.lines import Trend
from harness.grid.measure import boots_of
from harness.hunt.finds import every_find
from harness.patch.choice import ScenarioChoice
from harness.patch.sources import Sources
from harness.record.index import indexed_runs
from harness.report.terminal.scenario import Estimate
from harness.scenario.load import find_scenarios
from harness.scenario.model import Scenario
from harness.track.night import Packages, Tracker
from harness.track.runs import CommitRuns
from harness.track.site import Site, alarm_lines, night_lines
from harness.track.state import Folder, Night, Track
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS, BlklabError, Misuse
from lab.base.reading import real
from lab.kernels.debian import changelog
from lab.kernels.git import commit_of
from lab.kernels.resolve import resolve

FOLDER, RUNS, CLONE = "track", "runs", "clone.git"
BUDGET = "3h"
_UNITS = {"h": 3600, "min": 60, "s": 1}


def budget(text: str) -> float:
    """An argparse type: ``3h``, ``90min`` or ``600s``, in seconds."""
    match = re.fullmatch(r"([0-9]{1,6})(h|min|s)", text)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"expected a time such as 3h or 90min, got {text!r}")
    return float(int(match[1]) * _UNITS[match[2]])


class TrackBranch(Command):
    scenarios: Sequence[str] = SOME_SCENARIOS.but(
        help="only these, and hunts/NAME.yaml (default: all of the virtual clock, and all finds)"
    )
    tree: Path | None = option(type=Path, metavar="DIR", help="a git repository of the kernel")
    ref: str = option(default="HEAD", metavar="REV", help="the branch to follow (default: HEAD)")
    kernels: Sequence[str] | None = kernels("the branch of --tree").but(
        help="packaged kernels, each new version compared with the one before; separated by spaces. Where --tree is a"
        " clone of stable, the commit is searched between its tags"
    )
    budget: float = option(
        type=budget,
        default=BUDGET,
        metavar="TIME",
        help=f"for measuring the head: 3h, 90min; searches come on top (default: {BUDGET})",
    )
    accept: str | None = option(
        metavar="FIGURE",
        help="SCENARIO.ARM.LOAD.ROLE.METRIC, SCENARIO.CLAIM or SCENARIO of an alarm: its change is intended",
    )
    commit: str | None = option(metavar="REV", help="the commit that changed it")
    reason: str | None = option(metavar="TEXT", help="why it is intended")
    seeds: int | None = SEEDS
    dask: str | None = DASK
    jobs: int = JOBS
    results: str | None = RESULTS
    epilog = (
        "Exit status: 0 nothing became worse, 1 a verified commit made something worse, 125 something is not decided."
    )
    needs: ClassVar = {"accept": ("commit",), "commit": ("accept",), "reason": ("accept",)}
    alone: ClassVar = {"accept": ("scenarios", "kernels", "seeds", "dask", "jobs"), "kernels": ("ref",)}

    def __call__(self) -> int:
        if self.tree is None and not (self.kernels or self.accept):
            raise Misuse("track needs a tree or kernels", remedy="blklab track --tree DIR --ref master")
        tree = None if self.tree is None else real(self.tree)
        if tree is not None:
            demand_repository(tree)
        path = store_of(self.results, FOLDER).root
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        folder = Folder(path)
        with folder.held(), elsewhere(self.dask, tell) as cluster:
            folder.load()
            if self.accept:
                commit = commit_of(tree, self.commit or "") if tree else self.commit or ""
                return _accept(folder, self.accept, commit, self.reason or "")
            head = commit_of(tree, self.ref) if tree else ""
            asked = self.scenarios
            finds = {name: find for name, find in every_find().items() if name in asked or not asked}
            if self.kernels and asked and finds:
                raise Misuse(
                    f"{next(iter(finds))} is for a tree", remedy="omit --kernels: what a package touches is not known"
                )
            chosen = _scenarios([name for name in asked or find_scenarios() if name not in finds])
            bench = replace(bench_of(self.results, self.jobs, folder=f"{FOLDER}/{RUNS}"), cluster=cluster)
            repository = Repository(tree, path / CLONE) if tree else None
            runs = CommitRuns(folder, bench, repository, chosen, tell, self.seeds, finds)
            if self.kernels or repository is None:
                return _packages(self.kernels or (), runs, self.budget, repository)
            tracker = _tracker(repository, runs, self.ref, self.budget)
            night = tracker.night(head)
            order = repository.text("rev-list", "--topo-order", "--reverse", night.head).split()
            return _report(tracker.runs, night, str(tree), order)


def _scenarios(named: Sequence[str]) -> dict[str, Scenario]:
    chosen = {name: scenario for name, (_, scenario) in distinct(named).items()}
    if loud := [name for name, scenario in chosen.items() if not scenario.timing.exact]:
        raise Misuse(f"{loud[0]} is of the wall clock", remedy="track takes scenarios whose figures repeat exactly")
    return chosen


def _packages(named: Sequence[str], runs: CommitRuns, seconds: float, stable: Repository | None) -> int:
    """A night for each kernel, of the newest package; one that cannot be had does not stop the others."""
    cache, codes = runs.bench.lab.cache, [EXIT_PASS]
    get = partial(resolve, cache=cache, refresh=True, tell=tell)
    for spec, kernel in kernels_of(specs(named, cache), get).items():
        if isinstance(kernel, BlklabError):
            codes.append(EXIT_CANNOT_JUDGE)
            continue
        runs.holds(kernel.origin, kernel)
        named_by = _tracker(stable, runs, spec, seconds) if stable else None
        work = Packages(runs, spec, seconds, _cost(runs), changelog(kernel), named_by)
        night = work.night(kernel.origin)
        heads = [each.head for each in runs.folder.track.nights if each.line == spec]
        codes.append(_report(runs, night, str(stable.source if stable else ""), list(dict.fromkeys(heads))))
    return EXIT_FAIL if EXIT_FAIL in codes else max(codes)


def _cost(runs: CommitRuns) -> Callable[[Scenario], float]:
    """What a scenario takes on this host, as earlier runs did, else at most."""
    known, lanes = indexed_runs(runs.bench.store.root), runs.bench.turns.lanes.at_once

    def cost(scenario: Scenario) -> float:
        estimate = Estimate(scenario, "", boots_of(scenario, runs.seeds))
        return (estimate.seconds(known) or estimate.modelled) / lanes

    return cost


def _tracker(repository: Repository, runs: CommitRuns, ref: str, seconds: float) -> Tracker:
    @cache
    def reach(before: str, after: str) -> ScenarioChoice:
        choice = chosen_by(Sources(repository.folder, before, after))
        own = runs.scenarios.keys() - {*find_scenarios()}
        return replace(choice, outdated=(*choice.outdated, *own))

    return Tracker(runs, ref, seconds, _cost(runs), repository, reach)


def _accept(folder: Folder, figure: str, commit: str, reason: str) -> int:
    closed = folder.accept(figure, commit, reason)
    for alarm in closed:
        print(f"alarm {alarm.number} is closed: {alarm.closed}")
    print(f"accepted: {figure} as of {commit[:12]}: {reason}")
    return EXIT_PASS


def _report(runs: CommitRuns, night: Night, tree: str, order: Sequence[str]) -> int:
    track = runs.folder.track
    tell(f"pages: {Site(runs.folder, runs.bench.store.root, tree, order).write(night)}")
    print("\n".join(night_lines(track, night)))
    for alarm in track.of_night(night):
        print("\n".join(["", *alarm_lines(alarm)]))
    return exit_code(track, night)


def exit_code(track: Track, night: Night) -> int:
    alarms = [alarm for alarm in track.of_night(night) if not alarm.closed]
    if any(alarm.trend is Trend.WORSE and alarm.verified for alarm in alarms):
        return EXIT_FAIL
    return EXIT_PASS if all(alarm.verified for alarm in alarms) else EXIT_CANNOT_JUDGE


COMMANDS: dict[str, type[Command]] = {"track": TrackBranch}

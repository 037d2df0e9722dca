# SPDX-License-Identifier: GPL-2.0-only
"""``blklab matrix`` and ``blklab timeline``: scenarios on several kernels, and on successive ones."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from harness.base.checkout import results_root
from harness.commands.boots import (
    arms_of,
    bench_of,
    chosen_by,
    distinct,
    kernel_of,
    kernels_of,
    print_dry_run,
    refuse_ranges,
    specs,
    tell_default,
    watched,
)
from harness.commands.options import (
    ARMS,
    DASK,
    DRY_RUN,
    JOBS,
    METRIC,
    RESULTS,
    SCENARIO,
    SEEDS,
    kernel_specs,
    kernels,
    metrics_of,
    number,
    tell,
    words_of,
    write_page,
)
from harness.commands.parser import Command, flag, operand, option
from harness.grid.cluster import elsewhere
from harness.grid.lines import METRICS, GridRow
from harness.grid.measure import MatrixPlan, Sweeper, cells_of, merge, parts, read_shard, run_matrix
from harness.grid.page import of_rows, set_page
from harness.grid.timeline import STEP, text, timeline
from harness.hunt.matrix import HuntCell, hunt_matrix, keep_hunts, kept_hunts
from harness.patch.choice import choice_lines
from harness.patch.sources import Sources
from harness.record.grid import GridFolder
from harness.record.store import Store
from harness.report.terminal import console_of, folded, plain_table, print_wide
from harness.report.terminal.grid import print_matrix
from harness.report.terminal.scenario import Estimate
from harness.run.plan import expand as cells
from harness.scenario.load import find_scenarios
from harness.scenario.model import Scenario
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS, CannotJudge, LabBroken, Misuse
from lab.kernels.debian import expand
from lab.kernels.git import commit_of, is_repository
from lab.kernels.resolve import check, resolve
from lab.session import ready_qemu
from lab.yaml.strict import shown_path

KERNELS = "debian:5.10 debian:6.1 debian:6.12 debian:7.2"
SERIES = "debian:5.10 .. debian:7.3"
_WHOLE = (1, 1)


class Matrix(Command):
    scenarios: Sequence[str] = operand(
        nargs="*", metavar="SCENARIO", help="names or files (default: all of the virtual clock)"
    )
    changed: str | None = option(
        metavar="REV..REV",
        help="the scenarios that execute what differs between two commits of --tree, as blklab patch chooses them",
    )
    tree: Path | None = option(type=Path, metavar="DIR", help="a git repository of the kernel, for --changed")
    kernels: Sequence[str] | None = kernels(KERNELS)
    seeds: int | None = SEEDS
    hunt: int | None = option(
        type=number(1),
        metavar="MINUTES",
        help="also make the kept searches of hunts/ on each kernel, and begin none after so long",
    )
    shard: tuple[int, int] = option(
        type=read_shard, default=_WHOLE, metavar="I/N", help="only part I of N of the cells"
    )
    merge: Sequence[Path] | None = option(
        nargs="+", type=Path, metavar="DIR", help="boot nothing: merge the results of shards"
    )
    dask: str | None = DASK
    jobs: int = JOBS
    results: str | None = RESULTS
    refresh: bool = flag("use the newest package of each kernel")
    dry_run: bool = DRY_RUN
    epilog = (
        "Exit status: 0 when everything that could be judged passes, 1 fail, 125 cannot judge, 128 and above broken."
    )
    needs: ClassVar = {"tree": ("changed",), "changed": ("tree",)}
    alone: ClassVar = {
        "merge": ("scenarios", "changed", "kernels", "seeds", "hunt", "shard", "dask", "jobs", "refresh", "dry_run"),
        "changed": ("scenarios",),
    }

    def __call__(self) -> int:
        if self.merge:
            merged = parts(self.merge)
            hunts = [each for part in merged for each in kept_hunts(part.path)]
            return _print(merge(Store(results_root(self.results)), merged, self._command), hunts)
        chosen = _changed(self.tree, self.changed) if self.changed and self.tree else _scenarios(self.scenarios)
        named = " ".join(self.kernels or ()).split() or kernel_specs(os.environ.get("KERNELS") or KERNELS).split()
        if not self.kernels:
            tell_default(f"the kernels are {' '.join(named)}", "--kernels")
        if self.dry_run:
            if self.hunt:
                tell(f"not in this estimate: kept searches, {self.hunt} min and the boots begun by then")
            return print_dry_run(self._estimates(chosen, named), self.results)
        bench = bench_of(self.results, self.jobs)
        cache = bench.lab.cache
        get = partial(resolve, cache=cache, refresh=self.refresh, tell=tell)
        plan = MatrixPlan(chosen, kernels_of(specs(named, cache), get), self.seeds, self.shard, self._command)
        try:
            with elsewhere(self.dask, tell) as cluster, watched() as listener:
                bench = replace(bench, cluster=cluster)
                folder = run_matrix(bench, plan, listener)
                hunts = [*hunt_matrix(bench, plan.kernels, self.hunt, self.shard, tell)] if self.hunt else []
        except (LabBroken, KeyboardInterrupt):
            tell("interrupted: run the same command again to resume")
            raise
        return _print(folder, hunts)

    @property
    def _command(self) -> tuple[str, ...]:
        """The words of this command line, as the matrix stores them."""
        words = words_of(tree=self.tree, changed=self.changed, kernels=self.kernels, seeds=self.seeds, hunt=self.hunt)
        words += ["--merge", *map(str, self.merge)] if self.merge else []
        words += ["--shard", "/".join(map(str, self.shard))] if self.shard != _WHOLE else []
        return ("blklab", "matrix", *self.scenarios, *words)

    def _estimates(self, scenarios: Sequence[Scenario], named: Sequence[str]) -> list[Estimate]:
        checked = kernels_of(expand(" ".join(named), refuse_ranges), check)
        unresolved = {spec: lacking or CannotJudge("not resolved") for spec, lacking in checked.items()}
        by_name = {scenario.name: scenario for scenario in scenarios}
        cells = cells_of(MatrixPlan(tuple(scenarios), unresolved, self.seeds, self.shard))
        mine = [cell for cell in cells if cell.shard == self.shard[0] and not checked[cell.kernel.spec]]
        return [Estimate(by_name[cell.scenario], cell.kernel.spec, cell.boots) for cell in mine]


def _scenarios(named: Sequence[str]) -> tuple[Scenario, ...]:
    refs = [name for words in named for name in words.split()] or find_scenarios()
    return tuple(scenario for _, scenario in distinct(refs).values())


def _changed(tree: Path, changed: str) -> tuple[Scenario, ...]:
    """All that execute what differs. Raises CannotJudge where none does, Misuse."""
    old, dots, new = changed.partition("..")
    if not (old and dots and new) or new.startswith("."):
        raise Misuse(
            f"--changed {changed} needs two commits",
            remedy="blklab matrix --tree DIR --changed v6.12..HEAD --kernels tree:DIR@HEAD",
        )
    if not is_repository(tree):
        raise Misuse(f"{tree} is no git repository", remedy="--tree DIR, a clone of the kernel's history")
    commits = [commit_of(tree, revision) for revision in (old, new)]
    choice = chosen_by(Sources(tree, *commits))
    for line in choice_lines(choice, len(choice.candidates)):
        tell(line)
    if not choice.candidates:
        raise CannotJudge(f"no scenario executes what {changed} touches", remedy="name scenarios")
    return tuple(candidate.scenario for candidate in choice.candidates)


def _print(folder: GridFolder, hunts: Sequence[HuntCell]) -> int:
    """A kernel that fails a search fails where the find calls it good."""
    console, status = console_of(), folder.grid.exit_code
    print_matrix(console, folder.grid)
    if hunts:
        keep_hunts(folder.path, hunts)
        table = plain_table("find", "kernel", "search", folded("of its seeds"))
        for each in hunts:
            table.add_row(each.find, each.kernel, each.status, each.says)
        console.print()
        print_wide(console, table)
    console.print(f"record  {shown_path(folder.path / 'matrix.json')}", soft_wrap=True)
    fails = status <= EXIT_CANNOT_JUDGE and any(each.failed for each in hunts)
    return EXIT_FAIL if fails else status


class Timeline(Command):
    scenario: Sequence[str] = SCENARIO.but(nargs="+")
    kernels: Sequence[str] | None = kernels(SERIES)
    seeds: int | None = SEEDS
    arms: Sequence[str] = ARMS
    metrics: Sequence[str] = METRIC.but(
        help=f"figures besides the claims (may be repeated; default: {', '.join(METRICS)})"
    )
    step: int = option(
        type=number(1),
        default=STEP,
        metavar="N",
        help=f"measure every Nth kernel first (default: {STEP}; 1: all)",
    )
    jobs: int = JOBS
    out: Path | None = option(type=Path, metavar="FILE", help="also write one HTML page of all claims and kernels")
    results: str | None = RESULTS

    def __call__(self) -> int:
        figures = metrics_of(self.metrics, METRICS)
        scenarios = [each for _, each in distinct(self.scenario).values()]
        arms_by_scenario = [arms_of(self.arms, each, scenarios) for each in scenarios]
        for each, own in zip(scenarios, arms_by_scenario, strict=True):
            cells(each, self.seeds, own or None)
        if not self.kernels:
            tell_default(f"the kernels are {SERIES}", "--kernels")
        named = specs(self.kernels or [SERIES], Cache.default(), lenient=not self.kernels)
        ready_qemu(Cache.default(), tell)
        bench = bench_of(self.results, self.jobs)
        timelines = [
            timeline(Sweeper(bench, kernel_of, self.seeds, own), GridRow.of(each, named), tell, figures, self.step)
            for each, own in zip(scenarios, arms_by_scenario, strict=True)
        ]
        report = "\n".join(map(text, timelines))
        print(report, end="")
        if self.out:
            head = report.partition("\n\n")[0].replace("\n", ". ")
            write_page(self.out, set_page(of_rows([each.row for each in timelines], head)))
        return EXIT_CANNOT_JUDGE if any(len(each.row.runs) < 2 for each in timelines) else EXIT_PASS  # noqa: PLR2004


COMMANDS: dict[str, type[Command]] = {"matrix": Matrix, "timeline": Timeline}

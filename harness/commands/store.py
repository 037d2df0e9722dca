# SPDX-License-Identifier: GPL-2.0-only
"""``blklab store``: the index of all runs, the cache, and one boot to repeat without blklab."""

import argparse
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import ClassVar

from rich.table import Table
from rich.text import Text

from harness.base.checkout import results_root
from harness.commands.boots import kernel_of, lab_of_host
from harness.commands.options import RESULTS, RUN, number, tell
from harness.commands.parser import Command, flag, operand, option
from harness.record.index import FILE, IndexedRun, chosen_boot, collect, indexed_runs, plan_pruning, prune
from harness.record.store import PlannedCell, RunFolder, load_run
from harness.report.format import STYLES, duration, plural
from harness.report.terminal.printing import console_of, plain_table, print_wide
from harness.run.plan import guest_job
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS, Misuse
from lab.base.units import parse_size, show_size
from lab.kit import REPEAT, Inputs
from lab.session import boot_inputs, prepare_job
from lab.yaml.strict import names, nearest, quoted

_DAY = 86400.0


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def _size(text: str) -> int:
    """An argparse type: a size in bytes."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error} (such as 500M or 2G)") from error


def _seconds_of_days(text: str) -> float:
    """An argparse type: a number of days, in seconds."""
    with suppress(ValueError):
        if 0 <= (days := float(text)) < inf:
            return days * _DAY
    raise argparse.ArgumentTypeError(f"expected a number of days, 0 or more, got {text!r}")


_KEEP = option(type=_size, metavar="SIZE")


class Index(Command):
    results: str | None = RESULTS
    list: bool = flag("list the runs, oldest first")
    keep: int | None = _KEEP.but(help="show the oldest runs to delete until SIZE is left (2G)")
    matrices: int | None = option(
        type=number(0), metavar="N", help="also show all but the newest N matrices and their runs"
    )
    yes: bool = flag("delete them")
    needs: ClassVar = {"yes": ("keep", "matrices")}

    def __call__(self) -> int:
        root = results_root(self.results)
        if not root.is_dir():
            raise Misuse(f"{root} is not a folder", remedy="name the folder of the runs with --results")
        runs = indexed_runs(root, rebuild=True)
        scenarios = {run.scenario for run in runs}
        size = sum(run.size for run in runs)
        print(f"{plural(len(runs), 'run')} of {plural(len(scenarios), 'scenario')}, {_mib(size)}, in {root / FILE}")
        if self.list:
            print_wide(console_of(), _table(runs))
        if self.keep is not None or self.matrices is not None:
            _prune_runs(root, self.keep, self.matrices, delete=self.yes)
        return EXIT_PASS


def _prune_runs(root: Path, limit: int | None, matrices: int | None, *, delete: bool) -> None:
    plan = plan_pruning(root, limit, matrices)
    removed = set(prune(root, plan.removals)) if delete else set()
    for removal in plan.removals:
        word = "to delete" if not delete else "deleted" if removal in removed else "in use"
        print(f"  {word}  {removal.path}  {_mib(removal.size)}  {removal.why}")
    freed = sum(removal.size for removal in (removed if delete else plan.removals))
    print(f"{_mib(plan.total)} before, {_mib(plan.total - freed)} after")
    if limit is not None and plan.left > limit:
        kept = "; ".join(plan.pinned) or "no other run can be deleted"
        tell(f"{_mib(plan.left)} remain, more than {show_size(limit)}: {kept}")
    if plan.removals and not delete:
        tell("nothing was deleted; add --yes to delete these runs")


def _table(runs: Sequence[IndexedRun]) -> Table:
    table = plain_table("started", "scenario", "kernel", "status", "took", "run")
    for run in runs:
        took = "" if run.seconds is None else duration(run.seconds)
        status = Text(run.status, STYLES.get(run.status, ""))
        table.add_row(run.started[:16], run.scenario, run.release, status, took, run.run_id)
    return table


class ListCache(Command):
    def __call__(self) -> int:
        cache = Cache.default()
        entries = cache.entries()
        print(f"{cache.root}: {len(entries)} entries, {_mib(sum(entry.size for entry in entries))}")
        for entry in entries:
            used = datetime.fromtimestamp(entry.last_used, UTC).strftime("%Y-%m-%d %H:%M")
            print(f"  {entry.kind:12} {entry.key[:24]:24} {_mib(entry.size):>10}  used {used} UTC")
        return EXIT_PASS


class PruneCache(Command):
    kind: str | None = option(metavar="KIND", help="only this kind of entry, as shown by list")
    older_than: float | None = option(type=_seconds_of_days, metavar="DAYS", help="only entries not used for DAYS")
    keep: int | None = _KEEP.but(help="delete the least recently used until SIZE is left (2G)")

    def __call__(self) -> int:
        cache = Cache.default()
        known = {entry.kind for entry in cache.entries()}
        if self.kind is not None and self.kind not in known:
            raise Misuse(
                f"no entry is of kind {quoted(self.kind)}{nearest(self.kind, known)}",
                remedy=f"the kinds are {names(sorted(known))}" if known else "the cache is empty",
            )
        pruned = cache.prune(kind=self.kind, older_than=self.older_than, keep_bytes=self.keep)
        print(f"removed {len(pruned.removed)} entries, {_mib(pruned.freed)}")
        for entry in pruned.in_use:
            print(f"kept {entry.kind}/{entry.key}: in use")
        return EXIT_PASS


class Kit(Command):
    run: Path = RUN
    boot: str = operand(nargs="?", default="", help="number of the boot, such as 000 (default: the first)")
    to: Path = option(type=Path, required=True, metavar="DIR", help="a new folder")

    def __call__(self) -> int:
        folder = load_run(self.run)
        cell = chosen_boot(folder, self.boot)
        collect(folder, cell, self.to, lambda: _rebuilt(folder, cell))
        copied = f"boot {cell.boot} (arm {cell.arm}, seed {cell.seed}) copied to {self.to}"
        print(f"{copied}; repeat it with: sh {REPEAT}")
        return EXIT_PASS


def _rebuilt(run: RunFolder, cell: PlannedCell) -> Inputs:
    lab, kernel = lab_of_host(), kernel_of(run.facts.kernel.spec)
    arm = run.scenario.arms[cell.arm]
    return boot_inputs(lab, prepare_job(lab, kernel, arm.topology, guest_job(run.scenario, arm, cell.seed)))


COMMANDS: dict[str, type[Command]] = {
    "store index": Index,
    "store cache list": ListCache,
    "store cache prune": PruneCache,
    "store kit": Kit,
}

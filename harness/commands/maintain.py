# SPDX-License-Identifier: GPL-2.0-only
"""``blklab doctor``, ``check``, ``store`` and ``shell``: the host, the lab, what it keeps, and a guest to look into."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import ClassVar

from rich.table import Table
from rich.text import Text

from harness.base.checkout import SCENARIOS, results_root
from harness.commands.boots import bench_of, kernel_of, kernels_of, lab_of_host
from harness.commands.options import JOBS, KERNEL, RESULTS, RUN, kernel_default, number, print_or_write, tell
from harness.commands.parser import Command, flag, operand, option
from harness.judge.cells import exit_code_of
from harness.judge.verdict import Verdict
from harness.limits.bottleneck import Bottleneck
from harness.limits.entries import load_scenario
from harness.record.index import FILE, IndexedRun, chosen_boot, collect, indexed_runs, plan_pruning, prune
from harness.record.judging import explain_run
from harness.record.store import PlannedCell, RunFolder, load_run
from harness.report.format import STYLES, duration, markdown_head, plural
from harness.report.models import CALIBRATION, COMMAND, deviations, table
from harness.report.terminal import console_of, plain_table, print_wide
from harness.run.bench import Bench, unwatched
from harness.run.plan import Request, guest_job
from harness.scenario.load import find_scenarios
from harness.scenario.model import Scenario, Selftest, Status
from lab.base import host
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_LAB_BROKEN, EXIT_PASS, BlklabError, CannotJudge, Misuse
from lab.base.units import parse_size, show_size
from lab.doctor import HostStatus, findings, show
from lab.kernels.model import Kernel
from lab.kit import REPEAT, Inputs
from lab.session import accelerator_for, boot_inputs, prepare_job, unmet
from lab.shell import enter, virtme
from lab.topology.emulated import differences, emulated
from lab.topology.limits import refusals
from lab.topology.load import load_topology
from lab.yaml.strict import names, nearest, quoted

_DAY = 86400.0
_SELFTESTS, _CALIBRATIONS = SCENARIOS / "selftest", SCENARIOS / CALIBRATION


EACH_KERNEL = KERNEL.but(
    "--kernel", action="append", default=[], help="as in blklab run; may be repeated (default: $KERNEL or distro)"
)


class Doctor(Command):
    epilog = "Exit status: 0 when scenarios of the virtual clock can run here, else 128."

    def __call__(self) -> int:
        """Print each finding; EXIT_PASS when scenarios of the virtual clock can run."""
        able = True
        for finding in findings():
            able = able and finding.status is not HostStatus.MISSING
            sys.stdout.write(show(finding))
            sys.stdout.flush()
        print("scenarios of the virtual clock can run here" if able else "no scenario can run here, see above")
        return EXIT_PASS if able else EXIT_LAB_BROKEN


class Selftests(Command):
    names: Sequence[str] = operand(nargs="*", metavar="NAME", help="only these, such as must-oops (default: all)")
    kernels: Sequence[str] = EACH_KERNEL
    results: str | None = RESULTS

    def __call__(self) -> int:
        scenarios = [load_scenario(name, search=_SELFTESTS) for name in self.names or find_scenarios(_SELFTESTS)]
        # Several run at once: their progress would be one display.
        bench = replace(bench_of(self.results), watch=unwatched)
        passed = True
        for kernel in [kernel_of(spec) for spec in self.kernels or [kernel_default()]]:
            for scenario, verdict, wrong in run_selftests(bench, scenarios, kernel):
                word = f"NOT as declared: {'; '.join(wrong)}" if wrong else "ok"
                print(f"{scenario.name} on {kernel.spec}: {verdict.status} ({verdict.exit_code}), {word}", flush=True)
                passed = passed and not wrong
        return EXIT_PASS if passed else EXIT_LAB_BROKEN


SelftestTrial = tuple[Scenario, Verdict, list[str]]
"""A selftest, its verdict, and what was not as declared."""


def run_selftests(bench: Bench, scenarios: Sequence[Scenario], kernel: Kernel) -> Iterator[SelftestTrial]:
    """Run each scenario, several at once, and yield the trials in their order."""

    def trial(scenario: Scenario) -> SelftestTrial:
        if scenario.selftest is None:
            raise Misuse(f"{scenario.path} has no key selftest", remedy="declare the status that it must end with")
        run = bench.run(Request(scenario, kernel, verify=scenario.selftest.verify))
        wrong = [*shortfalls(scenario.selftest, run.verdict), *misnamed(scenario.selftest, run.folder)]
        return scenario, run.verdict, wrong

    with ThreadPoolExecutor(host.usable_cores()) as pool:
        yield from pool.map(trial, scenarios)


def misnamed(wanted: Selftest, run: RunFolder) -> Iterator[str]:
    """A sentence for each load whose bottleneck is not the declared one; arms that are SKIP are left out."""
    explained = {f"{answer.arm}.{answer.load}": answer for answer in explain_run(run)}
    skipped = {cell.arm for cell in run.facts.cells if cell.skip}
    for key, label in wanted.bottleneck.items():
        answer = explained.get(key)
        if isinstance(answer, Bottleneck):
            if answer.label != label:
                yield f"{key}: the bottleneck must be {label}, reported {answer.label} ({answer.figure})"
        elif key.partition(".")[0] not in skipped:
            yield f"{key}: no bottleneck reported: {answer.reason if answer else 'it was not measured'}"


def shortfalls(wanted: Selftest, verdict: Verdict) -> Iterator[str]:
    """A sentence for each difference between a verdict and the declared one."""
    if verdict.status is not wanted.status:
        yield f"status is {verdict.status}, must be {wanted.status}"
    if verdict.exit_code != wanted.exit_code:
        yield f"exit code is {verdict.exit_code}, must be {wanted.exit_code}"
    sentences = [claim.sentence for claim in verdict.claims]
    said = " ".join([*sentences, *(reason for cell in verdict.cells for reason in cell.reasons)])
    if wanted.says not in said:
        yield f'the reasons lack "{wanted.says}": {said[:300]}'


class Calibration(Command):
    names: Sequence[str] = operand(nargs="*", metavar="NAME", help="only these, such as null-blk (default: all)")
    kernels: Sequence[str] = EACH_KERNEL
    jobs: int = JOBS
    out: Path | None = option(type=Path, metavar="FILE", help="write the table as a page instead of printing it")
    results: str | None = RESULTS
    epilog = (
        "Each cell: IOPS, error, and with one request in flight the CPU time of a request. Bold: off by more than 5 %,"
        " or not measured."
    )

    def __call__(self) -> int:
        names = self.names or find_scenarios(_CALIBRATIONS)
        scenarios = [load_scenario(name, search=_CALIBRATIONS) for name in names]
        bench = bench_of(self.results, self.jobs, folder=CALIBRATION)
        verdicts: dict[tuple[str, str], Verdict] = {}
        ended = []
        for kernel in kernels_of(self.kernels or [kernel_default()], kernel_of).values():
            if isinstance(kernel, BlklabError):
                ended.append((Status.MISS, EXIT_CANNOT_JUDGE))
                continue
            for scenario in scenarios:
                try:
                    verdict = bench.measure(Request(scenario, kernel)).verdict
                except CannotJudge as error:
                    tell(f"{scenario.name} on {kernel.release}: {error}")
                    ended.append((Status.MISS, EXIT_CANNOT_JUDGE))
                    continue
                verdicts[scenario.name, kernel.release] = verdict
                ended.append((verdict.status, verdict.exit_code))
                for sentence in deviations(scenario, verdict):
                    tell(f"{scenario.name} on {kernel.release}: {sentence}")
        head = markdown_head("Device models against their closed forms", f"Generated by: {COMMAND}") if self.out else ()
        print_or_write("\n".join((*head, *table(scenarios, verdicts), "")), self.out)
        return exit_code_of(ended)


class Shell(Command):
    topology: str = operand(help="a name from blklab list --topologies, or the path of a topology file")
    kernel: str = KERNEL
    command: str = option(
        default="",
        metavar="LINE",
        help="run this line in bash instead of an interactive shell; blklab exits with its status",
    )

    def __call__(self) -> int:
        asked = load_topology(self.topology, near=Path())
        entered = emulated(asked)
        program = virtme()
        booted, lab = kernel_of(self.kernel), lab_of_host()
        if reasons := (*map(str, refusals(entered)), *unmet(lab, booted, entered)):
            raise CannotJudge("; ".join(reasons))
        runs_on = accelerator_for(lab, booted)
        for line in (*differences(asked, entered), f"runs on {runs_on}"):
            tell(line)
        return enter(
            booted,
            entered,
            self.command,
            program=program,
            cache=lab.cache,
            qemu=lab.qemu.path,
            clock=runs_on.clock,
            tell=tell,
        )


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
        table.add_row(run.facts.started[:16], run.scenario, run.kernel.release, status, took, run.facts.run_id)
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
    "doctor": Doctor,
    "check selftest": Selftests,
    "check calibration": Calibration,
    "shell": Shell,
    "store index": Index,
    "store cache list": ListCache,
    "store cache prune": PruneCache,
    "store kit": Kit,
}

# SPDX-License-Identifier: GPL-2.0-only
"""``blklab compare``: two kernels, runs, matrices or results folders figure by figure, or a scenario over time."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from harness.base.checkout import results_root
from harness.commands.options import ARMS, METRIC, RESULTS, metrics_of, write_page
from harness.commands.parser import Command, flag, operand, option
from harness.grid.page import of_pairs, set_page
from harness.grid.timeline import history, print_history
from harness.judge.difference import Significance
from harness.judge.visible import unseen
from harness.record.index import IndexedRun, RunPair, indexed_runs, pairs, side
from harness.record.judging import compare_runs, results_of
from harness.record.store import load_run
from harness.report.terminal import console_of
from harness.report.terminal.grid import Compared, counted, print_comparison
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS, CannotJudge, Misuse
from lab.kernels.resolve import in_tree
from lab.yaml.strict import nearest

_FUNCTIONS, _LINES = "instructions by function: blklab profile", "cache lines and locks: blklab sharing"


_SIDE = operand(nargs="?", help="a folder of a run, a matrix or results, or a measured kernel (debian:6.1, 6.1)")


class Compare(Command):
    before: str | None = _SIDE.but(metavar="BEFORE")
    after: str | None = _SIDE.but(metavar="AFTER")
    metrics: Sequence[str] = METRIC
    marked: bool = flag("print only what differs")
    history: str | None = option(
        metavar="SCENARIO", help="print its figures over dates and kernel versions, and where they change"
    )
    arms: Sequence[str] = ARMS
    out: Path | None = option(type=Path, metavar="FILE", help="also write one HTML page of both sides")
    results: str | None = RESULTS
    epilog = "Exit status: 0 equal, 1 different, 125 cannot judge; with --history 0."
    needs: ClassVar = {"arms": ("history",)}
    alone: ClassVar = {"history": ("before", "after", "marked", "out")}

    def __call__(self) -> int:
        figures, root = metrics_of(self.metrics, ("iops",)), results_root(self.results)
        if self.history:
            return _history(root, self.history, figures, frozenset(self.arms))
        if self.before is None or self.after is None:
            raise Misuse(
                "compare needs BEFORE and AFTER",
                remedy="blklab compare debian:6.1 debian:7.2, or blklab compare --history SCENARIO",
            )
        paired = pairs(*(side(in_tree(name) or name, root) for name in (self.before, self.after)))
        compared = [pair for pair in (_comparison(pair, figures) for pair in paired) if pair.changes]
        if not compared:
            raise CannotJudge(f"neither side measured {' or '.join(figures)}")
        print_comparison(console_of(), compared, marked_only=self.marked)
        changes = [change for pair in compared for change in pair.changes]
        if self.out:
            runs = [[load_run(Path(run.path)) for run in pair] for pair in paired]
            write_page(self.out, set_page(of_pairs(runs, counted(changes))))
        marks = {change.mark for change in changes}
        if Significance.MARKED in marks:
            return EXIT_FAIL
        return EXIT_PASS if marks & {Significance.NONE, Significance.REAL} else EXIT_CANNOT_JUDGE


def _comparison(pair: RunPair, metrics: tuple[str, ...]) -> Compared:
    """With the commands that profile the cells with a marked figure, on the virtual clock."""
    before, after = (load_run(Path(run.path)) for run in pair)
    changes = compare_runs(before, after, metrics)
    marked = [change.figure for change in changes if change.marked]
    places = dict.fromkeys((figure.arm, figure.load) for figure in marked if all(each.exact for each in changes))
    several = {name for name, arm in before.scenario.arms.items() if arm.topology.processors.several}
    profiles = tuple(
        f"{_LINES if arm in several else _FUNCTIONS} {before.path} {after.path} {arm}.{load}" for arm, load in places
    )
    cells = (*results_of(before), *results_of(after))
    return Compared(pair[0].scenario, *_heads(*pair), changes, profiles, unseen(before.scenario, cells))


def _heads(before: IndexedRun, after: IndexedRun) -> tuple[str, str]:
    """The releases; with the dates when both are the same."""
    old, new = before.kernel, after.kernel
    if old.release != new.release or old.digest != new.digest:
        return old.release, new.release
    return f"{old.release} ({before.facts.started[:16]})", f"{new.release} ({after.facts.started[:16]})"


def _history(root: Path, scenario: str, metrics: tuple[str, ...], arms: frozenset[str]) -> int:
    runs = indexed_runs(root)
    if scenario not in (known := {run.scenario for run in runs}):
        raise Misuse(
            f"{root} has no run of {scenario}{nearest(scenario, known)}",
            remedy="blklab store index --list shows the stored runs",
        )
    for metric in metrics:
        series, left_out = history(root, (run for run in runs if run.scenario == scenario), metric)
        print_history(console_of(), scenario, series, left_out, arms)
    return EXIT_PASS


COMMANDS: dict[str, type[Command]] = {"compare": Compare}

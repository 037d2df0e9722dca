# SPDX-License-Identifier: GPL-2.0-only
"""``blklab compare``: two kernels, runs, matrices or results folders, figure by figure."""

import argparse
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console

from harness.commands.command import results_root
from harness.judge.comparison import Change, Difference, changes
from harness.record.judging import results_of
from harness.record.sides import Candidate, Pair, pairs, side
from harness.record.store import RunFolder, load_run
from harness.report.terminal.comparison import Compared, print_comparison
from harness.scenario.metric_names import METRICS
from harness.scenario.model import Clock
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS, CannotJudge, Misuse
from lab.yaml.strict import nearest

NAME = "compare"
HELP = "two kernels, runs, matrices or results folders, figure by figure: exit 0 alike, 1 different, 125 cannot judge"


def configure(parser: argparse.ArgumentParser) -> None:
    for name in ("before", "after"):
        parser.add_argument(
            name, help="a folder of a run, a matrix or results, or a kernel that was measured (debian:6.1, 6.1)"
        )
    parser.add_argument(
        "--metric", action="append", metavar="NAME", help="iops (default), lat.p99 ... as in claims (may be repeated)"
    )
    parser.add_argument("--marked", action="store_true", help="only what differs")
    parser.add_argument("--results", metavar="DIR", help="where kernels' runs are (default: results/ of the checkout)")


def execute(options: argparse.Namespace) -> int:
    metrics = tuple(options.metric or ("iops",))
    for metric in metrics:
        if metric not in METRICS:
            raise Misuse(
                f"no figure is called {metric}{nearest(metric, METRICS)}", remedy="iops, bw, lat.mean, lat.p99"
            )
    root = results_root(options.results)
    found = pairs(side(options.before, root), side(options.after, root))
    compared = [one for pair in found if (one := _compared(pair, metrics)).changes]
    if not compared:
        raise CannotJudge(f"both measured no {' and no '.join(metrics)}")
    print_comparison(Console(), compared, marked_only=options.marked)
    kinds = {one.difference() for pair in compared for one in pair.changes}
    if Difference.MARKED in kinds:
        return EXIT_FAIL
    return EXIT_PASS if kinds & {Difference.NONE, Difference.REAL} else EXIT_CANNOT_JUDGE


def _compared(pair: Pair, metrics: tuple[str, ...]) -> Compared:
    runs = [load_run(one.path) for one in (pair.before, pair.after)]
    before, after = map(results_of, runs)
    found = tuple(changes(before, after, metrics))
    return Compared(pair.scenario, *_heads(pair.before, pair.after), found, tuple(_profiles(runs, found)))


def _profiles(runs: Sequence[RunFolder], found: Iterable[Change]) -> Iterator[str]:
    """The command that profiles each cell with a marked figure; none on the wall clock."""
    if any(run.scenario.clock is not Clock.VIRTUAL for run in runs):
        return
    marked = dict.fromkeys(f"{one.arm}.{one.load}" for one in found if one.difference() is Difference.MARKED)
    for cell in marked:
        yield f"blklab profile {runs[0].path} {runs[1].path} {cell}"


def _heads(before: Candidate, after: Candidate) -> tuple[str, str]:
    """The releases, or where they are the same the days too."""
    if before.run.release != after.run.release or before.run.kernel != after.run.kernel:
        return before.run.release, after.run.release
    return f"{before.run.release} ({before.run.started[:16]})", f"{after.run.release} ({after.run.started[:16]})"

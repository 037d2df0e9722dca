# SPDX-License-Identifier: GPL-2.0-only
"""On the terminal: statuses of scenario x kernel, and two sides figure by figure, as the kernel test robot prints them:
value, %change, value, name."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from harness import fitted
from harness.judge.cells import Ensemble
from harness.judge.difference import LARGE, LARGE_BECAUSE, Difference, Significance
from harness.record.grid import Grid, GridCell
from harness.record.store import KernelFacts
from harness.report.claims import claim_text
from harness.report.format import LEGEND, MARKS, STYLES, figure, limits, percent, plural
from harness.report.terminal import figures, plain_table, print_wide, trimmed
from harness.scenario.model import Status

_STYLES = {Significance.MARKED: "bold", Significance.REAL: "", Significance.NONE: "dim", Significance.UNKNOWN: "dim"}
_SINGLE = f"one seed a side: a figure differs if it is {fitted.SINGLE:g} times the other or more (virtual clock only)"


@dataclass(frozen=True)
class Compared:
    """A pair of runs. ``before`` and ``after`` name the two in the head of the table.

    ``profiles`` are the commands that show what the marked figures consist of, ``unseen`` says what the runs cannot
    show.
    """

    scenario: str
    before: str
    after: str
    changes: tuple[Difference, ...]
    profiles: tuple[str, ...] = ()
    unseen: str = ""


def print_comparison(console: Console, pairs: Sequence[Compared], *, marked_only: bool = False) -> None:
    """A table for each pair, then the legend."""
    with trimmed(console):
        for pair in pairs:
            shown = [change for change in pair.changes if not marked_only or change.marked]
            title = Text(pair.scenario, "bold underline").append(
                f"  {pair.before} -> {pair.after}", "not bold not underline"
            )
            console.print(title, soft_wrap=True)
            if shown:
                print_wide(console, _table(shown))
            lacking = dict.fromkeys((change.figure.arm, change.reason) for change in pair.changes if change.reason)
            for arm, reason in lacking:
                console.print(Text(f"  {arm}: {reason}", "dim"), soft_wrap=True)
            console.print(Text(f"  {counted(pair.changes)}"))
            if pair.unseen:
                console.print(Text(f"  not visible: {pair.unseen}"), soft_wrap=True)
            for command in pair.profiles:
                console.print(Text(f"  {command}", "dim"), soft_wrap=True)
            console.print()
        changes = [change for pair in pairs for change in pair.changes]
        console.print(Text("\n".join((LEGEND, *_rules(changes))), "dim"))


def _rules(changes: Sequence[Difference]) -> Iterator[str]:
    """From which difference on figures are marked, and why."""
    if not all(map(_own, changes)):
        yield f"differences of more than {100 * LARGE:g} % are marked: {LARGE_BECAUSE}"
    own = [(change.figure.metric, change.evidence.layout) for change in changes if change.evidence and _own(change)]
    if shares := _shares(own):
        yield f"one configuration: marked above what layout alone moves (docs/results/thresholds.md): {shares}"
    alone = [change for change in changes if change.single]
    if any(change.evidence is None for change in alone):
        yield _SINGLE
    if shares := _shares((change.figure.metric, change.evidence.single) for change in alone if change.evidence):
        yield f"one seed a side: marked above what seed and layout move: {shares}"


def _own(change: Difference) -> bool:
    """Whether the threshold is one between builds of one configuration."""
    return change.evidence is not None and not change.evidence.general


def _shares(thresholds: Iterable[tuple[str, float]]) -> str:
    """Each metric with its thresholds, which depend on the load: the least and the largest."""
    by_metric: dict[str, list[float]] = {}
    for metric, share in thresholds:
        by_metric.setdefault(metric, []).append(share)
    ends = {metric: dict.fromkeys(percent(end(shares)) for end in (min, max)) for metric, shares in by_metric.items()}
    return ", ".join(f"{metric} {' to '.join(shown)}" for metric, shown in ends.items())


def _table(changes: Sequence[Difference]) -> Table:
    before, after = (Column("range", no_wrap=True, style="dim") for _ in range(2))
    table = plain_table(figures("before"), before, figures("%change"), "", figures("after"), after, "figure")
    for change in changes:
        arm, *rest = change.figure
        style = _STYLES[change.mark]
        share = Text("-" if change.share is None else f"{change.share:+.1%}", style)
        name = Text(f"{arm} {'.'.join(rest)}", style)
        table.add_row(*_side(change.before), share, Text(MARKS[change.mark], style), *_side(change.after), name)
    return table


def _side(ensemble: Ensemble | None) -> tuple[str, str]:
    return ("-", "") if ensemble is None else (figure(ensemble.median), limits(ensemble))


def counted(changes: Sequence[Difference]) -> str:
    """How many figures differ, such as ``6 figures: 1 with a difference of more than 5 %, 2 less``."""
    marks = [change.mark for change in changes]
    marked, real, unknown = (
        marks.count(mark) for mark in (Significance.MARKED, Significance.REAL, Significance.UNKNOWN)
    )
    large = f"of more than {100 * LARGE:g} %, {real} less"
    if any(map(_own, changes)):
        large = f"above their thresholds, {real} below"
    said = f"{plural(len(marks), 'figure')}: {marked} with a difference {large}"
    return said + (f", {unknown} undecided" if unknown else "")


_NOT_DECIDED = "-"


def print_matrix(console: Console, grid: Grid) -> None:
    """The table, the reasons, and how the whole rolls up."""
    print_wide(console, _statuses(grid))
    named = columns(grid)
    alike: dict[tuple[Status, str], list[GridCell]] = {}
    for cell in grid.own:
        alike.setdefault((cell.status or Status.MISS, cell.reason or "not decided"), []).append(cell)
    for (status, why), cells in alike.items():
        if status is not Status.PASS:
            runs = [f"{cell.scenario} on {named[cell.kernel]}" + f" ({cell.run})" * bool(cell.run) for cell in cells]
            every = not cells[0].run and len(cells) == len(grid.own) > 1
            who = f"all {len(cells)} cells" if every else "; ".join(runs)
            line = Text("  ").append(str(status), STYLES[status])
            console.print(line.append(f"  {who}: {why}"), soft_wrap=True)
    counted = {status: sum(cell.status is status for cell in grid.own) for status in Status}
    shown = ", ".join(f"{count} {status}" for status, count in counted.items() if count)
    line = Text(f"\n{plural(len(grid.own), 'cell')}: {shown}; ")
    line.append(str(grid.status), STYLES[grid.status]).append(f", exit {grid.exit_code}")
    console.print(line, soft_wrap=True)


def columns(grid: Grid) -> Mapping[KernelFacts, str]:
    """What each kernel is called above its column: its release, or its spec where several have that release."""
    released = Counter(kernel.release for kernel in grid.kernels)
    return {
        kernel: kernel.release if kernel.release and released[kernel.release] == 1 else kernel.spec
        for kernel in grid.kernels
    }


def _statuses(grid: Grid) -> Table:
    table = plain_table("scenario", *columns(grid).values())
    cells = grid.at()
    for scenario in grid.scenarios:
        row = [cells.get((scenario, kernel)) for kernel in grid.kernels]
        table.add_row(Text(scenario), *(_mark(cell) for cell in row))
    return table


def _mark(cell: GridCell | None) -> Text:
    """The status, and where the run is in hand its first failure or how many claims hold."""
    if cell is None or cell.status is None:
        return Text(_NOT_DECIDED, "dim")
    text = Text(str(cell.status), STYLES[cell.status])
    claims = [claim for claim in cell.result.verdict.claims if not claim.optional] if cell.result else []
    for claim in claims:
        if claim.counts_as is Status.FAIL:
            return text.append(f" {claim_text(claim).figure} {claim.expect}", "not bold")
    held = sum(claim.counts_as is Status.PASS for claim in claims)
    return text.append(f" {held} of {len(claims)}", "not bold dim") if claims else text

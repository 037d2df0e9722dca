# SPDX-License-Identifier: GPL-2.0-only
"""What limits each load of each arm, as lines of a report."""

from collections.abc import Collection, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from harness.limits.bottleneck import NOTHING, UNCOUNTED, Bottleneck, by_role
from harness.report.terminal.printing import folded

_WIDEST = 30
"""Characters of a column, of the 80 of a terminal, that leave room for the figure."""


def folded_lines(bottlenecks: Sequence[Bottleneck], failed: Collection[tuple[str, str]]) -> Table | None:
    """A row for each load: the element that limits it in most arms last; None where there is nothing to tell.

    Loads that the same element limits in all arms are left out, unless a failed claim reads one of them:
    ``failed`` are pairs of arm and load. A row that is not of all arms names its arms.
    """
    table = Table.grid(Column(no_wrap=True), folded(), padding=(0, 2))
    bottlenecks = by_role(bottlenecks)
    arms = {limit.arm for limit in bottlenecks}
    for load in dict.fromkeys(limit.load for limit in bottlenecks):
        limits: dict[str, list[Bottleneck]] = {}
        for limit in bottlenecks:
            if limit.load == load:
                limits.setdefault(_label(limit), []).append(limit)
        rows = sorted(limits.items(), key=lambda item: len(item[1]))
        every = [limit for _, alike in rows for limit in alike]
        named = any((limit.arm, load.partition(".")[0]) in failed and (limit.binding or "." in load) for limit in every)
        if len(rows) == 1 and not named:
            continue
        whole = {limit.arm for limit in every} == arms
        row = Text("; ").join(_limited(*limit, _where(limit[1], rows, whole=whole)) for limit in rows)
        table.add_row(Text(load), row)
    return table if table.row_count else None


def _where(alike: Sequence[Bottleneck], rows: Sequence[tuple[str, Sequence[Bottleneck]]], *, whole: bool) -> str:
    """The arms of one element, the last of ``rows`` in short. ``whole``: the rows are of all arms."""
    if whole and alike is rows[-1][1]:
        if len(rows) == 1:
            return ""
        if len(alike) > 1:
            return " in the other arms"
    return f" in {', '.join(limit.arm for limit in alike)}"


def _limited(label: str, alike: Sequence[Bottleneck], where: str) -> Text:
    return Text(label, "bold" if alike[0].binding else "dim").append(f"{where} ({_share(alike)})", "not bold not dim")


def _share(alike: Sequence[Bottleneck]) -> str:
    """How full the element is, or the fullest where none is named; the range over several arms."""
    figures = dict.fromkeys(limit.binding.figure if limit.binding else limit.figure for limit in alike)
    if len(figures) == 1:
        return next(iter(figures))
    shares = [max((element.share for element in limit.elements), default=0.0) for limit in alike]
    if alike[0].binding:
        shares = [limit.binding.share for limit in alike if limit.binding]
    low, high = f"{100 * min(shares):.0f}", f"{100 * max(shares):.0f}"
    between = low if low == high else f"{low} to {high}"
    return f"{between} %" if alike[0].binding else f"fullest element {between} %"


def _label(limit: Bottleneck) -> str:
    """Short where it would take the figure's place: which disks they are in full is what explain shows."""
    return limit.label if limit.binding is None or len(limit.label) <= _WIDEST else limit.binding.short


def bottleneck_rows(bottlenecks: Sequence[Bottleneck]) -> Group:
    """Below each arm what binds each load, its throughput over what the topology allows, and below it why."""
    rows, lines, arm = by_role(bottlenecks), list[RenderableType](), ""
    width = max(len(limit.load) for limit in rows)
    for limit in rows:
        lines += [Text(limit.arm, "bold")] if limit.arm != arm else []
        arm = limit.arm
        reached = "" if limit.reached is None else f", {limit.reached:.2f} of bound"
        row = Text(f"{limit.load:{width}}  ").append(limit.label, "bold" if limit.binding else "dim").append(reached)
        lines += [Padding(row, (0, 0, 0, 2)), Padding(Text(limit.figure, "dim"), (0, 0, 0, 6))]
    return Group(*lines)


def sentences(bottlenecks: Sequence[Bottleneck]) -> Iterator[str]:
    """A sentence for each bottleneck that was named, on all loads that it limits: their figure, or its range."""
    limited: dict[str, list[Bottleneck]] = {}
    for limit in by_role(bottlenecks):
        limited.setdefault(limit.label, []).append(limit)
    for label, loads in limited.items():
        where = ", ".join(f"{limit.arm}.{limit.load}" for limit in loads)
        figure = loads[0].figure if len({limit.figure for limit in loads}) == 1 else _share(loads)
        if label == NOTHING:
            yield f"In {where} nothing is saturated: {figure}."
        elif label == UNCOUNTED:
            yield f"What limits {where} is not known: {figure}."
        else:
            yield f"{label} limits {where}: {figure}."

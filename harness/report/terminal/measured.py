# SPDX-License-Identifier: GPL-2.0-only
"""The table of figures: those that differ between arms or kernels, or all of them."""

import statistics
import textwrap
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.measure import Measurement as Extent
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from harness.judge.ensemble import Ensemble
from harness.judge.thresholds import LARGE
from harness.judge.verdict import Measurement, Verdict
from harness.report.format import figure, limits, plural, spread
from harness.report.terminal.printing import figures, folded, plain_table

_INDENT = 2
_ALIKE = LARGE.share
_SHARE = f"{100 * _ALIKE:g} %"
_FEW = 4
"""As many figures that are the same in all arms are listed."""
_Key = tuple[str, str]
_Rows = Mapping[tuple[str, _Key], Ensemble]


def print_measured(console: Console, verdict: Verdict, releases: tuple[str, str], *, full: bool) -> None:
    """IOPS of each arm, load and role: the median over the seeds and the range.

    Unless ``full``, arms whose figures are alike share a row, and figures that are alike in all arms a line. With a
    BASE kernel (the first of ``releases``, else empty) each figure has both kernels and their quotient; within the
    spread of the seeds they do not differ.
    """
    if not verdict.measured:
        return
    console.print()
    said = "median and range" if full or releases[0] else "median"
    over = f", {said} over {plural(len(verdict.seeds), 'seed')}" if len(verdict.seeds) > 1 else ""
    console.print(Text(f"IOPS{over}", "bold"))
    if releases[0]:
        _print_pair(console, verdict, releases, full=full)
    elif full:
        table = plain_table(folded("arm"), "load", "role", figures("IOPS"), Column("range", no_wrap=True, style="dim"))
        for name, row in _names(verdict.measured):
            table.add_row(*name, figure(row.iops.median), limits(row.iops))
        _print(console, table)
    else:
        _print_folded(console, verdict)


def _print_folded(console: Console, verdict: Verdict) -> None:
    arms = list(dict.fromkeys(row.arm for row in verdict.measured))
    rows = {(row.arm, (row.load, row.role)): row.iops for row in verdict.measured}
    keys = list(dict.fromkeys((row.load, row.role) for row in verdict.measured))
    same = [key for key in keys if all((arm, key) in rows for arm in arms) and _alike([rows[arm, key] for arm in arms])]
    varied = [key for key in keys if key not in same]
    if varied:
        groups = _groups(arms, varied, rows)
        table = _columns(groups, varied, rows)
        fits = Extent.get(console, console.options, table).minimum <= console.width - _INDENT
        _print(console, table if fits else _lines(groups, varied, rows))
    if len(same) > _FEW and len(arms) > 1:
        console.print(f"  {len(same)} more figures are the same in all arms within {_SHARE} (-v)")
    elif same:
        where = "" if len(arms) == 1 else f"the same in all arms within {_SHARE}: "
        line = where + ", ".join(f"{load}.{role} {_median(arms, (load, role), rows)}" for load, role in same)
        for text in textwrap.wrap(line, console.width - _INDENT, break_on_hyphens=False):
            console.print(f"  {text}")


def _columns(groups: Sequence[Sequence[str]], keys: Sequence[_Key], rows: _Rows) -> Table:
    """A row for each group of arms."""
    arm, named = Column("arm", overflow="fold", vertical="bottom"), (figures("\n".join(key)) for key in keys)
    table = Table(*named, arm, box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    for group in groups:
        table.add_row(*(_median(group, key, rows) for key in keys), Text(", ".join(group)))
    return table


def _lines(groups: Sequence[Sequence[str]], keys: Sequence[_Key], rows: _Rows) -> Table:
    """A row for each figure, where there are too many for columns."""
    table = plain_table("figure", *(Column(", ".join(group), justify="right", overflow="fold") for group in groups))
    for key in keys:
        table.add_row(".".join(key), *(_median(group, key, rows) for group in groups))
    return table


def _groups(arms: Sequence[str], keys: Sequence[_Key], rows: _Rows) -> list[list[str]]:
    """Arms whose figures are alike, in the order of the file."""
    groups: list[list[str]] = []
    for arm in arms:
        for group in groups:
            members = [*group, arm]
            had = [[rows[member, key] for member in members if (member, key) in rows] for key in keys]
            if all(not some or (len(some) == len(members) and _alike(some)) for some in had):
                group.append(arm)
                break
        else:
            groups.append([arm])
    return groups


def _alike(ensembles: Sequence[Ensemble]) -> bool:
    """Whether the ranges have a value in common, or the medians are within 5 % of the highest."""
    medians = [ensemble.median for ensemble in ensembles]
    overlap = max(ensemble.low for ensemble in ensembles) <= min(ensemble.high for ensemble in ensembles)
    return overlap or max(medians) - min(medians) <= _ALIKE * max(medians)


def _median(arms: Sequence[str], key: _Key, rows: _Rows) -> str:
    values = [rows[arm, key].median for arm in arms if (arm, key) in rows]
    return figure(statistics.median(values)) if values else "-"


def _print_pair(console: Console, verdict: Verdict, releases: tuple[str, str], *, full: bool) -> None:
    shown = [row for row in verdict.measured if full or row.base is None or row.iops.separate_from(row.base)]
    if shown:
        sides = (Column(release, justify="right", overflow="fold") for release in releases)
        table = plain_table(folded("arm"), "load", "role", *sides, "quotient")
        for name, row in _names(shown):
            table.add_row(*name, spread(row.base) if row.base else "-", spread(row.iops), _quotient(row))
        _print(console, table)
    if alike := len(verdict.measured) - len(shown):
        console.print(f"  no difference in {alike} of {plural(len(verdict.measured), 'figure')}")


def _quotient(row: Measurement) -> str:
    if row.base is None or not row.base.median:
        return "-"
    return figure(row.iops.median / row.base.median) if row.iops.separate_from(row.base) else "no difference"


def _names(measured: Sequence[Measurement]) -> list[tuple[tuple[Text, str, str], Measurement]]:
    """Each figure with its name; an arm is named once."""
    rows, arm = [], ""
    for row in measured:
        shown, arm = ("" if row.arm == arm else row.arm), row.arm
        rows.append(((Text(shown), row.load, row.role), row))
    return rows


def _print(console: Console, table: Table) -> None:
    console.print(Padding(table, (0, 0, 0, _INDENT), expand=False))

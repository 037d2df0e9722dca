# SPDX-License-Identifier: GPL-2.0-only
"""What limits each load of each arm, as lines of a report."""

from collections.abc import Collection, Iterator, Sequence

from rich.table import Column, Table
from rich.text import Text

from harness.limits.bottleneck import NOTHING, UNCOUNTED, Bottleneck
from harness.limits.counterfactual import Proof, ProofRow
from harness.report.terminal.printing import figures, folded, plain_table

_WIDEST = 30
"""Characters of a column, of the 80 of a terminal, that leave room for the figure."""


def bottleneck_lines(found: Sequence[Bottleneck]) -> Table:
    """A line for each arm and load: what limits it, and its figure."""
    widest = Column(overflow="fold", max_width=_WIDEST)
    table = Table.grid(folded(), widest, Column(overflow="fold", ratio=1), padding=(0, 2))
    for one in found:
        figure = one.binding.figure if one.binding else one.figure
        table.add_row(Text(f"{one.arm}.{one.load}"), Text(_label(one), "bold" if one.binding else "dim"), Text(figure))
    return table


def folded_lines(found: Sequence[Bottleneck], failed: Collection[tuple[str, str]]) -> Table | None:
    """A row for each load: the element that limits it in most arms last; None where there is nothing to tell.

    Loads that the same element limits in all arms are left out, unless a failed claim reads one of them:
    ``failed`` are pairs of arm and load.
    """
    table = Table.grid(Column(no_wrap=True), folded(), padding=(0, 2))
    for load in dict.fromkeys(one.load for one in found):
        limits: dict[str, list[Bottleneck]] = {}
        for one in found:
            if one.load == load:
                limits.setdefault(_label(one), []).append(one)
        told = any(one.binding and one.load == load and (one.arm, load) in failed for one in found)
        if len(limits) == 1 and not told:
            continue
        *others, most = sorted(limits.items(), key=lambda item: len(item[1]))
        row = Text()
        for label, alike in others:
            row.append(label, "bold" if alike[0].binding else "dim")
            row.append(f" in {', '.join(one.arm for one in alike)} ({_share(alike)}); ")
        label, alike = most
        where = "" if not others else f" in {alike[0].arm}" if len(alike) == 1 else " in the other arms"
        row.append(label, "bold" if alike[0].binding else "dim").append(f"{where} ({_share(alike)})")
        table.add_row(Text(load), row)
    return table if table.row_count else None


def _share(alike: Sequence[Bottleneck]) -> str:
    """How full the element is, or the fullest where none is named; the range over several arms."""
    figures = dict.fromkeys(one.binding.figure if one.binding else one.figure for one in alike)
    if len(figures) == 1:
        return next(iter(figures))
    shares = [max((element.share for element in one.elements), default=0.0) for one in alike]
    if alike[0].binding:
        shares = [one.binding.share for one in alike if one.binding]
    low, high = f"{100 * min(shares):.0f}", f"{100 * max(shares):.0f}"
    between = low if low == high else f"{low} to {high}"
    return f"{between} %" if alike[0].binding else f"fullest element {between} %"


def _label(one: Bottleneck) -> str:
    """Short where it would take the figure's place: which disks they are in full is what explain shows."""
    return one.label if one.binding is None or len(one.label) <= _WIDEST else one.binding.short


def bottleneck_table(found: Sequence[Bottleneck]) -> Table:
    """One row for each arm and load: what binds, its figure, and the throughput over what the topology allows."""
    table = plain_table(folded("arm"), "load", folded("limited by"), figures("of bound"), folded("because"))
    arm = ""
    for one in found:
        shown, arm = ("" if one.arm == arm else one.arm), one.arm
        reached = "-" if one.reached is None else f"{one.reached:.2f}"
        style = "bold" if one.binding else "dim"
        table.add_row(Text(shown), one.load, Text(one.label, style), reached, Text(one.figure))
    return table


def sentences(found: Sequence[Bottleneck]) -> Iterator[str]:
    """A sentence for each bottleneck that was named, on all loads that it limits: their figure, or its range."""
    limited: dict[str, list[Bottleneck]] = {}
    for one in found:
        limited.setdefault(one.label, []).append(one)
    for label, loads in limited.items():
        where = ", ".join(f"{one.arm}.{one.load}" for one in loads)
        figure = loads[0].figure if len({one.figure for one in loads}) == 1 else _share(loads)
        if label == NOTHING:
            yield f"In {where} nothing is saturated: {figure}."
        elif label == UNCOUNTED:
            yield f"What limits {where} is not known: {figure}."
        else:
            yield f"{label} limits {where}: {figure}."


def proof_table(proof: Proof) -> Table:
    """One row for each limit: what was changed, what throughput gained, and what that says."""
    table = plain_table(folded("limit"), folded("changed"), figures("throughput"), folded())
    for row in proof.rows:
        gain = "-" if row.gain is None else f"{100 * row.gain:+.1f} %"
        style = "bold" if row.change.named else ""
        table.add_row(Text(row.change.label, style), Text(row.change.says), gain, Text(*_word(row)))
    return table


def _word(row: ProofRow) -> tuple[str, str]:
    if row.gain is None:
        return row.reason, "dim"
    if row.change.aside:
        return row.change.aside, "dim"
    if row.change.named:
        return ("the bottleneck", "green") if row.agrees else ("named, and gains nothing", "red")
    return ("no limit here", "") if row.agrees else ("not named, and gains as well", "red")


def proof_sentence(proof: Proof) -> str:
    """Whether the named bottleneck is proven, in one line."""
    one, named = proof.bottleneck, proof.named
    if named.gain is None:
        return f"{one.label} of {one.arm}.{one.load} cannot be proven: {named.reason}"
    if proof.proven:
        return f"Proven: {one.label} limits {one.arm}.{one.load}; raised, it gives {100 * named.gain:+.1f} %."
    against = ", ".join(row.change.label for row in proof.rows if not row.agrees)
    return f"Refuted: {one.label} does not limit {one.arm}.{one.load} alone; see {against}."

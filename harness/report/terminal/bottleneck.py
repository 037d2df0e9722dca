# SPDX-License-Identifier: GPL-2.0-only
"""What limits each load of each arm, as lines of a report."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from harness.limits.bottleneck import NOTHING, UNCOUNTED, Bottleneck
from harness.limits.counterfactual import Proof, Row

_WIDEST = 30
"""Characters of a column, of the 80 of a terminal, that leave room for the figure."""


def bottleneck_lines(found: Sequence[Bottleneck]) -> Table:
    """A line for each arm and load: what limits it, and its figure."""
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=min(_WIDEST, max(len(f"{one.arm}.{one.load}") for one in found)), overflow="fold")
    table.add_column(min_width=min(_WIDEST, max(len(_label(one)) for one in found)), overflow="fold")
    table.add_column(overflow="fold")
    for one in found:
        figure = one.binding.figure if one.binding else one.figure
        table.add_row(Text(f"{one.arm}.{one.load}"), Text(_label(one), "bold" if one.binding else "dim"), Text(figure))
    return table


def _label(one: Bottleneck) -> str:
    """Short where it would take the figure's place: which disks they are in full is what explain shows."""
    return one.label if one.binding is None or len(one.label) <= _WIDEST else one.binding.short


def bottleneck_table(found: Sequence[Bottleneck]) -> Table:
    """One row for each arm and load: what binds, its figure, and the throughput over what the topology allows."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    table.add_column("arm", overflow="fold")
    table.add_column("load", no_wrap=True)
    table.add_column("limited by", overflow="fold")
    table.add_column("of bound", justify="right", no_wrap=True)
    table.add_column("because", overflow="fold")
    arm = ""
    for one in found:
        shown, arm = ("" if one.arm == arm else one.arm), one.arm
        reached = "-" if one.reached is None else f"{one.reached:.2f}"
        style = "bold" if one.binding else "dim"
        table.add_row(Text(shown), one.load, Text(one.label, style), reached, Text(one.figure))
    return table


def sentences(found: Sequence[Bottleneck]) -> Iterator[str]:
    """A sentence for each bottleneck that was named, on all loads that it limits."""
    limited: dict[str, list[Bottleneck]] = {}
    for one in found:
        limited.setdefault(one.label, []).append(one)
    for label, loads in limited.items():
        where = ", ".join(f"{one.arm}.{one.load}" for one in loads)
        if label == NOTHING:
            yield f"In {where} nothing is saturated: {loads[0].figure}."
        elif label == UNCOUNTED:
            yield f"What limits {where} is not known: {loads[0].figure}."
        else:
            yield f"{label} limits {where}: {loads[0].figure}."


def proof_table(proof: Proof) -> Table:
    """One row for each limit: what was changed, what throughput gained, and what that says."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    table.add_column("limit", overflow="fold")
    table.add_column("changed", overflow="fold")
    table.add_column("throughput", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in proof.rows:
        gain = "-" if row.gain is None else f"{100 * row.gain:+.1f} %"
        style = "bold" if row.change.named else ""
        table.add_row(Text(row.change.label, style), Text(row.change.says), gain, Text(*_word(row)))
    return table


def _word(row: Row) -> tuple[str, str]:
    if row.gain is None:
        return row.reason, "dim"
    if row.change.aside:
        return row.change.aside, "dim"
    if row.change.named:
        return ("the bottleneck", "green") if row.agrees else ("named, and gains nothing", "red")
    return ("no limit here", "") if row.agrees else ("not named, and gains as well", "red")


def proof_sentence(proof: Proof) -> str:
    """Whether the name holds, in one line."""
    one, named = proof.bottleneck, proof.named
    if named.gain is None:
        return f"{one.label} of {one.arm}.{one.load} cannot be proven: {named.reason}"
    if proof.proven:
        return f"Proven: {one.label} limits {one.arm}.{one.load}; raised, it gives {100 * named.gain:+.1f} %."
    against = ", ".join(row.change.label for row in proof.rows if not row.agrees)
    return f"Refuted: {one.label} does not limit {one.arm}.{one.load} alone; see {against}."

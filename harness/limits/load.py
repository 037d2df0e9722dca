# SPDX-License-Identifier: GPL-2.0-only
"""Scenario files, without claims and controls that follow from the others of their file, whatever a kernel does.

A bound on a ratio is a bound on the difference of two logarithms, so that the tightest bound that claims put together
give on a ratio is a shortest path between its operands (R. Bellman, On a Routing Problem, 1958). What the topology
allows (``bound.``) and numbers are constants, that is one node.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log
from pathlib import Path

from harness.base.checkout import SCENARIOS
from harness.limits.limits import arm_bound
from harness.scenario import load
from harness.scenario.load import Refused
from harness.scenario.model import Bound, Claim, Control, Operand, Ratio, Scenario
from harness.scenario.ratio import BASELINE, BOUND, FIGURE, NUMBER
from harness.scenario.registry import figure_of
from harness.scenario.schema import CLAIMS, CONTROLS
from lab.base.errors import Misuse

_ONE = "1"
_ROUNDING = 1e-9


def load_scenario(ref: str, *, search: Path = SCENARIOS) -> Scenario:
    """As ``harness.scenario.load.load_scenario``; a claim or an arm control that is implied is a mistake too."""
    return load.load_scenario(ref, search=search, check=implied)


@dataclass(frozen=True)
class _Edge:
    """The logarithm of ``to`` is at most that of ``start`` plus ``most``, by the entry of the file with that number.

    It is less where the bound is ``open``.
    """

    start: str
    to: str
    most: float
    open: bool
    entry: int


def implied(scenario: Scenario) -> Iterator[Refused]:
    """Claims and controls that need no measurement beyond that of the others; controls of mutants are no such.

    A claim is compared with the other claims, a control with those and the other controls. Nothing is implied in a
    scenario that tests the lab itself. Optional claims, and those known to fail on some kernel, imply nothing;
    those for some kernels imply others for the same.
    """
    if scenario.selftest is not None:
        return
    yield from _vacuous(scenario)
    controls = (control for control in scenario.controls if not control.mutant)
    entries: list[Claim | Control] = [*scenario.claims, *controls]
    for number, entry in enumerate(entries):
        others = ((place, other) for place, other in enumerate(entries) if place != number)
        premises = [(place, other) for place, other in others if _is_premise(other, entry)]
        edges = [edge for place, other in premises for edge in _edges(scenario, other.ratio, other.expect, place)]
        used = _entries_behind(list(_edges(scenario, entry.ratio, entry.expect, number)), edges)
        if used is not None:
            by = "; ".join(other.ratio.text for place, other in enumerate(entries) if place in used)
            is_claim = isinstance(entry, Claim)
            index = number if is_claim else scenario.controls.index(entry)
            section = CLAIMS if is_claim else CONTROLS
            message = f"this {type(entry).__name__.lower()} holds whenever others of the file do: {by}"
            yield Refused(section, index, message, "remove it, or name a ratio that they leave open")


def _vacuous(scenario: Scenario) -> Iterator[Refused]:
    """Claims and controls that every figure satisfies, on any kernel: a share is at most 1, a latency at least 1 ns."""
    both: Mapping[str, Sequence[Claim | Control]] = {CLAIMS: scenario.claims, CONTROLS: scenario.controls}
    for section, entries in both.items():
        for index, entry in enumerate(entries):
            wanted = list(_edges(scenario, entry.ratio, entry.expect, index))
            known = [edge for operand in (entry.ratio.left, entry.ratio.right) for edge in _nature(operand, index)]
            if _entries_behind(wanted, known) is not None:
                remedy = "name the bound that separates a kernel with the fault from one without"
                yield Refused(section, index, f'"{entry.expect.text}" holds on every kernel', remedy)


def _nature(operand: Operand | None, entry: int) -> Iterator[_Edge]:
    """What is true of a figure whatever is measured."""
    if operand is not None and operand.kind in (FIGURE, BASELINE):
        name, figure = ".".join((operand.kind, *operand.path)), figure_of(*operand.key[1:])
        if figure.least:
            yield _Edge(name, _ONE, -log(figure.least), open=False, entry=entry)
        if figure.most < inf:
            yield _Edge(_ONE, name, log(figure.most), open=False, entry=entry)


def _is_premise(premise: Claim | Control, entry: Claim | Control) -> bool:
    decides = isinstance(entry, Control) if isinstance(premise, Control) else premise.decides and not premise.known
    return decides and premise.kernels in ("", entry.kernels)


def _entries_behind(wanted: Sequence[_Edge], edges: Sequence[_Edge]) -> set[int] | None:
    """The entries by which all of ``wanted`` follow from ``edges``; None when one does not."""
    used: set[int] = set()
    for edge in wanted:
        path = _shortest(edge.start, edge.to, edges)
        if path is None:
            return None
        room = edge.most - sum(step.most for step in path)
        as_strict = not edge.open or any(step.open for step in path)
        if room < (-_ROUNDING if as_strict else _ROUNDING):
            return None
        used |= {step.entry for step in path}
    return used if wanted else None


def _shortest(start: str, end: str, edges: Sequence[_Edge]) -> tuple[_Edge, ...] | None:
    """The steps of the shortest path, () from a node to itself; None without one."""
    paths: dict[str, tuple[float, tuple[_Edge, ...]]] = {start: (0.0, ())}
    nodes = {node for edge in edges for node in (edge.start, edge.to)}
    for _ in nodes:
        for edge in edges:
            if edge.start in paths:
                length = paths[edge.start][0] + edge.most
                if length < paths.get(edge.to, (inf, ()))[0] - _ROUNDING:
                    paths[edge.to] = length, (*paths[edge.start][1], edge)
    return paths[end][1] if end in paths else None


def _edges(scenario: Scenario, ratio: Ratio, expect: Bound, entry: int) -> Iterable[_Edge]:
    left, right = _node(scenario, ratio.left), _node(scenario, ratio.right)
    if left is None or right is None:
        return
    (over, plus), (under, minus) = left, right
    # With plus and minus the logarithms of constants: low <= (over + plus) - (under + minus) <= high.
    if expect.high:
        yield _Edge(under, over, log(expect.high) - plus + minus, expect.high_open, entry)
    if expect.low:
        yield _Edge(over, under, plus - minus - log(expect.low), expect.low_open, entry)


def _node(scenario: Scenario, operand: Operand | None) -> tuple[str, float] | None:
    """An operand's node, and the logarithm to add to it; None for zero, which has none."""
    if operand is None:
        return _ONE, 0.0
    if operand.kind == NUMBER:
        return (_ONE, log(operand.number)) if operand.number else None
    name = ".".join((operand.kind, *operand.path))
    if operand.kind != BOUND:
        return name, 0.0
    arm, load, role, metric = operand.path
    try:
        return _ONE, log(arm_bound(scenario.arms[arm], scenario.loads[load], role, metric))
    except Misuse:
        return name, 0.0

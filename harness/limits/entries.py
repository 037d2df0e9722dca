# SPDX-License-Identifier: GPL-2.0-only
"""What the claims and controls of a scenario say of each other, whatever a kernel does.

A claim or control that follows from the others of its file is refused. A bound on a ratio is a bound on the difference
of two logarithms, so that the tightest bound that claims put together give on a ratio is a shortest path between its
operands (R. Bellman, On a Routing Problem, 1958). What the topology allows (``bound.``) and numbers are constants, that
is one node.

A killer of a claim is what makes it fail: an entry of its file that measures the same on a mutant, or in another arm or
load. Its ratio is the claim's, with another arm, load or role in its place throughout, and no value is within the
bounds of both. On a mutant or other kernels the ratio must be the claim's own. An entry of ``known`` is a killer too: a
run in which the claim holds there does not pass.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf, log
from pathlib import Path

from harness.base.checkout import SCENARIOS
from harness.limits.limits import arm_bound
from harness.scenario.load import Refused, read_scenario
from harness.scenario.model import Bound, Claim, Control, Operand, Ratio, Scenario
from harness.scenario.ratio import BASELINE, BOUND, FIGURE, NUMBER
from harness.scenario.registry import figure_of
from harness.scenario.schema import CLAIMS, CONTROLS
from lab.base.errors import Misuse

UNPROVEN = "unproven"
_PARTS = ("arm", "load", "role")
_ONE = "1"
_ROUNDING = 1e-9


def load_scenario(ref: str, *, search: Path = SCENARIOS) -> Scenario:
    """As ``harness.scenario.load.read_scenario``; a claim or an arm control that is implied is a mistake too."""
    return read_scenario(ref, search=search, check=implied)


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


def killers(scenario: Scenario, claim: Claim) -> tuple[str, ...]:
    """Names such as ``mutant no-fair-tags``, ``arm one-queue``, ``load halves``, ``kernels < 5.17``; none: unproven."""
    named = (killer(scenario, entry, claim) for entry in entries(scenario, claim))
    return tuple(dict.fromkeys((*filter(None, named), *(f"kernels {known.kernels}" for known in claim.known))))


def entries(scenario: Scenario, claim: Claim) -> tuple[Control | Claim, ...]:
    """What may be a killer of the claim: the controls, and the other claims that every run must hold."""
    others = (other for other in scenario.claims if other != claim and not other.optional and not other.known)
    return (*scenario.controls, *others)


def killer(scenario: Scenario, entry: Control | Claim, claim: Claim) -> str:
    """What the entry has in place of the claim's arm, load, role or kernel; empty when it does not kill the claim."""
    (mine, unit), (theirs, other_unit) = (_without_unit(scenario, each.ratio) for each in (entry, claim))
    swaps = _swaps(mine, theirs)
    if swaps is None or _overlap(_in_unit(entry.expect, unit), _in_unit(claim.expect, other_unit)):
        return ""
    moved = ", ".join(f"{part} {new}" for (part, old), new in swaps.items() if new != old)
    if isinstance(entry, Control) and entry.mutant:
        return "" if moved else f"mutant {entry.mutant}"
    return moved or (f"kernels {entry.kernels}" if entry.kernels else "")


def unit_of(scenario: Scenario, entry: Control | Claim, claim: Claim) -> float:
    """What the entry's figure is multiplied by to be in the claim's unit: both may be divided by other constants."""
    return _without_unit(scenario, entry.ratio)[1] / _without_unit(scenario, claim.ratio)[1]


def _without_unit(scenario: Scenario, ratio: Ratio) -> tuple[Ratio, float]:
    """A ratio without the constant that it is divided by, and that constant: its unit."""
    right = ratio.right
    if right is not None and right.kind == NUMBER:
        return replace(ratio, right=None), right.number
    if right is not None and right.kind == BOUND:
        arm, load, role, metric = right.path
        with suppress(Misuse):
            return replace(ratio, right=None), arm_bound(scenario.arms[arm], scenario.loads[load], role, metric)
    return ratio, 1.0


def _in_unit(bound: Bound, unit: float) -> Bound:
    low, high = (None if side is None else side * unit for side in (bound.low, bound.high))
    return replace(bound, low=low, high=high)


def _overlap(first: Bound, second: Bound) -> bool:
    lows = [bound.low for bound in (first, second) if bound.low is not None]
    highs = [bound.high for bound in (first, second) if bound.high is not None]
    if not lows or not highs or max(lows) < min(highs):
        return True
    return max(lows) == min(highs) and first.holds(max(lows)) and second.holds(max(lows))


def _swaps(entry: Ratio, claim: Ratio) -> dict[tuple[str, str], str] | None:
    """The arm, load and role in ``one`` for each of ``of``; None when they do not measure the same."""
    swaps: dict[tuple[str, str], str] = {}
    for mine, theirs in ((entry.left, claim.left), (entry.right, claim.right)):
        if mine is None or theirs is None:
            if mine is not theirs:
                return None
        elif (mine.kind, mine.number, mine.path[3:]) != (theirs.kind, theirs.number, theirs.path[3:]):
            return None
        for part, new, old in zip(_PARTS, mine.path if mine else (), theirs.path if theirs else (), strict=False):
            if swaps.setdefault((part, old), new) != new:
                return None
    return swaps

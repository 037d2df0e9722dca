# SPDX-License-Identifier: GPL-2.0-only
"""Two profiles, function by function, per I/O; the deltas add up to the difference of the totals."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from harness.profile.model import Cost, Function, Profile

_PARTS = re.compile(r"(\.(isra|part|constprop|cold|llvm|lto_priv)(\.\d+)?)+$")
_MAIN = Fraction(9, 10)
"""The share of a function's calls that come from the caller into which it may have been inlined."""
_SAME = Fraction(1, 4)
"""A function's cost is shifted when at most this share of it is left over in the sum with its caller's delta."""


@dataclass(frozen=True)
class FunctionChange:
    """What a function itself cost per I/O, and its calls from other functions.

    ``inlined`` are functions that one side has within it and the other apart.
    """

    function: Function
    before: Cost
    after: Cost
    inlined: tuple[Function, ...] = ()

    @property
    def delta(self) -> Fraction:
        return Fraction(self.after.instructions - self.before.instructions)

    @property
    def note(self) -> str:
        if not self.before.instructions:
            return "new"
        return "" if self.after.instructions else "gone"


@dataclass(frozen=True)
class Differential:
    """``changes`` with the largest first."""

    before: Profile
    after: Profile
    changes: tuple[FunctionChange, ...]

    @property
    def totals(self) -> tuple[Fraction, Fraction]:
        return self.before.per_io(self.before.total), self.after.per_io(self.after.total)

    @property
    def rest(self) -> Fraction:
        """What is left of the difference of the totals when every change is taken away: the unexplained part."""
        before, after = self.totals
        return after - before - sum((change.delta for change in self.changes), Fraction())


def canonical(function: Function) -> Function:
    """The function as the source has it, without the compiler's parts and clones."""
    return Function(function.context, function.owner, _PARTS.sub("", function.name))


def source_costs(profile: Profile) -> dict[Function, Cost]:
    """What each function of the source cost per I/O, most expensive first. A call from one of its own parts is none."""
    costs: dict[Function, Cost] = defaultdict(Cost)
    for node in profile.nodes:
        own = canonical(node.function)
        caller = profile.nodes[node.parent].function if node.parent is not None else None
        inner = caller is not None and caller != node.function and canonical(caller) == own
        costs[own] += Cost(profile.per_io(0 if inner else node.calls), profile.per_io(node.instructions))
    return dict(sorted(costs.items(), key=lambda item: (-item[1].instructions, item[0])))


def differential(before: Profile, after: Profile) -> Differential:
    old, new = source_costs(before), source_costs(after)
    changes = [
        FunctionChange(function, old.get(function, Cost()), new.get(function, Cost()))
        for function in sorted(old.keys() | new.keys())
    ]
    merged = _with_shifts(changes, _main_callers(before) | _main_callers(after))
    ordered = sorted(merged, key=lambda change: (-abs(change.delta), change.function))
    return Differential(before, after, tuple(ordered))


def _with_shifts(changes: Sequence[FunctionChange], callers: Mapping[Function, Function]) -> list[FunctionChange]:
    """The changes, with functions of one side joined to the caller that has their cost on the other side."""
    left = {change.function: change for change in changes}
    by_caller: dict[Function, list[FunctionChange]] = defaultdict(list)
    for change in changes:
        if change.note and change.function in callers:
            by_caller[callers[change.function]].append(change)
    for caller in sorted(by_caller):
        if caller not in left or left[caller].note:
            continue
        for inlined in _shifts(left[caller], by_caller[caller]):
            host = left[caller]
            before = host.before + Cost(0, inlined.before.instructions)
            after = host.after + Cost(0, inlined.after.instructions)
            left[caller] = FunctionChange(caller, before, after, (*host.inlined, inlined.function))
            del left[inlined.function]
    return list(left.values())


def _shifts(caller: FunctionChange, candidates: Iterable[FunctionChange]) -> list[FunctionChange]:
    """Those of the candidates whose cost the caller gave or took: all together, or the one that fits best."""
    opposite = [change for change in candidates if change.delta * caller.delta < 0]
    by_fit = sorted(opposite, key=lambda change: abs(change.delta + caller.delta))
    for group in (opposite, *([change] for change in by_fit)):
        moved = sum((change.delta for change in group), Fraction())
        if group and abs(moved + caller.delta) <= _SAME * abs(moved):
            return group
    return []


def _main_callers(profile: Profile) -> dict[Function, Function]:
    """The one caller of each function that has one for nearly all of its calls."""
    calls: dict[Function, Counter[Function]] = defaultdict(Counter)
    for (caller, callee), cost in profile.edges.items():
        if canonical(caller) != canonical(callee):
            calls[canonical(callee)][canonical(caller)] += int(cost.calls)
    mains = {}
    for callee, by_caller in calls.items():
        most = max(by_caller, key=lambda caller: (by_caller[caller], caller))
        if 0 < by_caller[most] >= _MAIN * by_caller.total():
            mains[callee] = most
    return mains

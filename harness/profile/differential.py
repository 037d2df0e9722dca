# SPDX-License-Identifier: GPL-2.0-only
"""Two profiles, function by function, per I/O; the deltas add up to the difference of the totals."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from harness.profile.model import Function, Profile

_PARTS = re.compile(r"(\.(isra|part|constprop|cold|llvm|lto_priv)(\.\d+)?)+$")
_MAIN = Fraction(9, 10)
"""The share of a function's calls that come from the caller into which it may have been inlined."""
_SAME = Fraction(1, 4)
"""A function's cost is shifted when at most this share of it is left over in the sum with its caller's delta."""


@dataclass(frozen=True)
class Spent:
    """Per I/O: calls from other functions, and instructions of the function itself."""

    calls: Fraction = Fraction()
    instructions: Fraction = Fraction()

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.calls + other.calls, self.instructions + other.instructions)


@dataclass(frozen=True)
class FunctionChange:
    """A function before and after. ``inlined`` are functions that one side has within it and the other apart."""

    function: Function
    before: Spent
    after: Spent
    inlined: tuple[Function, ...] = ()

    @property
    def delta(self) -> Fraction:
        return self.after.instructions - self.before.instructions

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


def spent(profile: Profile) -> Mapping[Function, Spent]:
    """What each function of the source cost per I/O. A call from one of its own parts is none."""
    found: dict[Function, Spent] = defaultdict(Spent)
    for node in profile.nodes:
        own = canonical(node.function)
        caller = profile.nodes[node.parent].function if node.parent is not None else None
        inner = caller is not None and caller != node.function and canonical(caller) == own
        calls = 0 if inner else node.calls
        found[own] += Spent(profile.per_io(calls), profile.per_io(node.instructions))
    return dict(found)


def differential(before: Profile, after: Profile) -> Differential:
    old, new = spent(before), spent(after)
    changes = [
        FunctionChange(one, old.get(one, Spent()), new.get(one, Spent())) for one in sorted(old.keys() | new.keys())
    ]
    merged = _with_shifts(changes, before, after)
    ordered = sorted(merged, key=lambda change: (-abs(change.delta), change.function))
    return Differential(before, after, tuple(ordered))


def _with_shifts(changes: Sequence[FunctionChange], before: Profile, after: Profile) -> list[FunctionChange]:
    """The changes, with functions of one side joined to the caller that has their cost on the other side."""
    left = {change.function: change for change in changes}
    callers = _main_callers(before) | _main_callers(after)
    by_caller: dict[Function, list[FunctionChange]] = defaultdict(list)
    for change in changes:
        if change.note and change.function in callers:
            by_caller[callers[change.function]].append(change)
    for caller in sorted(by_caller):
        if caller not in left or left[caller].note:
            continue
        for inlined in _shifted(left[caller], by_caller[caller]):
            host = left[caller]
            left[caller] = FunctionChange(
                caller,
                host.before + Spent(instructions=inlined.before.instructions),
                host.after + Spent(instructions=inlined.after.instructions),
                (*host.inlined, inlined.function),
            )
            del left[inlined.function]
    return list(left.values())


def _shifted(caller: FunctionChange, candidates: Iterable[FunctionChange]) -> list[FunctionChange]:
    """Those of the candidates whose cost the caller gave or took: all together, or the one that fits best."""
    opposite = [one for one in candidates if one.delta * caller.delta < 0]
    for group in (opposite, *([one] for one in sorted(opposite, key=lambda one: abs(one.delta + caller.delta)))):
        moved = sum((one.delta for one in group), Fraction())
        if group and abs(moved + caller.delta) <= _SAME * abs(moved):
            return list(group)
    return []


def _main_callers(profile: Profile) -> dict[Function, Function]:
    """The one caller of each function that has one for nearly all of its calls."""
    calls: dict[Function, dict[Function, int]] = defaultdict(lambda: defaultdict(int))
    for (caller, callee), cost in profile.edges.items():
        if canonical(caller) != canonical(callee):
            calls[canonical(callee)][canonical(caller)] += cost.calls
    mains = {}
    for callee, by_caller in calls.items():
        most = max(by_caller, key=lambda caller: (by_caller[caller], caller))
        if by_caller[most] >= _MAIN * sum(by_caller.values()) and by_caller[most]:
            mains[callee] = most
    return mains

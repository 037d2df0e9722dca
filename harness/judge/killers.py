# SPDX-License-Identifier: GPL-2.0-only
"""What makes a claim fail: entries of its file that measure the same on a mutant, or in another arm or load.

The ratio of a killer is the claim's, with another arm, load or role in its place throughout, and no value is within the
bounds of both; numbers and ``bound.*`` are constants. On a mutant or other kernels the ratio must be the claim's own.
An entry of ``known`` is a killer too: a run in which the claim holds there does not pass.
"""

from contextlib import suppress
from dataclasses import dataclass, replace

from harness.limits.limits import arm_bound
from harness.scenario.model import Bound, Claim, Control, Operand, Ratio, Scenario
from harness.scenario.ratio import BOUND, NUMBER
from lab.base.errors import Misuse

UNPROVEN = "unproven"
_PARTS = ("arm", "load", "role")


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
    mine, theirs = _without_unit(scenario, entry.ratio), _without_unit(scenario, claim.ratio)
    swaps = _swaps(mine, theirs)
    if swaps is None or _overlap(_in_unit(entry.expect, mine.unit), _in_unit(claim.expect, theirs.unit)):
        return ""
    moved = ", ".join(f"{part} {new}" for (part, old), new in swaps.items() if new != old)
    if isinstance(entry, Control) and entry.mutant:
        return "" if moved else f"mutant {entry.mutant}"
    return moved or (f"kernels {entry.kernels}" if entry.kernels else "")


def unit_of(scenario: Scenario, entry: Control | Claim, claim: Claim) -> float:
    """What the entry's figure is multiplied by to be in the claim's unit: both may be divided by other constants."""
    return _without_unit(scenario, entry.ratio).unit / _without_unit(scenario, claim.ratio).unit


@dataclass(frozen=True)
class _Measured:
    """A ratio without the constant that it is divided by: its ``unit``."""

    left: Operand
    right: Operand | None
    unit: float = 1.0


def _without_unit(scenario: Scenario, ratio: Ratio) -> _Measured:
    right = ratio.right
    if right is not None and right.kind == NUMBER:
        return _Measured(ratio.left, None, right.number)
    if right is not None and right.kind == BOUND:
        arm, load, role, metric = right.path
        with suppress(Misuse):
            return _Measured(ratio.left, None, arm_bound(scenario.arms[arm], scenario.loads[load], role, metric))
    return _Measured(ratio.left, right)


def _in_unit(bound: Bound, unit: float) -> Bound:
    low, high = (None if side is None else side * unit for side in (bound.low, bound.high))
    return replace(bound, low=low, high=high)


def _overlap(first: Bound, second: Bound) -> bool:
    lows = [bound.low for bound in (first, second) if bound.low is not None]
    highs = [bound.high for bound in (first, second) if bound.high is not None]
    if not lows or not highs or max(lows) < min(highs):
        return True
    return max(lows) == min(highs) and first.holds(max(lows)) and second.holds(max(lows))


def _swaps(entry: _Measured, claim: _Measured) -> dict[tuple[str, str], str] | None:
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

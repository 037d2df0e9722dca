# SPDX-License-Identifier: GPL-2.0-only
"""What makes a claim fail: the controls of its file that measure the same on a mutant, or in another arm or load.

A control is a killer of a claim when its ratio is the claim's, with another arm, load or role in place of the claim's
throughout, and no value is within the bounds of both; numbers, and what the topology allows, are constants. An entry of
``known`` is one too: on those kernels the claim fails, for a run in which it holds there does not pass.
"""

from contextlib import suppress
from dataclasses import dataclass, replace

from harness.limits.bounds import arm_bound
from harness.scenario.model import Bound, Claim, Control, Operand, Ratio, Scenario
from harness.scenario.ratio import BOUND, NUMBER
from lab.base.errors import Misuse

UNPROVEN = "unproven"
_PARTS = ("arm", "load", "role")


def killers(scenario: Scenario, claim: Claim) -> tuple[str, ...]:
    """Names such as ``mutant no-fair-tags``, ``arm one-queue``, ``load halves``, ``kernels < 5.17``; none: unproven."""
    found = (killer(scenario, control, claim) for control in scenario.controls)
    return tuple(dict.fromkeys((*filter(None, found), *(f"kernels {one.kernels}" for one in claim.known))))


def killer(scenario: Scenario, control: Control, claim: Claim) -> str:
    """What the control has in place of the claim's arm, load, role or kernel; empty when it kills no claim."""
    mine, theirs = _measured(scenario, control.ratio), _measured(scenario, claim.ratio)
    swaps = _swaps(mine, theirs)
    if swaps is None or _overlap(_scaled(control.expect, mine.unit), _scaled(claim.expect, theirs.unit)):
        return ""
    if control.mutant:
        return f"mutant {control.mutant}"
    return ", ".join(f"{part} {new}" for (part, old), new in swaps.items() if new != old)


@dataclass(frozen=True)
class _Measured:
    """A ratio without the constant that it is divided by: its ``unit``."""

    left: Operand
    right: Operand | None
    unit: float = 1.0


def _measured(scenario: Scenario, ratio: Ratio) -> _Measured:
    right = ratio.right
    if right is not None and right.kind == NUMBER:
        return _Measured(ratio.left, None, right.number)
    if right is not None and right.kind == BOUND:
        arm, load, role, metric = right.path
        with suppress(Misuse):
            return _Measured(ratio.left, None, arm_bound(scenario.arms[arm], scenario.loads[load], role, metric))
    return _Measured(ratio.left, right)


def _scaled(bound: Bound, unit: float) -> Bound:
    low, high = (None if side is None else side * unit for side in (bound.low, bound.high))
    return replace(bound, low=low, high=high)


def _overlap(one: Bound, other: Bound) -> bool:
    lows = [bound.low for bound in (one, other) if bound.low is not None]
    highs = [bound.high for bound in (one, other) if bound.high is not None]
    if not lows or not highs or max(lows) < min(highs):
        return True
    return max(lows) == min(highs) and one.holds(max(lows)) and other.holds(max(lows))


def _swaps(one: _Measured, of: _Measured) -> dict[tuple[str, str], str] | None:
    """The arm, load and role in ``one`` for each of ``of``; None when they do not measure the same."""
    swaps: dict[tuple[str, str], str] = {}
    for mine, theirs in ((one.left, of.left), (one.right, of.right)):
        if mine is None or theirs is None:
            if mine is not theirs:
                return None
        elif (mine.kind, mine.number, mine.path[3:]) != (theirs.kind, theirs.number, theirs.path[3:]):
            return None
        for part, new, old in zip(_PARTS, mine.path if mine else (), theirs.path if theirs else (), strict=False):
            if swaps.setdefault((part, old), new) != new:
                return None
    return swaps

# SPDX-License-Identifier: GPL-2.0-only
"""The cells of a scenario, in the order in which they are measured."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.base.plain import identity
from harness.scenario.model import Arm, Cell, Clock, Load, Scenario
from lab.base.errors import Misuse
from lab.yaml.strict import names, nearest


def expand(scenario: Scenario, seeds: int | None = None, arms: Sequence[str] | None = None) -> tuple[Cell, ...]:
    """All cells, seed by seed, so every ratio has a value after the first round.

    On the wall clock every other round is in reverse order (A B B A), so a drift affects all arms alike. ``seeds``
    overrides the scenario's number, ``arms`` selects arms, in the order of the file. Raises Misuse for an unknown arm
    and for fewer than one seed.
    """
    count = scenario.seeds if seeds is None else seeds
    if count < 1:
        raise Misuse(f"seeds: expected at least 1, got {count}")
    chosen = set(scenario.arms) if arms is None else set(arms)
    for name in sorted(chosen - set(scenario.arms)):
        raise Misuse(
            f"scenario {scenario.name} has no arm {name}{nearest(name, scenario.arms)}",
            remedy=f"known: {names(scenario.arms)}",
        )
    forwards = [arm for arm in scenario.arms.values() if arm.name in chosen]
    backwards = forwards[::-1] if scenario.clock is Clock.WALL else forwards
    return tuple(
        Cell(scenario, arm, seed) for seed in range(1, count + 1) for arm in (forwards if seed % 2 else backwards)
    )


def variant(
    scenario: Scenario, word: str, arms: Mapping[str, Arm], loads: Mapping[str, Load] | None = None
) -> Scenario:
    """``scenario`` as ``NAME.word`` with other arms (and loads). Ratios to reproduce are kept, claims are not."""
    loads = scenario.loads if loads is None else loads
    made = replace(
        scenario, name=f"{scenario.name}.{word}", arms=arms, loads=loads, claims=(), controls=(), selftest=None
    )
    return replace(made, digest=identity(made))

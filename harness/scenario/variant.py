# SPDX-License-Identifier: GPL-2.0-only
"""A scenario with other arms or loads, under its own name and digest, without claims."""

from collections.abc import Mapping
from dataclasses import replace

from harness.base.plain import identity
from harness.scenario.model import Arm, Load, Scenario


def variant(
    scenario: Scenario, word: str, arms: Mapping[str, Arm], loads: Mapping[str, Load] | None = None
) -> Scenario:
    """``scenario`` as ``NAME.word`` with other arms (and loads). Ratios to reproduce are kept, claims are not."""
    loads = scenario.loads if loads is None else loads
    return replace(
        scenario,
        name=f"{scenario.name}.{word}",
        digest=identity([scenario.digest, word, arms, loads]),
        arms=arms,
        loads=loads,
        claims=(),
        controls=(),
        selftest=None,
    )

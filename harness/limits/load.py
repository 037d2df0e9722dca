# SPDX-License-Identifier: GPL-2.0-only
"""Scenario files, without claims and controls that follow from the others of their file."""

from collections.abc import Iterator
from pathlib import Path

from harness.limits.implied import implied
from harness.scenario import load
from harness.scenario.load import Refused
from harness.scenario.model import Scenario


def load_scenario(ref: str, *, search: Path) -> Scenario:
    """As ``harness.scenario.load.load_scenario``; a claim or an arm control that is implied is a mistake too."""
    return load.load_scenario(ref, search=search, check=_implied)


def _implied(scenario: Scenario) -> Iterator[Refused]:
    for one in implied(scenario):
        section, what = ("controls", "control") if one.control else ("claims", "claim")
        yield Refused(
            section,
            one.index,
            f"this {what} holds whenever others of the file do: {'; '.join(one.by)}",
            "remove it, or name a ratio that they leave open",
        )

# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios chosen by what a change touches, from the measured list of executed functions."""

from collections.abc import Sequence

from harness.commands.common.options import EXECUTED
from harness.patch.choice import CodeChange, ScenarioChoice, choose
from harness.scenario.model import Scenario
from harness.studies.executed import REMAKE, load_executed
from lab.base.errors import LabBroken
from lab.kernels.mutants import catalogue


def chosen_by(change: CodeChange, scenarios: Sequence[Scenario]) -> ScenarioChoice:
    """Raises LabBroken where the list was never measured."""
    executed = load_executed(EXECUTED)
    if executed is None:
        raise LabBroken(f"there is no {EXECUTED}", remedy=REMAKE)
    return choose(change, executed, scenarios, catalogue())

# SPDX-License-Identifier: GPL-2.0-only
"""Cells come seed by seed, in the order of the file."""

from pathlib import Path

import pytest

from harness.scenario.expand import expand
from lab.base.errors import Misuse
from tests.unit.scenario_text import GOOD, load


def test_every_arm_is_measured_before_the_next_seed(tmp_path: Path) -> None:
    cells = [(cell.arm.name, cell.seed) for cell in expand(load(GOOD, tmp_path))]
    assert cells == [("shared", 1), ("limited", 1), ("shared", 2), ("limited", 2)]


def test_seeds_and_arms_can_be_chosen(tmp_path: Path) -> None:
    cells = expand(load(GOOD, tmp_path), seeds=3, arms=["limited"])
    assert [(cell.arm.name, cell.seed) for cell in cells] == [("limited", 1), ("limited", 2), ("limited", 3)]


def test_unknown_arms_and_zero_seeds_are_refused(tmp_path: Path) -> None:
    scenario = load(GOOD, tmp_path)
    with pytest.raises(Misuse, match="no arm limitde, did you mean limited"):
        expand(scenario, arms=["limitde"])
    with pytest.raises(Misuse, match="at least 1, got 0"):
        expand(scenario, seeds=0)

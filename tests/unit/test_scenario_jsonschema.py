# SPDX-License-Identifier: GPL-2.0-only
"""The schema for editors agrees with the loader, as both read the same tables."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from harness.scenario.load import find_scenarios
from harness.scenario.reference import json_schema
from lab.yaml.strict import Problems, parse, plain_value
from tests.unit.scenario_text import GOOD

SCENARIOS = find_scenarios(Path(__file__).parents[2] / "scenarios")


def is_valid(text: str) -> bool:
    problems = Problems()
    value = plain_value(parse(text.encode(), "s.yaml", problems))
    problems.raise_if_any()
    return bool(Draft202012Validator(json_schema()).is_valid(value))


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(json_schema())
    assert json.loads(json.dumps(json_schema())) == json_schema()


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_bundled_scenarios_are_valid(name: str) -> None:
    assert is_valid(SCENARIOS[name].read_text())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("iodepth: 256", "iodpeth: 256"),
        ("iodepth: 256", 'iodepth: "256"'),
        ("bs: 4k", "bs: 4x"),
        ("title:", "titel:"),
        ("hba.cmd_per_lun: 16", "hba.cmd_per_lum: 16"),
        ("hba.cmd_per_lun: 16", "queue.scheduler: as"),
        ("schema: 1", "schema: 2"),
        ('">= 0.9"', '"about 0.9"'),
        ("    hog:", "    HOG:"),
        ("  shared: {", "  baseline: {"),
        ("controls:", "claims2:"),
    ],
)
def test_mistakes_are_not_valid(old: str, new: str) -> None:
    assert is_valid(GOOD)
    assert old in GOOD
    assert not is_valid(GOOD.replace(old, new))


def test_window_is_not_read_as_a_role() -> None:
    assert is_valid(GOOD.replace("  solo:\n", "  solo:\n    window: {ramp: 0s, runtime: 2s}\n"))
    assert not is_valid(GOOD.replace("  solo:\n", "  solo:\n    window: {disk: p1, rw: read, bs: 4k, iodepth: 1}\n"))

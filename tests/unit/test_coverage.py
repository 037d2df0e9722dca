# SPDX-License-Identifier: GPL-2.0-only
"""The list of functions that each load executes: written, read, and measured again."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from harness.limits.entries import load_scenario
from harness.patch.choice import Coverage, load_coverage
from harness.run.bench import Bench
from harness.run.plan import Request
from lab.base.errors import LabBroken
from lab.kernels.model import Kernel
from lab.topology.model import Processors
from tests.unit.series_samples import by_function
from tools.coverage import observe, save_coverage, with_scenario


def test_the_list_of_executed_functions_survives_its_file(tmp_path: Path) -> None:
    loads = {
        "a.x.one": frozenset({"f", "g"}),
        "a.x.two": frozenset({"f"}),
        "b.y.one": frozenset({"f", "g", "h"}),
    }
    executed = Coverage("6.12", {"a": "1", "b": "2"}, by_function(loads))
    path = tmp_path / "executed.json"
    save_coverage(path, executed)
    assert load_coverage(path) == executed
    assert load_coverage(tmp_path / "absent.json") is None
    path.write_text(path.read_text().replace('"0,2"', '"0,9"'))
    with pytest.raises(LabBroken, match="damaged"):
        load_coverage(path)


@pytest.mark.parametrize("processors", [Processors(2), Processors(counted=True)])
def test_arms_in_which_another_plugin_counts_are_not_observed(processors: Processors) -> None:
    plain = load_scenario("waiters")
    arms = {
        name: replace(arm, topology=replace(arm.topology, processors=processors)) for name, arm in plain.arms.items()
    }
    counted = replace(plain, arms=arms)
    assert observe(cast(Bench, None), Request(counted, cast(Kernel, None))) == {}


def test_a_scenario_that_is_observed_again_replaces_its_loads() -> None:
    scenario = load_scenario("waiters")
    before = Coverage("6.12", {"waiters": "old"}, by_function({"waiters.a.b": {"f"}, "other.a.b": {"g"}}))
    assert before.outdated([scenario]) == ["waiters"]
    after = with_scenario(before, scenario, {"waiters.c.d": frozenset({"h"})})
    assert set(after.loads) == {"waiters.c.d", "other.a.b"}
    assert after.outdated([scenario]) == []

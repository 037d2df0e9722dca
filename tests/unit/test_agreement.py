# SPDX-License-Identifier: GPL-2.0-only
"""One ratio on both clocks: from two folders of runs to a table and an exit code."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.plain import identity
from harness.commands.common.options import WALL
from harness.judge.ensemble import Ensemble
from harness.record.store import Store
from harness.scenario.load import find_scenarios, load_scenario
from harness.scenario.model import Agreement, Clock, Scenario
from harness.studies.agreement import BothClocks, OnTheWall, both_clocks, counterpart, page
from lab.base.errors import InputErrors, Misuse
from tests.unit.scenario_text import GOOD, load

SCENARIOS = Path(__file__).parents[2] / "scenarios"
RATIO = "limited.lopsided.victim.iops / limited.solo.victim.iops"
MEASURED = (0.91, 0.95, 0.93, 0.92, 0.94, 0.93)


def row(virtual: tuple[float, ...] = (0.9, 0.94), wall: tuple[float, ...] = MEASURED, because: str = "") -> BothClocks:
    first, second = (Ensemble(dict(enumerate(values, start=1))) if values else None for values in (virtual, wall))
    return BothClocks("t-megasas", "t", "the share", "6.1", first, second, because)


def test_they_agree_where_range_and_interval_meet() -> None:
    assert row().agree is True
    assert row(virtual=(0.95,)).agree is True
    assert row(virtual=(0.954,)).agree is True
    assert row(virtual=(0.96, 0.99)).agree is False
    assert row(virtual=(0.8, 0.9)).agree is False


@pytest.mark.parametrize(("virtual", "wall"), [((), MEASURED), ((0.9,), ()), ((0.9,), MEASURED[:5])])
def test_without_either_or_with_too_few_boots_there_is_no_result(
    virtual: tuple[float, ...], wall: tuple[float, ...]
) -> None:
    found = row(virtual, wall)
    assert found.agree is None
    assert not found.unexplained
    assert page([found], [], "x").count("| - |") >= 1


def test_a_difference_needs_its_reason() -> None:
    assert row(virtual=(0.5,)).unexplained
    assert not row(virtual=(0.5,), because="the bus is emulated").unexplained
    text = page([row(virtual=(0.5,), because="the bus is emulated"), row()], [], "blklab check pages")
    assert "| t-megasas, t | the share | 6.1 | 0.5000 | 0.9299 [0.9100 .. 0.9500], 6 boots | **no** |" in text
    assert "- t-megasas: the share: the bus is emulated" in text
    assert text.count("| yes |") == 1
    assert "Wall clock: QEMU 7.2.22." in page([replace(row(), machine="QEMU 7.2.22")], [], "x")


def test_each_claim_has_its_interval() -> None:
    measured = Ensemble(dict(enumerate(MEASURED, start=1)))
    few = replace(claim := OnTheWall("t-megasas", "the share", "6.1", ">= 0.9", measured), wall=Ensemble({1: 0.9}))
    text = page([row()], [claim, few], "x")
    assert "| t-megasas | the share | 6.1 | 0.9299 [0.9100 .. 0.9500], 6 boots | >= 0.9 |" in text
    assert "| t-megasas | the share | 6.1 | 0.9000, 1 boot: too few | >= 0.9 |" in text


def twins(folder: Path, **changes: object) -> Scenario:
    (folder / "t.yaml").write_text(GOOD)
    scenario = load_scenario("t", search=folder)
    one = Agreement("the share", scenario.claims[0].ratio, "t", RATIO)
    return replace(scenario, name="t-megasas", clock=Clock.WALL, agrees=(replace(one, **changes),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"scenario": "u"}, 'no scenario "u"'),
        ({"theirs": "limited.lopsidde.victim.iops"}, "no load lopsidde, did you mean lopsided. in t"),
        ({"theirs": "3"}, "measures nothing"),
    ],
)
def test_a_twin_that_is_none_is_named(changes: dict[str, object], wrong: str, tmp_path: Path) -> None:
    scenario = twins(tmp_path, **changes)
    with pytest.raises(Misuse, match=wrong):
        counterpart(scenario, scenario.agrees[0], search=tmp_path)


def test_only_the_wall_clock_names_a_twin(tmp_path: Path) -> None:
    text = GOOD + f"agrees:\n  - {{that: x, scenario: u, ratio: {RATIO}}}\n"
    with pytest.raises(InputErrors, match="only a scenario of the wall clock has it"):
        load(text, tmp_path)
    with pytest.raises(InputErrors, match="no arm limitde"):
        load(
            text.replace("ratio: limited.lopsided.victim.iops / l", "ratio: limitde.lopsided.victim.iops / l"), tmp_path
        )


@pytest.mark.parametrize("path", [*find_scenarios(SCENARIOS).values(), *find_scenarios(WALL).values()], ids=str)
def test_twins_of_the_house_are_there(path: Path) -> None:
    scenario = load_scenario(str(path), search=SCENARIOS)
    for one in scenario.agrees:
        counterpart(scenario, one, search=SCENARIOS)


def test_a_twin_may_be_named_after_the_run(tmp_path: Path) -> None:
    named = twins(tmp_path)
    assert identity(named) == identity(replace(named, agrees=()))


def test_without_runs_there_are_no_rows(tmp_path: Path) -> None:
    assert list(both_clocks(Store(tmp_path), twins(tmp_path), search=tmp_path)) == []

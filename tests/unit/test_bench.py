# SPDX-License-Identifier: GPL-2.0-only
"""Which run folder a request works in; whole runs are in tests/process/test_run.py."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.record.store import RunFacts, RunFolder, Store, planned
from harness.run.bench import Bench
from harness.scenario.model import Scenario
from lab.base.errors import Misuse
from tests.unit.scenario_text import GOOD, load
from tests.unit.store_samples import facts


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return load(GOOD, tmp_path)


@pytest.fixture
def wanted(scenario: Scenario) -> RunFacts:
    return facts(scenario, planned([(arm, seed, ()) for seed in (1, 2) for arm in scenario.arms]))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def folder(store: Store, facts: RunFacts, scenario: Scenario) -> AbstractContextManager[RunFolder]:
    return Bench(cast(Any, None), store)._folder(facts, scenario)


def test_an_unfinished_run_of_the_same_facts_is_taken_up(store: Store, scenario: Scenario, wanted: RunFacts) -> None:
    with folder(store, wanted, scenario) as first:
        pass
    with folder(store, replace(wanted, command=("another", "way")), scenario) as second:
        assert second.path == first.path


def test_the_newest_of_several_is(store: Store, scenario: Scenario, wanted: RunFacts) -> None:
    with folder(store, wanted, scenario) as first, folder(store, wanted, scenario) as second:
        assert second.path != first.path, "the first is being worked on"
    with folder(store, wanted, scenario) as third:
        assert third.path == max(first.path, second.path)


def test_a_new_run_that_another_process_locks_first_is_left_to_it(
    store: Store, scenario: Scenario, wanted: RunFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, free = (store.new_run(scenario, wanted) for _ in range(2))
    made = iter((taken, free))
    monkeypatch.setattr(store, "unfinished", lambda name: ())
    monkeypatch.setattr(store, "new_run", lambda scenario, facts: next(made))
    with taken.held(), folder(store, wanted, scenario) as mine:
        assert mine is free
        with pytest.raises(Misuse, match="in use by another process"), mine.held():
            pytest.fail("the lock was given twice")


@pytest.mark.parametrize(
    "change", [{"scenario_digest": "x"}, {"seeds": (1,)}, {"arms": ("shared",)}, {"qemu": "8.0"}, {"baseline": "r"}]
)
def test_other_facts_make_another_run(
    store: Store, scenario: Scenario, wanted: RunFacts, change: dict[str, object]
) -> None:
    with folder(store, wanted, scenario) as first:
        pass
    with folder(store, replace(wanted, **change), scenario) as second:  # type: ignore[arg-type]
        assert second.path != first.path


@pytest.mark.parametrize("damage", [b"", b"{", b"{}", b"[]", b'{"schema": 99}'])
def test_a_damaged_run_is_left_alone(store: Store, scenario: Scenario, wanted: RunFacts, damage: bytes) -> None:
    with folder(store, wanted, scenario) as first:
        (first.path / "run.json").write_bytes(damage)
    with folder(store, wanted, scenario) as second:
        assert second.path != first.path
    assert (first.path / "run.json").read_bytes() == damage


def test_a_judged_run_is_not_taken_up(store: Store, scenario: Scenario, wanted: RunFacts) -> None:
    with folder(store, wanted, scenario) as first:
        (first.path / "verdict.json").write_text("{}")
    with folder(store, wanted, scenario) as second:
        assert second.path != first.path


def test_errors_inside_are_passed_on(store: Store, scenario: Scenario, wanted: RunFacts) -> None:
    """Misuse decides only whether a folder is fit to be taken up, not what happens in it."""
    for _ in range(2):
        with pytest.raises(Misuse, match="the BASE run is gone"), folder(store, wanted, scenario):
            raise Misuse("the BASE run is gone")
    assert len(store.unfinished(scenario.name)) == 1


@pytest.mark.parametrize(("way", "adopting"), [("measure", True), ("run", False)])
def test_a_study_takes_equal_boots_of_other_runs_and_a_run_makes_its_own(
    store: Store, monkeypatch: pytest.MonkeyPatch, way: str, adopting: bool
) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(Bench, "plan", lambda *_: None)
    monkeypatch.setattr(Bench, "earlier", lambda *_: None)
    monkeypatch.setattr(Bench, "_carry_out", lambda *_, adopting: seen.append(adopting))
    getattr(Bench(cast(Any, None), store), way)(None)
    assert seen == [adopting]

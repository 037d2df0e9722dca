# SPDX-License-Identifier: GPL-2.0-only
"""Cells of the wall clock in a matrix: nothing runs at the same time, and they are not measured twice."""

from dataclasses import replace
from typing import Any

import pytest

from harness.base.plain import identity
from harness.grid.measure import MatrixPlan, merge, parts, run_matrix
from harness.record.grid import GridFolder
from harness.record.store import Store
from harness.run.bench import Bench, turns_of_host
from harness.run.events import CellFinished, CellStarted, MatrixEvent
from harness.scenario.load import read_scenario
from harness.scenario.model import Scenario, Status
from harness.scenario.timing import Clock
from lab.base.cache import Cache
from lab.kernels.resolve import resolve
from lab.session import open_lab
from tests.process.fake_lab import CELLS, FakeLab
from tests.process.matrix_lab import lay_out

FIRST_LOOK = 6
"""Rounds after which the rule of a run of 12 boots looks for the first time."""


class Watch:
    """How many boots ran at the same time as one of the wall clock, and as one of the virtual clock."""

    def __init__(self, wall: frozenset[int]) -> None:
        self.wall, self.running, self.beside_wall, self.most = wall, set[tuple[int, int]](), 0, 0

    def __call__(self, event: MatrixEvent) -> None:
        match event:
            case CellStarted(number=number):
                self.running.add((event.cell, number))
                self.most = max(self.most, len(self.running))
                if len(self.running) > 1 and any(cell in self.wall for cell, _ in self.running):
                    self.beside_wall += 1
            case CellFinished(number=number):
                self.running.discard((event.cell, number))


def derived(lab: FakeLab, file: str, **changes: Any) -> Scenario:
    scenario = replace(read_scenario(str(lab.folder / file), search=lab.folder), **changes)
    return replace(scenario, digest=identity(scenario))


def measure(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> tuple[GridFolder, Watch]:
    for name, value in lab.environment(**lab.plan(noise=0.02, iops={"hog": 10.0, "lopsided.victim": 2000.0})).items():
        monkeypatch.setenv(name, value)
    virtual = derived(lab, "t.yaml", seeds=6)
    wall = derived(lab, "u.yaml", clock=Clock.WALL, seeds=12, windows=2)
    cache = Cache(lab.folder / "cache")
    kernels = {f"path:{path}": resolve(f"path:{path}", cache) for path in (lab.folder / "kernel", lab.folder / "other")}
    watch = Watch(frozenset((2, 3)))
    bench = Bench(open_lab(cache), Store(lab.results), turns=turns_of_host(3))
    folder = run_matrix(bench, MatrixPlan((wall, virtual), kernels), watch)
    return folder, watch


def test_the_wall_clock_comes_last_and_alone(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(lab)
    folder, watch = measure(lab, monkeypatch)
    assert [cell.clock for cell in folder.grid.cells] == [Clock.VIRTUAL] * 2 + [Clock.WALL] * 2
    assert {cell.status for cell in folder.grid.cells} == {Status.PASS}
    assert watch.beside_wall == 0
    assert watch.most > 1, "the others do run side by side"
    assert len(lab.boots()) == 2 * 6 * CELLS // 2 + 2 * FIRST_LOOK * 2


def test_what_its_rule_was_content_with_is_not_measured_again(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(lab)
    first, _ = measure(lab, monkeypatch)
    before = len(lab.boots())
    again, _ = measure(lab, monkeypatch)
    assert len(lab.boots()) == before
    assert [cell.run for cell in again.grid.cells] == [cell.run for cell in first.grid.cells]


def test_what_its_rule_was_content_with_is_merged(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(lab)
    folder, _ = measure(lab, monkeypatch)
    store = Store(lab.folder / "merged")
    assert merge(store, parts([lab.results]), ()).grid.cells == folder.grid.cells
    next((lab.results / folder.grid.cells[2].run).glob("boots/*/out/solo*.json")).write_text("{}")
    again = merge(Store(lab.folder / "again"), parts([lab.results]), ()).grid.cells[2]
    assert again.reason.startswith("the run was not merged: ")
    assert "json: checksum is " in again.reason

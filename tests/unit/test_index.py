# SPDX-License-Identifier: GPL-2.0-only
"""index.json is derived: whatever is done to it, it says what the run folders say."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from harness.record.index import FILE, SCHEMA, cells_of, indexed_runs
from tests.unit.record_samples import run_of


def test_it_holds_every_run_that_was_judged(tmp_path: Path) -> None:
    first = run_of(tmp_path, [95.0, 96.0])
    second = run_of(tmp_path, [40.0, 41.0], release="7.2.12+deb14-amd64", day=2)
    run_of(tmp_path, [95.0], day=3, finish=False)
    one, two = indexed_runs(tmp_path)
    assert (one.facts, one.status, one.series, one.boots) == (replace(first.facts, cells=()), "PASS", "6.1", 4)
    assert (two.facts.run_id, two.status, two.series) == (second.facts.run_id, "FAIL", "7.2")
    assert one.seconds == 3.0
    assert one.size > 0


def test_boots_that_were_planned_and_not_needed_do_not_count(tmp_path: Path) -> None:
    verdict = run_of(tmp_path, [95.0, 96.0]).path / "verdict.json"
    document = json.loads(verdict.read_text())
    document["cells"][-1] = {**document["cells"][-1], "status": "MISS", "digest": "", "figures": {}}
    verdict.write_text(json.dumps(document))
    assert [run.boots for run in indexed_runs(tmp_path)] == [3]


def test_figures_of_a_run_by_seed(tmp_path: Path) -> None:
    run_of(tmp_path, [95.0, 96.0])
    cells = cells_of(tmp_path, *indexed_runs(tmp_path))
    found = {cell.seed: cell.figures["together", "fast", "iops"] for cell in cells if cell.arm == "none"}
    assert found == {1: 95.0, 2: 96.0}


def test_it_follows_what_comes_goes_and_is_judged_again(tmp_path: Path) -> None:
    first, second = run_of(tmp_path, [95.0]), run_of(tmp_path, [95.0], day=2)
    assert len(indexed_runs(tmp_path)) == 2
    shutil.rmtree(first.path)
    third = run_of(tmp_path, [95.0], day=3)
    assert [run.facts.run_id for run in indexed_runs(tmp_path)] == [second.facts.run_id, third.facts.run_id]
    verdict = third.path / "verdict.json"
    verdict.write_text(verdict.read_text().replace('"PASS"', '"FAIL"'))
    assert indexed_runs(tmp_path)[-1].status == "FAIL"


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"not an index at all" * 100),
        lambda path: path.write_bytes(path.read_bytes()[:100]),
        lambda path: path.write_text(path.read_text().replace(f'"schema": {SCHEMA}', '"schema": 99')),
        lambda path: path.write_text(path.read_text().replace('"stamp"', '"since"')),
        lambda path: path.write_text(f'{{"schema": {SCHEMA}, "runs": [1, null]}}'),
        Path.unlink,
    ],
    ids=["overwritten", "cut", "other schema", "other fields", "other rows", "gone"],
)
def test_a_damaged_index_is_made_anew(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    run_of(tmp_path, [95.0])
    before = indexed_runs(tmp_path)
    damage(tmp_path / FILE)
    run_of(tmp_path, [96.0], day=2)
    found = indexed_runs(tmp_path)
    assert found[:1] == before
    assert len(found) == 2
    assert len(indexed_runs(tmp_path)) == 2


def test_a_folder_that_cannot_hold_it_has_it_in_memory(tmp_path: Path) -> None:
    run_of(tmp_path, [95.0])
    (tmp_path / FILE).mkdir()
    assert len(indexed_runs(tmp_path)) == 1


def test_a_damaged_run_is_no_run(tmp_path: Path) -> None:
    damaged = run_of(tmp_path, [95.0])
    run_of(tmp_path, [95.0], day=2)
    (damaged.path / "run.json").write_text("{")
    assert len(indexed_runs(tmp_path)) == 1


def test_several_may_bring_it_up_to_date_at_once(tmp_path: Path) -> None:
    for day in range(1, 9):
        run_of(tmp_path, [95.0], day=day)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: len(indexed_runs(tmp_path)), range(12)))
    assert found == [8] * 12
    assert not list(tmp_path.glob(".index*"))

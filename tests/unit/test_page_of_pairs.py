# SPDX-License-Identifier: GPL-2.0-only
"""Pages of several scenarios: a column for each side, and reasons once."""

from dataclasses import replace
from pathlib import Path

from harness.grid.page import Collection, Column, of_pairs, set_page
from harness.record.grid import GridCell
from harness.scenario.model import Status
from tests.unit.page_samples import page_run
from tests.unit.record_samples import MODEL, run_of


def test_a_page_of_several_scenarios_has_a_column_for_each_side(tmp_path: Path) -> None:
    """Three scenarios on two kernels: six cells, all run, and the figures that differ are open."""
    sides = []
    for release, together in (("6.1.0-18-amd64", 95.0), ("7.2.0-1-amd64", 50.0)):
        models = (replace(MODEL, name=name) for name in "abc")
        sides.append([run_of(tmp_path, [together, together + 1], release=release, model=each) for each in models])
    page = of_pairs(list(zip(*sides, strict=True)), "note")
    assert [column.label for column in page.columns] == ["6.1", "7.2"]
    assert {(name, column.label) for name, column in page.cells} == {(n, k) for n in "abc" for k in ("6.1", "7.2")}
    text = set_page(page)
    assert "not run" not in text.partition('id="scenarios"')[0]
    assert text.count("<details open><summary>IOPS</summary>") == 3
    same = of_pairs([(run, run) for run in sides[0]], "note")
    assert [column.label for column in same.columns] == ["6.1 before", "6.1 after"]
    assert "<details open><summary>IOPS</summary>" not in set_page(same)


def test_a_reason_that_all_cells_share_is_said_once(tmp_path: Path) -> None:
    run = page_run(tmp_path, {"none": 100, "red": 5})
    cell = GridCell("a", "", run.facts.kernel, run.scenario.clock, status=Status.MISS, reason="no network here")
    cells = {(name, column): cell for name in "abc" for column in (Column("6.1", "6.1"), Column("7.2", "7.2"))}
    columns = tuple(dict.fromkeys(column for _, column in cells))
    page = set_page(Collection("title", "note", tuple("abc"), columns, cells))
    assert page.count("no network here") == 1 and "All 6 cells: no network here" in page

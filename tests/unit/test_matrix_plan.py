# SPDX-License-Identifier: GPL-2.0-only
"""Matrices without a guest: who measures what, how it rolls up, and what is shown."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.grid import cluster
from harness.grid.measure import dealt, judged, read_shard
from harness.judge.cells import matrix_status
from harness.record.grid import Grid, GridCell, grids, load_grid, new_grid, same_request, with_cell
from harness.record.judging import Run, judge_run
from harness.record.store import KernelFacts
from harness.report.terminal.grid import print_matrix
from harness.report.terminal.progress import Tally, progress
from harness.run.events import CellDecided, CellFinished, CellPhase, CellStarted, MatrixStarted, RunStarted
from harness.scenario.model import Status
from harness.scenario.timing import Clock
from lab.base.errors import Misuse
from tests.unit.analysis_samples import claim, control, scenario
from tests.unit.record_samples import run_of
from tests.unit.test_report_terminal import HostTime

MODEL = scenario([claim()], [control()], ["none", "red"])
KERNELS = tuple(KernelFacts(f"debian:{name}", f"{name}.0-amd64", "Debian", name) for name in ("5.10", "6.1"))


def cell(name: str, kernel: KernelFacts, status: Status | None = None, code: int = 0, boots: int = 4) -> GridCell:
    return GridCell(name, "digest", kernel, Clock.VIRTUAL, boots=boots, status=status, exit_code=code)


def record(*statuses: tuple[Status | None, int], shards: int = 1) -> Grid:
    """A matrix on two kernels with these statuses, scenario by scenario."""
    cells = tuple(
        replace(cell(f"s{number // 2}", KERNELS[number % 2], *status), shard=1 + number % shards)
        for number, status in enumerate(statuses)
    )
    return Grid("", cells, shards=shards)


@pytest.mark.parametrize(
    "cells, status, code",
    [
        ([(Status.PASS, 0), (Status.SKIP, 125)], Status.PASS, 0),
        ([(Status.SKIP, 125), (Status.SKIP, 125)], Status.SKIP, 125),
        ([(Status.PASS, 0), (Status.DONE, 125)], Status.DONE, 125),
        ([(Status.PASS, 0), (Status.DONE, 0), (Status.SKIP, 125)], Status.DONE, 0),
        ([(Status.PASS, 0), (Status.MISS, 125)], Status.MISS, 125),
        ([(Status.ERROR, 125), (Status.MISS, 125)], Status.ERROR, 125),
        ([(Status.ERROR, 125), (Status.ERROR, 128)], Status.ERROR, 128),
        ([(Status.ERROR, 128), (Status.FAIL, 1)], Status.FAIL, 1),
        ([(Status.PASS, 0), (None, 0)], Status.MISS, 125),
    ],
)
def test_cells_roll_up_to_one_word_and_one_exit_code(
    cells: list[tuple[Status | None, int]], status: Status, code: int
) -> None:
    rolled = record(*cells)
    assert (rolled.status, rolled.exit_code) == (status, code)


@given(st.lists(st.sampled_from(Status), min_size=1))
def test_a_matrix_passes_only_when_something_passed_and_nothing_else_but_skips(statuses: list[Status]) -> None:
    passes = matrix_status(statuses) is Status.PASS
    assert passes == (Status.PASS in statuses and set(statuses) <= {Status.PASS, Status.SKIP})


def test_a_shard_answers_for_its_own_cells() -> None:
    half = record((Status.PASS, 0), (None, 0), (Status.PASS, 0), (None, 0), shards=2)
    assert (half.status, replace(half, shard=2).status) == (Status.PASS, Status.MISS)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.integers(1, 6))
def test_shards_have_every_cell_once_and_about_as_much_to_do(boots: list[int], shards: int) -> None:
    cells = [cell(f"s{number}", KERNELS[0], boots=count) for number, count in enumerate(boots)]
    found = dealt(cells, shards)
    assert [one.scenario for one in found] == [one.scenario for one in cells]
    assert {one.shard for one in found} <= set(range(1, shards + 1))
    loads = [sum(max(1, one.boots) for one in found if one.shard == shard) for shard in range(1, shards + 1)]
    assert max(loads) - min(loads) <= max(1, *boots)


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "a/b", "1/2/3", "-1/2", " 1/2"])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(Misuse, match="--shard"):
        read_shard(text)
    assert read_shard("2/10") == (2, 10)


def test_a_record_survives_the_disk(tmp_path: Path) -> None:
    planned = record((None, 0), (None, 0))
    folder = new_grid(tmp_path, planned)
    decided = replace(folder.grid.cells[0], status=Status.FAIL, exit_code=1, run="s0/x", reason="so")
    folder = folder.saved(with_cell(folder.grid, decided))
    (found,) = grids(tmp_path)
    assert found.grid == folder.grid == load_grid(tmp_path / "matrix" / "latest").grid
    assert found.grid.cells[1].status is None
    # Earlier versions refuse fields that they do not know; the run is in its own folder.
    assert "result" not in json.loads((folder.path / "matrix.json").read_text())["cells"][0]
    assert same_request(found.grid, planned)
    assert not same_request(found.grid, replace(planned, seeds=3))


def shown(made: Grid, width: int = 80) -> str:
    out = io.StringIO()
    print_matrix(Console(file=out, width=width), made)
    return out.getvalue()


def test_the_table_and_why_a_cell_is_not_green() -> None:
    made = record((Status.PASS, 0), (Status.FAIL, 1), (Status.SKIP, 125), (None, 0))
    made = with_cell(made, replace(made.cells[1], reason="too slow: 0.5, expected >= 0.9 [red]", run="s0/x"))
    lines = [line.rstrip() for line in shown(made, 40).splitlines()]
    assert lines[0].split() == ["scenario", "5.10.0-amd64", "6.1.0-amd64"]
    assert [line.split() for line in lines[2:4]] == [["s0", "PASS", "FAIL"], ["s1", "SKIP", "-"]]
    assert "  FAIL  s0 on 6.1.0-amd64 (s0/x): too slow: 0.5, expected >= 0.9 [red]" in lines
    assert "  MISS  s1 on 6.1.0-amd64: not decided" in lines
    assert lines[-1] == "4 cells: 1 FAIL, 1 PASS, 1 SKIP; FAIL, exit 1"


def test_a_judged_cell_has_its_figure(tmp_path: Path) -> None:
    """The share of the first claim is 95 / 100 on one kernel and 50 / 100 on the other; its bound is >= 0.9."""
    runs = [run_of(tmp_path, [value, value], release=f"6.{place}.0-amd64") for place, value in enumerate((95.0, 50.0))]
    cells = tuple(
        judged(
            GridCell(run.scenario.name, run.scenario.digest, run.facts.kernel, run.scenario.clock), Run(run, verdict)
        )
        for run in runs
        for verdict in [judge_run(run)]
    )
    line = next(line for line in shown(Grid("", cells)).splitlines() if line.startswith("sample"))
    assert line.split() == ["sample", "PASS", "1", "of", "1", "FAIL", "0.5000", ">=", "0.9"]


def test_a_reason_of_all_cells_is_told_without_them() -> None:
    made = record((Status.MISS, 0), (Status.MISS, 0), (Status.MISS, 0), (Status.MISS, 0))
    for each in made.cells:
        made = with_cell(made, replace(each, reason="no network"))
    assert "  MISS  all 4 cells: no network" in shown(made, 40).splitlines()


def test_a_reason_of_several_cells_is_told_once() -> None:
    made = record((Status.DONE, 0), (Status.DONE, 0), (Status.PASS, 0), (Status.DONE, 0))
    for each, reason in zip(made.cells, ("too short", "too short", "", "too busy"), strict=True):
        made = with_cell(made, replace(each, reason=reason))
    said = [line.strip() for line in shown(made, 40).splitlines() if ": too" in line]
    assert said == [
        "DONE  s0 on 5.10.0-amd64; s0 on 6.1.0-amd64: too short",
        "DONE  s1 on 6.1.0-amd64: too busy",
    ]


def test_the_rest_is_estimated_scenario_by_scenario() -> None:
    clock = HostTime()
    tally = Tally(clock)
    tally.take(MatrixStarted((("fast", "5.10", (2, {})), ("slow", "5.10", (2, {})), ("fast", "6.1", (4, {}))), 2))
    tally.take(RunStarted("fast", "5.10", 2, 2, cell=0))
    tally.take(CellStarted(1, "a", 1, cell=0))
    assert tally.remaining() is None
    clock.seconds = 10.0
    tally.take(CellFinished(1, "a", 1, Status.PASS, 10.0, cell=0))
    assert tally.remaining() == 10.0 * (1 + 2 + 4) / 2
    tally.take(CellStarted(1, "a", 1, cell=1))
    tally.take(CellFinished(1, "a", 1, Status.PASS, 50.0, cell=1))
    assert tally.remaining() == (10.0 + 50.0 + 4 * 10.0) / 2
    tally.take(CellDecided(2, Status.PASS, 0.0, before=True))
    assert tally.remaining() == (10.0 + 50.0) / 2
    tally.take(CellStarted(2, "b", 1, cell=1))
    clock.seconds = 30.0
    assert tally.remaining() == (10.0 + 30.0) / 2
    for number in (0, 1):
        tally.take(CellDecided(number, Status.PASS, 1.0))
    assert tally.remaining() == 0
    assert not any(run.running for run in tally.runs)


def test_a_log_gets_a_line_a_cell_and_one_for_each_boot_that_went_wrong() -> None:
    out = io.StringIO()
    with progress(Console(file=out, width=40)) as listen:
        listen(MatrixStarted((("s", "5.10", (2, {})), ("s", "6.1", (2, {}))), 2))
        listen(RunStarted("s", "5.10", 2, 2, cell=0))
        listen(CellStarted(1, "a", 1, cell=0))
        listen(CellPhase(1, "load solo", cell=0))
        listen(CellFinished(1, "a", 1, Status.PASS, 10.0, cell=0))
        listen(CellFinished(2, "b", 1, Status.FAIL, 10.0, "it hung", cell=0))
        listen(CellDecided(0, Status.FAIL, 20.0, "it hung"))
        listen(CellDecided(1, Status.PASS, 0.0, before=True))
    lines = out.getvalue().splitlines()
    assert lines[:3] == [
        "2 cells, up to 4 boots, 2 at once",
        "  s on 5.10: 2 boots",
        "  s on 5.10: FAIL  b seed 1: it hung",
    ]
    assert lines[3:] == [
        "  FAIL  s on 5.10, 20 s: it hung  (1 of 2 cells, about 10 s left)",
        "  PASS  s on 6.1, as measured before  (2 of 2 cells)",
    ]


def test_a_terminal_shows_the_boots_that_run() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    with progress(console, now=HostTime()) as listen:
        listen(MatrixStarted((("s", "5.10", (2, {})),), 2))
        listen(CellStarted(1, "limited", 3, cell=0))
        listen(CellPhase(1, "load solo", cell=0))
        assert "s on 5.10  limited seed 3  load solo" in out.getvalue()
        listen(CellDecided(0, Status.PASS, 20.0))
    assert "PASS  s on 5.10, 20 s  (1 of 1 cell)" in out.getvalue()


def test_a_terminal_that_cannot_move_its_cursor_has_lines() -> None:
    """rich's Live shows nothing there until it ends."""
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None, _environ={"TERM": "dumb"})
    with progress(console, now=HostTime()) as listen:
        listen(MatrixStarted((("s", "5.10", (2, {})),), 2))
        assert out.getvalue() == "1 cell, up to 2 boots, 2 at once\n"


def test_on_a_busy_host_other_scenarios_are_scaled_by_what_the_first_boots_took() -> None:
    """A boot of 5 s by the model took 50 s: one of 20 s takes 200 s. Left: 50 of fast, 2 x 200 of slow."""
    tally = Tally(HostTime())
    tally.take(MatrixStarted((("fast", "6.1", (2, {"a": 5.0})), ("slow", "6.1", (2, {"b": 20.0}))), 1))
    tally.take(CellFinished(1, "a", 1, Status.PASS, 50.0, cell=0))
    assert tally.remaining() == 450.0


def test_the_code_digest_covers_all_of_the_lab(monkeypatch: pytest.MonkeyPatch, checkout: Path) -> None:
    seen: set[str] = set()

    def digest(path: Path) -> str:
        seen.add(str(path.relative_to(checkout)))
        return "0"

    monkeypatch.setattr("lab.base.digest.digest_file", digest)
    cluster.code_digest.__wrapped__()
    assert {"lab/session.py", "lab/qemu/argv.py", "lab/guest/runner.sh", "lab/native/diskd/model.c"} <= seen

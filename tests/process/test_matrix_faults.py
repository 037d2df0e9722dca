# SPDX-License-Identifier: GPL-2.0-only
"""A bad host under a matrix: nothing is counted twice, nothing is lost, and it says what is wrong."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from itertools import cycle
from pathlib import Path

import pytest

from harness.grid.measure import MatrixPlan, run_matrix
from harness.record.grid import GridFolder
from harness.record.index import FILE
from harness.record.store import Store
from harness.run.bench import Bench, turns_of_host
from harness.scenario.load import read_scenario
from harness.scenario.model import Status
from lab import session
from lab.base.cache import Cache
from lab.base.errors import EXIT_LAB_BROKEN, EXIT_PASS
from lab.kernels.resolve import resolve
from tests.process.fake_lab import CELLS, FakeLab
from tests.process.matrix_lab import WHOLE, assert_whole, lay_out, matrix, record, statuses, words
from tests.process.test_run_faults import tmpfs


@pytest.fixture(autouse=True)
def _two_of_each(lab: FakeLab) -> None:
    lay_out(lab)


def decided(lab: FakeLab) -> list[str]:
    return [cell["run"] for cell in record(lab)["cells"] if cell["status"] == "PASS"]


def test_results_that_fill_up_stop_the_matrix_and_it_goes_on_later(lab: FakeLab) -> None:
    with tmpfs(lab.results, "70m"):
        done = matrix(lab, "--jobs", "1", **lab.plan(fill=[6, "load"]))
        assert done.returncode == EXIT_LAB_BROKEN, done.stdout
        assert "Traceback" not in done.stderr
        assert "free some space" in done.stderr
        assert "run the same command again to resume" in done.stderr
        for run in decided(lab):
            assert (lab.results / run / "verdict.json").is_file()
        for filler in lab.results.rglob("filler"):
            filler.unlink()
        done = matrix(lab, "--jobs", "1")
        assert done.returncode == EXIT_PASS, done.stderr
        assert_whole(lab)
        assert len(lab.boots()) <= WHOLE + 2, "the boot that filled the disk, and one that found it full"


def test_a_corrupt_index_hinders_no_matrix(lab: FakeLab) -> None:
    lab.results.mkdir()
    (lab.results / FILE).write_bytes(b'{"schema": 4, "runs": [' + bytes(200))
    assert matrix(lab).returncode == EXIT_PASS
    done = lab.call("compare", "--history", "t", "--results", str(lab.results))
    assert done.returncode == EXIT_PASS, done.stderr
    assert len(json.loads((lab.results / FILE).read_bytes())["runs"]) == 4
    done = lab.call("store", "index", "--results", str(lab.results))
    assert done.stdout.startswith("4 runs of 2 scenarios")


@pytest.mark.parametrize("damage", ["", "{", '{"schema": 1}', '{"schema": 99}'])
def test_a_corrupt_record_loses_no_run(lab: FakeLab, damage: str) -> None:
    lab.kill(*words(lab, "--jobs", "1"), boot=6)
    (found,) = lab.results.glob("matrix/[0-9]*/matrix.json")
    found.write_text(damage)
    assert matrix(lab).returncode == EXIT_PASS
    assert len(lab.boots()) == WHOLE + 1
    assert_whole(lab)


def test_a_record_that_lies_is_not_believed(lab: FakeLab) -> None:
    """A killed matrix's record says what was decided; what counts are the runs."""
    lab.kill(*words(lab, "--jobs", "1"), boot=1)
    (found,) = lab.results.glob("matrix/[0-9]*/matrix.json")
    plain = json.loads(found.read_text())
    plain["cells"] = [{**cell, "status": "PASS", "run": "t/nosuch"} for cell in plain["cells"]]
    found.write_text(json.dumps(plain))
    assert matrix(lab).returncode == EXIT_PASS
    assert_whole(lab)


def in_process(lab: FakeLab, monkeypatch: pytest.MonkeyPatch, at_once: int = 2, **plan: object) -> GridFolder:
    """The matrix in this process, where clocks and limits can be changed under it."""
    for name, value in lab.environment(**lab.plan(**plan)).items():
        monkeypatch.setenv(name, value)
    cache = Cache(lab.folder / "cache")
    scenarios = tuple(read_scenario(str(lab.folder / f"{name}.yaml"), search=lab.folder) for name in "tu")
    kernels = {f"path:{path}": resolve(f"path:{path}", cache) for path in (lab.folder / "kernel", lab.folder / "other")}
    bench = Bench(session.open_lab(cache), Store(lab.results), turns=turns_of_host(at_once))
    return run_matrix(bench, MatrixPlan(scenarios, kernels), lambda _: None)


def test_a_cell_that_hangs_ends_at_its_limit_and_holds_up_no_other(
    lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = session._limits
    monkeypatch.setattr(session, "_limits", lambda prepared: limits(replace(prepared, wall_limit=8.0)))
    folder = in_process(lab, monkeypatch, hold=[1, "load"])
    assert sorted(str(cell.status) for cell in folder.grid.cells) == ["FAIL", "PASS", "PASS", "PASS"]
    (hung,) = (cell for cell in folder.grid.cells if cell.status is Status.FAIL)
    assert "hung" in hung.reason
    assert folder.grid.exit_code == 1
    assert len(lab.boots()) == WHOLE
    assert not lab.machines()


def test_others_are_decided_while_a_cell_hangs(lab: FakeLab) -> None:
    process = lab.start(*words(lab, "--jobs", "2"), **lab.plan(hold=[1, "load"]))
    lab.await_boots(WHOLE)
    while sum(status == "PASS" for status in statuses(lab).values()) < 3:
        assert process.poll() is None
    process.kill()
    process.communicate()
    assert matrix(lab).returncode == EXIT_PASS
    assert len(lab.boots()) == WHOLE + 1
    assert_whole(lab)


class Jumping(datetime):
    """A clock that is ten years back at one look and ten years ahead at the next."""

    jumps: Iterator[int] = cycle((-3650, 3650, 0))

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + timedelta(days=next(cls.jumps))


def test_a_clock_that_jumps_neither_loses_nor_repeats_a_cell(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("harness.record.store", "harness.record.grid", "harness.grid.measure"):
        monkeypatch.setattr(f"{module}.datetime", Jumping)
    lab.kill(*words(lab, "--jobs", "1"), boot=6)
    _age(lab.results)
    first = in_process(lab, monkeypatch)
    assert {cell.status for cell in first.grid.cells} == {Status.PASS}
    assert len(lab.boots()) == WHOLE + 1
    again = in_process(lab, monkeypatch)
    assert len(lab.boots()) == WHOLE + 1
    assert [cell.run for cell in again.grid.cells] == [cell.run for cell in first.grid.cells]
    stamps = {cell.run.split("/")[1][:4] for cell in first.grid.cells}
    assert len(stamps) > 1, "the clock did jump"
    assert len(list(lab.results.glob("[tu]/[0-9]*/boots/*/boot.json"))) == 4 * CELLS


def _age(results: Path) -> None:
    """What was begun before the clock jumped lies in the future now."""
    for path in (*results.glob("[tu]/[0-9]*"), *results.glob("matrix/[0-9]*")):
        path.rename(path.with_name("2099" + path.name[4:]))

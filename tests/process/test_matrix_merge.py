# SPDX-License-Identifier: GPL-2.0-only
"""Shards that were measured on several machines become one matrix, each run counted once."""

import json
import shutil
from pathlib import Path

import pytest

from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_LAB_BROKEN, EXIT_MISUSE, EXIT_PASS
from tests.process.fake_lab import FakeLab
from tests.process.matrix_lab import WHOLE, lay_out, matrix, record


@pytest.fixture
def parts(lab: FakeLab) -> tuple[Path, Path]:
    """Results folders of two machines that measured a half each."""
    lay_out(lab)
    folders = lab.folder / "one", lab.folder / "two"
    for number, folder in enumerate(folders, start=1):
        assert matrix(lab, "--shard", f"{number}/2", "--results", str(folder)).returncode == EXIT_PASS
    return folders


def test_the_halves_make_a_whole(lab: FakeLab, parts: tuple[Path, Path]) -> None:
    done = lab.call("matrix", "--merge", *map(str, parts), "--results", str(lab.results))
    assert done.returncode == EXIT_PASS, done.stderr
    assert "4 cells: 4 PASS; PASS, exit 0" in done.stdout
    found = [cell["run"] for cell in record(lab)["cells"]]
    assert len(set(found)) == 4
    for run in found:
        assert lab.call("judge", str(lab.results / run)).returncode == EXIT_PASS
    before = len(lab.boots())
    assert matrix(lab).returncode == EXIT_PASS
    assert len(lab.boots()) == before == WHOLE, "what was merged is not measured again"


def test_merging_twice_counts_once(lab: FakeLab, parts: tuple[Path, Path]) -> None:
    for _ in range(2):
        done = lab.call("matrix", "--merge", *map(str, (*parts, parts[0])), "--results", str(lab.results))
        assert "4 cells: 4 PASS; PASS, exit 0" in done.stdout
    assert len(list(lab.results.glob("[tu]/[0-9]*"))) == 4


def test_a_part_that_is_missing_is_missed(lab: FakeLab, parts: tuple[Path, Path]) -> None:
    done = lab.call("matrix", "--merge", str(parts[0]), "--results", str(lab.results))
    assert done.returncode == EXIT_CANNOT_JUDGE
    assert done.stdout.count("not decided") == 1, done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("  MISS  "))
    assert "t on path:" in line and "; u on path:" in line


def test_a_run_that_was_damaged_on_its_way_is_an_error(lab: FakeLab, parts: tuple[Path, Path]) -> None:
    next(iter(parts[1].glob("u/[0-9]*/boots/001/out/solo.json"))).write_text("{}")
    done = lab.call("matrix", "--merge", *map(str, parts), "--results", str(lab.results))
    assert done.returncode == EXIT_LAB_BROKEN
    assert "the run was not merged: " in done.stdout
    assert "boots/001/out/solo.json: checksum is " in done.stdout


def test_a_run_that_did_not_come_along_is_an_error(lab: FakeLab, parts: tuple[Path, Path]) -> None:
    shutil.rmtree(parts[1] / "u")
    done = lab.call("matrix", "--merge", *map(str, parts), "--results", str(lab.results))
    assert done.returncode == EXIT_LAB_BROKEN
    assert "does not contain a run" in done.stdout


def test_links_are_not_needed(lab: FakeLab, parts: tuple[Path, Path]) -> None:
    for part in parts:
        (part / "matrix" / "latest").unlink()
    assert lab.call("matrix", "--merge", *map(str, parts), "--results", str(lab.results)).returncode == EXIT_PASS


def test_parts_of_different_files_are_refused(lab: FakeLab, parts: tuple[Path, Path]) -> None:
    path = next(iter(parts[1].glob("matrix/[0-9]*/matrix.json")))
    plain = json.loads(path.read_text())
    plain["cells"][0]["scenario_digest"] = "another"
    path.write_text(json.dumps(plain))
    done = lab.call("matrix", "--merge", *map(str, parts), "--results", str(lab.results))
    assert done.returncode == EXIT_MISUSE
    assert "different versions of the scenario t" in done.stderr
    assert lab.call("matrix", "--merge", str(lab.folder), "--results", str(lab.results)).returncode == EXIT_MISUSE

# SPDX-License-Identifier: GPL-2.0-only
"""Speeds: medians, ratios within rounds, and what runs leave behind."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.base.errors import LabBroken
from tools import speed
from tools.speed import SpeedSample

CHECKOUT = """\
import json, pathlib, sys
assert sys.argv[1:4] == ["blklab", "run", "x"], sys.argv
boot = pathlib.Path(sys.argv[-1]) / "x" / "2026-1" / "boots" / "000"
boot.mkdir(parents=True)
(boot / "boot.json").write_text(json.dumps({"wall": {"boot": 1.0, "setup": 2.0, "measure": 6.0, "send": 1.0}}))
"""


def row(rounds: speed.Rounds, name: str) -> list[str]:
    (line,) = (line for line in speed.table(rounds) if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_ratios_are_taken_within_rounds() -> None:
    # The host is ten times as slow in the second round.
    base = [SpeedSample(wall, 1.0, 0.5, 0.1) for wall in (1.0, 10.0, 2.0)]
    warm = [SpeedSample(wall, 0.5, 0.2, 0.2) for wall in (0.5, 5.0, 1.2)]
    rounds = {"base": base, "warm": warm}
    assert row(rounds, "base") == ["2.0", "1.0", "1.00 [1.00..1.00]", "0.5", "10.0"]
    assert row(rounds, "warm") == ["1.2", "0.5", "0.50 [0.50..0.60]", "0.2", "20.0"]


def test_every_way_is_measured_in_turn_after_a_round_that_fills_the_caches() -> None:
    order: list[str] = []
    walls: Iterator[float] = iter(map(float, range(6)))

    def way(name: str) -> speed.Way:
        def measure() -> SpeedSample:
            order.append(name)
            return SpeedSample(next(walls), 0.0, 0.0, 0.0)

        return measure

    samples = speed.measure({"a": way("a"), "b": way("b")}, 2)
    assert order == ["a", "b"] * 3
    assert [[sample.wall for sample in samples[name]] for name in ("a", "b")] == [[2.0, 4.0], [3.0, 5.0]]


def test_runs_of_another_checkout(tmp_path: Path) -> None:
    program = tmp_path / "base" / "scripts" / "run"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\n{CHECKOUT}")
    program.chmod(0o755)
    ways = speed.ways(["run", "x"], tmp_path, tmp_path / "base")
    assert list(ways) == ["base", "cold", "warm"]
    sample = ways["base"]()
    assert sample.first <= sample.wall
    assert sample.starting == pytest.approx(0.3)


def test_a_run_without_boots_is_not_a_measurement(tmp_path: Path) -> None:
    program = tmp_path / "scripts" / "run"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with pytest.raises(LabBroken, match="no boot was made"):
        speed.ways(["run", "x"], tmp_path, tmp_path)["base"]()


def test_a_matrix_has_no_cold_run(tmp_path: Path) -> None:
    assert list(speed.ways(["matrix"], tmp_path, None)) == ["warm"]

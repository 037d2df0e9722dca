# SPDX-License-Identifier: GPL-2.0-only
"""The page of speeds: medians, ratios within rounds, and what runs leave behind."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.studies import speed
from harness.studies.speed import SpeedSample
from lab.base.errors import LabBroken

FACTS = {"rounds": "3 rounds", "cores": 2, "loads": "1.0 to 2.0", "qemu": "QEMU 7.2.22", "release": "6.1.0"}
CHECKOUT = """\
import json, pathlib, sys
assert sys.argv[1:4] == ["blklab", "run", "x"], sys.argv
boot = pathlib.Path(sys.argv[-1]) / "x" / "2026-1" / "boots" / "000"
boot.mkdir(parents=True)
(boot / "boot.json").write_text(json.dumps({"wall": {"boot": 1.0, "setup": 2.0, "measure": 6.0, "send": 1.0}}))
"""


def told(_: str) -> None:
    pass


def row(text: str, name: str) -> list[str]:
    (found,) = (line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in found.split("|")[2:-1]]


def test_ratios_are_taken_within_rounds() -> None:
    # The host is ten times as slow in the second round.
    base = [SpeedSample(wall, 1.0) for wall in (1.0, 10.0, 2.0)]
    warm = [SpeedSample(wall, 0.5) for wall in (0.5, 5.0, 1.2)]
    text = speed.page({"Starts": {"base": base, "warm": warm}}, FACTS, "make bench")
    assert row(text, "base") == ["2.0", "1.0..10.0", "1.0", "1.00 [1.00..1.00]"]
    assert row(text, "warm") == ["1.2", "0.5..5.0", "0.5", "0.50 [0.50..0.60]"]
    assert "QEMU 7.2.22, kernel 6.1.0" in text
    assert "load average 1.0 to 2.0" in text


def test_a_start_without_a_cpu_time_of_its_own() -> None:
    text = speed.page({"Starts": {"warm": [SpeedSample(0.5, None)]}}, FACTS, "make bench")
    assert row(text, "warm") == ["0.5", "0.5..0.5", "-", "1.00 [1.00..1.00]"]


def test_every_way_is_measured_in_turn_after_a_round_that_fills_the_caches() -> None:
    order: list[str] = []
    walls: Iterator[float] = iter(map(float, range(6)))

    def way(name: str) -> speed.Way:
        def measure() -> SpeedSample:
            order.append(name)
            return SpeedSample(next(walls), 0.0)

        return measure

    found = speed.measured({"a": way("a"), "b": way("b")}, 2, told)
    assert order == ["a", "b"] * 3
    assert [[sample.wall for sample in found[name]] for name in ("a", "b")] == [[2.0, 4.0], [3.0, 5.0]]


def test_runs_of_another_checkout(tmp_path: Path) -> None:
    program = tmp_path / "base" / "scripts" / "run"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\n{CHECKOUT}")
    program.chmod(0o755)
    ways = speed.runs(["run", "x"], tmp_path, tmp_path / "base")
    assert list(ways) == ["base", "cold", "warm"]
    sample = ways["base"]()
    assert sample.first is not None
    assert sample.first <= sample.wall
    assert sample.starting == pytest.approx(0.3)
    text = speed.page({"blklab run x": {"base": [sample]}}, FACTS, "make bench")
    assert row(text, "base")[-1] == "30.0"


def test_a_run_without_boots_is_not_a_measurement(tmp_path: Path) -> None:
    program = tmp_path / "scripts" / "run"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with pytest.raises(LabBroken, match="no boot was made"):
        speed.runs(["run", "x"], tmp_path, tmp_path)["base"]()


def test_a_guest_without_its_markers_is_not_a_measurement() -> None:
    with pytest.raises(LabBroken, match="did not say 'ready'"):
        speed._said(["echo", "dead"], "ready")
    assert speed._said(["echo", "ready"], "ready").wall < 60


def test_a_matrix_has_no_cold_run(tmp_path: Path) -> None:
    assert list(speed.runs(["matrix"], tmp_path, None)) == ["warm"]

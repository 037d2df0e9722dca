# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check pages``: the page of costs, and the scenario behind it."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli import main
from harness.commands.common.options import SCENARIOS
from harness.metrics.figures import PER_IO
from harness.record.judging import judge_run
from harness.scenario.load import load_scenario
from harness.studies.field_reports import Measured
from harness.studies.io_cost import cost_page
from lab.base.errors import EXIT_MISUSE
from tests.unit.page_samples import page_run

DEVICES, STACKED = ("null-blk", "scsi-debug"), ("nvmet-tcp", "dm-stripe", "md-raid1")
ELEVATORS = ("none", "mq-deadline", "kyber", "bfq")


def measured(root: Path, release: str, cost: float) -> Measured:
    """A run in which each I/O of load together cost ``cost`` ns under arm none."""
    run = page_run(root, release=f"{release}.0-1-amd64")
    verdict = judge_run(run)
    cells = tuple(
        replace(cell, figures={**cell.figures, ("together", "fast", PER_IO): cost + cell.seed})
        if cell.arm == "none"
        else replace(cell, figures={})
        for cell in verdict.cells
    )
    return Measured(run.scenario, replace(verdict, cells=cells), run.facts.kernel.release, release, "QEMU 7.2", "")


def test_costs_of_kernels_are_in_one_table(tmp_path: Path) -> None:
    runs = [measured(tmp_path, release, cost) for release, cost in (("5.10", 1000.0), ("6.1", 1001.0), ("7.2", 1100.0))]
    page = cost_page(runs, "blklab check pages")
    assert "| engine | elevator | 5.10 | 6.1 | 7.2 |" in page
    row = "| together | none | 1,002 [1,001 .. 1,003] | 1,003 [1,002 .. 1,004] (~) |"
    assert f"{row} 1,102 [1,101 .. 1,103] (+10.0 % *) |" in page
    assert "not a regression of the block layer" in page


def test_the_scenario_has_every_device_elevator_and_engine() -> None:
    scenario = load_scenario("io-cost", search=SCENARIOS)
    wanted = {f"{device}-{elevator}" for device in DEVICES for elevator in ELEVATORS}
    assert set(scenario.arms) == wanted | {f"{device}-{elevator}" for device in STACKED for elevator in ELEVATORS[:2]}
    assert all(arm.queue["scheduler"] == name.split("-", 2)[2] for name, arm in scenario.arms.items())
    assert {load.name: role.ioengine for load in scenario.loads.values() for role in load.roles.values()} == {
        "libaio": "libaio",
        "io-uring": "io_uring",
        "sync": "psync",
    }
    assert all(PER_IO in claim.ratio.text for claim in scenario.claims)


def test_without_runs_there_is_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "pages", "io-cost", "--results", str(tmp_path), "--out", str(tmp_path)]) == EXIT_MISUSE
    assert "holds no current run of io-cost" in capsys.readouterr().err
    assert not (tmp_path / "io-cost.md").exists()

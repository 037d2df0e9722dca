# SPDX-License-Identifier: GPL-2.0-only
"""Drafts of public fio jobs run as they are, and the CPU time of an I/O is what drafts reckon with."""

import json
from pathlib import Path

import pytest

from harness.cli import main
from harness.commands.boots import bench_of
from harness.limits.cost import CPU_COSTS
from harness.limits.entries import load_scenario
from harness.report.format import plural
from lab.base.errors import EXIT_PASS
from lab.topology.model import Driver
from tests.unit.test_draft import WITHOUT
from tests.vm.host import kernel_or_skip
from tools.costs import LOADS, TOPOLOGIES, measure

KERNEL = "debian:6.1"
EXAMPLES = Path(__file__).parents[1] / "unit" / "fixtures" / "fio"
pytestmark = [pytest.mark.slow]


def _run(scenario: Path, results: Path) -> int:
    kernel_or_skip(KERNEL)
    words = ["--kernel", KERNEL, "--seeds", "1", "--jobs", "1", "--results", str(results), "-v"]
    return main(["run", str(scenario), *words])


@pytest.mark.parametrize("name", [name for name, without in WITHOUT.items() if not without])
def test_a_draft_runs_as_it_is(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draft = tmp_path / f"{name}.yaml"
    assert main(["draft", "--fio", str(EXAMPLES / f"{name}.fio"), "--output", str(draft)]) == 0
    assert _run(draft, tmp_path / "results") == EXIT_PASS
    said = capsys.readouterr().out
    scenario = load_scenario(str(draft), search=tmp_path)
    claims = scenario.claims
    assert f"{plural(len(claims), 'claim')} {'is a draft' if len(claims) == 1 else 'are drafts'}" in said
    assert "(draft)" in said
    # What the topology predicts holds, so the bounds could be set to these.
    stored = json.loads((tmp_path / "results" / scenario.name / "latest" / "verdict.json").read_text())
    assert {claim["status"] for claim in stored["claims"]} == {"PASS"}


@pytest.mark.parametrize("driver", TOPOLOGIES)
def test_an_io_costs_the_cpu_no_more_than_the_table_says(driver: Driver, tmp_path: Path) -> None:
    bench = bench_of(str(tmp_path))
    cost, measured = CPU_COSTS[driver], measure(bench, kernel_or_skip(KERNEL), driver)
    shares = {}
    for (elevator, load), ns in measured.items():
        _, kib, depth = LOADS[load]
        shares[elevator, load] = ns / ((cost.alone if depth == 1 else cost.queued) + cost.kib * kib)
    assert {load for _, load in shares} == LOADS.keys()
    assert 0.9 < max(shares.values()) <= 1, shares

# SPDX-License-Identifier: GPL-2.0-only
"""Drafts of public fio jobs run as they are, and the CPU time of an I/O is what drafts reckon with."""

from pathlib import Path

import pytest

from harness.cli import main
from harness.intake.documents import yaml_text
from harness.intake.scaling import COSTS
from harness.limits.entries import load_scenario
from harness.report.format import plural
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_PASS, BlklabError
from lab.kernels.resolve import resolve
from lab.topology.model import Driver
from tests.unit.test_draft import WITHOUT

KERNEL = "debian:6.1"
EXAMPLES = Path(__file__).parents[1] / "unit" / "fixtures" / "fio"
ROW = {"memory": "512M", "luns": {"a": {"hba": "h", "disks": ["a"]}}}
SERVED, TAGS = {"a": {"size": "1G", "service": "4ms"}}, {"can_queue": 128}
TOPOLOGIES: dict[Driver, dict[str, object]] = {
    Driver.TCMU: {**ROW, "disks": {"a": {"size": "1G", "rate": "40 MB/s"}}, "hbas": {"h": {"driver": "tcmu", **TAGS}}},
    Driver.TCM_LOOP: {**ROW, "disks": SERVED, "hbas": {"h": {"driver": "tcm_loop", **TAGS}}},
    Driver.NVMET_TCP: {
        "memory": "512M",
        "disks": {"d": {"size": "1G", "service": "4ms"}},
        "hbas": {"h": {"driver": "nvmet-tcp", **TAGS}},
        "luns": {"l": {"hba": "h", "disks": ["d"]}},
        "stacks": {"a": {"kind": "nvme", "over": ["l"]}},
    },
}
ZEROS: dict[str, dict[str, object]] = {"randread": {}, "randwrite": {"zero_buffers": True}}
LOADS = {
    f"{rw[4:]}-{kib}k-{depth}": (rw, kib, depth)
    for rw in ("randread", "randwrite")
    for kib, depth in ((4, 1), (4, 16), (256, 4))
}

pytestmark = [pytest.mark.slow]


def _run(scenario: Path, results: Path) -> int:
    try:
        resolve(KERNEL, Cache.default())
    except BlklabError as error:
        pytest.skip(f"{KERNEL} cannot be had here: {error.message}")
    words = ["--kernel", KERNEL, "--seeds", "1", "--jobs", "1", "--results", str(results), "-v"]
    return main(["run", str(scenario), *words])


@pytest.mark.parametrize("name", [name for name, without in WITHOUT.items() if not without])
def test_a_draft_runs_as_it_is(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draft = tmp_path / f"{name}.yaml"
    assert main(["draft", "--fio", str(EXAMPLES / f"{name}.fio"), "--output", str(draft)]) == 0
    assert _run(draft, tmp_path / "results") == EXIT_CANNOT_JUDGE
    said = capsys.readouterr().out
    claims = load_scenario(str(draft), search=tmp_path).claims
    assert f"{plural(len(claims), 'claim')} {'is a draft' if len(claims) == 1 else 'are drafts'}" in said
    assert "(draft)" in said
    # What the topology predicts holds, so the bounds could be set to these.
    assert "FAIL" not in said


@pytest.mark.parametrize("driver", TOPOLOGIES)
def test_an_io_costs_the_cpu_what_drafts_reckon_with(driver: Driver, tmp_path: Path) -> None:
    cost = COSTS[driver]
    reckoned = {name: cost.request + cost.kib * kib for name, (_, kib, _) in LOADS.items()}
    ratios = {name: f"on.{name}.one.cpu.per_io / {reckoned[name]}" for name in LOADS}
    worst = max(ratios, key=lambda name: reckoned[name])
    scenario = {
        "scenario": "cost",
        "title": f"CPU time of an I/O with {driver}",
        "schema": 1,
        "queue": {"scheduler": "mq-deadline"},
        "window": {"ramp": "200ms", "runtime": "1s"},
        "topology": TOPOLOGIES[driver],
        "arms": {"on": {}},
        "loads": {
            name: {"one": {"disk": "a", "rw": rw, "bs": f"{kib}k", "iodepth": depth, **ZEROS[rw]}}
            for name, (rw, kib, depth) in LOADS.items()
        },
        "claims": [
            *(
                {"that": f"{name}: no more than reckoned", "ratio": ratio, "expect": "<= 1"}
                for name, ratio in ratios.items()
            )
        ],
        "controls": [
            {
                "that": "less than half of it is not enough",
                "ratio": f"on.{worst}.one.cpu.per_io / {reckoned[worst] // 2}",
                "expect": ">= 1",
            }
        ],
    }
    path = tmp_path / "cost.yaml"
    path.write_text(yaml_text(scenario))
    assert _run(path, tmp_path / "results") == EXIT_PASS

# SPDX-License-Identifier: GPL-2.0-only
"""One command, two real kernels: the figures of both, and a claim on their quotient."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.record.store import read_boot
from harness.report.format import figure
from lab.base.errors import EXIT_FAIL, EXIT_PASS

pytestmark = pytest.mark.network

SHARED_TAGS = """\
scenario: two-kernels
title: Two kernels hand out the same tags
clock: virtual
schema: 1
topology: null-shared-tags
seeds: 1
window: {ramp: 1s, runtime: 1s}
arms:
  none: {queue.scheduler: none}
loads:
  together:
    fast: {disk: fast, rw: randread, bs: 4k, iodepth: 64}
    slow: {disk: slow, rw: randread, bs: 4k, iodepth: 64}
claims:
  - that: this kernel gives the fast device several times what the BASE kernel gives it
    ratio: none.together.fast.iops / baseline.none.together.fast.iops
    expect: ">= 3"
controls:
  - that: the slow device is slower than the fast one
    ratio: none.together.slow.iops / none.together.fast.iops
    expect: "<= 0.5"
"""
# Kernels differ in the modules that SCSI takes, so their jobs differ where the work does not.
SHARED_QUEUE = """\
scenario: two-kernels
title: Two kernels drive the same SCSI host
clock: virtual
schema: 1
topology: neighbours
queue: {scheduler: none}
seeds: 1
window: {ramp: 200ms, runtime: 1s}
arms:
  shared: {hba.cmd_per_lun: 64}
loads:
  solo:
    victim: {disk: p1, rw: randread, bs: 4k, iodepth: 1}
claims:
  - that: a disk alone is as fast under both kernels
    ratio: shared.solo.victim.iops / baseline.shared.solo.victim.iops
    expect: "0.95 .. 1.05"
controls:
  - that: one request at a time is far from a thousand a second
    ratio: shared.solo.victim.iops / 1000
    expect: "<= 0.5"
"""


def run(folder: Path, text: str, *kernels: str) -> int:
    (folder / "two-kernels.yaml").write_text(text)
    options = ["--results", str(folder / "results"), "--csv", str(folder / "figures.csv"), "--jobs", "1"]
    return main(["run", str(folder / "two-kernels.yaml"), "--kernel", kernels[0], "--base", kernels[1], *options])


def latest(folder: Path) -> Path:
    return (folder / "results" / "two-kernels" / "latest").resolve()


def verdict(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((path / "verdict.json").read_text())
    return document


def base_of(path: Path) -> Path:
    baseline: str = json.loads((path / "run.json").read_text())["baseline"]
    return path.parent / baseline


def test_6_1_shares_tags_where_5_10_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, SHARED_TAGS, "debian:6.1", "debian:5.10") == EXIT_PASS
    shown = capsys.readouterr().out
    assert re.search(r"arm +load +role +5\.10\.0-\S+ +6\.1\.0-\S+ +quotient", shown)
    assert re.search(r"together +slow +\d\S+ +\d\S+ +(1\.0\d+|0\.9\d+|no difference)", shown)
    quotient = verdict(latest(tmp_path))["claims"][0]["value"]["median"]
    assert re.search(rf"together +fast +\S+ +\S+ +{re.escape(figure(quotient))}", shown)
    rows = list(csv.DictReader((tmp_path / "figures.csv").open()))
    iops = [float(row["value"]) for row in rows if (row["role"], row["metric"]) == ("fast", "iops")]
    assert iops[0] / iops[1] == quotient
    # The BASE kernel's boots are exactly repeatable, so the next comparison need not make them again.
    assert run(tmp_path, SHARED_TAGS, "debian:6.12", "debian:5.10") == EXIT_PASS
    assert "BASE kernel 5.10.0-" in (said := capsys.readouterr().err) and "using run" in said
    # The run holds all that its verdict needs.
    assert main(["judge", str(latest(tmp_path))]) == EXIT_PASS
    assert "the stored verdict is identical" in capsys.readouterr().err


def test_the_other_way_round_it_fails(tmp_path: Path) -> None:
    assert run(tmp_path, SHARED_TAGS, "debian:5.10", "debian:6.1") == EXIT_FAIL


def test_only_modules_may_make_the_jobs_differ(tmp_path: Path) -> None:
    assert run(tmp_path, SHARED_QUEUE, "debian:6.12", "debian:6.1") == EXIT_PASS
    boots = [read_boot(path / "boots" / "000") for path in (latest(tmp_path), base_of(latest(tmp_path)))]
    one, other = (boot.fingerprint for boot in boots)
    assert {name for name in one.keys() | other.keys() if one[name] != other[name]} == {"kernel", "base", "job"}

# SPDX-License-Identifier: GPL-2.0-only
"""A boot repeated by its own shell script, and one traced, on a real kernel."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.cli import main
from lab.base.digest import digest_file

pytestmark = pytest.mark.network
KERNELS = ["debian:5.10", "debian:6.1", "debian:6.12", "debian:7.2"]
SCENARIO = """\
scenario: brief
title: A few requests
schema: 1
topology: calibration-null-blk
queue: {scheduler: mq-deadline}
seeds: 1
window: {ramp: 100ms, runtime: 1s}
arms: {only: {}}
loads: {one: {fast: {disk: fast, rw: randread, bs: 4k, iodepth: 1}}}
claims: [{that: it does some, ratio: only.one.fast.iops, expect: "> 1"}]
controls: [{that: it does not do many, ratio: only.one.fast.iops, expect: "< 1000"}]
"""


@pytest.fixture
def brief(tmp_path: Path) -> Path:
    path = tmp_path / "brief.yaml"
    path.write_text(SCENARIO)
    return path


def test_a_kit_gives_the_same_bytes(brief: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    assert main(["run", str(brief), "--kernel", "debian:6.1", "--results", str(results)]) == 0
    run = (results / "brief" / "latest").resolve()
    expected = digest_file(run / "boots" / "000" / "results.txt")
    assert main(["store", "kit", str(run), "--to", str(tmp_path / "kit")]) == 0
    shutil.rmtree(results)
    nowhere = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    done = subprocess.run(
        ["sh", str(tmp_path / "kit" / "repeat.sh"), str(tmp_path / "again")],
        env=nowhere,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert digest_file(tmp_path / "again" / "results.txt") == expected


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_traced_boot_is_kept_apart(brief: Path, tmp_path: Path, kernel: str) -> None:
    results = tmp_path / "results"
    assert main(["run", str(brief), "--kernel", kernel, "--results", str(results), "--trace"]) == 0
    (trace,) = results.glob("brief/traces/*/trace.one.txt")
    text = trace.read_text()
    assert text.count("block_rq_issue") >= 40
    assert "block_rq_complete" in text
    assert not list(results.glob("brief/[0-9]*"))


def test_an_event_that_the_kernel_lacks_is_named(
    brief: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", str(brief), "--kernel", "debian:6.1", "--results", str(tmp_path / "results")]
    assert main([*arguments, "--trace", "block:block_rq_isue"]) == 129
    assert "no trace event block:block_rq_isue, did you mean block:block_rq_issue?" in capsys.readouterr().err

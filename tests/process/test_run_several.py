# SPDX-License-Identifier: GPL-2.0-only
"""``run`` with several scenarios: all, up to the first failure, and what failed last time."""

import subprocess
from pathlib import Path

import pytest

from lab.base.errors import EXIT_FAIL, EXIT_MISUSE, EXIT_PASS
from tests.process.fake_lab import CELLS, FakeLab

STARVED = {"lopsided.victim": 10.0}


@pytest.fixture
def other(lab: FakeLab) -> Path:
    """A second scenario, the same but for its name."""
    path = lab.folder / "u.yaml"
    path.write_text(lab.scenario.read_text().replace("scenario: t\n", "scenario: u\n"))
    return path


def both(lab: FakeLab, other: Path, *options: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    word, first, *rest = lab.words(*options)
    return lab.call(word, first, str(other), *rest, **variables)


def test_all_scenarios_run_and_the_worst_decides(lab: FakeLab, other: Path) -> None:
    done = both(lab, other, **lab.plan(iops=STARVED))
    assert (done.returncode, len(lab.boots())) == (EXIT_FAIL, 2 * CELLS), done.stderr
    assert "2 scenarios, exit 1\n  FAIL   t: " in done.stdout and "\n  FAIL   u: " in done.stdout
    assert "2 cells (scenario x kernel), 8 boots, at most " in done.stderr


def test_fail_fast_ends_after_the_first_failure(lab: FakeLab, other: Path) -> None:
    done = both(lab, other, "--fail-fast", **lab.plan(iops=STARVED))
    assert (done.returncode, len(lab.boots())) == (EXIT_FAIL, CELLS)
    assert "not run (--fail-fast): u" in done.stdout
    done = both(lab, other, "--fail-fast")
    assert (done.returncode, len(lab.boots())) == (EXIT_PASS, 3 * CELLS)


def test_only_what_failed_last_time_runs_again(lab: FakeLab, other: Path) -> None:
    assert both(lab, other, "--seeds", "1").returncode == EXIT_PASS
    assert lab.run("--seeds", "1", **lab.plan(iops=STARVED)).returncode == EXIT_FAIL
    before = len(lab.boots())
    words = lab.words("--failed", "--seeds", "1")
    words.remove(str(lab.scenario))
    done = lab.call(*words)
    assert (done.returncode, len(lab.boots()) - before) == (EXIT_PASS, CELLS // 2), done.stderr
    assert "\nt on " in done.stderr and "\nu on " not in done.stderr
    done = lab.call(*words)
    assert (done.returncode, len(lab.boots()) - before) == (EXIT_PASS, CELLS // 2)
    assert "no scenario failed last time on path:" in done.stdout


def test_what_one_run_alone_can_take_is_refused_before_a_boot(lab: FakeLab, other: Path) -> None:
    for option in (("--json",), ("--junit", "-"), ("--trace",)):
        done = both(lab, other, *option)
        assert (done.returncode, lab.boots()) == (EXIT_MISUSE, [])
        assert f"{option[0]} takes one scenario" in done.stderr
    other.write_text("scenario: [")
    assert (both(lab, other).returncode, lab.boots()) == (EXIT_MISUSE, [])
    words = lab.words()
    words.remove(str(lab.scenario))
    done = lab.call(*words)
    assert done.returncode == EXIT_MISUSE and "run needs a scenario" in done.stderr


def test_an_arm_restricts_the_scenarios_that_have_it(lab: FakeLab, other: Path) -> None:
    other.write_text(other.read_text().replace("shared", "open"))
    done = both(lab, other, "--arm", "shared", "--seeds", "1", "--dry-run")
    assert "2 cells (scenario x kernel), 3 boots" in done.stdout, done.stderr

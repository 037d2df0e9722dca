# SPDX-License-Identifier: GPL-2.0-only
"""``blklab timeline`` over two made-up kernels and one that cannot be fetched."""

import pytest

from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_MISUSE, EXIT_PASS
from tests.process.fake_lab import CELLS, FakeLab
from tests.process.matrix_lab import kernels, lay_out

ABSENT = "debian:6.1"


@pytest.fixture(autouse=True)
def _two_of_each(lab: FakeLab) -> None:
    lay_out(lab)


def words(lab: FakeLab, named: str) -> list[str]:
    return ["timeline", str(lab.scenario), "--kernels", named, "--results", str(lab.results)]


def test_a_kernel_that_cannot_be_fetched_is_missing_and_the_others_are_measured(lab: FakeLab) -> None:
    done = lab.call(*words(lab, f"{kernels(lab)} {ABSENT}"))
    assert done.returncode == EXIT_PASS, done.stderr
    assert len(lab.boots()) == 2 * CELLS
    assert "2 measured, 1 missing, 0 not needed" in done.stdout
    assert "MISS 6.1: " in done.stdout
    assert f"{2 * CELLS} boots that took " in done.stdout


def test_runs_that_are_there_cost_no_boot_and_show_the_change(lab: FakeLab) -> None:
    first, second = kernels(lab).split()
    lab.call(*lab.words("--kernel", first))
    lab.call(*lab.words("--kernel", second), **lab.plan(iops={"lopsided.victim": 10.0}))
    before = len(lab.boots())
    done = lab.call(*words(lab, kernels(lab)))
    assert done.returncode == EXIT_PASS, done.stderr
    assert len(lab.boots()) == before
    assert f"one after another, {2 * CELLS} of them in earlier runs" in done.stdout
    assert "PASS -> FAIL" in done.stdout


def test_requests_that_say_nothing(lab: FakeLab) -> None:
    assert lab.call(*words(lab, ABSENT)).returncode == EXIT_MISUSE
    assert lab.call(*words(lab, kernels(lab)), "--metric", "iop").returncode == EXIT_MISUSE
    assert lab.call(*words(lab, f"{ABSENT} debian:6.12")).returncode == EXIT_CANNOT_JUDGE
    assert not lab.boots()


def test_two_scenarios_in_one_report(lab: FakeLab) -> None:
    other = lab.scenario.with_name("other.yaml")
    other.write_text(lab.scenario.read_text().replace("scenario: t\n", "scenario: other\n"))
    page = lab.folder / "timeline.html"
    done = lab.call("timeline", str(other), *words(lab, f"{kernels(lab)} {ABSENT}")[1:], "--out", str(page))
    assert done.returncode == EXIT_PASS, done.stderr
    assert len(lab.boots()) == 4 * CELLS
    assert done.stdout.startswith("other: ")
    assert "\n\nt: " in done.stdout
    shown = page.read_text()
    assert "Timeline of other, t" in shown and shown.count('<svg class="strip') == 2 * 2
    assert shown.count('<a class="cell') == 4
    assert shown.count('<span class="cell') == 2, "a kernel that cannot be fetched"

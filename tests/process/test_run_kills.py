# SPDX-License-Identifier: GPL-2.0-only
"""SIGKILL of the console script at any moment: no QEMU a second later, nothing lost, nothing counted twice."""

import json
import shutil
import subprocess
import time

import pytest

from lab.base.errors import EXIT_PASS
from tests.process.fake_lab import CELLS, FakeLab

MOMENTS = ("start", "greeting", "ready", "load", "file", "end", "bye")


def kill(lab: FakeLab, process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 1
    while left := lab.machines():
        assert time.monotonic() < deadline, f"still alive: {left}"


def assert_sound(lab: FakeLab, runs: int) -> None:
    """So many verdicts, each over complete boots that say the same when they are judged again."""
    assert len(lab.verdicts()) == runs
    for verdict in lab.verdicts():
        facts = json.loads((verdict.parent / "run.json").read_text())
        assert len(list(verdict.parent.glob("boots/*/boot.json"))) == len(facts["cells"]) == CELLS
        done = lab.call("judge", str(verdict.parent))
        assert done.returncode == EXIT_PASS, done.stdout
        assert "blklab: the stored verdict is identical" in done.stderr
    leftovers = [path for path in lab.results.rglob("*") if path.name.startswith(".") or path.name == "initrd"]
    assert leftovers == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_in_the_second_boot(lab: FakeLab, moment: str) -> None:
    process = lab.start(*lab.words("--jobs", "1"), **lab.plan(hold=[2, moment]))
    lab.await_boots(1, f"held-{moment}")
    kill(lab, process)
    assert lab.verdicts() == []
    done = lab.run("--jobs", "1")
    assert done.returncode == EXIT_PASS, done.stderr
    assert "1 boot taken over from an interrupted run" in done.stderr
    assert len(lab.boots()) == CELLS + 1
    assert lab.boots()[2] == lab.boots()[1], "the boot that was cut short is made again, in its place"
    assert_sound(lab, runs=1)


def test_killed_with_two_boots_side_by_side(lab: FakeLab) -> None:
    process = lab.hold(*lab.words("--jobs", "2"), boot=2)
    lab.await_boots(3)
    kill(lab, process)
    assert lab.run().returncode == EXIT_PASS
    assert_sound(lab, runs=1)


def test_killed_again_and_again_it_comes_to_its_end(lab: FakeLab) -> None:
    for kills in range(1, CELLS):
        process = lab.start(*lab.words("--jobs", "1"), **lab.plan(hold=[2 * kills, "load"]))
        lab.await_boots(kills, "held-load")
        kill(lab, process)
    assert lab.run().returncode == EXIT_PASS
    assert len(lab.boots()) == 2 * CELLS - 1, "each start of blklab finished one boot"
    assert_sound(lab, runs=1)


def test_killed_at_any_moment(lab: FakeLab) -> None:
    """Not to wait for something: the point is to hit different moments, those of starting and judging too."""
    started = time.monotonic()
    assert lab.run().returncode == EXIT_PASS
    whole = time.monotonic() - started
    for part in range(8):
        process = lab.start(*lab.words())
        time.sleep(whole * (part + 1) / 8)
        kill(lab, process)
        for verdict in lab.verdicts():
            assert json.loads(verdict.read_text())
    before = len(lab.boots())
    assert lab.run().returncode == EXIT_PASS
    assert len(lab.boots()) - before <= CELLS
    finished = len(lab.verdicts())
    for path in lab.results.rglob(".*"):
        # What a killed write left aside counts for nothing.
        path.unlink()
    for path in lab.results.glob("t/[0-9]*"):
        if not (path / "verdict.json").exists():
            shutil.rmtree(path)
    assert_sound(lab, runs=finished)


@pytest.mark.slow
def test_fifty_kills(lab: FakeLab) -> None:
    for number in range(50):
        process = lab.start(*lab.words("--jobs", "2"), **lab.plan(linger=0.005))
        time.sleep(0.2 + number * 0.015)
        kill(lab, process)
    assert lab.run().returncode == EXIT_PASS
    for verdict in lab.verdicts():
        assert lab.call("judge", str(verdict.parent)).returncode == EXIT_PASS


def test_two_at_once_on_one_cache_and_store(lab: FakeLab) -> None:
    both = [lab.start(*lab.words("--jobs", "2")) for _ in range(2)]
    for process in both:
        _, err = process.communicate(timeout=lab.patience)
        assert process.returncode == EXIT_PASS, err
    assert len(lab.boots()) == len(set(lab.boots())) == 2 * CELLS
    assert_sound(lab, runs=2)


def test_a_run_that_is_going_on_is_not_taken_up(lab: FakeLab) -> None:
    first = lab.hold(*lab.words("--jobs", "1"), boot=2)
    done = lab.run()
    assert done.returncode == EXIT_PASS
    assert "taken over" not in done.stderr
    assert len(lab.boots()) == 2 + CELLS
    assert first.poll() is None
    kill(lab, first)
    done = lab.run()
    assert "1 boot taken over" in done.stderr
    assert_sound(lab, runs=2)

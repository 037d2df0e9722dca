# SPDX-License-Identifier: GPL-2.0-only
"""Runs whose guests go on from a snapshot, of a QEMU that is made up."""

from pathlib import Path

import pytest

from lab import warm
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS
from lab.qemu import snapshot
from tests.process.fake_lab import CELLS, FakeLab

WARM = {"FAKE_DEVICES": snapshot.DEVICE}


def saved(lab: FakeLab) -> list[Path]:
    return [entry.path for entry in Cache(lab.folder / "cache").entries() if entry.kind == warm.KIND]


def counts(lab: FakeLab) -> tuple[int, int, int]:
    return len(lab.boots("save")), len(lab.boots("restore")), len(lab.boots())


def test_one_snapshot_serves_all_boots_of_a_machine(lab: FakeLab) -> None:
    for _ in range(2):
        done = lab.run(**WARM)
        assert done.returncode == EXIT_PASS, done.stderr
    (folder,) = saved(lab)
    assert counts(lab) == (1, 2 * CELLS, 2 * CELLS)
    assert lab.boots("save")[0].startswith(str(lab.folder / "cache"))
    assert (folder / snapshot.STATE_FILE).read_bytes() == b"\0\0\0\x08running\0\0"


def test_cold_runs_use_none(lab: FakeLab) -> None:
    assert lab.run("--cold", **WARM).returncode == EXIT_PASS
    assert counts(lab) == (0, 0, CELLS)


def test_a_qemu_without_the_device_boots(lab: FakeLab) -> None:
    assert lab.run().returncode == EXIT_PASS
    assert counts(lab) == (0, 0, CELLS)


def test_a_repetition_is_cold(lab: FakeLab) -> None:
    assert lab.run("--verify", **WARM).returncode == EXIT_PASS
    assert counts(lab) == (1, CELLS, 2 * CELLS)


def test_a_snapshot_that_qemu_refuses_is_no_reason_to_fail(lab: FakeLab) -> None:
    assert lab.run("--jobs", "1", FAKE_REFUSES="1", **WARM).returncode == EXIT_PASS
    assert counts(lab) == (1, 1, CELLS)
    assert not saved(lab)


@pytest.mark.parametrize("damaged", [b"", b"\0\0\0\x08running\0\1"])
def test_a_damaged_snapshot_is_replaced(lab: FakeLab, damaged: bytes) -> None:
    lab.run(**WARM)
    (folder,) = saved(lab)
    (folder / snapshot.STATE_FILE).write_bytes(damaged)
    assert lab.run("--jobs", "1", **WARM).returncode == EXIT_PASS
    assert counts(lab) == (2, 2 * CELLS - 1, 2 * CELLS)


def test_fingerprints_do_not_say_how_a_guest_was_started(lab: FakeLab) -> None:
    lab.run(**WARM)
    lab.run("--cold", **WARM)
    first, second = (sorted(run.parent.glob("boots/*/inputs.json")) for run in lab.verdicts())
    assert [path.read_text() for path in first] == [path.read_text() for path in second]
    scripts = {path.read_text() for run in lab.verdicts() for path in run.parent.glob("boots/*/repeat.sh")}
    assert not any("incoming" in text or snapshot.DEVICE in text for text in scripts)

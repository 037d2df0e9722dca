# SPDX-License-Identifier: GPL-2.0-only
"""Runs whose guests go on from a snapshot, of a QEMU that is made up."""

import json
from pathlib import Path

from lab.base.cache import Cache
from lab.qemu import snapshot
from tests.process.fake_lab import CELLS, FakeLab

WARM = {"FAKE_DEVICES": snapshot.DEVICE}


def saved(lab: FakeLab) -> list[Path]:
    return [entry.path for entry in Cache(lab.folder / "cache").entries() if entry.kind == snapshot.KIND]


def counts(lab: FakeLab) -> tuple[int, int, int]:
    return len(lab.boots("save")), len(lab.boots("restore")), len(lab.boots())


def complete(lab: FakeLab) -> list[str]:
    """The outcome of each boot that left a record."""
    return [json.loads(path.read_bytes())["outcome"] for path in lab.results.glob("t/[0-9]*/boots/*/boot.json")]


def test_one_snapshot_serves_all_boots_of_a_machine(lab: FakeLab) -> None:
    codes = {lab.run("--cold", **WARM).returncode, *(lab.run(**WARM).returncode for _ in range(2))}
    assert len(codes) == 1
    (folder,) = saved(lab)
    assert counts(lab) == (1, 2 * CELLS, 3 * CELLS)
    assert complete(lab) == ["bye"] * 3 * CELLS
    assert lab.boots("save")[0].startswith(str(lab.folder / "cache"))
    assert (folder / snapshot.STATE_FILE).read_bytes() == b"\0\0\0\x08running\0\0"


def test_cold_runs_use_none(lab: FakeLab) -> None:
    lab.run("--cold", **WARM)
    assert counts(lab) == (0, 0, CELLS)


def test_a_qemu_without_the_device_boots(lab: FakeLab) -> None:
    lab.run()
    assert counts(lab) == (0, 0, CELLS)


def test_a_repetition_is_cold(lab: FakeLab) -> None:
    lab.run("--verify", **WARM)
    assert counts(lab) == (1, CELLS, 2 * CELLS)


def test_a_snapshot_that_qemu_refuses_does_not_fail_the_run(lab: FakeLab) -> None:
    lab.run("--jobs", "1", FAKE_REFUSES="1", **WARM)
    assert complete(lab) == ["bye"] * CELLS
    assert counts(lab) == (1, 1, CELLS)
    assert not saved(lab)


def test_fingerprints_do_not_say_how_a_guest_was_started(lab: FakeLab) -> None:
    lab.run(**WARM)
    lab.run("--cold", **WARM)
    runs = [path.parent for path in lab.verdicts()]
    for name in ("inputs.json", "repeat.sh"):
        first, second = ({path.parent.name: path.read_text() for path in run.glob(f"boots/*/{name}")} for run in runs)
        assert first == second
        assert not any("incoming" in text or snapshot.DEVICE in text for text in first.values())

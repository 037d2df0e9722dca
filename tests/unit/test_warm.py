# SPDX-License-Identifier: GPL-2.0-only
"""Snapshots in the cache: what names them, that one process takes them, and that a boot needs none."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import LabBroken
from lab.qemu import snapshot
from lab.qemu.argv import CONSOLE_FILE, MachineSpec, WallClock
from lab.qemu.machine import Limits

SPEC = MachineSpec(Path("/opt/qemu"), (7, 2, 22), Path("/cache/vmlinux"), job="job.cpio")
BOOT = {
    name: name for name in ("kernel", "base", "job", "work", "qemu", "steady", "argv", "cmdline", "scenario", "seed")
}


class Saving:
    """Stands in for QEMU: counts the snapshots taken, and fails while ``broken``."""

    def __init__(self) -> None:
        self.taken, self.broken = 0, False

    def __call__(self, spec: MachineSpec, folder: Path, limits: Limits, abort: threading.Event | None) -> None:
        self.taken += 1
        (folder / snapshot.STATE_FILE).write_bytes(b"state")
        if self.broken:
            raise LabBroken("no snapshot")
        (folder / CONSOLE_FILE).write_bytes(b"booting\n")


@pytest.fixture
def saving(monkeypatch: pytest.MonkeyPatch) -> Saving:
    found = Saving()
    monkeypatch.setattr(snapshot, "save", found)
    return found


def guest(cache: Cache, abort: threading.Event | None = None) -> Path | None:
    return snapshot.prepared_guest(cache, BOOT, SPEC, Limits(), abort)


def test_what_determines_the_state_of_a_guest_and_how_it_is_saved_names_its_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = {name: snapshot.key_of({**BOOT, name: "another"}) for name in BOOT}
    same = {name for name, key in others.items() if key == snapshot.key_of(BOOT)}
    # The command line of the kernel is part of that of QEMU; the rest comes with the job.
    assert same == {"job", "work", "cmdline", "scenario", "seed"}
    assert len(set(others.values())) == len(BOOT) - len(same) + 1
    before = snapshot.key_of(BOOT)
    monkeypatch.setattr(snapshot, "_SAVED", ("another",))
    assert snapshot.key_of(BOOT) != before


def test_a_snapshot_is_taken_once(tmp_path: Path, saving: Saving) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: guest(Cache(tmp_path)), range(8)))
    assert saving.taken == 1
    (only,) = found
    assert only is not None and (only / snapshot.STATE_FILE).read_bytes() == b"state"
    assert [entry.kind for entry in Cache(tmp_path).entries()] == [snapshot.KIND]


def test_one_that_fails_leaves_nothing_and_is_not_tried_again(tmp_path: Path, saving: Saving) -> None:
    saving.broken = True
    cache = Cache(tmp_path)
    assert guest(cache) is guest(cache) is None
    assert saving.taken == 1
    assert not cache.entries()
    assert not list(tmp_path.rglob(snapshot.STATE_FILE))


def test_one_that_was_aborted_is_tried_again(tmp_path: Path, saving: Saving) -> None:
    abort, cache = threading.Event(), Cache(tmp_path)
    abort.set()
    saving.broken = True
    assert guest(cache, abort) is None
    saving.broken = False
    assert guest(cache) is not None


def test_waiting_for_the_snapshot_of_another_process_is_aborted(tmp_path: Path, saving: Saving) -> None:
    abort, key = threading.Event(), snapshot.key_of(BOOT)
    # The lock that the process has which takes the snapshot.
    with Cache(tmp_path).workspace(snapshot.KIND, key), ThreadPoolExecutor(1) as pool:
        (tmp_path / snapshot.KIND / key).rmdir()
        waiting = pool.submit(guest, Cache(tmp_path), abort)
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        abort.set()
        assert waiting.result(5) is None
    assert saving.taken == 0
    assert guest(Cache(tmp_path)) is not None


@pytest.mark.parametrize("name", [snapshot.STATE_FILE, CONSOLE_FILE])
@pytest.mark.parametrize("damaged", [b"other bytes", None])
def test_a_damaged_one_is_removed_and_taken_again(
    tmp_path: Path, saving: Saving, name: str, damaged: bytes | None
) -> None:
    cache = Cache(tmp_path)
    found = guest(cache)
    assert found is not None
    path = found / name
    path.unlink() if damaged is None else path.write_bytes(damaged)
    assert guest(cache) is None, "the first boot after the damage takes no snapshot"
    again = guest(cache)
    assert again is not None and (again / snapshot.STATE_FILE).read_bytes() == b"state"
    assert saving.taken == 2


def test_a_cache_that_cannot_be_written_does_not_fail_the_run(tmp_path: Path, saving: Saving) -> None:
    (tmp_path / "cache").write_bytes(b"a file")
    assert guest(Cache(tmp_path / "cache")) is None


def test_the_console_is_complete(tmp_path: Path, saving: Saving) -> None:
    found = guest(Cache(tmp_path / "cache"))
    assert found is not None
    (tmp_path / CONSOLE_FILE).write_bytes(b"ready\n")
    snapshot.complete_console(found, tmp_path)
    assert (tmp_path / CONSOLE_FILE).read_bytes() == b"booting\nready\n"


def test_a_restored_machine_differs_by_its_own_words_only() -> None:
    words = snapshot.restored(SPEC).hardware
    assert replace(snapshot.restored(SPEC), hardware=()) == SPEC
    assert words[-2:] == ("-incoming", "fd:0")


def test_only_several_cpus_in_virtual_time_boot_with_the_watchdog() -> None:
    several = replace(SPEC, cpus=2)
    watched = snapshot.booted(several, {snapshot.DEVICE})
    assert watched == replace(several, hardware=snapshot.restored(SPEC).hardware[:4])
    assert snapshot.booted(SPEC, {snapshot.DEVICE}) == SPEC
    assert snapshot.booted(several, set()) == several
    on_the_wall = replace(several, clock=WallClock())
    assert snapshot.booted(on_the_wall, {snapshot.DEVICE}) == on_the_wall

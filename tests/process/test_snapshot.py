# SPDX-License-Identifier: GPL-2.0-only
"""Machines of a real QEMU that are saved while their guest sleeps, and restored; the guest is a few instructions."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import LabBroken
from lab.native.programs import steady
from lab.qemu import snapshot
from lab.qemu.argv import CONSOLE_FILE, MachineSpec
from lab.qemu.machine import Channel, Limits, Note, run
from lab.qemu.probe import Qemu

LETTER = b"\xba\xf8\x03\xb0%c\xee"
"""mov dx, 0x3f8; mov al, letter; out dx, al"""
WATCHDOG = b"\xba\x43\x04\xb0\x0f\xee"
"""mov dx, 0x443; mov al, 15; out dx, al"""
RESTART = b"\xb0\xfe\xe6\x64"
"""mov al, 0xfe; out 0x64, al: the keyboard controller resets the machine"""
REST = b"\xf4\xeb\xfd"
"""hlt; jmp to the hlt"""
BUSY = b"\x66\xb9" + (1 << 30).to_bytes(4, "little") + b"\x67\xe2\xfd"
"""mov ecx, 1 << 30; loop to the loop: seconds of host time"""
LIMITS = Limits(ready_seconds=30.0, total_seconds=30.0)


def machine(qemu: Qemu, tmp_path: Path, code: bytes) -> MachineSpec:
    """A machine whose firmware is ``code``, which starts 64 KiB below 4 GiB."""
    image = code.ljust(65536 - 16, b"\x90") + b"\xe9" + (-(65536 - 16) - 3 & 0xFFFF).to_bytes(2, "little")
    firmware = tmp_path / "firmware"
    firmware.write_bytes(image.ljust(65536, b"\x90"))
    library = steady(Cache(tmp_path / "cache")).path
    return MachineSpec(qemu.path, qemu.version, None, firmware=str(firmware), memory=16, preload=library, job="job")


def folder(path: Path) -> Path:
    path.mkdir()
    return path


class Nobody:
    def line(self, channel: Channel, text: str) -> Note | None:
        return None


def test_a_machine_is_saved_where_its_guest_rests(tmp_path: Path, qemu: Qemu) -> None:
    saved = folder(tmp_path / "saved")
    snapshot.save(machine(qemu, tmp_path, LETTER % b"A" + WATCHDOG + REST), saved, LIMITS)
    assert sorted(path.name for path in saved.iterdir()) == [CONSOLE_FILE, "qemu.log", snapshot.STATE_FILE]
    assert (saved / CONSOLE_FILE).read_bytes() == b"A"


def test_a_state_of_another_machine_is_refused(tmp_path: Path, qemu: Qemu) -> None:
    spec, saved = machine(qemu, tmp_path, WATCHDOG + REST), folder(tmp_path / "saved")
    snapshot.save(spec, saved, LIMITS)
    other = snapshot.restored(replace(spec, memory=32))
    (folder(tmp_path / "again") / spec.job).write_bytes(b"job")
    with (saved / snapshot.STATE_FILE).open("rb") as state, pytest.raises(LabBroken, match="refused to start"):
        run(other, tmp_path / "again", Nobody(), LIMITS, stdin=state.fileno())


def test_a_guest_that_never_waits_for_a_job(tmp_path: Path, qemu: Qemu) -> None:
    spec = machine(qemu, tmp_path, LETTER % b"A" + REST)
    with pytest.raises(LabBroken, match="did not wait for a job within 1 s"):
        snapshot.save(spec, folder(tmp_path / "saved"), Limits(ready_seconds=1.0))


def test_saving_is_aborted(tmp_path: Path, qemu: Qemu) -> None:
    abort = threading.Event()
    threading.Timer(0.5, abort.set).start()
    with pytest.raises(LabBroken, match="stopped by request"):
        snapshot.save(machine(qemu, tmp_path, REST), folder(tmp_path / "saved"), LIMITS, abort)


def test_a_console_that_does_not_stop(tmp_path: Path, qemu: Qemu) -> None:
    spec = machine(qemu, tmp_path, LETTER % b"A" + b"\xeb\xfd")
    with pytest.raises(LabBroken, match="console did not stop"):
        snapshot.save(spec, folder(tmp_path / "saved"), Limits(ready_seconds=30.0, console_bytes=1000))


def test_a_busy_guest_goes_on_after_its_watchdog_expired(tmp_path: Path, qemu: Qemu) -> None:
    """QEMU sets a timer of the host's clock for 1 s when it does."""
    spec = replace(machine(qemu, tmp_path, WATCHDOG + BUSY + LETTER % b"B" + RESTART), cpus=2)
    spec = snapshot.booted(spec, qemu.devices)
    (folder(tmp_path / "boot") / spec.job).write_bytes(b"job")
    run(spec, tmp_path / "boot", Nobody(), LIMITS)
    assert (tmp_path / "boot" / CONSOLE_FILE).read_bytes() == b"B"

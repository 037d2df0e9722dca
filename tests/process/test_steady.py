# SPDX-License-Identifier: GPL-2.0-only
"""The library that holds QEMU's main loop: how it is built, and that QEMU still ends when it is told to."""

import signal
import subprocess
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import LabBroken
from lab.native.programs import steady
from lab.packages.tools import PRELOAD, loads_itself
from lab.qemu.probe import Qemu


def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    first, second = (steady(Cache(tmp_path / name)).path.read_bytes() for name in ("a", "somewhere/else"))
    assert first == second


def test_without_a_compiler_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabBroken) as raised:
        steady(Cache(tmp_path / "cache"))
    assert "gcc" in raised.value.remedy


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_qemu_ends_on_a_signal_while_its_cpu_never_waits(tmp_path: Path, number: signal.Signals, qemu: Qemu) -> None:
    """The guest's firmware writes a letter and jumps to itself, so the CPU's thread never comes to wait."""
    image = bytearray(b"\x90" * 65536)
    # At the reset vector: mov dx, 0x3f8; mov al, 'A'; out dx, al; jmp to itself
    image[-16:-8] = b"\xba\xf8\x03\xb0A\xee\xeb\xfe"
    firmware = tmp_path / "spin.bin"
    firmware.write_bytes(image)
    library = steady(Cache(tmp_path / "cache")).path
    serial = tmp_path / "serial"
    words = [str(qemu.path), "-M", "pc", "-nodefaults", "-display", "none", "-accel", "tcg"]
    words += ["-icount", "shift=0,sleep=off", "-bios", str(firmware), "-serial", f"file:{serial}"]
    environment = {PRELOAD if loads_itself(qemu.path) else "LD_PRELOAD": str(library)}
    process = subprocess.Popen(words, env=environment, cwd=tmp_path)
    try:
        while not serial.exists() or not serial.stat().st_size:
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()

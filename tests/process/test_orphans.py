# SPDX-License-Identifier: GPL-2.0-only
"""However blklab dies, and whenever, no machine is left a second later."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.base.process import child_of
from lab.qemu.probe import find_qemu
from tests.process.conftest import FakeQemu
from tests.process.fake_lab import processes_below

CHECKOUT = Path(__file__).parents[2]
PARENT = """\
import sys
from pathlib import Path
from lab.qemu.argv import MachineSpec
from lab.qemu.argv import WallClock
from lab.qemu.machine import Limits, run

class Tell:
    def line(self, channel, text):
        print("up", flush=True)

program, kernel, firmware, folder = sys.argv[1:]
spec = MachineSpec(
    Path(program), (7, 2, 0), Path(kernel) if kernel else None, firmware=firmware or None, memory=64, clock=WallClock()
)
print("starting", flush=True)
run(spec, Path(folder), Tell(), Limits())
"""
FAKE = 'signal.signal(signal.SIGTERM, signal.SIG_IGN); console.write(b"up\\n"); forever()'
# How long after "starting" the parent is killed: before, while and after the program is bound to it.
MOMENTS = [0.0, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2]

Start = Callable[[], "subprocess.Popen[str]"]


@pytest.fixture(params=["fake", "real"])
def start(request: pytest.FixtureRequest, fake_qemu: FakeQemu, folder: Path, tmp_path: Path) -> Iterator[Start]:
    if request.param == "fake":
        spec = fake_qemu(FAKE)
        words = [str(spec.program), str(spec.kernel), "", str(folder)]
    else:
        firmware = tmp_path / "bare.rom"
        # At the reset vector: mov dx, 0x3f8; mov al, newline; out dx, al; hlt; jmp back to hlt
        firmware.write_bytes(b"\xba\xf8\x03\xb0\n\xee\xf4\xeb\xfd".ljust(16, b"\xf4").rjust(1 << 16, b"\x90"))
        words = [str(find_qemu().path), "", str(firmware), str(folder)]
    parents: list[subprocess.Popen[str]] = []

    def begin() -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", PARENT, *words]
        parents.append(subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True))
        return parents[-1]

    yield begin
    for parent in parents:
        parent.kill()
        parent.communicate()
    for left in processes_below(folder):
        os.kill(left, signal.SIGKILL)


def assert_empty_within_a_second(folder: Path) -> None:
    deadline = time.monotonic() + 1
    while left := processes_below(folder):
        assert time.monotonic() < deadline, f"still alive: {left}"


def told(parent: "subprocess.Popen[str]") -> str:
    assert parent.stdout is not None
    return parent.stdout.readline().strip()


def test_a_running_machine_dies_with_its_killed_parent(start: Start, folder: Path) -> None:
    parent = start()
    assert [told(parent), told(parent)] == ["starting", "up"]
    assert len(processes_below(folder)) == 1
    parent.kill()
    assert_empty_within_a_second(folder)


def test_a_parent_killed_at_any_moment_of_the_start(start: Start, folder: Path) -> None:
    for moment in MOMENTS:
        parent = start()
        assert told(parent) == "starting"
        # Not to wait for something: the point is to hit different moments.
        time.sleep(moment)
        parent.kill()
        parent.wait()
        assert_empty_within_a_second(folder)


def test_a_program_whose_parent_is_gone_is_not_executed(fake_qemu: FakeQemu, folder: Path) -> None:
    program = fake_qemu('console.write(b"up\\n")').program
    for parent, executed in ((1, False), (os.getpid(), True)):
        done = subprocess.run(child_of(parent, [str(program)]), cwd=folder, check=False)
        assert (done.returncode == 0) == (folder / "console.txt").exists() == executed

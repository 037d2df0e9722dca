# SPDX-License-Identifier: GPL-2.0-only
"""Whether KVM runs a guest, proved by running one.

An open /dev/kvm proves nothing: under some hypervisors the ioctls succeed, but no kernel gets past its first
instructions.
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lab.base.errors import LabBroken
from lab.qemu.argv import MachineSpec
from lab.qemu.clock import WallClock
from lab.qemu.machine import Channel, Ending, Limits, Note, Reason, run
from lab.qemu.probe import Qemu

DEVICE = Path("/dev/kvm")
_MODELS = ("host", "qemu64")
_PATIENCE = 10.0
_GREETING = "guest code runs"
_BANNER, _NO_ROOT = "Linux version", "Unable to mount root fs"
_FIRMWARE_BYTES = 1 << 16


class KvmState(StrEnum):
    ABSENT = "absent"
    NO_PERMISSION = "no permission"
    HANGS = "opens but hangs"
    UNPROVED = "opens and runs bare code"
    WORKS = "works"


@dataclass(frozen=True)
class Kvm:
    """``proof`` describes what was seen; ``model`` is the CPU model that worked, else empty."""

    state: KvmState
    proof: str
    model: str = ""


def prove_kvm(
    qemu: Qemu, kernel_image: Path | None = None, *, device: Path = DEVICE, patience: float = _PATIENCE
) -> Kvm:
    """Boot ``kernel_image`` under KVM until it panics because it has no root file system: WORKS.

    Without an image only a few bytes of code run, which proves less: UNPROVED. Takes one or two seconds if KVM
    works, ``patience`` seconds if it hangs.
    """
    refusal = _refusal(device)
    if refusal is not None:
        return refusal
    failures = []
    for model in _MODELS:
        state, proof, hung = _boot(qemu, model, kernel_image, patience)
        if state is not KvmState.HANGS:
            return Kvm(state, proof, model)
        failures.append(f"-cpu {model}: {proof}")
        if hung:
            break
    return Kvm(KvmState.HANGS, "; ".join(failures))


def bare_firmware() -> bytes:
    """A firmware image in 8086 machine code that writes one line to the first serial port and halts."""
    send = b"".join(bytes((0xB0, byte, 0xEE)) for byte in f"{_GREETING}\n".encode())  # mov al, byte; out dx, al
    code = b"\xba\xf8\x03" + send + b"\xf4\xeb\xfd"  # mov dx, 0x3f8; ...; hlt; jmp back to hlt
    reset = _FIRMWARE_BYTES - 16
    jump = b"\xe9" + (_FIRMWARE_BYTES - reset - 3).to_bytes(2, "little")  # the CPU starts 16 bytes below the end
    return code.ljust(reset, b"\xf4") + jump.ljust(16, b"\xf4")


def _refusal(device: Path) -> Kvm | None:
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except PermissionError:
        return Kvm(KvmState.NO_PERMISSION, f"{device} exists, but this user may not open it")
    except OSError as error:
        return Kvm(KvmState.ABSENT, f"{device}: {error.strerror}")
    return None


def _boot(qemu: Qemu, model: str, kernel: Path | None, patience: float) -> tuple[KvmState, str, bool]:
    """The state, its description, and whether a deadline ended the guest."""
    with tempfile.TemporaryDirectory(prefix="blklab-kvm-") as name:
        folder = Path(name)
        ran, proof, hung = _run(_bare_spec(qemu, model, folder), folder, (_GREETING,), patience)
        if not ran:
            return KvmState.HANGS, f"not even bare code ran: {proof}", hung
        if kernel is None:
            return KvmState.UNPROVED, "no kernel image was given to boot", False
        ran, proof, hung = _run(_kernel_spec(qemu, model, kernel), folder, (_BANNER, _NO_ROOT), patience)
        if ran:
            return KvmState.WORKS, f"{kernel} booted until it looked for a root file system", False
        return KvmState.HANGS, f"{kernel} did not boot: {proof}", hung


def _bare_spec(qemu: Qemu, model: str, folder: Path) -> MachineSpec:
    firmware = folder / "bare.rom"
    firmware.write_bytes(bare_firmware())
    clock = WallClock("kvm", model)
    return MachineSpec(qemu.path, qemu.version, kernel=None, firmware=str(firmware), memory=64, clock=clock)


def _kernel_spec(qemu: Qemu, model: str, kernel: Path) -> MachineSpec:
    # The kernel prints its banner at level notice.
    words = ("loglevel=7", "earlyprintk=serial,ttyS0")
    return MachineSpec(qemu.path, qemu.version, kernel, memory=256, clock=WallClock("kvm", model), append=words)


def _run(spec: MachineSpec, folder: Path, wanted: Sequence[str], seconds: float) -> tuple[bool, str, bool]:
    watch = _Expect(wanted)
    try:
        ending = run(spec, folder, watch, Limits(ready_seconds=seconds, total_seconds=2 * seconds))
    except LabBroken as error:
        return False, error.message.partition("\n")[0], False
    return watch.met, _describe(ending, watch), ending.reason is Reason.DEADLINE


class _Expect:
    """READY at the first of the wanted texts, STOP when all were seen in order."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self._missing = list(wanted)
        self._last = ""

    @property
    def met(self) -> bool:
        return not self._missing

    @property
    def last_line(self) -> str:
        return self._last

    def line(self, channel: Channel, text: str) -> Note | None:
        self._last = text.strip() or self._last
        if channel is not Channel.CONSOLE or not self._missing or self._missing[0] not in text:
            return None
        del self._missing[0]
        return Note.READY if self._missing else Note.STOP


def _describe(ending: Ending, watch: _Expect) -> str:
    last = f'last words "{watch.last_line}"' if watch.last_line else "nothing on its console"
    if ending.reason is Reason.DEADLINE:
        return f"hung for {ending.wall:.0f} s, {last}"
    said = ending.stderr.strip().rpartition("\n")[2]
    return f"QEMU ended by itself, {said or last}"

# SPDX-License-Identifier: GPL-2.0-only
"""The accelerator of the wall clock: KVM if this kernel was seen to boot under it, else TCG on all cores.

An open /dev/kvm proves nothing: under some hypervisors the ioctls succeed, but no kernel gets past its first
instructions.
"""

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from lab.base.cache import Cache
from lab.base.contents import demand_intact
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import LabBroken
from lab.base.reading import read_json
from lab.qemu.argv import Clock, MachineSpec, WallClock
from lab.qemu.machine import Channel, Ending, Limits, Note, Reason, run
from lab.qemu.probe import OVERRIDE, Qemu

KIND = "accelerator"
DEVICE = Path("/dev/kvm")
SOUND_PATCHING = (8, 1)
"""From this version on TCG locks a page of code before it translates or changes it."""
_FILE = "kvm.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MODELS = ("host", "qemu64")
_PATIENCE = 10.0
_BANNER, _NO_ROOT = "Linux version", "Unable to mount root fs"


class KvmState(StrEnum):
    ABSENT = "absent"
    NO_PERMISSION = "no permission"
    HANGS = "opens but hangs"
    UNPROVED = "opens"
    WORKS = "works"


@dataclass(frozen=True)
class Kvm:
    """``proof`` describes what was seen; ``model`` is the CPU model that worked, else empty."""

    state: KvmState
    proof: str
    model: str = ""

    @property
    def clock(self) -> WallClock:
        """The wall clock that this proof allows."""
        return WallClock("kvm", self.model) if self.state is KvmState.WORKS else WallClock("tcg")

    def __str__(self) -> str:
        if self.state is KvmState.WORKS:
            return f"KVM (-cpu {self.model}: {self.proof})"
        return f"TCG, a thread for each vCPU (KVM: {self.state}, {self.proof})"


def prove_kvm(
    qemu: Qemu, kernel_image: Path | None = None, *, device: Path = DEVICE, patience: float = _PATIENCE
) -> Kvm:
    """Boot ``kernel_image`` under KVM until it panics because it has no root file system: WORKS.

    Without an image it is UNPROVED. Takes one or two seconds if KVM works, ``patience`` seconds if it hangs.
    """
    refusal = _refusal(device)
    if refusal is not None:
        return refusal
    if kernel_image is None:
        return Kvm(KvmState.UNPROVED, "no kernel image was given to boot")
    failures = []
    # The kernel prints its banner at level notice.
    words = ("loglevel=7", "earlyprintk=serial,ttyS0")
    for model in _MODELS:
        clock = WallClock("kvm", model)
        spec = MachineSpec(qemu.path, qemu.version, kernel_image, memory=256, clock=clock, append=words)
        ran, proof, hung = _run(spec, (_BANNER, _NO_ROOT), patience)
        if ran:
            return Kvm(KvmState.WORKS, f"{kernel_image} booted until it looked for a root file system", model)
        failures.append(f"-cpu {model}: {kernel_image} did not boot: {proof}")
        if hung:
            break
    return Kvm(KvmState.HANGS, "; ".join(failures))


def _refusal(device: Path) -> Kvm | None:
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except PermissionError:
        return Kvm(KvmState.NO_PERMISSION, f"{device} exists, but this user may not open it")
    except OSError as error:
        return Kvm(KvmState.ABSENT, f"{device}: {error.strerror}")
    return None


def _run(spec: MachineSpec, wanted: Sequence[str], seconds: float) -> tuple[bool, str, bool]:
    """Whether the ``wanted`` texts came in order, what was seen instead, and whether a deadline ended the guest."""
    watch = _Expect(wanted)
    with tempfile.TemporaryDirectory(prefix="blklab-kvm-") as folder:
        try:
            ending = run(spec, Path(folder), watch, Limits(ready_seconds=seconds, total_seconds=2 * seconds))
        except LabBroken as error:
            return False, error.message.partition("\n")[0], False
    return not watch.missing, _describe(ending, watch), ending.reason is Reason.DEADLINE


class _Expect:
    """READY at the first of the wanted texts, STOP when all were seen in order."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self.missing, self.last_line = list(wanted), ""

    def line(self, channel: Channel, text: str) -> Note | None:
        self.last_line = text.strip() or self.last_line
        if channel is not Channel.CONSOLE or not self.missing or self.missing[0] not in text:
            return None
        del self.missing[0]
        return Note.READY if self.missing else Note.STOP


def _describe(ending: Ending, watch: _Expect) -> str:
    last = f'last words "{watch.last_line}"' if watch.last_line else "nothing on its console"
    if ending.reason is Reason.DEADLINE:
        return f"hung for {ending.wall:.0f} s, {last}"
    said = ending.stderr.strip().rpartition("\n")[2]
    return f"QEMU ended by itself, {said or last}"


def accelerator(cache: Cache, qemu: Qemu, image: Path, digest: str) -> Kvm:
    """What is proved about KVM for the kernel ``image`` with that ``digest``.

    It is cached until the host reboots, or QEMU, the kernel or access to the device changes. It takes one or
    two seconds if KVM works, a few more if it hangs.
    """
    refused = not os.access(DEVICE, os.R_OK | os.W_OK)
    boot = _BOOT.read_text().strip() if _BOOT.is_file() else ""
    key = digest_bytes(canonical([boot, os.uname().release, qemu.digest, digest, refused]))

    def fill(into: Path) -> None:
        proved = prove_kvm(qemu, image)
        words = proved.proof.replace(str(image), "this kernel")
        (into / _FILE).write_text(json.dumps(asdict(replace(proved, proof=words))))

    stored = read_json(demand_intact(cache.entry(KIND, key, fill) / _FILE))
    return Kvm(KvmState(stored["state"]), stored["proof"], stored["model"])


def doubt_of(clock: Clock, qemu: Qemu) -> str:
    """Why ``qemu`` itself may make a guest die or hang; empty when it cannot."""
    if clock != WallClock("tcg") or qemu.version >= SOUND_PATCHING:
        return ""
    return (
        f"QEMU {qemu.version_text} may run code that another vCPU is patching, which makes guests die or hang:"
        f" measure again, or name QEMU {'.'.join(map(str, SOUND_PATCHING))} or later in {OVERRIDE}"
    )

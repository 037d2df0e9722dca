# SPDX-License-Identifier: GPL-2.0-only
"""The accelerator of the wall clock: KVM if this kernel was seen to boot under it, else TCG on all cores."""

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lab.base.cache import Cache
from lab.base.contents import demand_intact
from lab.base.digest import canonical, digest_bytes
from lab.base.reading import read_json
from lab.qemu.clock import Clock, WallClock
from lab.qemu.kvm import DEVICE, Kvm, KvmState, prove_kvm
from lab.qemu.probe import OVERRIDE, Qemu

KIND = "accelerator"
SOUND_PATCHING = (8, 1)
"""From this version on TCG locks a page of code before it translates or changes it."""
_FILE = "kvm.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Accelerator:
    """``why`` describes the evidence about KVM."""

    clock: WallClock
    why: str

    def __str__(self) -> str:
        name = "KVM" if self.clock.accelerator == "kvm" else "TCG, a thread for each vCPU"
        return f"{name} ({self.why})"


def accelerator(cache: Cache, qemu: Qemu, image: Path, digest: str) -> Accelerator:
    """The accelerator for the kernel ``image`` with that ``digest``.

    The proof is cached until the host reboots, or QEMU, the kernel or access to the device changes. It takes one or
    two seconds if KVM works, a few more if it hangs.
    """
    refused = not os.access(DEVICE, os.R_OK | os.W_OK)
    key = digest_bytes(canonical([_this_boot(), os.uname().release, qemu.digest, digest, refused]))

    def fill(into: Path) -> None:
        proved = prove_kvm(qemu, image)
        words = proved.proof.replace(str(image), "this kernel")
        (into / _FILE).write_text(json.dumps(asdict(replace(proved, proof=words))))

    found = read_json(demand_intact(cache.entry(KIND, key, fill) / _FILE))
    return of(Kvm(KvmState(found["state"]), found["proof"], found["model"]))


def of(kvm: Kvm) -> Accelerator:
    """The accelerator that a proof allows."""
    if kvm.state is KvmState.WORKS:
        return Accelerator(WallClock("kvm", kvm.model), f"-cpu {kvm.model}: {kvm.proof}")
    return Accelerator(WallClock("tcg"), f"KVM: {kvm.state}, {kvm.proof}")


def doubt_of(clock: Clock, qemu: Qemu) -> str:
    """Why ``qemu`` itself may make a guest die or hang; empty when it cannot."""
    if clock != WallClock("tcg") or qemu.version >= SOUND_PATCHING:
        return ""
    return (
        f"QEMU {qemu.version_text} may run code that another vCPU is patching, which makes guests die or hang:"
        f" measure again, or name QEMU {'.'.join(map(str, SOUND_PATCHING))} or later in {OVERRIDE}"
    )


def _this_boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""

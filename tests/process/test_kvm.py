# SPDX-License-Identifier: GPL-2.0-only
from pathlib import Path

from lab.qemu.argv import MachineSpec
from lab.qemu.clock import VirtualClock, WallClock
from lab.qemu.kvm import Kvm, KvmState, bare_firmware, prove_kvm
from lab.qemu.machine import Channel, Limits, Note, Reason, run
from lab.qemu.probe import Qemu, find_qemu
from tests.process.conftest import FakeQemu, Recorder

GREETING = "guest code runs"
BOTH = """
GREETING = b"guest code runs\\n"
BOOT = b"Linux version 6.1\\nVFS: Unable to mount root fs on unknown-block(0,0)\\n"
bare = "-kernel" not in sys.argv
host = sys.argv[sys.argv.index("-cpu") + 1] == "host"
"""


def verdict(fake_qemu: FakeQemu, tmp_path: Path, body: str, *, with_kernel: bool, patience: float = 60) -> Kvm:
    spec = fake_qemu(BOTH + body)
    qemu = Qemu(spec.program, (7, 2, 0), "", frozenset(), None, "")
    device = tmp_path / "kvm"
    device.write_bytes(b"")
    return prove_kvm(qemu, spec.kernel if with_kernel else None, device=device, patience=patience)


def test_bare_code_runs_on_a_real_qemu(tmp_path: Path) -> None:
    """What is taken for a hang under KVM must not be a fault of the code itself."""
    firmware = tmp_path / "bare.rom"
    firmware.write_bytes(bare_firmware())
    qemu = find_qemu()
    for clock in (VirtualClock(), WallClock("tcg")):
        spec = MachineSpec(qemu.path, qemu.version, None, firmware=str(firmware), memory=64, clock=clock)
        watch = Recorder({GREETING: Note.STOP})
        ending = run(spec, tmp_path, watch, Limits(ready_seconds=60))
        assert (ending.reason, watch.on(Channel.CONSOLE)) == (Reason.WATCH, [GREETING])


def test_a_kernel_that_wants_a_root_is_the_proof(fake_qemu: FakeQemu, tmp_path: Path) -> None:
    body = """
console.write(GREETING if bare else BOOT)
forever()
"""
    kvm = verdict(fake_qemu, tmp_path, body, with_kernel=True)
    assert (kvm.state, kvm.model) == (KvmState.WORKS, "host")
    assert "looked for a root file system" in kvm.proof


def test_bare_code_alone_is_no_proof(fake_qemu: FakeQemu, tmp_path: Path) -> None:
    kvm = verdict(fake_qemu, tmp_path, 'console.write(b"guest code runs\\n"); forever()', with_kernel=False)
    assert kvm.state is KvmState.UNPROVED


def test_a_model_that_qemu_refuses_is_followed_by_another(fake_qemu: FakeQemu, tmp_path: Path) -> None:
    body = """
if host:
    sys.exit("error: failed to set MSR 0x10a to 0x0")
console.write(GREETING if bare else BOOT)
forever()
"""
    kvm = verdict(fake_qemu, tmp_path, body, with_kernel=True)
    assert (kvm.state, kvm.model) == (KvmState.WORKS, "qemu64")


def test_a_kernel_that_stops_after_its_first_words_hangs(fake_qemu: FakeQemu, tmp_path: Path) -> None:
    body = 'console.write(b"guest code runs\\n" if bare else b"Booting from ROM\\n"); forever()'
    kvm = verdict(fake_qemu, tmp_path, body, with_kernel=True, patience=1)
    assert (kvm.state, kvm.model) == (KvmState.HANGS, "")
    assert 'last words "Booting from ROM"' in kvm.proof
    assert "qemu64" not in kvm.proof


def test_both_models_refused(fake_qemu: FakeQemu, tmp_path: Path) -> None:
    kvm = verdict(fake_qemu, tmp_path, 'sys.exit("error: failed to set MSR 0x10a to 0x0")', with_kernel=True)
    assert kvm.state is KvmState.HANGS
    assert kvm.proof.count("MSR 0x10a") == 2

# SPDX-License-Identifier: GPL-2.0-only
from pathlib import Path

from lab.qemu.kvm import Kvm, KvmState, prove_kvm
from lab.qemu.probe import Qemu
from tests.process.conftest import FakeQemu

BOTH = """
BOOT = b"Linux version 6.1\\nVFS: Unable to mount root fs on unknown-block(0,0)\\n"
host = sys.argv[sys.argv.index("-cpu") + 1] == "host"
"""


def verdict(fake_qemu: FakeQemu, tmp_path: Path, body: str, patience: float = 60) -> Kvm:
    spec = fake_qemu(BOTH + body)
    qemu = Qemu(spec.program, (7, 2, 0), "", frozenset(), None, "")
    device = tmp_path / "kvm"
    device.write_bytes(b"")
    return prove_kvm(qemu, spec.kernel, device=device, patience=patience)


def test_a_kernel_that_wants_a_root_is_the_proof(fake_qemu: FakeQemu, tmp_path: Path) -> None:
    body = """
console.write(BOOT)
forever()
"""
    kvm = verdict(fake_qemu, tmp_path, body)
    assert (kvm.state, kvm.model) == (KvmState.WORKS, "host")
    assert "looked for a root file system" in kvm.proof


def test_a_model_that_qemu_refuses_is_followed_by_another(fake_qemu: FakeQemu, tmp_path: Path) -> None:
    body = """
if host:
    sys.exit("error: failed to set MSR 0x10a to 0x0")
console.write(BOOT)
forever()
"""
    kvm = verdict(fake_qemu, tmp_path, body)
    assert (kvm.state, kvm.model) == (KvmState.WORKS, "qemu64")


def test_a_kernel_that_stops_after_its_first_words_hangs(fake_qemu: FakeQemu, tmp_path: Path) -> None:
    body = 'console.write(b"Booting from ROM\\n"); forever()'
    kvm = verdict(fake_qemu, tmp_path, body, patience=1)
    assert (kvm.state, kvm.model) == (KvmState.HANGS, "")
    assert 'last words "Booting from ROM"' in kvm.proof
    assert "qemu64" not in kvm.proof


def test_both_models_refused(fake_qemu: FakeQemu, tmp_path: Path) -> None:
    kvm = verdict(fake_qemu, tmp_path, 'sys.exit("error: failed to set MSR 0x10a to 0x0")')
    assert kvm.state is KvmState.HANGS
    assert kvm.proof.count("MSR 0x10a") == 2

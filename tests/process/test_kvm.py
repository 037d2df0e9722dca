# SPDX-License-Identifier: GPL-2.0-only
from pathlib import Path

import pytest

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


WORKING = "console.write(BOOT)\nforever()\n"
REFUSAL = 'sys.exit("error: failed to set MSR 0x10a to 0x0")'


@pytest.mark.parametrize(
    ("body", "state", "model", "words"),
    [
        (WORKING, KvmState.WORKS, "host", ("looked for a root file system",)),
        (f"if host:\n    {REFUSAL}\n{WORKING}", KvmState.WORKS, "qemu64", ()),
        ('console.write(b"Booting from ROM\\n"); forever()', KvmState.HANGS, "", ('last words "Booting from ROM"',)),
        (REFUSAL, KvmState.HANGS, "", ("MSR 0x10a", "MSR 0x10a")),
    ],
    ids=["it wants a root", "one model is refused", "it stops after its first words", "both models are refused"],
)
def test_a_kernel_is_the_proof(
    fake_qemu: FakeQemu, tmp_path: Path, body: str, state: KvmState, model: str, *, words: tuple[str, ...]
) -> None:
    kvm = verdict(fake_qemu, tmp_path, body, patience=1 if "Booting" in body else 60)
    assert (kvm.state, kvm.model) == (state, model)
    assert all(kvm.proof.count(word) == words.count(word) for word in words)
    assert "Booting" not in body or "qemu64" not in kvm.proof

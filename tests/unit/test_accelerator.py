# SPDX-License-Identifier: GPL-2.0-only
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.qemu import kvm as module
from lab.qemu.clock import VirtualClock, WallClock
from lab.qemu.kvm import Kvm, KvmState, accelerator, doubt_of, of
from lab.qemu.probe import Qemu

QEMU = Qemu(Path("/opt/qemu"), (7, 2, 22), "", frozenset(), None, "q" * 64)
IMAGE = Path("/cache/image")


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Images that were booted for a proof; the first one works, others hang."""
    asked: list[Path] = []

    def prove(_: Qemu, image: Path) -> Kvm:
        asked.append(image)
        if len(asked) == 1:
            return Kvm(KvmState.WORKS, f"{image} booted until it wanted a root", "host")
        return Kvm(KvmState.HANGS, f"{image} did not boot")

    monkeypatch.setattr(module, "prove_kvm", prove)
    return asked


def test_kvm_is_taken_where_a_kernel_booted_under_it() -> None:
    works = of(Kvm(KvmState.WORKS, "it booted", "qemu64"))
    assert works.clock == WallClock("kvm", "qemu64")
    assert str(works) == "KVM (-cpu qemu64: it booted)"


@pytest.mark.parametrize("state", sorted(set(KvmState) - {KvmState.WORKS}))
def test_a_device_that_opens_proves_nothing(state: KvmState) -> None:
    found = of(Kvm(state, "what was seen"))
    assert found.clock == WallClock("tcg")
    assert str(found) == f"TCG, a thread for each vCPU (KVM: {state}, what was seen)"


def test_only_an_old_qemu_that_emulates_processors_side_by_side_is_doubted() -> None:
    later = replace(QEMU, version=(8, 1, 0))
    assert doubt_of(WallClock("tcg"), QEMU).startswith("QEMU 7.2.22 may run code that another vCPU is patching")
    assert "QEMU 8.1 or later in BLKLAB_QEMU" in doubt_of(WallClock("tcg"), QEMU)
    assert doubt_of(WallClock("tcg"), later) == doubt_of(WallClock("kvm"), QEMU) == doubt_of(VirtualClock(), QEMU) == ""


def test_a_proof_holds_for_its_kernel_and_qemu(proofs: list[Path], tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    first = accelerator(cache, QEMU, IMAGE, "k" * 64)
    assert first.clock.accelerator == "kvm"
    assert first.why == "-cpu host: this kernel booted until it wanted a root"
    assert accelerator(cache, QEMU, IMAGE, "k" * 64) == first
    assert proofs == [IMAGE]
    assert accelerator(cache, QEMU, IMAGE, "l" * 64).clock.accelerator == "tcg"
    assert len(proofs) == 2


def test_a_host_that_booted_again_is_asked_again(
    proofs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path / "cache")
    for number in (1, 2):
        (tmp_path / "boot").write_text(f"{number}\n")
        monkeypatch.setattr(module, "_BOOT", tmp_path / "boot")
        accelerator(cache, QEMU, IMAGE, "k" * 64)
    assert len(proofs) == 2

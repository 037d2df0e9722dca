# SPDX-License-Identifier: GPL-2.0-only
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.base.errors import EXIT_LAB_BROKEN, EXIT_MISUSE, LabBroken, Misuse
from lab.qemu.kvm import KvmState, prove_kvm
from lab.qemu.probe import Qemu, find_qemu, parse_devices, parse_version

DEVICES = """\
Storage devices:
name "nvme", bus PCI, desc "Non-Volatile Memory Express"
name "scsi-hd", bus SCSI, desc "virtual SCSI disk"

Misc devices:
name "isa-debug-exit", bus ISA
"""
FAKE = """\
#!/bin/sh
case "$*" in
--version) echo "QEMU emulator version VERSION (Debian 1:VERSION+dfsg-1)"; echo "Copyright ..." ;;
"-device help") echo 'name "nvme", bus PCI' ;;
"-L help") echo "FOLDER" ;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "qemu"
    monkeypatch.setenv("BLKLAB_QEMU", str(path))
    write(path, "9.1.2")
    return path


def write(path: Path, version: str) -> None:
    path.write_text(FAKE.replace("VERSION", version).replace("FOLDER", str(path.parent)))
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright", ((7, 2, 22), "Debian 1:7.2+dfsg-7")),
        ("QEMU emulator version 10.0.2", ((10, 0, 2), "")),
        ("QEMU emulator version 9.0.50 (v9.0.0-14-gabc)\n", ((9, 0, 50), "v9.0.0-14-gabc")),
    ],
)
def test_version(text: str, expected: tuple[tuple[int, int, int], str]) -> None:
    assert parse_version(text) == expected


def test_what_is_no_qemu_is_said() -> None:
    with pytest.raises(LabBroken, match='prints "true'):
        parse_version("true (GNU coreutils) 9.1\n")


def test_devices() -> None:
    assert parse_devices(DEVICES) == {"nvme", "scsi-hd", "isa-debug-exit"}


def test_the_override_is_used(fake: Path) -> None:
    qemu = find_qemu()
    assert (qemu.path, qemu.version, qemu.version_text) == (fake, (9, 1, 2), "9.1.2")
    assert (qemu.package, qemu.firmware) == ("Debian 1:9.1.2+dfsg-1", None)
    assert qemu.devices == {"nvme"}


def test_digests_cover_firmware_and_program(fake: Path) -> None:
    bare = find_qemu()
    (fake.parent / "qboot.rom").write_bytes(b"one")
    os.utime(fake, ns=(1, 1))
    first = find_qemu()
    (fake.parent / "qboot.rom").write_bytes(b"two")
    os.utime(fake, ns=(2, 2))
    second = find_qemu()
    assert first.firmware == "qboot.rom"
    write(fake, "9.1.3")
    third = find_qemu()
    assert len({bare.digest, first.digest, second.digest, third.digest}) == 4


def test_a_replaced_program_is_asked_again(fake: Path) -> None:
    assert find_qemu().version == (9, 1, 2)
    write(fake, "10.0.3")
    assert find_qemu().version == (10, 0, 3)


def test_too_old(fake: Path) -> None:
    write(fake, "6.2.0")
    with pytest.raises(LabBroken, match=r"is QEMU 6.2.0, blklab needs 7.2 or later") as caught:
        find_qemu()
    assert "qemu" in caught.value.remedy
    assert caught.value.exit_code == EXIT_LAB_BROKEN


def test_an_override_that_is_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLKLAB_QEMU", "/nowhere/qemu")
    with pytest.raises(Misuse, match="BLKLAB_QEMU=/nowhere/qemu is no program") as caught:
        find_qemu()
    assert caught.value.exit_code == EXIT_MISUSE


def test_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BLKLAB_QEMU", "host")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabBroken, match="qemu-system-x86_64 is not installed") as caught:
        find_qemu()
    assert "qemu" in caught.value.remedy


def no_qemu() -> Qemu:
    return Qemu(Path("/nonexistent"), (7, 2, 0), "", frozenset(), None, "")


def test_kvm_absent(tmp_path: Path) -> None:
    assert prove_kvm(no_qemu(), device=tmp_path / "kvm").state is KvmState.ABSENT


def test_kvm_without_a_kernel_to_boot_is_unproved(tmp_path: Path) -> None:
    (tmp_path / "kvm").touch()
    assert prove_kvm(no_qemu(), device=tmp_path / "kvm").state is KvmState.UNPROVED


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may open anything, so root's tests step down for a while."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(mine)


def test_kvm_without_permission(tmp_path: Path) -> None:
    device = tmp_path / "kvm"
    device.write_bytes(b"")
    device.chmod(0)
    with without_privileges():
        assert prove_kvm(no_qemu(), device=device).state is KvmState.NO_PERMISSION

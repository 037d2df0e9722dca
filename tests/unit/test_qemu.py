# SPDX-License-Identifier: GPL-2.0-only
"""QEMU: its command line, what a probe says of a binary, and whether KVM works."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import EXIT_LAB_BROKEN, EXIT_MISUSE, LabBroken, Misuse
from lab.qemu import probe
from lab.qemu.argv import MachineSpec, VirtualClock, WallClock, command_line, fingerprint_argv, machine_argv
from lab.qemu.probe import (
    Kvm,
    KvmState,
    Qemu,
    _kept_answers,
    accelerator,
    doubt_of,
    find_qemu,
    parse_version,
    prove_kvm,
)
from lab.realise.hardware import memory_words

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
"-device help") echo 'DEVICES' ;;
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
    path.write_text(FAKE.replace("VERSION", version).replace("FOLDER", str(path.parent)).replace("DEVICES", DEVICES))
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


def test_the_override_is_used_and_asked_again_when_it_is_replaced(fake: Path) -> None:
    qemu = find_qemu()
    assert (qemu.path, qemu.version, qemu.version_text) == (fake, (9, 1, 2), "9.1.2")
    assert (qemu.package, qemu.firmware) == ("Debian 1:9.1.2+dfsg-1", None)
    assert qemu.devices == {"nvme", "scsi-hd", "isa-debug-exit"}
    assert find_qemu().version == (9, 1, 2)
    write(fake, "10.0.3")
    assert find_qemu().version == (10, 0, 3)


def test_the_answers_of_one_set_of_packages_are_kept(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    first = list(_kept_answers(fake, "packages"))
    write(fake, "10.0.3")
    assert list(_kept_answers(fake, "packages")) == first == [*_answers("9.1.2", fake)]
    assert list(_kept_answers(fake, "others")) == [*_answers("10.0.3", fake)]


def _answers(version: str, path: Path) -> Iterator[str]:
    yield f"QEMU emulator version {version} (Debian 1:{version}+dfsg-1)\nCopyright ...\n"
    yield f"{DEVICES}\n"
    yield f"{path.parent}\n"


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


@pytest.mark.parametrize(
    ("body", "says"), [("exec sleep 600", "no end after 0.5 s"), ("exec yes", "no end of its output")]
)
def test_a_version_without_an_end(body: str, says: str, fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.write_text(f"#!/bin/sh\n{body}\n")
    monkeypatch.setattr(probe, "_PROBE_SECONDS", 0.5 if "sleep" in body else 60.0)
    with pytest.raises(LabBroken, match=says):
        find_qemu()


def test_too_old(fake: Path) -> None:
    write(fake, "6.2.0")
    with pytest.raises(LabBroken, match=r"is QEMU 6.2.0, blklab needs 7.2 or later") as caught:
        find_qemu()
    assert caught.value.remedy.startswith("name a later one in BLKLAB_QEMU")
    assert caught.value.exit_code == EXIT_LAB_BROKEN


def test_an_override_that_is_no_program_and_a_host_without_qemu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BLKLAB_QEMU", "/nowhere/qemu")
    with pytest.raises(Misuse, match="BLKLAB_QEMU=/nowhere/qemu is no program") as caught:
        find_qemu()
    assert caught.value.exit_code == EXIT_MISUSE
    monkeypatch.setenv("BLKLAB_QEMU", "host")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabBroken, match="qemu-system-x86_64 is not installed") as absent:
        find_qemu()
    assert "qemu" in absent.value.remedy


def no_qemu() -> Qemu:
    return Qemu(Path("/nonexistent"), (7, 2, 0), "", frozenset(), None, "")


def test_kvm_is_absent_unproved_or_without_permission(tmp_path: Path) -> None:
    assert prove_kvm(no_qemu(), device=tmp_path / "kvm").state is KvmState.ABSENT
    (tmp_path / "kvm").touch()
    assert prove_kvm(no_qemu(), device=tmp_path / "kvm").state is KvmState.UNPROVED
    device = tmp_path / "kvm"
    device.write_bytes(b"")
    device.chmod(0)
    with without_privileges():
        assert prove_kvm(no_qemu(), device=device).state is KvmState.NO_PERMISSION


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


SPEC = MachineSpec(
    program=Path("/opt/qemu"),
    version=(7, 2, 22),
    kernel=Path("/cache/k/vmlinux"),
    initrd=Path("/cache/i/initramfs"),
    job="job.cpio",
    firmware="qboot.rom",
    memory=768,
    append=("null_blk.nr_devices=0",),
)

VIRTUAL = """
/opt/qemu -M pc -bios qboot.rom -nodefaults -no-user-config -display none -no-reboot
-monitor none -net none
-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
-accel tcg -icount shift=0,sleep=off -rtc base=2024-01-01T00:00:00,clock=vm
-cpu max,-rdrand,-rdseed,-erms,-fsrm -smp 1 -seed 1 -m 768M
-serial file:console.txt -serial file:results.txt
-kernel /cache/k/vmlinux -initrd /cache/i/initramfs
-append "console=ttyS0 panic=-1 loglevel=5 nokaslr tsc_early_khz=1000000 cryptomgr.notests nolapic_timer
null_blk.nr_devices=0" -fw_cfg name=opt/org.blklab/job,file=job.cpio
"""

WALL = """
/opt/qemu -M pc -nodefaults -no-user-config -display none -no-reboot
-monitor none -net none
-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
-accel kvm
-cpu host -smp 4 -seed 1 -m 768M
-serial file:console.txt -serial file:results.txt -device nvme,serial=a -device isa-debug-exit
-kernel /cache/k/vmlinux -append "console=ttyS0 panic=-1 loglevel=5 nokaslr"
"""


def words(text: str) -> tuple[str, ...]:
    return tuple(shlex.split(text.strip().replace("\n", " ")))


def test_the_virtual_clock_with_own_parameters_last_so_that_they_win() -> None:
    assert machine_argv(SPEC) == words(VIRTUAL)
    later = machine_argv(replace(SPEC, version=(10, 0, 13)))
    assert later == words(VIRTUAL.replace("-fsrm", "-fsrm,-fzrm,-fsrs,-fsrc"))
    assert command_line(replace(SPEC, append=("loglevel=7",))).endswith(" loglevel=7")


def test_one_instruction_at_a_time_differs_in_the_accelerator_alone() -> None:
    single = machine_argv(replace(SPEC, clock=VirtualClock(single=True)))
    assert single == words(VIRTUAL.replace("-accel tcg", "-accel tcg,one-insn-per-tb=on"))


def test_wall_clock_with_kvm() -> None:
    spec = replace(
        SPEC,
        initrd=None,
        job="",
        firmware=None,
        cpus=4,
        clock=WallClock("kvm"),
        append=(),
        hardware=("-device", "nvme,serial=a", "-device", "isa-debug-exit"),
    )
    assert machine_argv(spec) == words(WALL)


def test_each_numa_node_is_a_socket_with_consecutive_cpus() -> None:
    nodes = tuple(memory_words(769 << 20, 2, 3))
    argv = machine_argv(replace(SPEC, version=(10, 0, 13), cpus=6, hardware=nodes))
    assert argv[argv.index("-smp") + 1] == "6,sockets=2,cores=3,threads=1"
    assert [word for word in argv if "memory" in word] == [
        f'{{"qom-type":"memory-backend-ram","id":"memory0","size":{385 << 20}}}',
        "node,nodeid=0,cpus=0-2,memdev=memory0",
        f'{{"qom-type":"memory-backend-ram","id":"memory1","size":{384 << 20}}}',
        "node,nodeid=1,cpus=3-5,memdev=memory1",
    ]
    assert not [*memory_words(769 << 20, 1, 0)]


def test_the_wall_clock_without_kvm_emulates_on_all_cores_and_without_a_kernel_the_firmware_runs() -> None:
    argv = machine_argv(replace(SPEC, clock=WallClock("tcg")))
    assert argv[argv.index("-accel") :][:2] == ("-accel", "tcg,thread=multi")
    assert argv[argv.index("-cpu") :][:2] == ("-cpu", "max")
    argv = machine_argv(replace(SPEC, kernel=None, firmware="/tmp/own.rom"))
    assert "-kernel" not in argv
    assert "-append" not in argv
    assert "/tmp/own.rom" in argv


def test_fingerprint_has_roles_for_paths() -> None:
    moved = replace(SPEC, program=Path("/a/q"), kernel=Path("/b/k"), initrd=Path("/c/i"))
    assert fingerprint_argv(moved) == fingerprint_argv(SPEC)
    assert not any(word.startswith("/") for word in fingerprint_argv(SPEC))
    assert {"QEMU", "KERNEL", "INITRD"} <= set(fingerprint_argv(SPEC))


@pytest.mark.parametrize(
    "other",
    [
        {"memory": 512},
        {"append": ()},
        {"initrd": None},
        {"firmware": None},
        {"clock": WallClock("tcg")},
        {"hardware": ("-device", "nvme")},
    ],
    ids=str,
)
def test_the_fingerprint_covers_what_the_guest_can_see(other: dict[str, object]) -> None:
    assert fingerprint_argv(replace(SPEC, **other)) != fingerprint_argv(SPEC)  # type: ignore[arg-type]


def test_several_vcpus_need_a_later_qemu_under_the_virtual_clock() -> None:
    with pytest.raises(Misuse, match=r"2 vCPUs .* QEMU 7.2.22 hangs") as caught:
        machine_argv(replace(SPEC, cpus=2))
    assert "8.1" in caught.value.remedy
    argv = machine_argv(replace(SPEC, cpus=2, version=(8, 1, 0)))
    assert "nolapic_timer" not in argv[-1]


@pytest.mark.parametrize("word", ['a="b c"', "a\nb", "a\0"])
def test_kernel_parameters_are_plain_words(word: str) -> None:
    with pytest.raises(Misuse, match="kernel parameter"):
        machine_argv(replace(SPEC, append=(word,)))


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

    monkeypatch.setattr(probe, "prove_kvm", prove)
    return asked


def test_kvm_is_taken_where_a_kernel_booted_under_it() -> None:
    works = Kvm(KvmState.WORKS, "it booted", "qemu64")
    assert works.clock == WallClock("kvm", "qemu64")
    assert str(works) == "KVM (-cpu qemu64: it booted)"


@pytest.mark.parametrize("state", sorted(set(KvmState) - {KvmState.WORKS}))
def test_a_device_that_opens_proves_nothing(state: KvmState) -> None:
    found = Kvm(state, "what was seen")
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
    assert str(first) == "KVM (-cpu host: this kernel booted until it wanted a root)"
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
        monkeypatch.setattr(probe, "_BOOT", tmp_path / "boot")
        accelerator(cache, QEMU, IMAGE, "k" * 64)
    assert len(proofs) == 2

# SPDX-License-Identifier: GPL-2.0-only
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import Misuse
from lab.qemu.argv import MachineSpec, command_line, fingerprint_argv, machine_argv
from lab.qemu.clock import WallClock

SPEC = MachineSpec(
    program=Path("/opt/qemu"),
    version=(7, 2, 22),
    kernel=Path("/cache/k/vmlinux"),
    initrd=Path("/cache/i/initramfs"),
    job="job.cpio",
    firmware="qboot.rom",
    memory=768,
    seed=3,
    append=("null_blk.nr_devices=0",),
)

VIRTUAL = """
/opt/qemu -M pc -bios qboot.rom -nodefaults -no-user-config -display none -no-reboot
-monitor none -net none
-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
-accel tcg -icount shift=0,sleep=off -rtc base=2024-01-01T00:00:00,clock=vm
-cpu max,-rdrand,-rdseed,-erms,-fsrm -smp 1 -seed 3 -m 768M
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
-cpu host -smp 4 -seed 3 -m 768M
-serial file:console.txt -serial file:results.txt -device nvme,serial=a -device isa-debug-exit
-kernel /cache/k/vmlinux -append "console=ttyS0 panic=-1 loglevel=5 nokaslr"
"""


def words(text: str) -> tuple[str, ...]:
    return tuple(shlex.split(text.strip().replace("\n", " ")))


def test_virtual_clock() -> None:
    assert machine_argv(SPEC) == words(VIRTUAL)


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


def test_wall_clock_without_kvm_emulates_on_all_cores() -> None:
    argv = machine_argv(replace(SPEC, clock=WallClock("tcg")))
    assert argv[argv.index("-accel") :][:2] == ("-accel", "tcg,thread=multi")
    assert argv[argv.index("-cpu") :][:2] == ("-cpu", "max")


def test_a_machine_without_kernel_runs_its_firmware() -> None:
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
        {"seed": 4},
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


def test_own_parameters_come_last_so_that_they_win() -> None:
    assert command_line(replace(SPEC, append=("loglevel=7",))).endswith(" loglevel=7")

# SPDX-License-Identifier: GPL-2.0-only
import shlex
from dataclasses import replace
from pathlib import Path

from harness.commands.shell import naming_lines
from lab.guest.further import Find
from lab.guest.script import Module
from lab.qemu.clock import WallClock
from lab.qemu.shell import ShellSpec, shell_argv
from tests.unit.payload_samples import kernel

SPEC = ShellSpec(
    program=Path("/venv/bin/virtme-run"),
    qemu=Path("/opt/qemu"),
    image=Path("/cache/k/image"),
    busybox=Path("/cache/p/busybox"),
    memory=512,
    cpus=2,
    clock=WallClock("tcg"),
    board="q35",
    hardware=("-device", "nvme,serial=a"),
    here=Path("/home"),
)
GOLDEN = """
/venv/bin/virtme-run --kimg /cache/k/image --mods=auto --busybox /cache/p/busybox
--qemu-bin /opt/qemu --force-9p --disable-microvm --disable-kvm --cwd /home --memory 512M --cpus 2
--qemu-opts -M q35 -accel tcg,thread=multi -smp 2,sockets=2,cores=1,threads=1 -device nvme,serial=a
"""


def test_the_command_line_of_virtme_ng() -> None:
    assert shell_argv(SPEC) == tuple(shlex.split(GOLDEN.replace("\n", " ")))


def test_kvm_where_it_was_proved_and_a_command_instead_of_a_shell() -> None:
    argv = shell_argv(replace(SPEC, clock=WallClock("kvm"), command="ls"))
    assert "--disable-kvm" not in argv
    assert "tcg,thread=multi" not in argv
    assert argv[argv.index("--script-sh") + 1] == "ls"


def test_disks_get_their_names_where_the_guest_can_write(tmp_path: Path) -> None:
    able = kernel(tmp_path, {"sd_mod": "", "nvme-core": "", "nvme": "nvme-core"})
    found = Find("p0", "/sys/devices/x/wwid", "naa.1", "block/*")
    lines = list(naming_lines(able, [Module("sd_mod"), Module("nvme", "io_queue_depth=64"), found]))
    loaded = [line for line in lines if line.startswith("insmod")]
    assert [Path(line.split()[1]).name for line in loaded] == ["sd_mod.ko", "nvme-core.ko", "nvme.ko"]
    assert loaded[-1].endswith("nvme.ko io_queue_depth=64 2>/dev/null")
    assert lines[-1].endswith("ln -s /dev/$(basename $(readlink -f $found)) /run/lab/p0")
    assert not any(" /lab/" in line for line in lines)

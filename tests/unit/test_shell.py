# SPDX-License-Identifier: GPL-2.0-only
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import LabBroken
from lab.guest.steps.device import Find, Module
from lab.qemu.argv import WallClock
from lab.realise.hardware import Hardware
from lab.shell import ShellSpec, naming_lines, shell_argv, sit_in
from tests.unit.payload_samples import kernel

SPEC = ShellSpec(
    program=Path("/venv/bin/virtme-run"),
    qemu=Path("/opt/qemu"),
    image=Path("/cache/k/image"),
    busybox=Path("/cache/p/busybox"),
    memory=512,
    clock=WallClock("tcg"),
    hardware=Hardware(2, ("-device", "nvme,serial=a"), {}),
    here=Path("/home"),
)
GOLDEN = """
/venv/bin/virtme-run --kimg /cache/k/image --mods=auto --busybox /cache/p/busybox
--qemu-bin /opt/qemu --force-9p --disable-microvm --disable-kvm --memory 512M --cpus 2
--cwd /home --kopt no_timer_check
--qemu-opts -M q35 -accel tcg,thread=multi -smp 2,sockets=2,cores=1,threads=1 -device nvme,serial=a
"""

BUSYBOX = Path("/bin/env")
"""Runs sh, as busybox does."""
WORDS = tuple(shlex.split(GOLDEN))


def test_the_command_line_of_virtme_ng_under_tcg_under_kvm_and_for_an_errand() -> None:
    assert shell_argv(SPEC) == WORDS
    argv = shell_argv(replace(SPEC, clock=WallClock("kvm")))
    assert "--disable-kvm" not in argv
    assert "tcg,thread=multi" not in argv
    argv = shell_argv(replace(SPEC, errand=Path("/a b/errand.sh")))
    expected = f"""
    --show-boot-console --script-sh "sh '/a b/errand.sh'" --kopt no_timer_check --kopt loglevel=7
    {shlex.join(WORDS[WORDS.index("--qemu-opts") :])}
    -device virtio-serial-pci,id=lab
    -chardev file,id=lab.out,path=lab.out -device virtserialport,bus=lab.0,name=lab.out,chardev=lab.out
    -chardev file,id=lab.err,path=lab.err -device virtserialport,bus=lab.0,name=lab.err,chardev=lab.err
    -chardev file,id=lab.report,path=lab.report -device virtserialport,bus=lab.0,name=lab.report,chardev=lab.report
    """
    assert argv[argv.index("--show-boot-console") :] == tuple(shlex.split(expected))


@pytest.mark.parametrize(
    ("virtme", "qemu", "complaint"),
    [
        ('"$@"', "exit 0", ""),
        ('"$@"; exit 0', "exit 1", "QEMU ended with 1"),
        ('"$@"; exit 9', "kill -KILL $$", "QEMU ended with 137"),
        ("exit 3", "exit 0", "virtme-run ended with 3 and started no QEMU"),
    ],
)
def test_a_guest_to_sit_in_ends_as_qemu_did(tmp_path: Path, virtme: str, qemu: str, complaint: str) -> None:
    """virtme-ng's own status is 0 where QEMU's is 1."""
    programs = {"virtme-run": f'while [ "$1" != --qemu-bin ]; do shift; done\nshift\n{virtme}', "my qemu": qemu}
    for name, body in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    spec = replace(SPEC, program=tmp_path / "virtme-run", qemu=tmp_path / "my qemu")
    if not complaint:
        sit_in(spec, tmp_path)
        return
    with pytest.raises(LabBroken) as caught:
        sit_in(spec, tmp_path)
    assert caught.value.message == complaint


def test_the_drivers_of_a_topology_are_loaded(tmp_path: Path) -> None:
    able = kernel(tmp_path, {"sd_mod": "", "nvme-core": "", "nvme": "nvme-core"})
    lines = list(naming_lines(able, [Module("sd_mod"), Module("nvme", "io_queue_depth=64")], BUSYBOX))
    loaded = [line for line in lines if line.startswith("insmod")]
    assert [Path(line.split()[1]).name for line in loaded] == ["sd_mod.ko", "nvme-core.ko", "nvme.ko"]
    assert loaded[-1].endswith("nvme.ko io_queue_depth=64 2>/dev/null")
    assert list(naming_lines(able, [Module("sd_mod")] * 48, BUSYBOX)).count(loaded[0]) == 1


def test_disks_get_their_names_when_they_are_there(tmp_path: Path) -> None:
    """They come while the script waits: its sleep makes them."""
    late = "sleep() { mkdir -p there/block/sda; echo naa.1 >there/wwid; echo 8 >there/block/sda/size; }\n"
    done = _named(tmp_path, late, Find("p0", f"{tmp_path}/t*/wwid", "naa.1", "block/*"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "names/p0.sys").resolve() == tmp_path / "there/block/sda"
    assert (tmp_path / "names/p0").readlink() == Path("/dev/sda")


def test_a_disk_that_never_appears_is_reported_and_the_others_are_named(tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1/nsid").write_text("2\n")
    (tmp_path / "n1/size").write_text("8\n")
    finds = (Find(lun, f"{tmp_path}/n*/nsid", number, ".") for lun, number in (("a", "1"), ("b", "2")))
    done = _named(tmp_path, "sleep() { waited=1800; }\n", *finds)
    assert done.returncode == 1
    assert done.stderr == f"disk a is missing: nothing that matches {tmp_path}/n*/nsid reads 1\n"
    assert (tmp_path / "names/b").readlink() == Path("/dev/n1")
    assert not (tmp_path / "names/a").is_symlink()


def test_naming_starts_as_many_programs_for_many_disks_as_for_one(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("basename", "grep", "head", "ls", "readlink"):
        (programs / name).write_text(f"#!/bin/sh\necho {name} >>{tmp_path}/log\n")
        (programs / name).chmod(0o755)
    for number in range(30):
        (tmp_path / f"n{number}").mkdir()
        for name in ("nsid", "size"):
            (tmp_path / f"n{number}" / name).write_text(f"{number}\n")
    finds = (Find(f"d{number}", f"{tmp_path}/n*/nsid", str(number), ".") for number in range(30))
    done = _named(tmp_path, f"PATH={programs}:$PATH\n", *finds)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "log").exists()
    assert (tmp_path / "names/d29").readlink() == Path("/dev/n29")


def _named(folder: Path, before: str, *finds: Find) -> "subprocess.CompletedProcess[str]":
    lines = "\n".join(naming_lines(kernel(folder / "kernel", {}), finds, BUSYBOX)).replace(
        "/run/lab", f"{folder}/names"
    )
    return subprocess.run(["sh", "-c", before + lines], cwd=folder, check=False, text=True, capture_output=True)

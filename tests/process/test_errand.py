# SPDX-License-Identifier: GPL-2.0-only
"""A command in a guest of virtme-ng, where programs stand in for virtme-ng that write to its channels and misbehave."""

import os
import select
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import BlklabError, KernelFailed, LabBroken
from lab.shell import ERR, OUT, REPORT, run_errand, script
from tests.unit.test_shell import SPEC

PATIENCE = 60.0
PREAMBLE = f"""\
#!{sys.executable} -IS
import os, signal, sys
def channel(name):
    (path,) = (word.partition(",path=")[2] for word in sys.argv if word.startswith("file,id=" + name + ","))
    return open(path, "wb", buffering=0)  # as QEMU does, which truncates it
console = sys.stderr.buffer.raw
def guest():
    return channel("{OUT}"), channel("{ERR}"), channel("{REPORT}")
"""
Errand = Callable[..., int]


@pytest.fixture
def errand(tmp_path: Path) -> Errand:
    """Run an errand with Python code for virtme-ng, in a folder of its own."""

    def run(body: str, patience: float = PATIENCE) -> int:
        program = tmp_path / "virtme-run"
        program.write_text(PREAMBLE + body)
        program.chmod(0o755)
        return run_errand(replace(SPEC, program=program, errand=Path("/errand")), tmp_path, patience)

    return run


def test_output_and_status_come_back(errand: Errand, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    body = """
out, err, report = guest()
report.write(b"ready\\n")
out.write(b"one\\r\\n\\x00" * 100_000)
err.write(b"two\\n")
report.write(b"7\\n")
"""
    assert errand(body) == 7
    assert capfdbinary.readouterr() == (b"one\r\n\x00" * 100_000, b"two\n")


def test_a_guest_that_does_not_switch_itself_off_is_ended(errand: Errand) -> None:
    assert errand('report = guest()[2]; report.write(b"ready\\n"); report.write(b"0\\n"); signal.pause()') == 0


def test_what_is_ended_leaves_no_process(errand: Errand, tmp_path: Path) -> None:
    body = """
report = guest()[2]
child = os.fork()
if child:
    open("child", "w").write(str(child))
    report.write(b"ready\\n0\\n")
signal.pause()
"""
    assert errand(body) == 0
    with suppress(ProcessLookupError):
        child = os.pidfd_open(int((tmp_path / "child").read_text()))
        assert select.select([child], [], [], PATIENCE)[0] == [child]
        os.close(child)


@pytest.mark.parametrize("text", [b"", b"ready\n"])
def test_a_guest_that_is_lost_says_how_far_it_came(errand: Errand, text: bytes) -> None:
    with pytest.raises(LabBroken) as caught:
        errand(f'console.write(b"[1.0] going on\\n\\n"); guest()[2].write({text!r})')
    how = "was lost while the command ran" if text else "did not start the command, it ended"
    assert caught.value.message == f'the guest {how}; last words on its console: "[1.0] going on"'


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        ("channels = guest(); signal.pause()", LabBroken, r"not within 1 s; nothing on its console"),
        (
            'console.write(b"[0.1] Kernel panic - not syncing: IO-APIC\\n[0.1] Rebooting\\n")',
            LabBroken,
            r"it ended; .*Kernel panic - not syncing: IO-APIC",
        ),
        (
            'guest()[2].write(b"ready\\n"); console.write(b"[9.1] Oops: 0002\\n")',
            KernelFailed,
            r"died while the command ran: .*Oops: 0002",
        ),
        ('sys.exit("no such option")', LabBroken, r'did not start the command, it ended; .*: "no such option"'),
    ],
    ids=["silent", "died before the command", "died of the command", "virtme-ng failed"],
)
def test_a_guest_that_gives_no_status(errand: Errand, body: str, kind: type[BlklabError], says: str) -> None:
    with pytest.raises(kind, match=says):
        errand(body, patience=1.0 if "pause" in body else PATIENCE)


def test_a_disk_that_is_missing(errand: Errand, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LabBroken, match="set-up of the guest failed, see above"):
        errand('_, err, report = guest(); err.write(b"disk a is missing\\n"); report.write(b"ready\\nunfit\\n")')
    assert capfd.readouterr().err == "disk a is missing\n"


def test_the_script_finds_its_ports_by_the_names_that_the_kernel_gives(tmp_path: Path) -> None:
    ports = tmp_path / "ports"
    for number, name in enumerate((REPORT, ERR, OUT, "virtme.stdout")):
        (ports / f"vport0p{number}").mkdir(parents=True)
        (ports / f"vport0p{number}" / "name").write_text(f"{name}\n")
    set_up, command, here = tmp_path / "it's set up", tmp_path / "command", tmp_path / "a folder"
    here.mkdir()
    set_up.write_text("echo named >&2\n")
    command.write_text("pwd; read -r line && echo input; [[ -v BASH ]] && exit 9\n")
    text = script(set_up, command, here).replace("/sys/class/virtio-ports", str(ports))
    text = text.replace('"/dev/', f'"{tmp_path}/')
    assert subprocess.run(["sh", "-c", text], check=False, stdin=subprocess.DEVNULL).returncode == 0
    got = [(tmp_path / f"vport0p{number}").read_text() for number in range(3)]
    assert got == ["ready\n9\n", "named\n", f"{here}\n"]
    set_up.write_text("exit 1\n")
    subprocess.run(["sh", "-c", text], check=False, stdin=subprocess.DEVNULL)
    assert (tmp_path / "vport0p0").read_text() == "ready\nunfit\n"

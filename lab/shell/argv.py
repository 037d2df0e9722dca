# SPDX-License-Identifier: GPL-2.0-only
"""The command line of virtme-ng for an interactive guest: the host's files as root, and the topology's hardware."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.qemu.clock import WallClock
from lab.realise.hardware import Hardware

PROGRAM = "virtme-run"
OUT, ERR, REPORT = "lab.out", "lab.err", "lab.report"
"""virtio-serial ports of the guest, and the files in the working directory that they write."""


@dataclass(frozen=True)
class ShellSpec:
    """``image`` is in the folder of ``lib/modules``; ``busybox`` is a static one; ``memory`` is in MiB.

    ``words`` are those of the kernel's command line. ``here`` is the working directory of an
    interactive shell. ``errand`` is a shell script to run instead of one; the kernel's console is the program's output.
    """

    program: Path
    qemu: Path
    image: Path
    busybox: Path
    memory: int
    clock: WallClock
    hardware: Hardware
    here: Path
    errand: Path | None = None
    words: tuple[str, ...] = ()


def shell_argv(spec: ShellSpec) -> tuple[str, ...]:
    """The command line of ``spec``; QEMU's options come last, so that they override virtme-ng's."""
    kernel = ("--kimg", str(spec.image), "--mods=auto", "--busybox", str(spec.busybox))
    # virtme-ng uses KVM if its device exists, which proves nothing (lab.qemu.kvm).
    kvm = () if spec.clock.accelerator == "kvm" else ("--disable-kvm",)
    host = ("--qemu-bin", str(spec.qemu), "--force-9p", "--disable-microvm", *kvm)
    size = ("--memory", f"{spec.memory}M", "--cpus", str(spec.hardware.cpus))
    return (str(spec.program), *kernel, *host, *size, *_boot(spec), "--qemu-opts", *_machine(spec))


def _boot(spec: ShellSpec) -> Iterator[str]:
    # A busy host keeps an emulated timer from ticking ten times within ten jiffies, and check_timer() panics.
    options = ["no_timer_check", *spec.words]
    if spec.errand:
        # The kernel command line is limited to 2 KiB and contains the script, so the script is short.
        yield from ("--show-boot-console", "--script-sh", f"sh {shlex.quote(str(spec.errand))}")
        options.append("loglevel=7")
    else:
        yield from ("--cwd", str(spec.here))
    for option in options:
        yield from ("--kopt", option)


def _machine(spec: ShellSpec) -> Iterator[str]:
    cpus = spec.hardware.cpus
    yield from ("-M", spec.hardware.board)
    if spec.clock.accelerator != "kvm":
        yield from ("-accel", "tcg,thread=multi")
    yield from ("-smp", f"{cpus},sockets={cpus},cores=1,threads=1", *spec.hardware.words)
    if spec.errand:
        yield from _channels()


def _channels() -> Iterator[str]:
    """virtme-ng's own channels need udev in the guest; without it they end on a console that is not read."""
    yield from ("-device", "virtio-serial-pci,id=lab")
    for port in (OUT, ERR, REPORT):
        yield from ("-chardev", f"file,id={port},path={port}")
        yield from ("-device", f"virtserialport,bus=lab.0,name={port},chardev={port}")

# SPDX-License-Identifier: GPL-2.0-only
"""virtme-ng's command line for a guest to sit in: the host's files as its root, and hardware of the lab's choice."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.qemu.clock import WallClock

PROGRAM = "virtme-run"
OUT, ERR, REPORT = "lab.out", "lab.err", "lab.report"
"""Ports of the guest, and the ids of what is behind them."""
_STDOUT = 1


@dataclass(frozen=True)
class Errand:
    """A shell ``script`` instead of a shell to sit in.

    It writes to the program's standard output and to the descriptors ``err`` and ``report``, which the program
    inherits; the kernel's console is the program's standard error.
    """

    script: Path
    err: int
    report: int


@dataclass(frozen=True)
class ShellSpec:
    """``image`` lies beside ``lib/modules``; ``busybox`` is a static one; ``memory`` in MiB; ``hardware`` are words of
    QEMU's command line. ``here`` is the folder in which a guest to sit in starts.
    """

    program: Path
    qemu: Path
    image: Path
    busybox: Path
    memory: int
    cpus: int
    clock: WallClock
    board: str
    hardware: tuple[str, ...]
    here: Path
    errand: Errand | None = None


def shell_argv(spec: ShellSpec) -> tuple[str, ...]:
    """The command line of ``spec``; QEMU's own words come last, where they win over virtme-ng's."""
    kernel = ("--kimg", str(spec.image), "--mods=auto", "--busybox", str(spec.busybox))
    # virtme-ng takes KVM because its device is there; that proves nothing (lab.qemu.kvm).
    kvm = () if spec.clock.accelerator == "kvm" else ("--disable-kvm",)
    host = ("--qemu-bin", str(spec.qemu), "--force-9p", "--disable-microvm", *kvm)
    size = ("--memory", f"{spec.memory}M", "--cpus", str(spec.cpus))
    return (str(spec.program), *kernel, *host, *size, *_boot(spec), "--qemu-opts", *_machine(spec))


def _boot(spec: ShellSpec) -> Iterator[str]:
    # A busy host keeps an emulated timer from ticking ten times within ten jiffies, and check_timer() panics.
    options = ["no_timer_check"]
    if spec.errand:
        # A line of the kernel's holds 2 KiB, and the script is a word of it; so it is a short one.
        yield from ("--show-boot-console", "--script-sh", f"sh {shlex.quote(str(spec.errand.script))}")
        options.append("loglevel=7")
    else:
        yield from ("--cwd", str(spec.here))
    for option in options:
        yield from ("--kopt", option)


def _machine(spec: ShellSpec) -> Iterator[str]:
    yield from ("-M", spec.board)
    if spec.clock.accelerator != "kvm":
        yield from ("-accel", "tcg,thread=multi")
    yield from ("-smp", f"{spec.cpus},sockets={spec.cpus},cores=1,threads=1", *spec.hardware)
    if spec.errand:
        yield from _channels(spec.errand)


def _channels(errand: Errand) -> Iterator[str]:
    """virtme-ng's own are of use where udev runs in the guest: it writes to its console else, which nobody reads."""
    yield from ("-device", "virtio-serial-pci,id=lab")
    for port, descriptor in ((OUT, _STDOUT), (ERR, errand.err), (REPORT, errand.report)):
        yield from ("-chardev", f"file,id={port},path=/proc/self/fd/{descriptor}")
        yield from ("-device", f"virtserialport,bus=lab.0,name={port},chardev={port}")

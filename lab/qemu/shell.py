# SPDX-License-Identifier: GPL-2.0-only
"""virtme-ng's command line for a guest to sit in: the host's files as its root, and hardware of the lab's choice."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.qemu.clock import WallClock

PROGRAM = "virtme-run"


@dataclass(frozen=True)
class ShellSpec:
    """``image`` lies beside ``lib/modules``; ``busybox`` is a static one; ``memory`` in MiB; ``hardware`` are words of
    QEMU's command line. ``here`` is the folder in which the guest starts, ``command`` what it runs instead of a shell.
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
    command: str = ""


def shell_argv(spec: ShellSpec) -> tuple[str, ...]:
    """The command line of ``spec``; QEMU's own words come last, where they win over virtme-ng's."""
    kernel = ("--kimg", str(spec.image), "--mods=auto", "--busybox", str(spec.busybox))
    # virtme-ng takes KVM because its device is there; that proves nothing (lab.qemu.kvm).
    kvm = () if spec.clock.accelerator == "kvm" else ("--disable-kvm",)
    host = ("--qemu-bin", str(spec.qemu), "--force-9p", "--disable-microvm", *kvm, "--cwd", str(spec.here))
    size = ("--memory", f"{spec.memory}M", "--cpus", str(spec.cpus))
    script = ("--script-sh", spec.command) if spec.command else ()
    return (str(spec.program), *kernel, *host, *size, *script, "--qemu-opts", *_machine(spec))


def _machine(spec: ShellSpec) -> Sequence[str]:
    sockets = f"{spec.cpus},sockets={spec.cpus},cores=1,threads=1"
    threads = () if spec.clock.accelerator == "kvm" else ("-accel", "tcg,thread=multi")
    return ("-M", spec.board, *threads, "-smp", sockets, *spec.hardware)

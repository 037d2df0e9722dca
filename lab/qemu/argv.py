# SPDX-License-Identifier: GPL-2.0-only
"""QEMU's command line as a pure function of a machine's description.

A machine runs with its folder as the working directory, so its output files have bare names, and the
command lines of two runs of one cell differ only in the paths of QEMU, kernel and initramfs.
``fingerprint_argv`` replaces those by their roles.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.base.errors import Misuse
from lab.qemu.clock import Clock, VirtualClock

CONSOLE_FILE = "console.txt"
RESULTS_FILE = "results.txt"
FIRST_ICOUNT_SMP = (8, 1)
JOB_KEY = "opt/org.blklab/job"


@dataclass(frozen=True)
class MachineSpec:
    """One virtual machine.

    ``version`` is QEMU's, as far as it is known; ``firmware`` is a file in QEMU's data folders
    or a path, None for QEMU's own choice; without a ``kernel`` only the firmware runs; ``memory``
    is in MiB; ``seed`` feeds every random source that the guest can reach; ``append`` are words
    for the kernel command line, after the machine's own; ``job`` is a file in the machine's folder that the guest reads
    through fw_cfg under the name ``JOB_KEY``;
    ``preload`` is a library to be loaded into QEMU, which no word of the command line shows; ``hardware`` are
    words of objects, block devices and devices, in their order; ``plugin`` is a library and its arguments, which
    observes the guest and changes nothing in it.
    """

    program: Path
    version: tuple[int, ...]
    kernel: Path | None
    initrd: Path | None = None
    job: str = ""
    firmware: str | None = None
    memory: int = 512
    cpus: int = 1
    seed: int = 1
    clock: Clock = field(default_factory=VirtualClock)
    append: tuple[str, ...] = ()
    preload: Path | None = None
    board: str = "pc"
    hardware: tuple[str, ...] = ()
    plugin: tuple[str, ...] = ()


def machine_argv(spec: MachineSpec) -> tuple[str, ...]:
    """The command line of ``spec``. Raises Misuse when this version of QEMU cannot run it."""
    _check(spec)
    nodes = spec.hardware.count("-numa")
    return (
        str(spec.program),
        # "pc" boots faster than q35: the guest walks fewer PCI configuration cycles under emulation. PCI Express needs
        # q35. -no-reboot turns the guest's reboot, and panic=-1, into the end of QEMU.
        *("-M", spec.board, *(("-bios", spec.firmware) if spec.firmware else ())),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        # The guest kernel is under test and may be broken; no network, no monitor, no new processes.
        *("-monitor", "none", "-net", "none"),
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
        *spec.clock.words(),
        # Processors of different NUMA nodes share no cache: each node is a socket.
        *(
            "-cpu",
            spec.clock.cpu(spec.version),
            "-smp",
            f"{spec.cpus},sockets={nodes},cores={spec.cpus // nodes},threads=1" if nodes else str(spec.cpus),
        ),
        # -seed makes QEMU's own randomness (fw_cfg and device-tree seeds of the guest's RNG) repeatable.
        *("-seed", str(spec.seed), "-m", f"{spec.memory}M"),
        # Files, not pipes or sockets: a write to a file never waits for a reader, so nothing on the host can delay the
        # guest. The first port is the console, the second carries results.
        *("-serial", f"file:{CONSOLE_FILE}", "-serial", f"file:{RESULTS_FILE}"),
        *spec.hardware,
        *(("-kernel", str(spec.kernel)) if spec.kernel else ()),
        *(("-initrd", str(spec.initrd)) if spec.kernel and spec.initrd else ()),
        *(("-append", command_line(spec)) if spec.kernel else ()),
        *(("-fw_cfg", f"name={JOB_KEY},file={spec.job}") if spec.job else ()),
        *(("-plugin", ",".join(spec.plugin)) if spec.plugin else ()),
    )


def fingerprint_argv(spec: MachineSpec) -> tuple[str, ...]:
    """The command line with host paths replaced by roles; the files are digested separately."""
    kernel = Path("KERNEL") if spec.kernel else None
    initrd = Path("INITRD") if spec.initrd else None
    return machine_argv(replace(spec, program=Path("QEMU"), kernel=kernel, initrd=initrd))


def command_line(spec: MachineSpec) -> str:
    """The kernel's command line."""
    # loglevel=5 instead of quiet: WARNs and errors must reach the console as evidence.
    own = ("console=ttyS0", "panic=-1", "loglevel=5", "nokaslr")
    return " ".join((*own, *spec.clock.kernel_words(spec.cpus), *spec.append))


def _check(spec: MachineSpec) -> None:
    if spec.clock.exact and spec.cpus > 1 and spec.version < FIRST_ICOUNT_SMP:
        version = ".".join(map(str, spec.version))
        raise Misuse(
            f"{spec.cpus} vCPUs under the virtual clock: QEMU {version} hangs when it brings up the second one",
            remedy="use one vCPU, or QEMU 8.1 or later (on Debian 12: from bookworm-backports; BLKLAB_QEMU names it)",
        )
    for word in spec.append:
        if not word.isprintable() or '"' in word:
            raise Misuse(f"kernel parameter {word!r}: no quotes or control characters", remedy="write it plainly")

# SPDX-License-Identifier: GPL-2.0-only
"""QEMU's command line as a pure function of a machine's description.

A machine runs with its folder as the working directory, so its output files have bare names, and the
command lines of two runs of one cell differ only in the paths of QEMU, kernel and initramfs.
``fingerprint_argv`` replaces those by their roles.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from lab.base.errors import Misuse


@dataclass(frozen=True)
class VirtualClock:
    """Guest time counts guest instructions: one instruction is one ns."""

    single: bool = False  # blocks of one instruction, so that CPUs can change behind each (QEMU 8.1)

    exact: ClassVar[bool] = True

    def cpu(self, version: tuple[int, ...]) -> str:
        """The CPU model for this version of QEMU.

        rdrand and rdseed would return the host's randomness.

        The others promise fast string instructions, but TCG executes rep movsb and rep stosb byte by byte, and icount
        counts each byte as an instruction. Without them kernel and libc move words: a load of shared-queue takes 160
        million instructions instead of 210 (Linux 6.1), and a read from an md RAID1 16,900 instead of 20,600 (6.12;
        since 6.4 arch/x86/lib/memset_64.S uses fsrs).
        """
        words = "max,-rdrand,-rdseed,-erms,-fsrm"
        # QEMU 7.2 neither has the rest nor knows their names.
        return words if version < (8, 0) else f"{words},-fzrm,-fsrs,-fsrc"

    def words(self) -> tuple[str, ...]:
        """Of QEMU's command line."""
        # sleep=off: idle guest time is skipped, not waited for. clock=vm: the RTC follows instructions as well, from a
        # fixed date.
        single = ",one-insn-per-tb=on" if self.single else ""
        icount = ("-accel", f"tcg{single}", "-icount", "shift=0,sleep=off")
        return (*icount, "-rtc", "base=2024-01-01T00:00:00,clock=vm")

    def kernel_words(self, cpus: int) -> tuple[str, ...]:
        # Under icount the TSC counts virtual nanoseconds, 1 GHz: nothing to calibrate. The crypto self-tests cost a
        # second of emulation and do not concern block I/O.
        words = ("tsc_early_khz=1000000", "cryptomgr.notests")
        # Calibrating the APIC timer is a loop of PAUSE instructions, each of which leaves the translated code under
        # icount (3 s of wall time); the HPET ticks instead. With more vCPUs each of them needs its APIC timer.
        return (*words, "nolapic_timer") if cpus == 1 else words


@dataclass(frozen=True)
class WallClock:
    """Guest time is the host's.

    ``accelerator`` is ``kvm`` (only where a guest was seen to run) or ``tcg``; ``model`` is the
    CPU model that was seen to run under KVM.
    """

    accelerator: str = "tcg"
    model: str = "host"

    exact: ClassVar[bool] = False

    def cpu(self, version: tuple[int, ...]) -> str:
        """The CPU model for this version of QEMU."""
        return self.model if self.accelerator == "kvm" else "max"

    def words(self) -> tuple[str, ...]:
        """Of QEMU's command line."""
        return ("-accel", "kvm" if self.accelerator == "kvm" else "tcg,thread=multi")

    def kernel_words(self, cpus: int) -> tuple[str, ...]:
        return ()


Clock = VirtualClock | WallClock


CONSOLE_FILE = "console.txt"
RESULTS_FILE = "results.txt"
FIRST_ICOUNT_SMP = (8, 1)
JOB_KEY = "opt/org.blklab/job"


@dataclass(frozen=True)
class MachineSpec:
    """One virtual machine.

    ``version`` is QEMU's, as far as it is known; ``firmware`` is a file in QEMU's data folders or a path, None for
    QEMU's own choice; without a ``kernel`` only the firmware runs; ``memory`` is in MiB; ``append`` are words for the
    kernel command line, after the machine's own; ``job`` is a file in the machine's folder that the guest reads through
    fw_cfg under the name ``JOB_KEY``; ``preload`` is a library to be loaded into QEMU, which no word of the command
    line shows; ``hardware`` are words of objects, block devices and devices, in their order; ``plugin`` is a library
    and its arguments, which observes the guest and changes nothing in it.
    """

    program: Path
    version: tuple[int, ...]
    kernel: Path | None
    initrd: Path | None = None
    job: str = ""
    firmware: str | None = None
    memory: int = 512
    cpus: int = 1
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
        *("-seed", "1", "-m", f"{spec.memory}M"),
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

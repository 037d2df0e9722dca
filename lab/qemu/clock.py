# SPDX-License-Identifier: GPL-2.0-only
"""The two clocks of scenarios, and what each cannot see."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class VirtualClock:
    """Guest time counts guest instructions: one instruction is ``1 << shift`` ns."""

    shift: int = 0

    name: ClassVar[str] = "virtual"
    cannot_see: ClassVar[str] = (
        "It cannot see lock and cache-line contention or true parallelism: "
        "every instruction takes the same time, and all vCPUs share one instruction stream."
    )
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
        icount = ("-accel", "tcg", "-icount", f"shift={self.shift},sleep=off")
        return (*icount, "-rtc", "base=2024-01-01T00:00:00,clock=vm")

    def kernel_words(self, cpus: int) -> tuple[str, ...]:
        # Under icount the TSC counts virtual nanoseconds, 1 GHz at any shift: nothing to calibrate. The crypto
        # self-tests cost a second of emulation and do not concern block I/O.
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

    name: ClassVar[str] = "wall"
    cannot_see: ClassVar[str] = "It cannot see effects smaller than the noise of the host."
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

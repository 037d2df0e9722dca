# SPDX-License-Identifier: GPL-2.0-only
"""What one boot leaves behind: the only thing that measurement hands to judgement."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lab.base.units import printable


class Outcome(StrEnum):
    """How a boot ended.

    NOT_READY: the guest did not report "ready" (cannot judge).
    LATE: the same at the deadline, without an error on the console: the host was too slow.
    OOPS, HANG: after "ready" (the kernel failed).
    DOUBTFUL: OOPS or HANG under an emulator that is known to cause them (cannot judge).
    NO_MEMORY: the guest ended a process for want of memory, and was stopped (ERROR).
    UNFIT: a step of the guest failed, or a knob did not read back (ERROR).
    GARBLED: the result channel violated its format.
    LOST: QEMU died or was killed.
    """

    BYE = "bye"
    NOT_READY = "not-ready"
    LATE = "late"
    OOPS = "oops"
    HANG = "hang"
    DOUBTFUL = "doubtful"
    NO_MEMORY = "no-memory"
    UNFIT = "unfit"
    GARBLED = "garbled"
    LOST = "lost"

    @property
    def invalidated_by_host(self) -> bool:
        """Whether the host invalidated the boot, so that it must be repeated.

        A kernel that hangs early without a message is LATE too, and takes a full deadline each time.
        """
        return self in (Outcome.LATE, Outcome.LOST)


@dataclass(frozen=True)
class BootRecord:
    """One VM lifetime. ``folder`` holds boot.json, console.txt, results.txt and out/<file>.

    ``files`` are the measured files by name, as the guest sent them. ``warnings`` are the console
    lines (WARN, SCSI error handler, timeouts, I/O errors) that fell after "ready". ``digest`` is
    the digest of the measured results (``lab.base.digest``), None unless the outcome is BYE.
    Text of the guest is printable: what a guest writes reaches terminals and reports through this record only.
    ``wall`` maps phase (boot, setup, measure, send) to seconds of host time, ``virtual`` to
    seconds of guest time. ``fingerprint`` maps each input to its digest or text. ``unfit`` is the code of
    ``lab.guest.protocol`` and the fields with which a step failed, empty unless the outcome is UNFIT.
    """

    folder: Path
    outcome: Outcome
    detail: str
    warnings: tuple[str, ...]
    files: Mapping[str, bytes]
    digest: str | None
    fingerprint: Mapping[str, str]
    wall: Mapping[str, float]
    virtual: Mapping[str, float]
    unfit: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", printable(self.detail))
        for name in ("warnings", "unfit"):
            object.__setattr__(self, name, tuple(map(printable, getattr(self, name))))
        for name in ("wall", "virtual"):
            phases = {printable(phase): seconds for phase, seconds in getattr(self, name).items()}
            object.__setattr__(self, name, phases)


INVENTORY = "inventory"
"""Measured file: what sysfs shows, a key and its text on each line."""
TRIED = "tried"
"""Measured file: on each line a knob, its path in sysfs, 1 if the kernel accepted it, and the effective value."""
LINE_NAMES = "lines.names"
"""Where the functions and variables are that figures name: on each line a name, 1 if per-CPU, start and end."""
SAMPLES = "{load}.samples.json"
"""Measured file: what the sampler saw during a load."""
TRACE_FILE = "trace.{load}.txt.gz"
"""Measured file: the trace of a load."""

ABSENT = "absent"
"""Code in ``unfit`` for a path that does not exist; its fields are what asked for it and the pattern."""
ROUTED = "routed"
"""Code in ``unfit`` for an interrupt whose affinity is kernel-managed; its fields are the knob and the interrupt."""
NO_EVENT = "event"
"""Code in ``unfit`` for a trace event that the kernel does not have; its field is the name."""

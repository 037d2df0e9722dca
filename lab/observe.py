# SPDX-License-Identifier: GPL-2.0-only
"""Observes one boot: reads its two channels and decides the outcome."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from lab.base.digest import digest_results
from lab.base.record import BootRecord, Outcome
from lab.base.units import clipped
from lab.guest import console
from lab.guest.protocol import ResultReader
from lab.qemu.machine import Channel, Ending, Note, Reason

_KEPT_LINES = 2000
_PHASES = {"set-up": "setup", "rest": "measure", "send": "send"}


class Observer:
    """Feeds the reader of the result channel, keeps the end of the console, and times the phases.

    ``doubt`` says why OOPS and HANG may be caused by the emulator; empty when they cannot.
    """

    def __init__(self, phase_seen: Callable[[str], None], doubt: str = "") -> None:
        self._doubt = doubt
        self._reader = ResultReader()
        self._phase_seen = phase_seen
        self._console: deque[str] = deque(maxlen=_KEPT_LINES)
        self._death = self._no_memory = ""
        self._started = time.monotonic()
        self._marks: list[tuple[str, float, float]] = [("boot", 0.0, 0.0)]

    def line(self, channel: Channel, text: str) -> Note | None:
        if channel is Channel.CONSOLE:
            self._console.append(text)
            self._death = self._death or console.death([text])
            if self._no_memory or not console.out_of_memory(text):
                return None
            self._no_memory = text.strip()
            return Note.STOP
        was_ready, was_over = self._reader.ready, self._reader.bye
        mark = self._reader.feed(text.rstrip("\r"))
        if mark is not None:
            self._phase_seen(mark.name)
            name = _PHASES.get(mark.name, mark.name)
            if not name.startswith("load ") and name != self._marks[-1][0]:
                self._marks.append((name, time.monotonic() - self._started, mark.uptime))
        if self._reader.bye and not was_over:
            return Note.DONE
        return Note.READY if self._reader.ready and not was_ready else None

    def record(self, folder: Path, ending: Ending, fingerprint: Mapping[str, str]) -> BootRecord:
        """The record of the boot, after its machine has ended."""
        self._reader.finish()
        outcome, detail = self._outcome(ending)
        if self._doubt and outcome in (Outcome.OOPS, Outcome.HANG):
            outcome, detail = Outcome.DOUBTFUL, f"{detail}; {self._doubt}"
        files = dict(self._reader.files)
        set_up = next((mark.uptime for mark in self._reader.phases if mark.name == "rest"), 0.0)
        return BootRecord(
            folder=folder,
            outcome=outcome,
            detail=clipped(detail),
            warnings=tuple(map(clipped, console.warnings(files.get("kmsg", b"").decode(errors="replace"), set_up))),
            files=files,
            digest=digest_results(files) if outcome is Outcome.BYE else None,
            fingerprint=fingerprint,
            wall=self._spans(1, ending.wall),
            virtual=self._spans(2, self._marks[-1][2]),
            unfit=tuple(map(clipped, self._reader.unfit)) if outcome is Outcome.UNFIT else (),
        )

    def _spans(self, clock: int, end: float) -> dict[str, float]:
        """Seconds spent in each phase by one of the two clocks of ``_marks``."""
        times = [(str(mark[0]), float(mark[clock])) for mark in self._marks]
        ends = [*(start for _, start in times[1:]), end]
        return {name: round(stop - start, 3) for (name, start), stop in zip(times, ends, strict=True) if name != "end"}

    def _outcome(self, ending: Ending) -> tuple[Outcome, str]:
        reader = self._reader
        if reader.bye and not reader.fault:
            return Outcome.BYE, ""
        if lost := _how_lost(ending) or (not self._no_memory and reader.broken):
            return Outcome.LOST, lost
        if self._no_memory:
            return Outcome.NO_MEMORY, f"{self._no_memory}; give it more (memory in its topology) or less to keep"
        if not reader.ready:
            return self._never_ready(ending)
        if self._death:
            return Outcome.HANG if console.is_hang(self._death) else Outcome.OOPS, self._death
        return self._cut_short(ending)

    def _never_ready(self, ending: Ending) -> tuple[Outcome, str]:
        if self._reader.fault and not self._death:
            return Outcome.GARBLED, self._reader.fault
        late = ending.reason is Reason.DEADLINE and not self._death and not console.stall(self._console)
        outcome = Outcome.LATE if late else Outcome.NOT_READY
        last = self._death or next((line.strip() for line in reversed(self._console) if line.strip()), "")
        said = f"; its console ends with: {last}" if last else "; its console is empty"
        return outcome, f"the guest was not ready after {ending.wall:.0f} s ({ending.reason}){said}"

    def _cut_short(self, ending: Ending) -> tuple[Outcome, str]:
        reader = self._reader
        if reader.unfit and reader.ended and not reader.fault:
            return Outcome.UNFIT, reader.unfit_sentence
        if reader.deadline_passed or ending.reason is Reason.DEADLINE:
            stuck = console.stall(self._console)
            phase = reader.phases[-1].name
            return Outcome.HANG, f"no end of phase {phase}" + (f"; {stuck}" if stuck else "")
        if ending.reason is Reason.FLOOD:
            return Outcome.HANG, "the console was flooded"
        flooded = "the results were flooded: " if ending.reason is Reason.OVERFLOW else ""
        return Outcome.GARBLED, f"{flooded}{reader.fault}"


def _how_lost(ending: Ending) -> str:
    """How QEMU failed or was stopped, or an empty string."""
    said = f": {ending.stderr.strip()}" if ending.stderr.strip() else ""
    if ending.reason is Reason.ABORTED:
        return "it was stopped by request"
    if ending.returncode < 0 and ending.reason is Reason.EXITED:
        return f"QEMU was killed by signal {-ending.returncode}{said}"
    return f"QEMU ended with {ending.returncode}{said}" if ending.returncode > 0 else ""

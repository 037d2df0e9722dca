# SPDX-License-Identifier: GPL-2.0-only
"""Steps that take paths away while a load runs, and give them back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.guest.steps import Step, line_of, listed
from lab.guest.steps.setting import Tune


@dataclass(frozen=True)
class Meanwhile(Step):
    """Carry out steps in the background while the next load runs, each at its time in nanoseconds from now."""

    verb, sent = "meanwhile", ("file",)
    load: str
    timed: tuple[tuple[int, Step], ...]

    @property
    def file(self) -> str:
        return f"{self.load}.meanwhile"

    def files(self) -> Mapping[str, str]:
        return {self.file: listed(line_of(seconds, *step.fields()) for seconds, step in self._waits())}

    def shell(self) -> str:
        # A line may end in a comment.
        lines = (line for seconds, step in self._waits() for line in (f"sleep {seconds}", step.shell()))
        return "\n".join(("(", *lines, ") &"))

    def _waits(self) -> Iterator[tuple[str, Step]]:
        """Each step with the seconds between the one before and itself."""
        before = 0
        for time, step in self.timed:
            yield f"{(time - before) / 1e9:.6f}", step
            before = time


@dataclass(frozen=True)
class PathMark(Step):
    """Write to the kernel's log that a path is ``lost`` or ``back``; ``lab.guest.console`` reads it."""

    verb, typed = "path", ": path {0.lun} is {0.state}"
    lun: str
    state: str


@dataclass(frozen=True)
class PathState(Tune):
    """Set the state of a path and read it back."""

    verb = "state"


@dataclass(frozen=True)
class Message(Step):
    """Send a message to the first target of a device-mapper device."""

    verb, typed = "message", "dmsetup message {0.name} 0 {0.text}"
    name: str
    text: str

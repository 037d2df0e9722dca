# SPDX-License-Identifier: GPL-2.0-only
"""Steps that rest, run fio, sample and trace."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from lab.base.record import TRACE_FILE
from lab.guest.steps import Step, seconds


@dataclass(frozen=True)
class Phase(Step):
    """Announce the next phase on the result channel."""

    verb, typed = "phase", "# {name}"
    name: str


@dataclass(frozen=True)
class Pause(Step):
    """Rest for ``time`` nanoseconds of guest time."""

    time: int

    def fields(self) -> tuple[str, ...]:
        return ("pause", seconds(self.time))

    def shell(self) -> str:
        return f"sleep {seconds(self.time)}"


@dataclass(frozen=True)
class Sampling:
    """Files of the guest that are sampled every ``period``, from ``start`` after a load begins, for ``length``.

    Times are in nanoseconds. ``files`` maps a name to a glob; lab/native/sampler/main.c documents their content.
    """

    period: int
    start: int
    length: int
    files: Mapping[str, str]

    def config(self) -> str:
        times = f"period {self.period}\nstart {self.start}\nlength {self.length}\n"
        return times + "".join(f"watch {name} {path}\n" for name, path in self.files.items())


@dataclass(frozen=True)
class RunLoad(Step):
    """Run fio on the job file of a load, between two readings of the counters of kernel and disk handler.

    The sampler carries out ``watch`` at the same time.
    """

    name: str
    fio: str
    watch: Sampling | None = None

    @property
    def file(self) -> str:
        return f"{self.name}.fio"

    @property
    def watch_file(self) -> str:
        return f"{self.name}.watch"

    def fields(self) -> tuple[str, ...]:
        return ("load", self.name)

    def shell(self) -> str:
        return f"fio --output-format=json --output={self.name}.json {self.file}"


@dataclass(frozen=True)
class LayFiles(Step):
    """Write the files that a load reads, before its window, and empty the page cache."""

    verb = "layout"
    load: str

    def fields(self) -> tuple[str, ...]:
        return (self.verb, self.load)

    def shell(self) -> str:
        return f"fio --create_only=1 {self.load}.fio; sync; echo 3 > /proc/sys/vm/drop_caches"


TRACING = "/sys/kernel/tracing"
TRACE_INSTANCE = f"{TRACING}/instances/blklab"


@dataclass(frozen=True)
class TraceOn(Step):
    """Enable trace events in the syntax of ``set_event`` (``block:*``, ``scsi``), in an instance of the lab."""

    events: tuple[str, ...]

    def fields(self) -> tuple[str, ...]:
        return ("trace-on", " ".join(self.events))

    def shell(self) -> str:
        return "; ".join(f"echo {shlex.quote(event)} >> {TRACE_INSTANCE}/set_event" for event in self.events)


@dataclass(frozen=True)
class TraceOff(Step):
    """Disable all events and keep the trace of ``load``."""

    load: str

    def fields(self) -> tuple[str, ...]:
        return ("trace-off", TRACE_FILE.format(load=self.load))

    def shell(self) -> str:
        kept = shlex.quote(TRACE_FILE.format(load=self.load))
        trace = f"{TRACE_INSTANCE}/trace"
        return f"echo > {TRACE_INSTANCE}/set_event; gzip -c < {trace} > {kept}; echo > {trace}"

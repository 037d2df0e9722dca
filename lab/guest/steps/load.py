# SPDX-License-Identifier: GPL-2.0-only
"""Steps that rest, run fio, sample and trace, and what happens to paths meanwhile."""

from collections.abc import Mapping
from dataclasses import dataclass

from lab.base.record import TRACE_FILE
from lab.guest.steps import Delayed, Step, line_of, listed, sent_verbs
from lab.guest.steps.device import MakeFolder, Mount, Write


@dataclass(frozen=True)
class Phase(Step):
    """Announce the next phase on the result channel."""

    verb = "phase"
    name: str


@dataclass(frozen=True)
class Pause(Delayed):
    """Rest until ``after``."""

    verb, sent = "pause", ("seconds",)
    after: int


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

    The sampler carries out ``watch`` at the same time; ``processes`` says whether it must look for jobs among them.
    """

    verb, sent = "load", ("name",)
    name: str
    fio: str
    watch: Sampling | None = None
    processes: bool = False

    @property
    def file(self) -> str:
        return f"{self.name}.fio"

    def files(self) -> Mapping[str, str]:
        return {self.file: self.fio, **({f"{self.name}.watch": self.watch.config()} if self.watch else {})}


@dataclass(frozen=True)
class LayFiles(Step):
    """Write the files that a load reads, before its window, and empty the page cache; ``fio`` is the load's job file.

    With exitall the first job that is done signals the others, and fio ends with 128 where one of them has not begun:
    such a load has a second job file without it.
    """

    verb, sent = "filesystem/layout", ("name",)
    load: str
    fio: str

    @property
    def name(self) -> str:
        return f"{self.load}.files" if EXITALL in self.fio else self.load

    def files(self) -> Mapping[str, str]:
        return {} if self.name == self.load else {f"{self.name}.fio": self.fio.replace(EXITALL, "")}


EXITALL = "exitall=1\nexit_what=all\n"


TRACING = "/sys/kernel/tracing"
TRACE_INSTANCE = f"{TRACING}/instances/blklab"


TRACE_BUFFER = 48 << 20
"""Bytes for each CPU of a ring that overwrites its oldest events: room for a few hundred thousand."""


def tracing() -> tuple[Step, ...]:
    """Make the lab's instance of the trace."""
    size = Write(f"{TRACE_INSTANCE}/buffer_size_kb", str(TRACE_BUFFER >> 10))
    return Mount("tracefs", TRACING), MakeFolder(TRACE_INSTANCE), size


@dataclass(frozen=True)
class TraceOn(Step):
    """Enable trace events in the syntax of ``set_event`` (``block:*``, ``scsi``), in an instance of the lab."""

    verb, sent = "trace/on", ("words",)
    events: tuple[str, ...]

    @property
    def words(self) -> str:
        return " ".join(self.events)


@dataclass(frozen=True)
class TraceOff(Step):
    """Disable all events and keep the trace of ``load``."""

    verb, sent = "trace/off", ("value",)
    load: str

    @property
    def value(self) -> str:
        return TRACE_FILE.format(load=self.load)


@dataclass(frozen=True)
class Timed:
    """A step ``at`` nanoseconds from the beginning of a load; those of one ``cpu`` follow one another."""

    at: int
    step: Step
    cpu: int | None = None


_ON_CPU, _TIMED = "queue/meanwhile", "act/timed"


_FIO_ITSELF = 2
"""Threads of fio besides those of its jobs: its main one, and a helper."""


@dataclass(frozen=True)
class Meanwhile(Step):
    """Carry out steps beside the next load, on ``cpu`` if named.

    Each has its time in nanoseconds from the moment at which fio lets the load's ``jobs`` begin.
    """

    verb = "path/meanwhile"
    name: str
    jobs: int
    timed: tuple[tuple[int, Step], ...]
    cpu: int | None = None

    def fields(self) -> tuple[str, ...]:
        return (self.verb, self.file) if self.cpu is None else (_ON_CPU, self.file, str(self.cpu))

    @property
    def file(self) -> str:
        return f"{self.name}.meanwhile"

    def files(self) -> Mapping[str, str]:
        timed = f"{self.name}.timed"
        files = {self.file: listed([line_of("0", _TIMED, timed, str(self.jobs + _FIO_ITSELF))])}
        files[timed] = listed(line_of(str(time // 1000), *step.fields()) for time, step in self.timed)
        for _, step in self.timed:
            files |= step.files()
        return {**files, **sent_verbs(_TIMED), **sent_verbs(self.fields()[0])}


@dataclass(frozen=True)
class PathMark(Step):
    """Write to the kernel's log that I/O of ``lun`` may fail (``lost``) or not (``back``): lab.guest.console."""

    verb = "path/mark"
    lun: str
    state: str


@dataclass(frozen=True)
class Message(Step):
    """Send a message to the first target of a device-mapper device."""

    verb = "dm/message"
    name: str
    text: str

# SPDX-License-Identifier: GPL-2.0-only
"""Steps that rest, run fio, sample and trace."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from lab.base.record import TRACE_FILE
from lab.guest.steps import Delayed, Step


@dataclass(frozen=True)
class Phase(Step):
    """Announce the next phase on the result channel."""

    verb, typed = "phase", "# {0.name}"
    name: str


@dataclass(frozen=True)
class Pause(Delayed):
    """Rest until ``after``."""

    verb, sent, typed = "pause", ("seconds",), "sleep {0.seconds}"
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

    verb, sent, typed = "load", ("name",), "fio --output-format=json --output={0.name}.json {0.file}"
    name: str
    fio: str
    watch: Sampling | None = None
    processes: bool = False

    @property
    def file(self) -> str:
        return f"{self.name}.fio"

    def files(self) -> Mapping[str, str]:
        sampled = {f"{self.name}.watch": self.watch.config()} if self.watch else {}
        return {self.file: self.fio, **sampled}


@dataclass(frozen=True)
class LayFiles(Step):
    """Write the files that a load reads, before its window, and empty the page cache."""

    verb = "layout"
    typed = "fio --create_only=1 {0.load}.fio; sync; echo 3 > /proc/sys/vm/drop_caches"
    load: str


TRACING = "/sys/kernel/tracing"
TRACE_INSTANCE = f"{TRACING}/instances/blklab"


@dataclass(frozen=True)
class TraceOn(Step):
    """Enable trace events in the syntax of ``set_event`` (``block:*``, ``scsi``), in an instance of the lab."""

    verb, sent = "trace-on", ("words",)
    events: tuple[str, ...]

    @property
    def words(self) -> str:
        return " ".join(self.events)

    def shell(self) -> str:
        return "; ".join(f"echo {shlex.quote(event)} >> {TRACE_INSTANCE}/set_event" for event in self.events)


@dataclass(frozen=True)
class TraceOff(Step):
    """Disable all events and keep the trace of ``load``."""

    verb, sent = "trace-off", ("value",)
    typed = (
        f"echo > {TRACE_INSTANCE}/set_event; gzip -c < {TRACE_INSTANCE}/trace > {{0.quoted}};"
        f" echo > {TRACE_INSTANCE}/trace"
    )
    load: str

    @property
    def value(self) -> str:
        return TRACE_FILE.format(load=self.load)

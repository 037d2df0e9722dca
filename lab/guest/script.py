# SPDX-License-Identifier: GPL-2.0-only
"""The steps that a guest carries out, as values; ``runner.sh`` is their interpreter.

Each step is one line of tab-separated fields. A field is data to the end: the runner never
evaluates it, and what cannot be a field (a tab, a newline, an empty path) is refused here.
``shell`` renders the same step as the line that a kernel developer would type.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from lab.guest.further import Find, Interrupts, Locate, Lose, Members, Read, Route

LAB = "/lab"
"""Folder of the guest in which every block device has a name of the lab's (a symlink)."""


def device(lun: str) -> str:
    """Path of a LUN's block device in the guest."""
    return f"{LAB}/{lun}"


def sysfs(lun: str) -> str:
    """Path of a LUN's folder under /sys/block in the guest."""
    return f"{LAB}/{lun}.sys"


@dataclass(frozen=True)
class Phase:
    """Says on the result channel what the guest is about to do."""

    name: str

    def fields(self) -> tuple[str, ...]:
        return ("phase", self.name)

    def shell(self) -> str:
        return f"# {self.name}"


@dataclass(frozen=True)
class Module:
    """Load a kernel module; its dependencies are loaded before it."""

    name: str
    parameters: str = ""

    def fields(self) -> tuple[str, ...]:
        return ("module", self.name, self.parameters)

    def shell(self) -> str:
        return f"modprobe {self.name} {self.parameters}".rstrip()


@dataclass(frozen=True)
class Mount:
    """Mount a file system of the kernel's own (configfs) on a folder that exists."""

    kind: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("mount", self.kind, self.path)

    def shell(self) -> str:
        return f"mountpoint -q {self.path} || mount -t {self.kind} {self.kind} {self.path}"


@dataclass(frozen=True)
class MakeFolder:
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("mkdir", self.path)

    def shell(self) -> str:
        return f"mkdir {self.path}"


@dataclass(frozen=True)
class Write:
    """Write ``value`` to the first path that matches ``path`` (a glob), waiting up to 5 s for one."""

    path: str
    value: str

    def fields(self) -> tuple[str, ...]:
        return ("write", self.path, self.value)

    def shell(self) -> str:
        return f"echo {shlex.quote(self.value)} > {self.path}"


@dataclass(frozen=True)
class Link:
    target: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("link", self.target, self.path)

    def shell(self) -> str:
        return f"ln -s {self.target} {self.path}"


@dataclass(frozen=True)
class Tune:
    """Set a knob and read it back; another effective value than the one asked for ends the boot as unfit."""

    knob: str
    path: str
    value: str

    def fields(self) -> tuple[str, ...]:
        return ("tune", self.knob, self.path, self.value)

    def shell(self) -> str:
        return f"echo {shlex.quote(self.value)} > {self.path}  # {self.knob}"


TRIED = "tried"
"""The file of what was tried: knob, sysfs path, 1 where the kernel accepted it, and the effective value."""


@dataclass(frozen=True)
class Try:
    """Set a knob that the kernel may refuse or change, and keep what came of it in ``TRIED``."""

    knob: str
    path: str
    value: str

    def fields(self) -> tuple[str, ...]:
        return ("try", self.knob, self.path, self.value)

    def shell(self) -> str:
        return f"echo {shlex.quote(self.value)} > {self.path}; cat {self.path}  # {self.knob}"


@dataclass(frozen=True)
class Confirm:
    """Read a knob that was set in another way (a module parameter, say) and compare."""

    knob: str
    path: str
    value: str

    def fields(self) -> tuple[str, ...]:
        return ("confirm", self.knob, self.path, self.value)

    def shell(self) -> str:
        return f"cat {self.path}  # {self.knob}: {self.value}"


@dataclass(frozen=True)
class NameBlock:
    """Give the block device whose sysfs folder matches ``path`` (a glob) the lab's name for a LUN."""

    lun: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("block", self.lun, self.path)

    def shell(self) -> str:
        node = f"/dev/$(basename {self.path})"
        return f"mkdir -p {LAB}; ln -s {self.path} {sysfs(self.lun)}; ln -s {node} {device(self.lun)}"


@dataclass(frozen=True)
class Table:
    """Create a device-mapper device from a table (one target a line), under the lab's name for it."""

    name: str
    rows: tuple[str, ...]

    @property
    def file(self) -> str:
        return f"{self.name}.table"

    def fields(self) -> tuple[str, ...]:
        return ("table", self.name, self.file)

    def shell(self) -> str:
        rows = "\\n".join(self.rows)
        return f"printf {shlex.quote(rows + chr(92) + 'n')} | dmsetup create {self.name}"


@dataclass(frozen=True)
class Array:
    """Create an md array of the named devices with mdadm's ``arguments``, under the lab's name for it."""

    name: str
    number: int
    arguments: tuple[str, ...]
    members: tuple[str, ...]

    def fields(self) -> tuple[str, ...]:
        return ("array", self.name, str(self.number), self._words())

    def _words(self) -> str:
        return " ".join((*self.arguments, *(device(member) for member in self.members)))

    def shell(self) -> str:
        return f"mdadm --create /dev/md{self.number} --run --metadata=1.2 {self._words()}"


NETWORK_FILE = "network.tc"


@dataclass(frozen=True)
class Network:
    """Bring the loopback device up and carry out ``commands`` of tc, such as ``qdisc add dev lo ...``."""

    commands: tuple[str, ...]

    def fields(self) -> tuple[str, ...]:
        return ("network", NETWORK_FILE)

    def shell(self) -> str:
        return "\n".join(("ifconfig lo up", *(f"tc {command}" for command in self.commands)))


HANDLER_CONFIG = "diskd.conf"
HANDLER_READY = "/tmp/diskd.ready"  # noqa: S108
HANDLER_COUNTERS = "/tmp/diskd.json"  # noqa: S108


@dataclass(frozen=True)
class Daemon:
    """Start the disk handler on ``config`` and wait until it serves; its death from then on ends the boot."""

    config: tuple[str, ...]

    def fields(self) -> tuple[str, ...]:
        return ("daemon", HANDLER_CONFIG)

    def shell(self) -> str:
        rows = shlex.quote("\\n".join((*self.config, "")))
        return f"printf {rows} > {HANDLER_CONFIG}; diskd {HANDLER_CONFIG} {HANDLER_READY} {HANDLER_COUNTERS} &"


@dataclass(frozen=True)
class Pause:
    """Rest for ``time`` nanoseconds of guest time."""

    time: int

    def fields(self) -> tuple[str, ...]:
        return ("pause", f"{self.time / 1e9:.6f}")

    def shell(self) -> str:
        return f"sleep {self.time / 1e9:.6f}"


@dataclass(frozen=True)
class Watch:
    """Files of the guest that are sampled every ``period`` from ``start`` after a load's beginning, for ``length``.

    Times in nanoseconds. ``files`` maps a name to a pattern of a path; lab/native/sampler/main.c says what such a file
    holds.
    """

    period: int
    start: int
    length: int
    files: Mapping[str, str]

    def config(self) -> str:
        times = f"period {self.period}\nstart {self.start}\nlength {self.length}\n"
        return times + "".join(f"watch {name} {path}\n" for name, path in self.files.items())


SAMPLES = "{load}.samples.json"
"""What the sampler saw during a load."""


@dataclass(frozen=True)
class RunLoad:
    """Run fio on the job file of a load, between two readings of the kernel's counters.

    Beside it the sampler carries out ``watch``, and the disk handler's counters are read at its two ends.
    """

    name: str
    fio: str
    watch: Watch | None = None

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


HOST_NOISE = "host-noise"
FAULTS = (
    "oops",
    "hang",
    "hung-task",
    "oom",
    "io-error",
    "flood",
    "lose-runner",
    "lose-handler",
    "corrupt-result",
    "truncate-result",
    "omit-result",
    HOST_NOISE,
)
"""What ``Inject`` can do to a guest, to prove that the lab notices."""


@dataclass(frozen=True)
class Inject:
    """Break the guest on purpose, ``after`` nanoseconds from now; only selftests do this."""

    fault: str
    after: int

    def fields(self) -> tuple[str, ...]:
        return ("inject", self.fault, f"{self.after / 1e9:.6f}")

    def shell(self) -> str:
        return f"# selftest: {self.fault} after {self.after / 1e9:.6f} s"


TRACING = "/sys/kernel/tracing"
TRACE_INSTANCE = f"{TRACING}/instances/blklab"
TRACE_FILE = "trace.{load}.txt.gz"
NOTHING_THERE = "nothing matches"
"""What the guest says of a knob whose file does not appear, between the knob's name and the file's."""
UNKNOWN_EVENT = "no trace event"
"""What the guest says of an event that it does not have, before the event's name."""


@dataclass(frozen=True)
class TraceOn:
    """Enable trace events, as ``set_event`` takes them (``block:*``, ``scsi``), in the lab's own instance."""

    events: tuple[str, ...]

    def fields(self) -> tuple[str, ...]:
        return ("trace-on", " ".join(self.events))

    def shell(self) -> str:
        return "; ".join(f"echo {shlex.quote(event)} >> {TRACE_INSTANCE}/set_event" for event in self.events)


@dataclass(frozen=True)
class TraceOff:
    """Disable all events and keep what was traced in ``load``."""

    load: str

    def fields(self) -> tuple[str, ...]:
        return ("trace-off", TRACE_FILE.format(load=self.load))

    def shell(self) -> str:
        kept = shlex.quote(TRACE_FILE.format(load=self.load))
        trace = f"{TRACE_INSTANCE}/trace"
        return f"echo > {TRACE_INSTANCE}/set_event; gzip -c < {trace} > {kept}; echo > {trace}"


Step = (
    Inject
    | Phase
    | Module
    | Mount
    | MakeFolder
    | Write
    | Link
    | Tune
    | Try
    | Confirm
    | NameBlock
    | Find
    | Read
    | Locate
    | Members
    | Interrupts
    | Lose
    | Route
    | Table
    | Array
    | Network
    | Daemon
    | Pause
    | RunLoad
    | TraceOn
    | TraceOff
)

# SPDX-License-Identifier: GPL-2.0-only
"""Steps that set something and read it back, and steps that record what sysfs shows."""

from dataclasses import dataclass

from lab.guest.steps import Step


@dataclass(frozen=True)
class Setting(Step):
    """A ``knob`` with its ``path`` (a glob) and ``value``."""

    knob: str
    path: str
    value: str


class Tune(Setting):
    """Set a knob and read it back; if the effective value differs, the boot is unfit."""

    verb = "tune"


class PathState(Setting):
    """Set the state of a path and read it back; unlike Tune, with the newline that SCSI wants."""

    verb = "path/state"


class Try(Setting):
    """Set a knob that the kernel may refuse or change, and record the effect in ``lab.base.record.TRIED``."""

    verb = "try"


@dataclass(frozen=True)
class Act(Step):
    """Do ``action`` to ``target``, NAME or NAME/MEMBER, which the kernel may refuse, and record the exit status."""

    verb = "act/do"
    knob: str
    action: str
    target: str


@dataclass(frozen=True)
class AwaitCompletions(Step):
    """Wait until the block device ``name`` has completed ``count`` reads and writes more."""

    verb = "act/completions"
    name: str
    count: int


class Confirm(Setting):
    """Read a knob that was set by other means, such as a module parameter, and compare."""

    verb = "confirm"


CGROUPS = "/sys/fs/cgroup"


@dataclass(frozen=True)
class Cgroup(Step):
    """Set ``words`` for a ``device`` in the ``file`` of a cgroup, which is made, and read them back."""

    verb = "cgroup/limit"
    group: str
    device: str
    file: str
    words: str

    def fields(self) -> tuple[str, ...]:
        return (self.verb, self.group, self.device, f"{self.file} {self.words}")


@dataclass(frozen=True)
class Throttle(Step):
    """Set a ``limit`` of blk-throttle, a file of the root group and its value, for a ``device``, and read it back."""

    verb = "cgroup/throttle"
    knob: str
    device: str
    limit: str


@dataclass(frozen=True)
class RouteInterrupts(Step):
    """Route all interrupts of the PCI device in the folder ``path`` (a glob) to one ``processor``, with read-back."""

    verb = "sysfs/route"
    knob: str
    path: str
    processor: int


@dataclass(frozen=True)
class Recorded(Step):
    """What a step records under ``key``."""

    key: str
    path: str


class Read(Recorded):
    """Record the content of the first file that matches ``path`` (a glob), empty without a match."""

    verb = "sysfs/read"


class Counters(Recorded):
    """Record the counters of the block device in the folder ``path`` that are zero when it is idle, as NAME=COUNT ...:
    requests in flight, of wbt too, and busy devices and tags. Those of debugfs are absent where a kernel has none."""

    verb = "queue/counters"


class Locate(Recorded):
    """Record the folder of sysfs that ``path`` (a glob) resolves to."""

    verb = "sysfs/place"


class Members(Recorded):
    """Record the names in the folder ``path`` (a glob)."""

    verb = "sysfs/members"


class Interrupts(Recorded):
    """Record the interrupt numbers of the PCI device in the folder ``path`` (a glob)."""

    verb = "sysfs/interrupts"

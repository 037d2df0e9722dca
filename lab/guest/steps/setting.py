# SPDX-License-Identifier: GPL-2.0-only
"""Steps that set something and read it back, and steps that record what sysfs shows."""

from dataclasses import dataclass

from lab.guest.steps import Step
from lab.guest.steps.device import LAB


@dataclass(frozen=True)
class Tune(Step):
    """Set a knob and read it back; if the effective value differs, the boot is unfit."""

    verb, typed = "tune", "echo {0.quoted} > {0.path}  # {0.knob}"
    knob: str
    path: str
    value: str


@dataclass(frozen=True)
class Try(Step):
    """Set a knob that the kernel may refuse or change, and record the effect in ``lab.base.record.TRIED``."""

    verb, typed = "try", "echo {0.quoted} > {0.path}; cat {0.path}  # {0.knob}"
    knob: str
    path: str
    value: str


@dataclass(frozen=True)
class Confirm(Step):
    """Read a knob that was set by other means, such as a module parameter, and compare."""

    verb, typed = "confirm", "cat {0.path}  # {0.knob}: {0.value}"
    knob: str
    path: str
    value: str


CGROUPS = "/sys/fs/cgroup"


@dataclass(frozen=True)
class Cgroup(Step):
    """Set ``words`` for a ``device`` in the ``file`` of a cgroup, which is made, and read them back."""

    verb, typed = "cgroup", "mkdir -p {0.folder}; echo $(cat {0.number}) {0.words} > {0.folder}/{0.file}"
    group: str
    device: str
    file: str
    words: str

    def fields(self) -> tuple[str, ...]:
        return (self.verb, self.group, self.device, f"{self.file} {self.words}")

    @property
    def folder(self) -> str:
        return f"{CGROUPS}/{self.group}"

    @property
    def number(self) -> str:
        return f"{LAB}/{self.device}.sys/dev"


@dataclass(frozen=True)
class RouteInterrupts(Step):
    """Route all interrupts of the PCI device in the folder ``path`` (a glob) to one ``processor``, with read-back."""

    verb = "route"
    typed = (
        "for n in $(ls {0.path}/msi_irqs 2>/dev/null || cat {0.path}/irq);"
        " do echo {0.processor} > /proc/irq/$n/smp_affinity_list; done"
    )
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

    verb, typed = "read", "cat {0.path}  # {0.key}"


class Locate(Recorded):
    """Record the folder of sysfs that ``path`` (a glob) resolves to."""

    verb, typed = "place", "readlink -f {0.path}  # {0.key}"


class Members(Recorded):
    """Record the names in the folder ``path`` (a glob)."""

    verb, typed = "members", "ls {0.path}  # {0.key}"


class Interrupts(Recorded):
    """Record the interrupt numbers of the PCI device in the folder ``path`` (a glob)."""

    verb, typed = "interrupts", "ls {0.path}/msi_irqs || cat {0.path}/irq  # {0.key}"

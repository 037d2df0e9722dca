# SPDX-License-Identifier: GPL-2.0-only
"""Steps that set a knob and read it back."""

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Tune:
    """Set a knob and read it back; if the effective value differs, the boot is unfit."""

    knob: str
    path: str
    value: str

    def fields(self) -> tuple[str, ...]:
        return ("tune", self.knob, self.path, self.value)

    def shell(self) -> str:
        return f"echo {shlex.quote(self.value)} > {self.path}  # {self.knob}"


@dataclass(frozen=True)
class Try:
    """Set a knob that the kernel may refuse or change, and record the effect in ``lab.base.record.TRIED``."""

    knob: str
    path: str
    value: str

    def fields(self) -> tuple[str, ...]:
        return ("try", self.knob, self.path, self.value)

    def shell(self) -> str:
        return f"echo {shlex.quote(self.value)} > {self.path}; cat {self.path}  # {self.knob}"


@dataclass(frozen=True)
class Confirm:
    """Read a knob that was set by other means, such as a module parameter, and compare."""

    knob: str
    path: str
    value: str

    def fields(self) -> tuple[str, ...]:
        return ("confirm", self.knob, self.path, self.value)

    def shell(self) -> str:
        return f"cat {self.path}  # {self.knob}: {self.value}"


@dataclass(frozen=True)
class RouteInterrupts:
    """Route all interrupts of the PCI device in the folder ``path`` (a glob) to one ``processor``, with read-back."""

    knob: str
    path: str
    processor: int

    def fields(self) -> tuple[str, ...]:
        return ("route", self.knob, self.path, str(self.processor))

    def shell(self) -> str:
        irqs = f"$(ls {self.path}/msi_irqs 2>/dev/null || cat {self.path}/irq)"
        return f"for n in {irqs}; do echo {self.processor} > /proc/irq/$n/smp_affinity_list; done"

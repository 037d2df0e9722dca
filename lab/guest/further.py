# SPDX-License-Identifier: GPL-2.0-only
"""Steps of guests whose disks are devices of QEMU; ``further.sh`` is their interpreter beside ``runner.sh``."""

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Find:
    """Name the block device beside an attribute (a glob) that reads ``value``; ``block`` leads there from its folder.

    It waits for a minute, in which disks may still be probed.
    """

    lun: str
    attribute: str
    value: str
    block: str

    def fields(self) -> tuple[str, ...]:
        return ("find", self.lun, self.attribute, self.value, self.block)

    def shell(self) -> str:
        found = f"$(echo $(dirname $(grep -lx {shlex.quote(self.value)} {self.attribute}))/{self.block})"
        links = f"ln -s $found /lab/{self.lun}.sys; ln -s /dev/$(basename $(readlink -f $found)) /lab/{self.lun}"
        return f"mkdir -p /lab; found={found}; {links}"


INVENTORY = "inventory"
"""The file of what sysfs showed: key and text."""


@dataclass(frozen=True)
class Read:
    """Keep what the first file that matches ``path`` (a glob) reads; nothing where there is none."""

    key: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("read", self.key, self.path)

    def shell(self) -> str:
        return f"cat {self.path}  # {self.key}"


@dataclass(frozen=True)
class Locate:
    """Keep the folder of sysfs that ``path`` (a glob) leads to."""

    key: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("place", self.key, self.path)

    def shell(self) -> str:
        return f"readlink -f {self.path}  # {self.key}"


@dataclass(frozen=True)
class Members:
    """Keep the names in the folder ``path`` (a glob)."""

    key: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("members", self.key, self.path)

    def shell(self) -> str:
        return f"ls {self.path}  # {self.key}"


@dataclass(frozen=True)
class Interrupts:
    """Keep the numbers of the interrupts of the PCI device in the folder ``path`` (a glob)."""

    key: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("interrupts", self.key, self.path)

    def shell(self) -> str:
        return f"ls {self.path}/msi_irqs || cat {self.path}/irq  # {self.key}"


ROUTED_BY_KERNEL = "the kernel routes interrupt"
"""What the guest says, before its number, of an interrupt whose processor the kernel does not let anybody choose."""


@dataclass(frozen=True)
class Route:
    """Have one ``processor`` take all interrupts of the PCI device in the folder ``path`` (a glob), with read-back."""

    knob: str
    path: str
    processor: int

    def fields(self) -> tuple[str, ...]:
        return ("route", self.knob, self.path, str(self.processor))

    def shell(self) -> str:
        irqs = f"$(ls {self.path}/msi_irqs 2>/dev/null || cat {self.path}/irq)"
        return f"for n in {irqs}; do echo {self.processor} > /proc/irq/$n/smp_affinity_list; done"


LOSE_DISK = "lose-disk"
"""A fault as those of ``lab.guest.script.FAULTS``, of the first LUN."""


@dataclass(frozen=True)
class Lose:
    """Take a disk away from the guest, ``after`` nanoseconds from now; only selftests do this."""

    lun: str
    after: int

    def fields(self) -> tuple[str, ...]:
        return ("lose", self.lun, f"{self.after / 1e9:.6f}")

    def shell(self) -> str:
        return f"# selftest: {self.lun} is lost after {self.after / 1e9:.6f} s"

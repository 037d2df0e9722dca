# SPDX-License-Identifier: GPL-2.0-only
"""Steps that record what sysfs shows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Read:
    """Record the content of the first file that matches ``path`` (a glob), empty without a match."""

    key: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("read", self.key, self.path)

    def shell(self) -> str:
        return f"cat {self.path}  # {self.key}"


@dataclass(frozen=True)
class Locate:
    """Record the folder of sysfs that ``path`` (a glob) resolves to."""

    key: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("place", self.key, self.path)

    def shell(self) -> str:
        return f"readlink -f {self.path}  # {self.key}"


@dataclass(frozen=True)
class Members:
    """Record the names in the folder ``path`` (a glob)."""

    key: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("members", self.key, self.path)

    def shell(self) -> str:
        return f"ls {self.path}  # {self.key}"


@dataclass(frozen=True)
class Interrupts:
    """Record the interrupt numbers of the PCI device in the folder ``path`` (a glob)."""

    key: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("interrupts", self.key, self.path)

    def shell(self) -> str:
        return f"ls {self.path}/msi_irqs || cat {self.path}/irq  # {self.key}"

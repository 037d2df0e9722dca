# SPDX-License-Identifier: GPL-2.0-only
"""Steps that record what sysfs shows."""

from dataclasses import dataclass


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

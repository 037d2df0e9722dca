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
        return f"grep -lx {shlex.quote(self.value)} {self.attribute}  # {self.lun} is {self.block} beside it"


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

# SPDX-License-Identifier: GPL-2.0-only
"""Steps that make block devices, and steps that break the guest on purpose, for selftests."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.guest.steps import Delayed, Step, listed

LAB = "/lab"
"""Folder of the guest with a symlink for each block device, under the lab's name for it."""


def device(lun: str) -> str:
    """Path of a LUN's block device in the guest."""
    return f"{LAB}/{lun}"


def sysfs(lun: str) -> str:
    """Path of a LUN's folder under /sys/block in the guest."""
    return f"{LAB}/{lun}.sys"


@dataclass(frozen=True)
class Module(Step):
    """Load a kernel module; its dependencies are loaded before it.

    The parameters named in ``optional`` are for kernels that have them.
    """

    verb, sent = "module", ("name", "parameters")
    name: str
    parameters: str = ""
    optional: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mount(Step):
    """Mount a pseudo file system (such as configfs) on an existing folder."""

    verb = "mount"
    kind: str
    path: str


@dataclass(frozen=True)
class MakeFolder(Step):
    verb = "mkdir"
    path: str


@dataclass(frozen=True)
class Write(Step):
    """Write ``value`` to the first path that matches ``path`` (a glob), waiting up to 5 s for one."""

    verb = "write"
    path: str
    value: str


def configured(folder: str, values: Mapping[str, object]) -> Iterator[Step]:
    """Make a folder of configfs and write its attributes, in their order."""
    yield MakeFolder(folder)
    yield from (Write(f"{folder}/{name}", str(value)) for name, value in values.items())


@dataclass(frozen=True)
class LinkStep(Step):
    verb = "link"
    target: str
    path: str


@dataclass(frozen=True)
class NameBlock(Step):
    """Name a block device after a LUN; ``path`` (a glob) matches its sysfs folder."""

    verb = "block"
    lun: str
    path: str


@dataclass(frozen=True)
class BareQueue(Step):
    """Make the queue in the folder ``path`` of sysfs pass requests one by one and at once.

    It schedules, merges, throttles and accounts nothing. Writeback throttling, on by default, would hold the writes of
    a mixed load back from a disk whose requests take 2 ms or more.
    """

    verb = "sysfs/bare"
    knob: str
    path: str


@dataclass(frozen=True)
class Find(Step):
    """Name the block device with an ``attribute`` (a glob) that reads ``value``.

    ``block`` is its path relative to the attribute's folder. Waits up to a minute for disks that are still probed.
    """

    verb = "sysfs/find"
    lun: str
    attribute: str
    value: str
    block: str


@dataclass(frozen=True)
class TableStep(Step):
    """Create a device-mapper device from a table with one target per line."""

    verb, sent = "dm/table", ("name", "file")
    name: str
    rows: tuple[str, ...]

    @property
    def file(self) -> str:
        return f"{self.name}.table"

    def files(self) -> Mapping[str, str]:
        return {self.file: listed(self.rows)}


@dataclass(frozen=True)
class Array(Step):
    """Create an md array; ``words`` are mdadm's options and devices."""

    verb = "md/array"
    name: str
    number: int
    words: str


class LocklessArray(Array):
    """Create an md array with a lockless bitmap; ``words`` ask mdadm for an internal one, and it is rewritten."""

    verb = "md/lockless"


@dataclass(frozen=True)
class Filesystem(Step):
    """Make a filesystem on the device ``member`` and mount it on the folder ``name``, which stands for the device.

    ``words`` are its type, the options of mount, and the words of mkfs.
    """

    verb = "filesystem/make"
    name: str
    member: str
    words: str


@dataclass(frozen=True)
class Loop(Step):
    """Make a loop device; ``words`` are its file, the bytes of a new file (0 for a device), and losetup's option."""

    verb = "loop/attach"
    name: str
    number: int
    words: str


@dataclass(frozen=True)
class Network(Step):
    """Bring the loopback device up and run ``commands`` of tc, such as ``qdisc add dev lo ...``."""

    verb, sent, file = "network/start", ("file",), "network.tc"
    commands: tuple[str, ...]

    def files(self) -> Mapping[str, str]:
        return {self.file: listed(self.commands)}


@dataclass(frozen=True)
class Daemon(Step):
    """Start the disk handler with ``config`` and wait until it is ready; if it dies later, the boot ends."""

    verb, sent, file = "diskd/start", ("file",), "diskd.conf"
    config: tuple[str, ...]

    def files(self) -> Mapping[str, str]:
        return {self.file: listed(self.config)}


HOST_NOISE = "host-noise"
FAULTS = (
    *("oops", "hang", "hung-task", "oom", "io-error", "flood", "lose-runner", "lose-handler"),
    *("corrupt-result", "truncate-result", "omit-result", HOST_NOISE),
)
"""Faults of ``Inject``, which prove that the lab detects them."""


@dataclass(frozen=True)
class Inject(Delayed):
    """Break the guest on purpose, ``after`` nanoseconds from now; only selftests do this."""

    verb, sent = "selftest/inject", ("fault", "seconds")
    fault: str
    after: int


LOSE_DISK = "lose-disk"
"""The fault of ``Lose``: the disk of the first LUN disappears."""


@dataclass(frozen=True)
class Lose(Delayed):
    """Remove a disk from the guest, ``after`` nanoseconds from now; only selftests do this."""

    verb, sent = "selftest/lose", ("lun", "seconds")
    lun: str
    after: int

# SPDX-License-Identifier: GPL-2.0-only
"""Steps that make block devices."""

import shlex
from dataclasses import dataclass

from lab.guest.steps import Step

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

    verb = "module"
    name: str
    parameters: str = ""
    optional: tuple[str, ...] = ()

    def fields(self) -> tuple[str, ...]:
        return (self.verb, self.name, self.parameters)

    def shell(self) -> str:
        return f"modprobe {self.name} {self.parameters}".rstrip()


@dataclass(frozen=True)
class Mount(Step):
    """Mount a pseudo file system (such as configfs) on an existing folder."""

    verb, typed = "mount", "mountpoint -q {path} || mount -t {kind} {kind} {path}"
    kind: str
    path: str


@dataclass(frozen=True)
class MakeFolder(Step):
    verb, typed = "mkdir", "mkdir {path}"
    path: str


@dataclass(frozen=True)
class Write(Step):
    """Write ``value`` to the first path that matches ``path`` (a glob), waiting up to 5 s for one."""

    verb, typed = "write", "echo {quoted} > {path}"
    path: str
    value: str


@dataclass(frozen=True)
class LinkStep(Step):
    verb, typed = "link", "ln -s {target} {path}"
    target: str
    path: str


@dataclass(frozen=True)
class NameBlock(Step):
    """Name a block device after a LUN; ``path`` (a glob) matches its sysfs folder."""

    verb = "block"
    typed = f"mkdir -p {LAB}; ln -s {{path}} {sysfs('{lun}')}; ln -s /dev/$(basename {{path}}) {device('{lun}')}"
    lun: str
    path: str


@dataclass(frozen=True)
class Find(Step):
    """Name the block device with an ``attribute`` (a glob) that reads ``value``.

    ``block`` is its path relative to the attribute's folder. Waits up to a minute for disks that are still probed.
    """

    verb = "find"
    typed = (
        "mkdir -p /lab; found=$(echo $(dirname $(grep -lx {quoted} {attribute}))/{block});"
        " ln -s $found /lab/{lun}.sys; ln -s /dev/$(basename $(readlink -f $found)) /lab/{lun}"
    )
    lun: str
    attribute: str
    value: str
    block: str


@dataclass(frozen=True)
class TableStep(Step):
    """Create a device-mapper device from a table with one target per line."""

    verb = "table"
    name: str
    rows: tuple[str, ...]

    @property
    def file(self) -> str:
        return f"{self.name}.table"

    def fields(self) -> tuple[str, ...]:
        return (self.verb, self.name, self.file)

    def shell(self) -> str:
        rows = "\\n".join(self.rows)
        return f"printf {shlex.quote(rows + chr(92) + 'n')} | dmsetup create {self.name}"


@dataclass(frozen=True)
class Array(Step):
    """Create an md array of the named devices with mdadm's ``arguments``."""

    verb = "array"
    name: str
    number: int
    arguments: tuple[str, ...]
    members: tuple[str, ...]

    def fields(self) -> tuple[str, ...]:
        return (self.verb, self.name, str(self.number), self._words())

    def _words(self) -> str:
        return " ".join((*self.arguments, *(device(member) for member in self.members)))

    def shell(self) -> str:
        return f"mdadm --create /dev/md{self.number} --run --metadata=1.2 {self._words()}"


@dataclass(frozen=True)
class Filesystem(Step):
    """Make a filesystem on the device ``member`` and mount it on the folder ``name``, which stands for the device.

    ``words`` are those of mkfs, ``options`` those of mount.
    """

    verb = "filesystem"
    name: str
    member: str
    type: str
    words: str
    options: str

    def fields(self) -> tuple[str, ...]:
        return (self.verb, self.name, self.member, f"{self.type} {self.options or 'defaults'} {self.words}")

    def shell(self) -> str:
        made = " ".join((f"mkfs.{self.type}", *self.words.split(), device(self.member)))
        mount = f"mount -t {self.type} -o {self.options or 'defaults'} {device(self.member)} {device(self.name)}"
        return f"{made}; mkdir {device(self.name)}; {mount}"


NETWORK_FILE = "network.tc"


@dataclass(frozen=True)
class Network(Step):
    """Bring the loopback device up and run ``commands`` of tc, such as ``qdisc add dev lo ...``."""

    verb = "network"
    commands: tuple[str, ...]

    def fields(self) -> tuple[str, ...]:
        return (self.verb, NETWORK_FILE)

    def shell(self) -> str:
        return "\n".join(("ifconfig lo up", *(f"tc {command}" for command in self.commands)))


HANDLER_CONFIG = "diskd.conf"
HANDLER_READY = "/tmp/diskd.ready"  # noqa: S108
HANDLER_COUNTERS = "/tmp/diskd.json"  # noqa: S108


@dataclass(frozen=True)
class Daemon(Step):
    """Start the disk handler with ``config`` and wait until it is ready; if it dies later, the boot ends."""

    verb = "daemon"
    config: tuple[str, ...]

    def fields(self) -> tuple[str, ...]:
        return (self.verb, HANDLER_CONFIG)

    def shell(self) -> str:
        rows = shlex.quote("\\n".join((*self.config, "")))
        return f"printf {rows} > {HANDLER_CONFIG}; diskd {HANDLER_CONFIG} {HANDLER_READY} {HANDLER_COUNTERS} &"

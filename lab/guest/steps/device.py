# SPDX-License-Identifier: GPL-2.0-only
"""Steps that make block devices."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lab.guest.steps import Step, listed

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

    verb, sent, typed = "module", ("name", "parameters"), "modprobe {0.name} {0.parameters}"
    name: str
    parameters: str = ""
    optional: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mount(Step):
    """Mount a pseudo file system (such as configfs) on an existing folder."""

    verb, typed = "mount", "mountpoint -q {0.path} || mount -t {0.kind} {0.kind} {0.path}"
    kind: str
    path: str


@dataclass(frozen=True)
class MakeFolder(Step):
    verb, typed = "mkdir", "mkdir {0.path}"
    path: str


@dataclass(frozen=True)
class Write(Step):
    """Write ``value`` to the first path that matches ``path`` (a glob), waiting up to 5 s for one."""

    verb, typed = "write", "echo {0.quoted} > {0.path}"
    path: str
    value: str


def configured(folder: str, values: Mapping[str, object]) -> Iterator[Step]:
    """Make a folder of configfs and write its attributes, in their order."""
    yield MakeFolder(folder)
    yield from (Write(f"{folder}/{name}", str(value)) for name, value in values.items())


@dataclass(frozen=True)
class LinkStep(Step):
    verb, typed = "link", "ln -s {0.target} {0.path}"
    target: str
    path: str


@dataclass(frozen=True)
class NameBlock(Step):
    """Name a block device after a LUN; ``path`` (a glob) matches its sysfs folder."""

    verb = "block"
    typed = "mkdir -p /lab; ln -s {0.path} /lab/{0.lun}.sys; ln -s /dev/$(basename {0.path}) /lab/{0.lun}"
    lun: str
    path: str


@dataclass(frozen=True)
class Find(Step):
    """Name the block device with an ``attribute`` (a glob) that reads ``value``.

    ``block`` is its path relative to the attribute's folder. Waits up to a minute for disks that are still probed.
    """

    verb = "find"
    typed = (
        "mkdir -p /lab; found=$(echo $(dirname $(grep -lx {0.quoted} {0.attribute}))/{0.block});"
        " ln -s $found /lab/{0.lun}.sys; ln -s /dev/$(basename $(readlink -f $found)) /lab/{0.lun}"
    )
    lun: str
    attribute: str
    value: str
    block: str


@dataclass(frozen=True)
class TableStep(Step):
    """Create a device-mapper device from a table with one target per line."""

    verb, sent, typed = "table", ("name", "file"), "printf {0.quoted} | dmsetup create {0.name}"
    name: str
    rows: tuple[str, ...]

    @property
    def file(self) -> str:
        return f"{self.name}.table"

    @property
    def quoted(self) -> str:
        return _escaped(self.rows)

    def files(self) -> Mapping[str, str]:
        return {self.file: listed(self.rows)}


@dataclass(frozen=True)
class Array(Step):
    """Create an md array of the named devices with mdadm's ``arguments``; the last ``write_mostly`` are so flagged."""

    verb, sent = "array", ("name", "number", "words")
    typed = "mdadm --create /dev/md{0.number} --run --metadata=1.2 {0.words}"
    name: str
    number: int
    arguments: tuple[str, ...]
    members: tuple[str, ...]
    write_mostly: int = 0

    @property
    def words(self) -> str:
        first = len(self.members) - self.write_mostly
        flag = ("--write-mostly",) if self.write_mostly else ()
        read, others = map(device, self.members[:first]), map(device, self.members[first:])
        return " ".join((*self.arguments, *read, *flag, *others))


@dataclass(frozen=True)
class Filesystem(Step):
    """Make a filesystem on the device ``member`` and mount it on the folder ``name``, which stands for the device.

    ``words`` are those of mkfs, ``options`` those of mount.
    """

    verb, sent = "filesystem", ("name", "member", "line")
    typed = "mkfs.{0.type} {0.words} {0.node}; mkdir {0.folder}; mount -t {0.type} -o {0.options} {0.node} {0.folder}"
    name: str
    member: str
    type: str
    words: str
    options: str

    @property
    def line(self) -> str:
        return f"{self.type} {self.options} {self.words}"

    @property
    def node(self) -> str:
        return device(self.member)

    @property
    def folder(self) -> str:
        return device(self.name)


@dataclass(frozen=True)
class Loop(Step):
    """Make a loop device over ``file``: a device, or a new file of ``size`` bytes where that is not 0."""

    verb, sent = "loop", ("name", "number", "line")
    typed = "head -c {0.size} /dev/zero > {0.file}; sync; losetup {0.option} /dev/loop{0.number} {0.file}"
    name: str
    number: int
    file: str
    size: int
    direct_io: bool

    @property
    def option(self) -> str:
        return f"--direct-io={'on' if self.direct_io else 'off'}"

    @property
    def line(self) -> str:
        return f"{self.file} {self.size} {self.option}"

    def shell(self) -> str:
        return super().shell() if self.size else super().shell().partition("sync; ")[2]


@dataclass(frozen=True)
class Network(Step):
    """Bring the loopback device up and run ``commands`` of tc, such as ``qdisc add dev lo ...``."""

    verb, sent, file = "network", ("file",), "network.tc"
    commands: tuple[str, ...]

    def files(self) -> Mapping[str, str]:
        return {self.file: listed(self.commands)}

    def shell(self) -> str:
        return "\n".join(("ifconfig lo up", *(f"tc {command}" for command in self.commands)))


@dataclass(frozen=True)
class Daemon(Step):
    """Start the disk handler with ``config`` and wait until it is ready; if it dies later, the boot ends."""

    verb, sent, file = "daemon", ("file",), "diskd.conf"
    typed = "printf {0.quoted} > {0.file}; diskd {0.file} /tmp/diskd.ready /tmp/diskd.json &"
    config: tuple[str, ...]

    @property
    def quoted(self) -> str:
        return _escaped(self.config)

    def files(self) -> Mapping[str, str]:
        return {self.file: listed(self.config)}


def _escaped(rows: Iterable[str]) -> str:
    """Lines as a quoted argument of printf."""
    return shlex.quote("".join(f"{row}\\n" for row in rows))

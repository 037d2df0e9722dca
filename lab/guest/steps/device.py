# SPDX-License-Identifier: GPL-2.0-only
"""Steps that make block devices."""

import shlex
from dataclasses import dataclass

LAB = "/lab"
"""Folder of the guest with a symlink for each block device, under the lab's name for it."""


def device(lun: str) -> str:
    """Path of a LUN's block device in the guest."""
    return f"{LAB}/{lun}"


def sysfs(lun: str) -> str:
    """Path of a LUN's folder under /sys/block in the guest."""
    return f"{LAB}/{lun}.sys"


@dataclass(frozen=True)
class Module:
    """Load a kernel module; its dependencies are loaded before it.

    The parameters named in ``optional`` are for kernels that have them.
    """

    name: str
    parameters: str = ""
    optional: tuple[str, ...] = ()

    def fields(self) -> tuple[str, ...]:
        return ("module", self.name, self.parameters)

    def shell(self) -> str:
        return f"modprobe {self.name} {self.parameters}".rstrip()


@dataclass(frozen=True)
class Mount:
    """Mount a pseudo file system (such as configfs) on an existing folder."""

    kind: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("mount", self.kind, self.path)

    def shell(self) -> str:
        return f"mountpoint -q {self.path} || mount -t {self.kind} {self.kind} {self.path}"


@dataclass(frozen=True)
class MakeFolder:
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("mkdir", self.path)

    def shell(self) -> str:
        return f"mkdir {self.path}"


@dataclass(frozen=True)
class Write:
    """Write ``value`` to the first path that matches ``path`` (a glob), waiting up to 5 s for one."""

    path: str
    value: str

    def fields(self) -> tuple[str, ...]:
        return ("write", self.path, self.value)

    def shell(self) -> str:
        return f"echo {shlex.quote(self.value)} > {self.path}"


@dataclass(frozen=True)
class LinkStep:
    target: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("link", self.target, self.path)

    def shell(self) -> str:
        return f"ln -s {self.target} {self.path}"


@dataclass(frozen=True)
class NameBlock:
    """Name a block device after a LUN; ``path`` (a glob) matches its sysfs folder."""

    lun: str
    path: str

    def fields(self) -> tuple[str, ...]:
        return ("block", self.lun, self.path)

    def shell(self) -> str:
        node = f"/dev/$(basename {self.path})"
        return f"mkdir -p {LAB}; ln -s {self.path} {sysfs(self.lun)}; ln -s {node} {device(self.lun)}"


@dataclass(frozen=True)
class Find:
    """Name the block device with an ``attribute`` (a glob) that reads ``value``.

    ``block`` is its path relative to the attribute's folder. Waits up to a minute for disks that are still probed.
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


@dataclass(frozen=True)
class TableStep:
    """Create a device-mapper device from a table with one target per line."""

    name: str
    rows: tuple[str, ...]

    @property
    def file(self) -> str:
        return f"{self.name}.table"

    def fields(self) -> tuple[str, ...]:
        return ("table", self.name, self.file)

    def shell(self) -> str:
        rows = "\\n".join(self.rows)
        return f"printf {shlex.quote(rows + chr(92) + 'n')} | dmsetup create {self.name}"


@dataclass(frozen=True)
class Array:
    """Create an md array of the named devices with mdadm's ``arguments``."""

    name: str
    number: int
    arguments: tuple[str, ...]
    members: tuple[str, ...]

    def fields(self) -> tuple[str, ...]:
        return ("array", self.name, str(self.number), self._words())

    def _words(self) -> str:
        return " ".join((*self.arguments, *(device(member) for member in self.members)))

    def shell(self) -> str:
        return f"mdadm --create /dev/md{self.number} --run --metadata=1.2 {self._words()}"


NETWORK_FILE = "network.tc"


@dataclass(frozen=True)
class Network:
    """Bring the loopback device up and run ``commands`` of tc, such as ``qdisc add dev lo ...``."""

    commands: tuple[str, ...]

    def fields(self) -> tuple[str, ...]:
        return ("network", NETWORK_FILE)

    def shell(self) -> str:
        return "\n".join(("ifconfig lo up", *(f"tc {command}" for command in self.commands)))


HANDLER_CONFIG = "diskd.conf"
HANDLER_READY = "/tmp/diskd.ready"  # noqa: S108
HANDLER_COUNTERS = "/tmp/diskd.json"  # noqa: S108


@dataclass(frozen=True)
class Daemon:
    """Start the disk handler with ``config`` and wait until it is ready; if it dies later, the boot ends."""

    config: tuple[str, ...]

    def fields(self) -> tuple[str, ...]:
        return ("daemon", HANDLER_CONFIG)

    def shell(self) -> str:
        rows = shlex.quote("\\n".join((*self.config, "")))
        return f"printf {rows} > {HANDLER_CONFIG}; diskd {HANDLER_CONFIG} {HANDLER_READY} {HANDLER_COUNTERS} &"

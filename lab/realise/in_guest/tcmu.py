# SPDX-License-Identifier: GPL-2.0-only
"""Disks modelled by lab/native/diskd behind LIO's target_core_user, and tcm_loop hosts."""

from collections.abc import Iterator

from lab.guest.steps import Step
from lab.guest.steps.device import Daemon, MakeFolder, Module, configured
from lab.realise.in_guest import tcm_loop
from lab.topology.model import Disk, Lun, Topology

_CORE = "user_0"
_BLOCK = 512
_NAA = 0x5001405100000000
"""NAA of the first disk; the others follow."""


def steps(topology: Topology) -> Iterator[Step]:
    yield Module("target_core_user")
    yield from tcm_loop.host_modules(topology)
    yield MakeFolder(f"{tcm_loop.TARGET}/core/{_CORE}")
    for lun in topology.luns.values():
        size = f"dev_size={topology.lun_size(lun.name)},hw_block_size={_BLOCK}"
        # No daemon listens on netlink: the kernel must not wait for a reply.
        control = f"dev_config=lab/{lun.name},{size},nl_reply_supported=-1"
        yield from configured(f"{tcm_loop.TARGET}/core/{_CORE}/{lun.name}", {"control": control, "enable": 1})
    yield Daemon(tuple(model_lines(topology)))
    yield from tcm_loop.show_luns(topology, _CORE)


def model_lines(topology: Topology) -> Iterator[str]:
    """The model in the syntax of native/diskd/config.h. Written blocks may use half of the guest's memory."""
    yield f"memory {topology.memory // 2}"
    for link in topology.links.values():
        yield f"link {link.name} {link.rate} {link.cost}"
    numbers = {name: number for number, name in enumerate(topology.disks)}
    for disk in topology.disks.values():
        yield f"disk {disk.name} {disk.size} {disk.rate} {disk.seek}{_mechanics(disk)}"
    for lun in topology.luns.values():
        first, *further = lun.disks
        identity = f"lab{numbers[first]:05} {_NAA + numbers[first]:x}"
        yield f"backstore {lun.name} {first} {identity}{_path(topology, lun, first)}"
        for name in further:
            yield f"more {name}{_path(topology, lun, name)}"


def _path(topology: Topology, lun: Lun, disk: str) -> str:
    return "".join(f" {link}" for link in topology.path(lun.name, disk))


def _mechanics(disk: Disk) -> str:
    """Options of a disk besides rate and seek time."""
    numbers = {
        "rotation": disk.rotation,
        "ncq": disk.ncq if disk.ncq > 1 else 0,
        "look_ahead": disk.look_ahead,
        "coalesce": disk.coalesce if disk.coalesce > 1 else 0,
        "buffer": disk.buffer,
    }
    zones = (f" zone={zone.start}:{zone.rate}" for zone in disk.zones)
    return "".join((*(f" {name}={number}" for name, number in numbers.items() if number), *zones))

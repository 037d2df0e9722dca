# SPDX-License-Identifier: GPL-2.0-only
"""A topology on QEMU controllers: which of them replaces each HBA, and what they cannot model.

Limits of drivers were read back from Linux 5.10, 6.1, 6.12 and 7.2 on QEMU 7.2.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.base.errors import Misuse
from lab.base.units import show_rate, show_size
from lab.topology.fields import ZONE_FIELDS
from lab.topology.model import EMULATED, Disk, Driver, Hba, Lun, Processors, Stack, StackKind, Topology
from lab.topology.ranges import in_ranges

MEGASAS_OWN = 33
"""Commands of max_cmds that megaraid_sas does not offer: one lost in the ring, and MEGASAS_INT_CMDS of its own."""
LEAST_RATE = 40_960
"""Bytes per second: a throttle's bucket holds a tenth of a second, and a request of 4 KiB must fit."""
MOST_NODES = 8
LEAST_PROCESSORS = 2
MOST_CONTROLLERS = 14
"""Free slots of one PCI Express root bus."""


@dataclass(frozen=True)
class Controller:
    """The limits of one controller: at most ``disks`` LUNs, and from ``least`` to ``most`` tags."""

    title: str
    disks: int
    least: int
    most: int


CONTROLLERS: Mapping[Driver, Controller] = {
    # drivers/message/fusion/mptsas.c: the firmware's credits, 128, less 10.
    Driver.MPTSAS: Controller("SAS1068E", 8, 118, 118),
    Driver.MEGASAS: Controller("MegaRAID SAS 1078", 64, 4, 1007 - MEGASAS_OWN),
    Driver.MEGASAS_GEN2: Controller("MegaRAID SAS 2108", 64, 4, 1007 - MEGASAS_OWN),
    # Whatever virtqueue_size is, Linux 5.10 and 6.1 read 1024 from QEMU 10.0.13.
    Driver.VIRTIO_SCSI: Controller("virtio-scsi", 255, 1024, 1024),
    Driver.NVME: Controller("NVMe", 255, 1, 1023),
}
"""By driver. nvme has one tag less than entries in its queue."""

MAX_SECTORS = "max_sectors_kb"
_LARGEST_KIB = {Driver.NULL_BLK: 127, Driver.MEGASAS: 128, Driver.MEGASAS_GEN2: 128}
"""Largest request of a driver. null_blk: 255 sectors, BLK_SAFE_MAX_SECTORS of include/linux/blkdev.h, which it does not
raise; megaraid_sas: 6.1 refuses 132 on QEMU 10.0.13.
"""

_OF_ORIGINAL = {
    "mptsas": Driver.MPTSAS,
    "megaraid_sas": Driver.MEGASAS,
    "3w-9xxx": Driver.MEGASAS,
    "3w-xxxx": Driver.MEGASAS,
    "nvme": Driver.NVME,
}
"""Controllers by the driver that the machine had."""
_OF_DRIVER = {
    Driver.TCM_LOOP: Driver.VIRTIO_SCSI,
    Driver.SCSI_DEBUG: Driver.VIRTIO_SCSI,
    Driver.TCMU: Driver.VIRTIO_SCSI,
    Driver.NULL_BLK: Driver.NVME,
    Driver.NVMET_TCP: Driver.NVME,
}


def too_large(kib: str, drivers: Iterable[Driver | None]) -> str:
    """Why ``max_sectors_kb`` cannot be ``kib`` with one of the ``drivers``; empty where it can."""
    for driver in drivers:
        if driver in _LARGEST_KIB and int(kib) > _LARGEST_KIB[driver]:
            return f"queue.{MAX_SECTORS} {kib} exceeds {_LARGEST_KIB[driver]}, what {driver} takes in a request"
    return ""


def emulated(topology: Topology) -> Topology:
    """The topology on QEMU controllers, unchanged if it is on them; ``differences`` lists what is lost.

    Raises Misuse for HBAs that have a model, but neither a controller nor an original driver that has one.
    """
    if topology.emulated:
        return topology
    if unclear := [hba.name for hba in topology.hbas.values() if hba.model and not _chosen(hba)]:
        choices = ", ".join(f"{driver} ({controller.title})" for driver, controller in CONTROLLERS.items())
        message = f"topology {topology.name}: which of QEMU's controllers is HBA {in_ranges(unclear)}?"
        raise Misuse(message, remedy=f"write controller: with one of {choices}")
    hbas, luns = dict[str, Hba](), dict(topology.luns)
    for hba in topology.hbas.values():
        shown = [lun for lun in topology.luns.values() if lun.hba == hba.name]
        for number, part in enumerate(_parts(hba, shown)):
            controller = _controller(hba, number)
            hbas[controller.name] = controller
            luns |= {lun.name: replace(lun, hba=controller.name) for lun in part}
    paths = {name for name in luns if multipath(topology, name)}
    hbas |= {luns[name].hba: replace(hbas[luns[name].hba], links=()) for name in paths}
    luns |= {name: replace(luns[name], links=()) for name in paths}
    still = {"seek": 0, "rotation": 0, "zones": (), "ncq": 1, "coalesce": 1, "buffer": 0}
    still |= {field.name: 0 for field in ZONE_FIELDS}
    disks = {name: replace(disk, **still) for name, disk in topology.disks.items()}  # type: ignore[arg-type]
    links = {name: replace(link, cost=0) for name, link in topology.links.items()}
    return replace(topology, hbas=hbas, luns=luns, disks=disks, links=links)


def differences(topology: Topology, on_qemu: Topology) -> tuple[str, ...]:
    """What a topology became ``on_qemu``, a sentence for each controller, and what it lost; empty if it is the same."""
    if topology == on_qemu:
        return ()
    lost = dict.fromkeys(key for disk in topology.disks.values() for key in _lost_keys(disk))
    if any(link.cost for link in topology.links.values()):
        lost["cost of links"] = None
    told = [f"{hba.name}: {hba.driver}, can_queue {hba.can_queue}" for hba in on_qemu.hbas.values()]
    return (*told, f"disks and links are throttles, without {', '.join(lost)}") if lost else tuple(told)


def _parts(hba: Hba, luns: Sequence[Lun]) -> Iterator[Sequence[Lun]]:
    """The LUNs of each controller needed for an HBA; each LUN of NVMe over fabrics is a controller."""
    size = 1 if hba.driver is Driver.NVMET_TCP else CONTROLLERS[_player(hba)].disks
    return (luns[start : start + size] for start in range(0, len(luns), size))


def _chosen(hba: Hba) -> Driver | None:
    return hba.controller or _OF_ORIGINAL.get(hba.original_driver)


def _player(hba: Hba) -> Driver:
    return _chosen(hba) or _OF_DRIVER[hba.driver]


def _controller(hba: Hba, number: int) -> Hba:
    driver = _player(hba)
    limits = CONTROLLERS[driver]
    tags = max(limits.least, min(limits.most, hba.can_queue))
    cmd_per_lun = tags if driver is Driver.NVME else min(tags, hba.cmd_per_lun)
    name = f"{hba.name}-{number + 1}" if number else hba.name
    return replace(hba, name=name, driver=driver, can_queue=tags, cmd_per_lun=cmd_per_lun)


def multipath(topology: Topology, lun: str) -> Stack | None:
    """The nvme stack that has a LUN as a path. QEMU has one backend for a namespace, whatever the path."""
    stacks = (stack for stack in topology.stacks.values() if stack.kind is StackKind.NVME)
    return next((stack for stack in stacks if lun in stack.over), None)


def mechanics(disk: Disk) -> dict[str, object]:
    """What only disks of driver tcmu have, by key; true where it is set."""
    moving = {"seek": disk.seek, "rpm": disk.rotation, "zones": disk.zones, "ncq": disk.ncq > 1}
    return {**moving, "look_ahead": disk.look_ahead, "coalesce": disk.coalesce > 1, "buffer": disk.buffer}


def _lost_keys(disk: Disk) -> list[str]:
    """The keys of what a throttle has not."""
    unknown = mechanics(disk) | {field.name: getattr(disk, field.name) for field in ZONE_FIELDS}
    return [key for key, is_set in unknown.items() if is_set and key != "look_ahead"]


def _disk_reasons(disk: Disk, _: Topology) -> Iterator[str]:
    if disk.rate is not None and (reason := unresolved(disk.rate)):
        yield reason
    yield from (f"a throttled QEMU disk has no {key}" for key in _lost_keys(disk))


def unresolved(rate: int) -> str | None:
    """Why a throttle cannot limit to ``rate`` bytes per second, or None."""
    if rate >= LEAST_RATE:
        return None
    return (
        f"{show_rate(rate)} is below {show_rate(LEAST_RATE)}, the least rate of a throttle:"
        f" its bucket holds a tenth of a second, {show_size(rate // 10)}"
    )


def _hba_reasons(hba: Hba, topology: Topology) -> Iterator[str]:
    if hba.driver in EMULATED:
        yield from _controller_reasons(hba, topology)
    else:
        yield f"driver {hba.driver} is inside the guest and cannot be mixed with QEMU controllers"
    yield from _mismatches(hba, topology)
    if hba is next(iter(topology.hbas.values())) and topology.processors != Processors():
        yield "machine: a machine with QEMU controllers has a CPU for each NUMA node, and nothing is counted"


def _controller_reasons(hba: Hba, topology: Topology) -> Iterator[str]:
    limits = CONTROLLERS[hba.driver]
    count = sum(lun.hba == hba.name for lun in topology.luns.values())
    if count > limits.disks:
        yield f"{count} disks on one {hba.driver}, at most {limits.disks} are possible: use several HBAs, or megasas"
    if hba.cmd_per_lun > hba.can_queue:
        yield f"cmd_per_lun {hba.cmd_per_lun} exceeds can_queue {hba.can_queue}"
    if limits.least == limits.most and hba.can_queue != limits.most:
        yield f"can_queue {hba.can_queue}: {hba.driver} always has {limits.most}"
    elif not limits.least <= hba.can_queue <= limits.most:
        yield f"can_queue {hba.can_queue}: {hba.driver} takes {limits.least} to {limits.most}"
    if hba.driver is Driver.NVME and hba.cmd_per_lun != hba.can_queue:
        yield f"a namespace may hold all {hba.can_queue} tags of its controller, so write cmd_per_lun {hba.can_queue}"
    if hba.hw_queues > 1 and hba.driver not in {Driver.NVME, Driver.VIRTIO_SCSI}:
        yield f"hw_queues {hba.hw_queues}: {hba.driver} has one queue"
    if hba.hw_queues > processors(topology):
        yield f"hw_queues {hba.hw_queues}: the machine has {processors(topology)} processors, more are not used"
    if hba.interrupts is not None and hba.interrupts >= processors(topology):
        yield f"interrupts {hba.interrupts}: the machine has CPUs 0 to {processors(topology) - 1}"
    if hba.node >= MOST_NODES:
        yield f"node {hba.node}: the machine has at most {MOST_NODES} NUMA nodes"


def nodes(topology: Topology) -> int:
    """The number of NUMA nodes; 1 if no HBA names a node."""
    return 1 + max(hba.node for hba in topology.hbas.values())


def processors(topology: Topology) -> int:
    """The number of CPUs: one for each NUMA node, at least two."""
    return max(LEAST_PROCESSORS, nodes(topology))


def _mismatches(hba: Hba, topology: Topology) -> Iterator[str]:
    on_node = [other for other in topology.hbas.values() if other.node == hba.node]
    if hba is on_node[0] and len(on_node) > MOST_CONTROLLERS:
        yield f"{len(on_node)} controllers on node {hba.node}, a root bus has slots for {MOST_CONTROLLERS}"
    first = next((other for other in topology.hbas.values() if other.driver is Driver.NVME), hba)
    if hba.driver is Driver.NVME and hba.can_queue != first.can_queue:
        yield f"can_queue must equal that of HBA {first.name}: it is io_queue_depth, a parameter of the nvme module"


def _lun_reasons(lun: Lun, topology: Topology) -> Iterator[str]:
    if len(lun.disks) > 1:
        yield "several disks on one LUN: QEMU needs one for each (use a stack of kind linear)"
    for name in topology.path(lun.name, lun.disks[0]):
        link = topology.links[name]
        if reason := "a throttle has no cost" if link.cost else unresolved(link.rate):
            yield f"link {name}: {reason}"
    first = next(other for other in topology.luns.values() if lun.disks[0] in other.disks)
    if first is lun:
        return
    kinds = {topology.hbas[path.hba].driver is Driver.NVME for path in (lun, first)}
    if len(kinds) > 1:
        yield f"disk {lun.disks[0]} is on LUN {first.name} already: its paths must be all SCSI or all NVMe"
    elif topology.hbas[lun.hba].driver is Driver.NVME and not multipath(topology, lun.name):
        yield f"disk {lun.disks[0]} is on LUN {first.name} already: paths of a namespace need a stack of kind nvme"


Reasons = tuple[Callable[..., Iterator[str]], ...]
"""What is refused of a disk, of an HBA and of a LUN, each with its topology."""
REASONS: Reasons = (_disk_reasons, _hba_reasons, _lun_reasons)

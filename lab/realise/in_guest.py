# SPDX-License-Identifier: GPL-2.0-only
"""A topology as devices inside the guest: pure functions from values to the guest's steps.

===========  =====================================================================================
tcm_loop     each disk a null_blk, LIO iblock on top, one tcm_loop host whose LUNs share can_queue
scsi_debug   one host of scsi_debug, a target for each LUN, host_max_queue as the shared can_queue
null_blk     devices on one shared tag set (shared_tags=1), can_queue being its depth
===========  =====================================================================================
"""

from collections.abc import Iterator, Mapping

from lab.errors import LabBroken
from lab.guest.script import Confirm, Link, MakeFolder, Module, Mount, NameBlock, Step, Table, Tune, Write, sysfs
from lab.topology.model import Disk, Driver, Hba, Lun, Topology

_CONFIGFS = "/sys/kernel/config"
_MIB = 1 << 20
_MB = 10**6
NULL_BLK_TAGS = 1024
"""Tags of a null_blk that stands for a disk: above any depth that a scenario's hosts allow."""

SCHEDULER_MODULES = {"bfq": "bfq", "kyber": "kyber-iosched", "mq-deadline": "mq-deadline"}


def devices(topology: Topology) -> tuple[Step, ...]:
    """Steps that make every LUN of the topology appear under its name."""
    if len(topology.hbas) != 1:
        raise LabBroken(f"topology {topology.name}: {len(topology.hbas)} HBAs, the in-guest realisation builds one")
    (hba,) = topology.hbas.values()
    return (Module("configfs"), Mount("configfs", _CONFIGFS), *_BUILDERS[hba.driver](topology, hba))


def queue_settings(topology: Topology, queue: Mapping[str, str]) -> tuple[Step, ...]:
    """Steps that set and read back the queue attributes of every LUN.

    The scheduler comes first: choosing one resets nr_requests.
    """
    ordered = sorted(queue.items(), key=lambda item: item[0] != "scheduler")
    steps: list[Step] = []
    module = SCHEDULER_MODULES.get(queue.get("scheduler", ""))
    if module:
        steps.append(Module(module))
    for lun in topology.luns:
        for attribute, value in ordered:
            steps.append(Tune(f"queue.{attribute}[{lun}]", f"{sysfs(lun)}/queue/{attribute}", value))
    return tuple(steps)


def _null_blk_disk(index: int, disk: Disk) -> Iterator[Step]:
    # On 6.1 and later the block device takes the name of its configfs folder; on 5.10 it is
    # nullb<index>. Naming the folders so gives the same device everywhere.
    folder = f"{_CONFIGFS}/nullb/nullb{index}"
    yield MakeFolder(folder)
    yield Write(f"{folder}/size", str(disk.size // _MIB))
    yield Write(f"{folder}/hw_queue_depth", str(NULL_BLK_TAGS))
    yield Write(f"{folder}/irqmode", "2")
    yield Write(f"{folder}/completion_nsec", str(disk.service or 0))
    if disk.rate is not None:
        yield Write(f"{folder}/mbps", str(disk.rate // _MB))
    yield Write(f"{folder}/power", "1")


def _tcm_loop(topology: Topology, hba: Hba) -> Iterator[Step]:
    yield Module("null_blk", "nr_devices=0")
    for index, disk in enumerate(topology.disks.values()):
        yield from _null_blk_disk(index, disk)
    yield Module("target_core_iblock")
    yield Module("sd_mod")
    yield Module("tcm_loop", _tcm_loop_parameters(hba))
    target = f"{_CONFIGFS}/target"
    yield MakeFolder(f"{target}/core/iblock_0")
    nodes = _backing_nodes(topology)
    yield from _linear_devices(topology)
    for lun in topology.luns.values():
        folder = f"{target}/core/iblock_0/{lun.name}"
        yield MakeFolder(folder)
        yield Write(f"{folder}/control", f"udev_path={nodes[lun.name]}")
        yield Write(f"{folder}/enable", "1")
    # Any NAA name does; the host is one of this guest alone.
    port = f"{target}/loopback/naa.5001405000000001/tpgt_1"
    for folder in (f"{target}/loopback", f"{target}/loopback/naa.5001405000000001", port):
        yield MakeFolder(folder)
    yield Write(f"{port}/nexus", "naa.5001405000000002")
    for number, lun in enumerate(topology.luns.values()):
        yield MakeFolder(f"{port}/lun/lun_{number}")
        yield Link(f"{target}/core/iblock_0/{lun.name}", f"{port}/lun/lun_{number}/{lun.name}")
        host = "/sys/devices/tcm_loop_0/tcm_loop_adapter_0/host*"
        yield NameBlock(lun.name, f"{host}/target*/*:0:1:{number}/block/*")
        yield from _limits(hba, lun, f"{host}/scsi_host/host*/can_queue")


def _tcm_loop_parameters(hba: Hba) -> str:
    if hba.can_queue == TCM_LOOP_FIXED_QUEUE:
        return ""
    return f"can_queue={hba.can_queue} cmd_per_lun={hba.cmd_per_lun} nr_hw_queues={hba.hw_queues}"


TCM_LOOP_FIXED_QUEUE = 1024
"""can_queue and cmd_per_lun of tcm_loop where it has no parameters for them, as in 5.10."""


def _backing_nodes(topology: Topology) -> dict[str, str]:
    """The block device under each LUN. Without udev a mapped device has its kernel name only."""
    disks = {name: f"/dev/nullb{index}" for index, name in enumerate(topology.disks)}
    composite = [lun.name for lun in topology.luns.values() if len(lun.disks) > 1]
    nodes = {lun.name: disks[lun.disks[0]] for lun in topology.luns.values()}
    return nodes | {name: f"/dev/dm-{minor}" for minor, name in enumerate(composite)}


def _linear_devices(topology: Topology) -> Iterator[Step]:
    disks = {name: f"/dev/nullb{index}" for index, name in enumerate(topology.disks)}
    for lun in topology.luns.values():
        if len(lun.disks) > 1:
            yield Module("dm-mod")
            yield Table(lun.name, _linear_rows(topology, lun, disks))


def _linear_rows(topology: Topology, lun: Lun, nodes: Mapping[str, str]) -> tuple[str, ...]:
    rows, start = [], 0
    for name in lun.disks:
        sectors = topology.disks[name].size // 512
        rows.append(f"{start} {sectors} linear {nodes[name]} 0")
        start += sectors
    return tuple(rows)


def _limits(hba: Hba, lun: Lun, can_queue: str) -> Iterator[Step]:
    yield Tune(f"hba.cmd_per_lun[{lun.name}]", f"{sysfs(lun.name)}/device/queue_depth", str(hba.cmd_per_lun))
    yield Confirm(f"hba.can_queue[{lun.name}]", can_queue, str(hba.can_queue))


def _scsi_debug(topology: Topology, hba: Hba) -> Iterator[Step]:
    disks = [topology.disks[lun.disks[0]] for lun in topology.luns.values()]
    parameters = {
        "num_tgts": len(disks),
        "max_luns": 1,
        "dev_size_mb": disks[0].size // _MIB,
        "ndelay": disks[0].service,
        "submit_queues": hba.hw_queues,
        "max_queue": hba.can_queue,
        "host_max_queue": hba.can_queue,
        # Reads of blocks that nobody wrote need no store; without one no memory is spent on it.
        "fake_rw": 1,
    }
    yield Module("sd_mod")
    yield Module("scsi_debug", " ".join(f"{key}={value}" for key, value in parameters.items()))
    # A value that scsi_debug does not like it replaces without an error.
    yield Confirm("disk.service", "/sys/bus/pseudo/drivers/scsi_debug/ndelay", str(disks[0].service))
    host = "/sys/devices/pseudo*/adapter0/host*"
    for number, lun in enumerate(topology.luns.values()):
        yield NameBlock(lun.name, f"{host}/target*/*:0:{number}:0/block/*")
        yield from _limits(hba, lun, f"{host}/scsi_host/host*/can_queue")


def _null_blk(topology: Topology, hba: Hba) -> Iterator[Step]:
    yield Module("null_blk", f"nr_devices=0 shared_tags=1 hw_queue_depth={hba.can_queue} submit_queues={hba.hw_queues}")
    for index, lun in enumerate(topology.luns.values()):
        disk = topology.disks[lun.disks[0]]
        folder = f"{_CONFIGFS}/nullb/nullb{index}"
        yield MakeFolder(folder)
        yield Write(f"{folder}/size", str(disk.size // _MIB))
        yield Write(f"{folder}/irqmode", "2")
        yield Write(f"{folder}/completion_nsec", str(disk.service or 0))
        yield Write(f"{folder}/power", "1")
        yield NameBlock(lun.name, f"/sys/block/nullb{index}")


_BUILDERS = {Driver.TCM_LOOP: _tcm_loop, Driver.SCSI_DEBUG: _scsi_debug, Driver.NULL_BLK: _null_blk}

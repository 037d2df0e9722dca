# SPDX-License-Identifier: GPL-2.0-only
"""The devices of each driver inside the guest: pure functions from a topology to the guest's steps.

===========  =====================================================================================
tcm_loop     each disk a null_blk, LIO iblock on top, tcm_loop hosts whose LUNs share can_queue
scsi_debug   one host of scsi_debug, a target for each LUN, host_max_queue as the shared can_queue
tcmu         each disk modelled by the handler lab/native/diskd, tcm_loop hosts above
nvmet-tcp    each disk a null_blk behind an NVMe target, reached by TCP over the loopback device
null_blk     devices on one shared tag set (shared_tags=1), can_queue being its depth
===========  =====================================================================================
"""

from collections.abc import Iterable, Iterator, Mapping

from lab.guest.steps import Step
from lab.guest.steps.device import (
    BareQueue,
    Daemon,
    LinkStep,
    MakeFolder,
    Module,
    Mount,
    NameBlock,
    Network,
    TableStep,
    Write,
    configured,
    device,
    sysfs,
)
from lab.guest.steps.load import Pause
from lab.guest.steps.setting import Confirm, Tune
from lab.topology.model import Disk, Driver, Hba, Lun, Stack, StackKind, Topology

CONFIGFS = "/sys/kernel/config"
SCSI_DEBUG = "/sys/bus/pseudo/drivers/scsi_debug"
_MIB = 1 << 20
_MB = 10**6
_SECTOR = 512
_SCSI_DEBUG_ID = 7
"""Target that is the host itself (this_id), so there is no disk of that number."""
_TAGS = 1024
"""Tags of a disk below another driver: above any depth that the hosts of a scenario allow."""


def _null_blk(topology: Topology) -> Iterator[Step]:
    first, *others = topology.hbas.values()
    shared = "".join(f" {key}={value}" for key, value in _null_blk_queues(first).items())
    yield Module("null_blk", "nr_devices=0" if others else f"nr_devices=0 shared_tags=1{shared}")
    kept, nodes = topology.keeping(), topology.processors.nodes
    for index, lun in enumerate(topology.luns.values()):
        hba = topology.hbas[lun.hba]
        # A device of several HBAs is one by itself, with tags of its own.
        own = {**_null_blk_queues(hba), **({"home_node": hba.node} if hba.node < nodes > 1 else {})} if others else {}
        yield from _null_blk_device(index, topology.disks[lun.disks[0]], own, kept=lun.name in kept)
        yield NameBlock(lun.name, f"/sys/block/nullb{index}")
        yield from _confirm_zones(lun, topology.disks[lun.disks[0]])


def _null_blk_queues(hba: Hba) -> dict[str, int]:
    # Poll queues came with Linux 5.16 (0a593fbbc245).
    poll = {"poll_queues": hba.poll_queues} if hba.poll_queues else {}
    return {"hw_queue_depth": hba.can_queue, "submit_queues": hba.hw_queues, **poll}


def _null_blk_disks(topology: Topology) -> Iterator[Step]:
    """Each disk as the block device that ``_null_blk_nodes`` names; its queue is no part of a topology."""
    yield Module("null_blk", "nr_devices=0")
    kept = {disk for lun in topology.keeping() for disk in topology.luns[lun].disks}
    for index, disk in enumerate(topology.disks.values()):
        yield from _null_blk_device(index, disk, {"hw_queue_depth": _TAGS}, kept=disk.name in kept)
        yield BareQueue(f"below[{disk.name}]", f"/sys/block/nullb{index}/queue")


def _null_blk_nodes(topology: Topology) -> dict[str, str]:
    """The block device of each disk."""
    return {name: f"/dev/nullb{index}" for index, name in enumerate(topology.disks)}


def _null_blk_device(index: int, disk: Disk, queues: Mapping[str, int], *, kept: bool = False) -> Iterator[Step]:
    # On 6.1 and later the block device takes the name of its configfs folder; on 5.10 it is
    # nullb<index>. Folders of that name give the same device on all kernels.
    folder = f"{CONFIGFS}/nullb/nullb{index}"
    values = {
        "size": disk.size // _MIB,
        **queues,
        "irqmode": 2,
        "completion_nsec": disk.service or 0,
        "mbps": None if disk.rate is None else disk.rate // _MB,
        # null_blk ignores discard unless it keeps data.
        "memory_backed": 1 if kept or disk.discard else None,
        "discard": 1 if disk.discard else None,
        **_zoned(disk, "zone_size", "zone_capacity"),
        "power": 1,
    }
    yield from configured(folder, {name: value for name, value in values.items() if value is not None})


def _zoned(disk: Disk, size: str, capacity: str) -> dict[str, int]:
    """Attributes of null_blk or parameters of scsi_debug, which have these names for the sizes in MiB."""
    if not disk.zone_size:
        return {}
    limits = {key: getattr(disk, key) for key in ("zone_nr_conv", "zone_max_open", "zone_max_active")}
    sizes = {size: disk.zone_size // _MIB, capacity: (disk.zone_capacity or disk.zone_size) // _MIB}
    return {"zoned": 1, **sizes, **{key: limit for key, limit in limits.items() if limit or key == "zone_nr_conv"}}


def _confirm_zones(lun: Lun, disk: Disk) -> Iterator[Step]:
    """Both drivers replace an invalid value without an error."""
    shown = {"zoned": "host-managed", "chunk_sectors": disk.zone_size >> 9, "max_open_zones": disk.zone_max_open}
    for attribute, value in shown.items() if disk.zone_size else ():
        yield Confirm(f"disk.{attribute}[{lun.name}]", f"{sysfs(lun.name)}/queue/{attribute}", str(value))


def _scsi_debug(topology: Topology) -> Iterator[Step]:
    (hba,) = topology.hbas.values()
    disks = [topology.disks[lun.disks[0]] for lun in topology.luns.values()]
    parameters: dict[str, object] = {
        "num_tgts": len(disks),
        "max_luns": 1,
        "dev_size_mb": disks[0].size // _MIB,
        "ndelay": disks[0].service,
        "submit_queues": hba.hw_queues,
        "max_queue": hba.can_queue,
        "host_max_queue": hba.can_queue,
        # Without a store no memory is used, and reads return zeroes; write pointers would not move either.
        "fake_rw": 0 if disks[0].zone_size else 1,
        **_zoned(disks[0], "zone_size_mb", "zone_cap_mb"),
    }
    if parameters.pop("zoned", 0):
        parameters |= {"zbc": "managed", "zone_max_open": disks[0].zone_max_open}
    yield Module("sd_mod")
    # Before 5.8 (c10fa55f5e7a) max_queue alone is the host's can_queue, and 4.4 has one queue. What the kernel made of
    # it is confirmed below.
    optional = ("host_max_queue", "submit_queues")
    yield Module("scsi_debug", " ".join(f"{key}={value}" for key, value in parameters.items()), optional)
    # scsi_debug replaces an invalid value without an error.
    yield Confirm("disk.service", f"{SCSI_DEBUG}/ndelay", str(disks[0].service))
    host = "/sys/devices/pseudo*/adapter0/host*"
    for number, lun in enumerate(topology.luns.values()):
        target = number if number < _SCSI_DEBUG_ID else number + 1
        yield NameBlock(lun.name, f"{host}/target*/*:0:{target}:0/block/*")
        yield from _confirm_zones(lun, topology.disks[lun.disks[0]])
        yield from queue_limits(hba, lun, f"{host}/scsi_host/host*/can_queue")


_LIO = f"{CONFIGFS}/target"
_TARGET_NAA = 0x5001405000000001
FIXED_QUEUE = 1024
"""can_queue and cmd_per_lun of tcm_loop without parameters for them, as in 5.10."""


def _tcm_loop(topology: Topology) -> Iterator[Step]:
    yield from _null_blk_disks(topology)
    yield Module("target_core_iblock")
    yield from _loop_modules(topology)
    yield MakeFolder(f"{_LIO}/core/iblock_0")
    disks = _null_blk_nodes(topology)
    nodes = {lun.name: disks[lun.disks[0]] for lun in topology.luns.values()}
    for lun in topology.luns.values():
        if len(lun.disks) > 1:
            yield Module("dm-mod")
            parts = ((disks[name], 0, topology.disks[name].size) for name in lun.disks)
            yield TableStep(f"{lun.name}.backing", tuple(linear(parts)))
            nodes[lun.name] = device(f"{lun.name}.backing")
    for name, node in nodes.items():
        yield from configured(f"{_LIO}/core/iblock_0/{name}", {"control": f"udev_path={node}", "enable": 1})
    yield from _loop_luns(topology, "iblock_0")


def linear(parts: Iterable[tuple[str, int, int]]) -> Iterator[str]:
    """A table with parts of devices one after another, each with its node, offset and size in bytes."""
    start = 0
    for node, offset, size in parts:
        yield f"{start} {size // _SECTOR} linear {node} {offset // _SECTOR}"
        start += size // _SECTOR


def _loop_modules(topology: Topology) -> Iterator[Step]:
    yield Module("sd_mod")
    yield Module("tcm_loop", _loop_parameters(topology))


def _loop_luns(topology: Topology, core: str) -> Iterator[Step]:
    """Export the backstore of each LUN under ``core`` (such as iblock_0) as a LUN, and name its block device."""
    yield MakeFolder(f"{_LIO}/loopback")
    for number, hba in enumerate(topology.hbas.values()):
        yield from _loop_host(number, hba, [lun for lun in topology.luns.values() if lun.hba == hba.name], core)


def _loop_host(number: int, hba: Hba, luns: Iterable[Lun], core: str) -> Iterator[Step]:
    # The NAA names are arbitrary: the hosts exist in this guest only.
    target = f"{_LIO}/loopback/naa.{_TARGET_NAA + 16 * number:x}"
    port = f"{target}/tpgt_1"
    yield MakeFolder(target)
    yield from configured(port, {"nexus": f"naa.{_TARGET_NAA + 16 * number + 1:x}"})
    for place, lun in enumerate(luns):
        yield MakeFolder(f"{port}/lun/lun_{place}")
        yield LinkStep(f"{_LIO}/core/{core}/{lun.name}", f"{port}/lun/lun_{place}/{lun.name}")
        host = f"/sys/devices/tcm_loop_0/tcm_loop_adapter_{number}/host*"
        yield NameBlock(lun.name, f"{host}/target*/*:0:1:{place}/block/*")
        yield from queue_limits(hba, lun, f"{host}/scsi_host/host*/can_queue")


def queue_limits(hba: Hba, lun: Lun, can_queue: str) -> Iterator[Step]:
    """Set the depth of a LUN of any SCSI host; ``can_queue`` is the path of the host's limit."""
    yield Tune(f"hba.cmd_per_lun[{lun.name}]", f"{sysfs(lun.name)}/device/queue_depth", str(hba.cmd_per_lun))
    yield Confirm(f"hba.can_queue[{lun.name}]", can_queue, str(hba.can_queue))


def _loop_parameters(topology: Topology) -> str:
    first, *_ = topology.hbas.values()
    if first.can_queue == FIXED_QUEUE:
        return ""
    cmd_per_lun = max(hba.cmd_per_lun for hba in topology.hbas.values())
    return f"can_queue={first.can_queue} cmd_per_lun={cmd_per_lun} nr_hw_queues={first.hw_queues}"


_USER_CORE = "user_0"
_DISK_NAA = 0x5001405100000000
"""NAA of the first disk; the others follow."""


def _tcmu(topology: Topology) -> Iterator[Step]:
    yield Module("target_core_user")
    yield from _loop_modules(topology)
    yield MakeFolder(f"{_LIO}/core/{_USER_CORE}")
    for lun in topology.luns.values():
        size = f"dev_size={topology.lun_size(lun.name)},hw_block_size={_SECTOR}"
        # No daemon listens on netlink: the kernel must not wait for a reply.
        control = f"dev_config=lab/{lun.name},{size},nl_reply_supported=-1"
        yield from configured(f"{_LIO}/core/{_USER_CORE}/{lun.name}", {"control": control, "enable": 1})
    yield Daemon(tuple(model_lines(topology)))
    yield from _loop_luns(topology, _USER_CORE)


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
        identity = f"lab{numbers[first]:05} {_DISK_NAA + numbers[first]:x}"
        yield f"backstore {lun.name} {first} {identity}{_links_of(topology, lun, first)}"
        for name in further:
            yield f"more {name}{_links_of(topology, lun, name)}"


def _links_of(topology: Topology, lun: Lun, disk: str) -> str:
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


_NVMET = f"{CONFIGFS}/nvmet"
_NQN = "nqn.2024-01.blklab:"
_HOST_ID = "b1c1ab00-0000-4000-8000-000000000001"
_HOST_NQN = f"nqn.2014-08.org.nvmexpress:uuid:{_HOST_ID}"
_PORT = 4420
_FIRST_ADDRESS = 2
_BURST = 128 << 10
"""Bytes: two of the largest packets that TCP passes to the loopback device (64 KiB)."""
_LINK_QUEUE = 16 << 20
"""Bytes queued for a link: more than the buffers of the sockets, so that no packet is dropped."""
MULTIPATH = "nvme-core"
_SETTLED = 500_000_000
"""Nanoseconds before a connection. On 5.10 nvmet_tcp_install_queue flushes the system workqueue, and the kernel
warns unless it is empty (check_flush_dependency); later kernels flush a workqueue of nvmet."""


def _nvmet(topology: Topology) -> Iterator[Step]:
    yield from _null_blk_disks(topology)
    for module in ("nvmet-tcp", "nvme-tcp", "sch_prio", "sch_tbf", "cls_u32"):
        yield Module(module)
    yield Network(tuple(_nvmet_traffic(topology)))
    nodes = _null_blk_nodes(topology)
    for stack in _nvme_stacks(topology):
        yield from _nvmet_subsystem(stack, nodes[topology.luns[stack.over[0]].disks[0]])
    yield from _nvmet_ports(topology)
    yield from _nvmet_controllers(topology)


def _nvme_stacks(topology: Topology) -> list[Stack]:
    return [stack for stack in topology.stacks.values() if stack.kind is StackKind.NVME]


def _nvmet_addresses(topology: Topology) -> dict[str, str]:
    return {name: f"127.0.0.{_FIRST_ADDRESS + number}" for number, name in enumerate(topology.hbas)}


def _nvmet_traffic(topology: Topology) -> Iterator[str]:
    """Commands of tc: packets from or to each address pass a token bucket of their own, all others pass freely."""
    addresses = _nvmet_addresses(topology)
    links = {lun.hba: name for lun in topology.luns.values() for name in topology.path(lun.name, lun.disks[0])}
    bands = 1 + 2 * len(links)
    if not links:
        return
    yield f"qdisc add dev lo root handle 1: prio bands {max(bands, 2)} priomap{' 0' * 16}"
    ways = [(hba, name, side) for hba, name in links.items() for side in ("src", "dst")]
    for band, (hba, name, side) in enumerate(ways, start=2):
        rate = topology.links[name].rate * 8
        bucket = f"tbf rate {rate}bit burst {_BURST} limit {_LINK_QUEUE}"
        yield f"qdisc add dev lo parent 1:{band:x} handle {band:x}: {bucket}"
        match = f"match ip {side} {addresses[hba]}/32"
        yield f"filter add dev lo parent 1: protocol ip prio 1 u32 {match} flowid 1:{band:x}"


def _nvmet_subsystem(stack: Stack, node: str) -> Iterator[Step]:
    folder = f"{_NVMET}/subsystems/{_NQN}{stack.name}"
    yield from configured(folder, {"attr_allow_any_host": 1})
    yield from configured(f"{folder}/namespaces/1", {"device_path": node, "enable": 1})


def state_of_port(topology: Topology, hba: str) -> str:
    """The attribute with the state in which the port offers its namespaces."""
    return f"{_NVMET}/ports/{1 + list(topology.hbas).index(hba)}/ana_groups/1/ana_state"


def _nvmet_ports(topology: Topology) -> Iterator[Step]:
    for number, (hba, address) in enumerate(_nvmet_addresses(topology).items(), start=1):
        port = f"{_NVMET}/ports/{number}"
        values = {"addr_trtype": "tcp", "addr_adrfam": "ipv4", "addr_traddr": address, "addr_trsvcid": _PORT}
        yield from configured(port, values)
        for stack in _nvme_stacks(topology):
            if any(topology.luns[lun].hba == hba for lun in stack.over):
                name = f"{_NQN}{stack.name}"
                yield LinkStep(f"{_NVMET}/subsystems/{name}", f"{port}/subsystems/{name}")


def _nvmet_controllers(topology: Topology) -> Iterator[Step]:
    """Connections in the order in which the kernel numbers controllers; a subsystem has the number of its first."""
    addresses, number = _nvmet_addresses(topology), 0
    for stack in _nvme_stacks(topology):
        first = number
        for lun in stack.over:
            hba = topology.hbas[topology.luns[lun].hba]
            options = (
                f"transport=tcp,traddr={addresses[hba.name]},trsvcid={_PORT},nqn={_NQN}{stack.name}"
                f",hostnqn={_HOST_NQN},hostid={_HOST_ID},nr_io_queues={hba.hw_queues},queue_size={hba.can_queue}"
            )
            yield Pause(_SETTLED)
            yield Write("/dev/nvme-fabrics", options)
            yield NameBlock(lun, f"/sys/block/nvme{first}c{number}n1")
            number += 1
        yield NameBlock(stack.name, f"/sys/block/nvme{first}n1")
        policy = f"/sys/class/nvme-subsystem/nvme-subsys{first}/iopolicy"
        yield Tune(f"stack.iopolicy[{stack.name}]", policy, stack.iopolicy)


_BUILDERS = {
    Driver.TCM_LOOP: _tcm_loop,
    Driver.SCSI_DEBUG: _scsi_debug,
    Driver.NULL_BLK: _null_blk,
    Driver.TCMU: _tcmu,
    Driver.NVMET_TCP: _nvmet,
}


def steps(topology: Topology) -> Iterator[Step]:
    """Steps that create every LUN under its name."""
    yield Module("configfs")
    yield Mount("configfs", CONFIGFS)
    yield from _BUILDERS[next(iter(topology.hbas.values())).driver](topology)

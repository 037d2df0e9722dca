# SPDX-License-Identifier: GPL-2.0-only
"""tcm_loop hosts: LUNs over any LIO backstores share the can_queue of their host; LIO iblock over null_blk disks."""

from collections.abc import Iterable, Iterator

from lab.guest.steps import Step
from lab.guest.steps.device import LinkStep, MakeFolder, Module, NameBlock, TableStep, configured, device, sysfs
from lab.guest.steps.setting import Confirm, Tune
from lab.realise.in_guest import null_blk
from lab.realise.in_guest.null_blk import CONFIGFS
from lab.realise.stacks import linear
from lab.topology.model import Hba, Lun, Topology

TARGET = f"{CONFIGFS}/target"
_TARGET_NAA = 0x5001405000000001
FIXED_QUEUE = 1024
"""can_queue and cmd_per_lun of tcm_loop without parameters for them, as in 5.10."""


def steps(topology: Topology) -> Iterator[Step]:
    yield from null_blk.disks(topology)
    yield Module("target_core_iblock")
    yield from host_modules(topology)
    yield MakeFolder(f"{TARGET}/core/iblock_0")
    disks = null_blk.nodes(topology)
    nodes = {lun.name: disks[lun.disks[0]] for lun in topology.luns.values()}
    for lun in topology.luns.values():
        if len(lun.disks) > 1:
            yield Module("dm-mod")
            parts = ((disks[name], 0, topology.disks[name].size) for name in lun.disks)
            yield TableStep(f"{lun.name}.backing", tuple(linear(parts)))
            nodes[lun.name] = device(f"{lun.name}.backing")
    for name, node in nodes.items():
        yield from configured(f"{TARGET}/core/iblock_0/{name}", {"control": f"udev_path={node}", "enable": 1})
    yield from show_luns(topology, "iblock_0")


def host_modules(topology: Topology) -> Iterator[Step]:
    yield Module("sd_mod")
    yield Module("tcm_loop", _parameters(topology))


def show_luns(topology: Topology, core: str) -> Iterator[Step]:
    """Export the backstore of each LUN under ``core`` (such as iblock_0) as a LUN, and name its block device."""
    yield MakeFolder(f"{TARGET}/loopback")
    for number, hba in enumerate(topology.hbas.values()):
        yield from _host(number, hba, [lun for lun in topology.luns.values() if lun.hba == hba.name], core)


def _host(number: int, hba: Hba, luns: Iterable[Lun], core: str) -> Iterator[Step]:
    # The NAA names are arbitrary: the hosts exist in this guest only.
    target = f"{TARGET}/loopback/naa.{_TARGET_NAA + 16 * number:x}"
    port = f"{target}/tpgt_1"
    yield MakeFolder(target)
    yield from configured(port, {"nexus": f"naa.{_TARGET_NAA + 16 * number + 1:x}"})
    for place, lun in enumerate(luns):
        yield MakeFolder(f"{port}/lun/lun_{place}")
        yield LinkStep(f"{TARGET}/core/{core}/{lun.name}", f"{port}/lun/lun_{place}/{lun.name}")
        host = f"/sys/devices/tcm_loop_0/tcm_loop_adapter_{number}/host*"
        yield NameBlock(lun.name, f"{host}/target*/*:0:1:{place}/block/*")
        yield from queue_limits(hba, lun, f"{host}/scsi_host/host*/can_queue")


def queue_limits(hba: Hba, lun: Lun, can_queue: str) -> Iterator[Step]:
    """Set the depth of a LUN of any SCSI host; ``can_queue`` is the path of the host's limit."""
    yield Tune(f"hba.cmd_per_lun[{lun.name}]", f"{sysfs(lun.name)}/device/queue_depth", str(hba.cmd_per_lun))
    yield Confirm(f"hba.can_queue[{lun.name}]", can_queue, str(hba.can_queue))


def _parameters(topology: Topology) -> str:
    first, *_ = topology.hbas.values()
    if first.can_queue == FIXED_QUEUE:
        return ""
    cmd_per_lun = max(hba.cmd_per_lun for hba in topology.hbas.values())
    return f"can_queue={first.can_queue} cmd_per_lun={cmd_per_lun} nr_hw_queues={first.hw_queues}"

# SPDX-License-Identifier: GPL-2.0-only
"""The tcm_loop host itself: LUNs over any backstores of LIO share its can_queue."""

from collections.abc import Iterator

from lab.guest.script import Confirm, Link, MakeFolder, Module, NameBlock, Step, Tune, Write, sysfs
from lab.topology.model import Hba, Lun, Topology

CONFIGFS = "/sys/kernel/config"
TARGET = f"{CONFIGFS}/target"
FIXED_QUEUE = 1024
"""can_queue and cmd_per_lun of tcm_loop where it has no parameters for them, as in 5.10."""


def host_modules(hba: Hba) -> Iterator[Step]:
    yield Module("sd_mod")
    yield Module("tcm_loop", _parameters(hba))


def show_luns(topology: Topology, hba: Hba, core: str) -> Iterator[Step]:
    """Show the backstore of each LUN's name under ``core`` (iblock_0, say) as a LUN, and name its block device."""
    # Any NAA name does; the host is one of this guest alone.
    port = f"{TARGET}/loopback/naa.5001405000000001/tpgt_1"
    for folder in (f"{TARGET}/loopback", f"{TARGET}/loopback/naa.5001405000000001", port):
        yield MakeFolder(folder)
    yield Write(f"{port}/nexus", "naa.5001405000000002")
    for number, lun in enumerate(topology.luns.values()):
        yield MakeFolder(f"{port}/lun/lun_{number}")
        yield Link(f"{TARGET}/core/{core}/{lun.name}", f"{port}/lun/lun_{number}/{lun.name}")
        host = "/sys/devices/tcm_loop_0/tcm_loop_adapter_0/host*"
        yield NameBlock(lun.name, f"{host}/target*/*:0:1:{number}/block/*")
        yield from queue_limits(hba, lun, f"{host}/scsi_host/host*/can_queue")


def queue_limits(hba: Hba, lun: Lun, can_queue: str) -> Iterator[Step]:
    """Set the depth of a LUN of any SCSI host; ``can_queue`` is where its host shows its own."""
    yield Tune(f"hba.cmd_per_lun[{lun.name}]", f"{sysfs(lun.name)}/device/queue_depth", str(hba.cmd_per_lun))
    yield Confirm(f"hba.can_queue[{lun.name}]", can_queue, str(hba.can_queue))


def _parameters(hba: Hba) -> str:
    if hba.can_queue == FIXED_QUEUE:
        return ""
    return f"can_queue={hba.can_queue} cmd_per_lun={hba.cmd_per_lun} nr_hw_queues={hba.hw_queues}"

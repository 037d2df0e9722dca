# SPDX-License-Identifier: GPL-2.0-only
"""What the device recipes can carry, as pure functions: refusals before anything is started.

A disk with a rate is a null_blk with ``mbps``, a token bucket that ``null_blk/main.c`` refills
every 20 ms (TICKS_PER_SEC 50) with mbps * (1 MiB / 50) bytes. A request is served when all of its
bytes fit in what is left of the tick; what is left over is lost with the tick.
"""

from collections.abc import Iterator

from lab.topology.model import Disk, Driver, Hba, Topology
from lab.units import show_rate, show_size, show_time

TICKS_PER_SECOND = 50
TICK_BYTES_PER_MB = (1 << 20) // TICKS_PER_SECOND
BYTES_PER_MB = 10**6
COMMAND_TIMEOUT = 30 * 10**9
SIZE_STEP = 1 << 20
"""null_blk and scsi_debug take their sizes in MiB."""


def rate_reason(rate: int) -> str | None:
    """Why null_blk cannot run at ``rate`` bytes per second, or None."""
    if rate < BYTES_PER_MB or rate % BYTES_PER_MB:
        return f"{show_rate(rate)} is not a whole number of MB/s, which is what null_blk's mbps takes"
    return None


def tick_bytes(disk: Disk) -> int | None:
    """Bytes that a disk with a rate serves in one tick of 20 ms; None for a disk without a rate."""
    return None if disk.rate is None else disk.rate // BYTES_PER_MB * TICK_BYTES_PER_MB


def carries(disk: Disk, bs: int) -> str | None:
    """Why the disk can never serve a request of ``bs`` bytes, or None if it can."""
    tick = tick_bytes(disk)
    if tick is None or bs <= tick:
        return None
    return (
        f"disk {disk.name} at {show_rate(disk.rate or 0)} serves at most {tick} bytes in a tick of 20 ms,"
        f" so a request of {show_size(bs)} would wait for ever"
    )


def effective_iops(disk: Disk, bs: int) -> int | None:
    """Requests of ``bs`` bytes per second that a disk with a rate serves: ``floor(tick / bs) * 50``.

    None for a disk that has a service time instead: it serves all its requests in parallel, so
    its throughput depends on how many there are (``depth / service``).
    """
    tick = tick_bytes(disk)
    return None if tick is None else tick // bs * TICKS_PER_SECOND


def longest_wait(disk: Disk, bs: int, in_flight: int) -> int:
    """Nanoseconds until the last of ``in_flight`` requests that arrive together is served."""
    iops = effective_iops(disk, bs)
    if iops is None:
        return disk.service or 0
    return in_flight * 10**9 // iops if iops else COMMAND_TIMEOUT + 1


def refusals(topology: Topology) -> Iterator[tuple[str, str, str]]:
    """What no recipe can carry, as (kind, name, reason); kind is disk, hba or lun."""
    for disk in topology.disks.values():
        if disk.rate is not None and (reason := rate_reason(disk.rate)):
            yield "disk", disk.name, reason
        if disk.size % SIZE_STEP:
            yield "disk", disk.name, f"size {show_size(disk.size)} is not a whole number of MiB"
        if disk.service is not None and disk.service >= COMMAND_TIMEOUT:
            yield "disk", disk.name, f"service {show_time(disk.service)} reaches the command timeout of 30 s"
    for hba in topology.hbas.values():
        for reason in _hba_reasons(hba, topology):
            yield "hba", hba.name, reason
    for lun in topology.luns.values():
        driver = topology.hbas[lun.hba].driver
        if driver is not Driver.TCM_LOOP and len(lun.disks) > 1:
            yield "lun", lun.name, f"several disks on one LUN need driver tcm_loop, not {driver}"


def _hba_reasons(hba: Hba, topology: Topology) -> Iterator[str]:
    if hba.cmd_per_lun > hba.can_queue:
        yield f"cmd_per_lun {hba.cmd_per_lun} is more than can_queue {hba.can_queue}"
    if hba.driver is Driver.TCM_LOOP:
        return
    if any(other.driver is hba.driver for other in topology.hbas.values() if other.name != hba.name):
        yield f"only one HBA of driver {hba.driver} is possible: its limits are parameters of the module"
    disks = [topology.disks[name] for lun in topology.luns.values() if lun.hba == hba.name for name in lun.disks]
    for disk in disks:
        if disk.service is None:
            yield f"driver {hba.driver} takes disks with service, and disk {disk.name} has a rate (use tcm_loop)"
        if disk.iodepth is not None:
            yield f"driver {hba.driver} has no queue for each disk, and disk {disk.name} sets iodepth"
    if hba.driver is Driver.NULL_BLK and hba.cmd_per_lun != hba.can_queue:
        yield f"null_blk has no cmd_per_lun: any device may hold all {hba.can_queue} tags, so say {hba.can_queue}"
    if hba.driver is Driver.SCSI_DEBUG and len({(disk.size, disk.service) for disk in disks}) > 1:
        yield "the disks of scsi_debug have one size and one service: both are parameters of the module"

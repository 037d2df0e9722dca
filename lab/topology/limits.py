# SPDX-License-Identifier: GPL-2.0-only
"""What the device recipes can carry, as pure functions: refusals before anything is started.

A disk with a rate is a null_blk with ``mbps``, a token bucket that ``null_blk/main.c`` refills
every 20 ms (TICKS_PER_SEC 50) with mbps * (1 MiB / 50) bytes. A request is served when all of its
bytes fit in what is left of the tick; what is left over is lost with the tick.

A disk of driver tcmu is exact: one request after another, each its seek and size / rate.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lab.topology.model import Disk, Driver, Hba, Topology
from lab.units import show_rate, show_size, show_time

TICKS_PER_SECOND = 50
TICK_BYTES_PER_MB = (1 << 20) // TICKS_PER_SECOND
BYTES_PER_MB = 10**6
COMMAND_TIMEOUT = 30 * 10**9
SCSI_DEBUG_NDELAY = 10**9
"""scsi_debug ignores an ndelay of a second or more."""
MOST_TAGS = {Driver.TCM_LOOP: 1024, Driver.SCSI_DEBUG: 192, Driver.NULL_BLK: 10240, Driver.TCMU: 1024}
"""For tcm_loop the tags of the null_blk that is each disk, and as many for tcmu; for scsi_debug
SDEBUG_CANQUEUE, three words of 64 bits; null_blk takes as many as blk-mq does (BLK_MQ_MAX_DEPTH)."""

_GUEST_MEMORY = 256 << 20
_RING_MEMORY = 8 << 20
"""CMDR_SIZE of target_core_user, which it allocates for each disk."""

SIZE_STEP = 1 << 20
"""null_blk and scsi_debug take their sizes in MiB."""


def rate_reason(rate: int) -> str | None:
    """Why null_blk cannot run at ``rate`` bytes per second, or None."""
    if rate < BYTES_PER_MB or rate % BYTES_PER_MB:
        return f"{show_rate(rate)} is not a whole number of MB/s, which is what null_blk's mbps takes"
    return None


def tick_bytes(disk: Disk, driver: Driver) -> int | None:
    """Bytes that a disk with a rate serves in one tick of 20 ms; None for a disk that is no token bucket."""
    return None if disk.rate is None or driver is Driver.TCMU else disk.rate // BYTES_PER_MB * TICK_BYTES_PER_MB


def carries(disk: Disk, bs: int, driver: Driver) -> str | None:
    """Why the disk can never serve a request of ``bs`` bytes, or None if it can."""
    tick = tick_bytes(disk, driver)
    if tick is None or bs <= tick:
        return None
    return (
        f"disk {disk.name} at {show_rate(disk.rate or 0)} serves at most {tick} bytes in a tick of 20 ms,"
        f" so a request of {show_size(bs)} would wait for ever"
    )


def service_time(disk: Disk, bs: int, *, sequential: bool = False) -> float:
    """Nanoseconds that a serial disk of driver tcmu takes for a request of ``bs`` bytes."""
    return (0 if sequential else disk.seek) + bs * 10**9 / (disk.rate or 1)


def effective_iops(disk: Disk, bs: int, driver: Driver) -> int | None:
    """Requests of ``bs`` bytes per second that a token bucket serves: ``floor(tick / bs) * 50``.

    None for a disk of driver tcmu (see ``service_time``) and for
    a disk that has a service time instead: it serves all its requests in parallel, so
    its throughput depends on how many there are (``depth / service``).
    """
    tick = tick_bytes(disk, driver)
    return None if tick is None else tick // bs * TICKS_PER_SECOND


def longest_wait(disk: Disk, bs: int, in_flight: int, topology: Topology) -> int:
    """Nanoseconds until the last of ``in_flight`` requests that arrive together is served.

    Disks that share a link are taken to be all busy.
    """
    driver = topology.driver(disk.name)
    if driver is Driver.TCMU:
        return round(in_flight * (service_time(disk, bs) + _link_time(disk, bs, topology)))
    iops = effective_iops(disk, bs, driver)
    if iops is None:
        return disk.service or 0
    return in_flight * 10**9 // iops if iops else COMMAND_TIMEOUT + 1


def _link_time(disk: Disk, bs: int, topology: Topology) -> float:
    if disk.link is None:
        return 0
    link = topology.links[disk.link]
    users = sum(other.link == disk.link for other in topology.disks.values())
    return users * (link.cost + bs * 10**9 / link.rate)


def handler_memory(luns: int) -> int:
    """Bytes of memory that a guest needs at least for ``luns`` disks of driver tcmu; what is written comes on top."""
    return _GUEST_MEMORY + luns * _RING_MEMORY


@dataclass(frozen=True)
class Refusal:
    """``kind`` is disk, hba or lun."""

    kind: str
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.reason}"


def refusals(topology: Topology) -> Iterator[Refusal]:
    """Everything in a topology whose names are sound that no recipe can carry."""
    for disk in topology.disks.values():
        for reason in _driver_reasons(disk, topology.driver(disk.name)):
            yield Refusal("disk", disk.name, reason)
        if disk.size % SIZE_STEP:
            yield Refusal("disk", disk.name, f"size {show_size(disk.size)} is not a whole number of MiB")
        if disk.service is not None and disk.service >= COMMAND_TIMEOUT:
            reason = f"service {show_time(disk.service)} reaches the command timeout of 30 s"
            yield Refusal("disk", disk.name, reason)
    for hba in topology.hbas.values():
        for reason in _hba_reasons(hba, topology):
            yield Refusal("hba", hba.name, reason)
    for lun in topology.luns.values():
        driver = topology.hbas[lun.hba].driver
        if driver is not Driver.TCM_LOOP and len(lun.disks) > 1:
            yield Refusal("lun", lun.name, f"several disks on one LUN need driver tcm_loop, not {driver}")


def _driver_reasons(disk: Disk, driver: Driver) -> Iterator[str]:
    if driver is Driver.TCMU:
        if disk.rate is None:
            yield "driver tcmu takes disks with a rate: they serve one request after another"
        return
    if disk.rate is not None and (reason := rate_reason(disk.rate)):
        yield reason
    for key in ("seek", "link"):
        if getattr(disk, key):
            yield f"{key} needs driver tcmu, not {driver}"


def _hba_reasons(hba: Hba, topology: Topology) -> Iterator[str]:
    if hba.cmd_per_lun > hba.can_queue:
        yield f"cmd_per_lun {hba.cmd_per_lun} is more than can_queue {hba.can_queue}"
    if hba.name != next(iter(topology.hbas)):
        yield "one HBA is possible: its limits are parameters of the module that plays it"
    most = MOST_TAGS[hba.driver]
    if hba.can_queue > most:
        yield f"can_queue {hba.can_queue} is more than {most}, the limit of {hba.driver}"
    if hba.driver is Driver.TCMU and topology.memory < (needed := handler_memory(len(topology.luns))):
        yield (
            f"memory {show_size(topology.memory)} is too little: the rings of {len(topology.luns)} disks need"
            f" {show_size(needed)} with the rest of the guest"
        )
    if hba.driver in {Driver.TCM_LOOP, Driver.TCMU}:
        return
    disks = [topology.disks[name] for lun in topology.luns.values() if lun.hba == hba.name for name in lun.disks]
    for disk in disks:
        if disk.service is None:
            yield f"driver {hba.driver} takes disks with service, and disk {disk.name} has a rate (use tcm_loop)"
    if hba.driver is Driver.NULL_BLK and hba.cmd_per_lun != hba.can_queue:
        yield f"null_blk has no cmd_per_lun: any device may hold all {hba.can_queue} tags, so say {hba.can_queue}"
    for disk in disks:
        if hba.driver is Driver.SCSI_DEBUG and disk.service is not None and disk.service >= SCSI_DEBUG_NDELAY:
            yield f"scsi_debug takes a service below 1 s, and disk {disk.name} has {show_time(disk.service)}"
    if hba.driver is Driver.SCSI_DEBUG and len({(disk.size, disk.service) for disk in disks}) > 1:
        yield "the disks of scsi_debug have one size and one service: both are parameters of the module"

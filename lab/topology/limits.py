# SPDX-License-Identifier: GPL-2.0-only
"""The limits of the modelled devices, as pure functions: what is refused before any boot.

A disk with a rate is a null_blk with ``mbps``, a token bucket that ``null_blk/main.c`` refills every 20 ms
(TICKS_PER_SEC 50) with mbps * (1 MiB / 50) bytes. A request is served if all of its bytes fit in the rest of the tick;
bytes left at the end of a tick are lost.

A disk of driver tcmu is exact: it serves one request after another, each in its seek plus size / rate.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lab.base.units import show_rate, show_size, show_time
from lab.topology import emulated
from lab.topology.emulated import MAX_SECTORS, too_large
from lab.topology.fields import ZONE_FIELDS
from lab.topology.model import KEEPING, PARITY, SERIAL, Disk, Driver, Hba, Lun, Stack, StackKind, Topology, superblocks
from lab.topology.ranges import in_ranges

TICKS_PER_SECOND = 50
TICK_BYTES_PER_MB = (1 << 20) // TICKS_PER_SECOND
BYTES_PER_MB = 10**6
COMMAND_TIMEOUT = 30 * 10**9
SCSI_DEBUG_NDELAY = 10**9
"""scsi_debug ignores an ndelay of a second or more."""
MOST_TAGS = {
    Driver.TCM_LOOP: 1024,
    Driver.SCSI_DEBUG: 192,
    Driver.NULL_BLK: 10240,
    Driver.TCMU: 1024,
    Driver.NVMET_TCP: 128,
}
"""tcm_loop and tcmu: tags of the null_blk below each disk. scsi_debug: SDEBUG_CANQUEUE, three words of 64 bits.
null_blk: BLK_MQ_MAX_DEPTH. nvmet-tcp: NVMET_QUEUE_SIZE of drivers/nvme/target."""
LEAST_NVME_TAGS = 16
"""NVMF_MIN_QUEUE_SIZE of drivers/nvme/host/fabrics.h."""

MOST_DISKS = 16
"""CONFIG_EXTENTS of lab/native/diskd: disks of one LUN."""
MOST_LINKS = 4
"""MODEL_PATH of lab/native/diskd: links on the path from a host to a disk."""
MOST_BUFFERED = 768
"""CONFIG_LANES of lab/native/diskd: requests in the buffers of all disks."""
SYSTEM_MEMORY = 88 << 20
"""What kernel and programs of a guest hold at the least: Debian's 6.1 with 128 MiB ran out with 40 MiB of data kept."""
_GUEST_MEMORY = 256 << 20
_RING_MEMORY = 8 << 20
"""CMDR_SIZE, which target_core_user allocates for each disk."""

SIZE_STEP = 1 << 20
"""null_blk and scsi_debug set sizes in MiB."""


def tick_bytes(disk: Disk, driver: Driver) -> int | None:
    """Bytes that a token bucket serves in one tick of 20 ms; None for another disk."""
    return None if disk.rate is None or driver in SERIAL else disk.rate // BYTES_PER_MB * TICK_BYTES_PER_MB


def carries(disk: Disk, bs: int, driver: Driver) -> str | None:
    """Why the disk can never serve a request of ``bs`` bytes, or None if it can."""
    tick = tick_bytes(disk, driver)
    if tick is None or bs <= tick:
        return None
    return (
        f"disk {disk.name} at {show_rate(disk.rate or 0)} serves at most {tick} bytes in a tick of 20 ms,"
        f" so a request of {show_size(bs)} would wait forever"
    )


def effective_iops(disk: Disk, bs: int, driver: Driver) -> int | None:
    """Requests of ``bs`` bytes per second that a token bucket serves: ``floor(tick / bs) * 50``.

    None for a disk of driver tcmu, which takes its seek and size / rate for each, and for a disk with a service time,
    which serves all its requests in parallel (``depth / service``).
    """
    tick = tick_bytes(disk, driver)
    return None if tick is None else tick // bs * TICKS_PER_SECOND


def longest_wait(disk: Disk, bs: int, in_flight: int, topology: Topology) -> int:
    """Nanoseconds until the last of ``in_flight`` requests that arrive together is served.

    All disks that share a link are assumed to be busy.
    """
    driver = topology.driver(disk.name)
    if disk.rate is not None and driver in SERIAL:
        return round(in_flight * (slowest_service(disk, bs) + _links_time(disk, bs, topology)))
    iops = effective_iops(disk, bs, driver)
    if iops is None:
        return disk.service or 0
    return in_flight * 10**9 // iops if iops else COMMAND_TIMEOUT + 1


def slowest_service(disk: Disk, bs: int) -> float:
    """Nanoseconds of the longest service that a request of ``bs`` bytes can have on a disk of driver tcmu."""
    slowest = min((disk.rate or 1, *(zone.rate for zone in disk.zones)))
    return disk.seek + disk.rotation + bs * 10**9 / slowest


def _links_time(disk: Disk, bs: int, topology: Topology) -> float:
    """Nanoseconds that the busiest link on a path to the disk takes for one request of each of its disks."""
    users: dict[str, set[str]] = {}
    on_path: set[str] = set()
    for lun in topology.luns.values():
        for name in lun.disks:
            path = topology.path(lun.name, name)
            on_path.update(path if name == disk.name else ())
            for link in path:
                users.setdefault(link, set()).add(name)
    links = [topology.links[name] for name in on_path]
    return max((len(users[link.name]) * (link.cost + bs * 10**9 / link.rate) for link in links), default=0)


def handler_memory(luns: int) -> int:
    """The least bytes of memory of a guest with ``luns`` disks of driver tcmu, without the data written to them."""
    return _GUEST_MEMORY + luns * _RING_MEMORY


@dataclass(frozen=True)
class Refusal:
    """What a device cannot model; ``kind`` is disk, hba, lun or stack."""

    kind: str
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.reason}"


def refusals(topology: Topology, *, any_clock: bool = False) -> Iterator[Refusal]:
    """Everything in a topology that its devices cannot do. All references in it must be valid.

    ``any_clock``: without what a clock with other devices allows (``emulated.emulated``: NVMe, two CPUs).
    """
    kinds = (("disk", topology.disks), ("hba", topology.hbas), ("lun", topology.luns))
    for (kind, parts), reasons in zip(kinds, emulated.REASONS if topology.emulated else _REASONS, strict=True):
        for name, part in parts.items():
            yield from (Refusal(kind, name, reason) for reason in reasons(part, topology))
    if not (topology.emulated or any_clock):
        yield from _cpu_reasons(topology)
    for hba in topology.hbas.values():
        if hba.poll_queues and hba.driver is not Driver.NULL_BLK:
            yield Refusal("hba", hba.name, f"poll_queues needs driver {Driver.NULL_BLK}, got {hba.driver}")
    for stack in topology.stacks.values():
        for reason in _stack_reasons(stack, topology):
            yield Refusal("stack", stack.name, reason)


def _disk_reasons(disk: Disk, topology: Topology) -> Iterator[str]:
    driver = topology.driver(disk.name)
    if disk.size % SIZE_STEP:
        yield f"size {show_size(disk.size)} is not a whole number of MiB"
    if disk.discard and driver is not Driver.NULL_BLK:
        yield f"discard needs driver null_blk, got {driver}"
    if disk.service is not None and disk.service >= COMMAND_TIMEOUT:
        yield f"service {show_time(disk.service)} reaches the command timeout of 30 s"
    yield from _zone_reasons(disk, driver, topology)
    if driver is Driver.TCMU:
        if disk.rate is None:
            yield "driver tcmu needs disks with a rate: they serve one request after another"
        if disk.buffer and sum(map(bool, emulated.mechanics(disk).values())) > 1:
            yield "a disk with a buffer has no seek, rpm, zones, ncq, look_ahead or coalesce"
        buffered = sum(other.buffer for other in topology.disks.values())
        if disk.buffer and buffered > MOST_BUFFERED:
            yield f"the buffers of all disks hold {buffered} requests, at most {MOST_BUFFERED} are possible"
        return
    if disk.rate is not None and (disk.rate < BYTES_PER_MB or disk.rate % BYTES_PER_MB):
        yield f"{show_rate(disk.rate)} is not a whole number of MB/s, which is what null_blk's mbps takes"
    for key, is_set in {**emulated.mechanics(disk), "links": disk.links}.items():
        if is_set:
            yield f"{key} needs driver tcmu, got {driver}"


def _zone_reasons(disk: Disk, driver: Driver, topology: Topology) -> Iterator[str]:
    """What null_init_zoned_dev of null_blk and sdebug_device_create_zones of scsi_debug refuse, or change."""
    keys = [field.name for field in ZONE_FIELDS if getattr(disk, field.name)]
    zone, count = disk.zone_size, disk.size // (disk.zone_size or 1)
    if keys and driver not in {Driver.NULL_BLK, Driver.SCSI_DEBUG}:
        yield f"{keys[0]} needs driver null_blk or scsi_debug, got {driver}"
    elif keys and not zone:
        yield f"{keys[0]} is of a zoned disk: zone_size is missing"
    if not zone:
        return
    if zone & (zone - 1) or disk.size % zone:
        yield f"zone_size {show_size(zone)}: expected a power of two that divides size"
    if disk.zone_capacity % SIZE_STEP or disk.zone_capacity > zone:
        yield f"zone_capacity {show_size(disk.zone_capacity)} is not a whole number of MiB up to zone_size"
    if disk.zone_nr_conv >= count:
        yield f"zone_nr_conv {disk.zone_nr_conv}: no zone is left to be written sequentially, the disk has {count}"
    for key in ("zone_max_open", "zone_max_active"):
        if getattr(disk, key) >= (most := count - (disk.zone_nr_conv or 1)) > 0:
            yield f"{key} {getattr(disk, key)} limits nothing: expected less than {most}"
    if disk.zone_max_active and disk.zone_max_active < disk.zone_max_open:
        yield f"zone_max_active {disk.zone_max_active} is less than zone_max_open {disk.zone_max_open}"
    if disk.discard:
        yield "a zoned null_blk takes no discards"
    if driver is Driver.SCSI_DEBUG and disk.zone_max_active:
        yield f"zone_max_active needs driver null_blk, got {driver}"
    if driver is Driver.SCSI_DEBUG and disk.size > topology.memory // 2:
        yield f"size {show_size(disk.size)}: a zoned scsi_debug keeps it in memory, half of it at most"


_LINKED = {Driver.TCMU, Driver.NVMET_TCP}
_LOOPBACK = {Driver.TCM_LOOP, Driver.TCMU}
"""Drivers with hosts of tcm_loop."""


def _lun_reasons(lun: Lun, topology: Topology) -> Iterator[str]:
    driver = topology.hbas[lun.hba].driver
    if len(lun.disks) > 1 and driver not in _LOOPBACK:
        yield f"several disks on one LUN need driver tcm_loop or tcmu, got {driver}"
    if len(lun.disks) > MOST_DISKS:
        yield f"{len(lun.disks)} disks on one LUN, at most {MOST_DISKS} are possible"
    above = [stack for stack in topology.stacks.values() if lun.name in stack.over]
    if topology.stacks and driver is Driver.NVMET_TCP and [stack.kind for stack in above] != [StackKind.NVME]:
        yield "a LUN of driver nvmet-tcp must be in exactly one stack of kind nvme"
    for disk in lun.disks:
        path = topology.path(lun.name, disk)
        if path and driver not in _LINKED:
            yield f"links need driver tcmu, got {driver}"
        if driver is Driver.NVMET_TCP and (len(path) > 1 or any(topology.links[name].cost for name in path)):
            yield "the path to a namespace may have one link, without cost: it is a class of the loopback device"
        if len(path) > MOST_LINKS:
            yield f"the path to disk {disk} has {len(path)} links, at most {MOST_LINKS} are possible"
        first = next(other for other in topology.luns.values() if disk in other.disks)
        if first is not lun and driver not in _LINKED:
            yield f"disk {disk} is on LUN {first.name} already: several paths need driver tcmu"
        if first is not lun and first.disks != lun.disks:
            yield f"disk {disk} is on LUN {first.name} already: all paths must have the same disks"


_KEEP_DATA = (Driver.NULL_BLK, Driver.TCMU, Driver.NVMET_TCP)


_BIO_BASED = frozenset(StackKind) - {StackKind.MULTIPATH, StackKind.LOOP, StackKind.FILESYSTEM}
_OF_REQUESTS = tuple(
    f"queue/{key}" for key in ("scheduler", "nr_requests", "async_depth", "rq_affinity", "io_timeout", "wbt_lat_usec")
)
"""blk_mq_queue_attrs of block/blk-sysfs.c."""
OF_ELEVATORS = ("iosched/", "async_depth")
"""Beginnings of attributes that a queue has or takes with an elevator alone; async_depth is one of the queue in 7.2."""
_OF_DRIVERS = ("queue/io_timeout",)
"""Those that only a driver with a timeout has: neither dm-rq nor loop."""
_OF_PARITY = tuple(f"md/{key}" for key in ("stripe_cache_size", "preread_bypass_threshold", "group_thread_cnt"))
"""raid5_attrs of drivers/md/raid5.c. What else there is belongs to md_redundancy_group of drivers/md/md.c."""
_LEAST_SIZES = {"xfs": 300 << 20, "btrfs": 109 << 20}
"""What the guest's mkfs.xfs (6.13) and mkfs.btrfs (6.14, metadata stored twice) refuse to go below."""


def _stack_reasons(stack: Stack, topology: Topology) -> Iterator[str]:
    if stack.kind is StackKind.MD and stack.level != "raid1" and not stack.chunk:
        yield f"chunk is missing, which {stack.level} needs"
    if stack.kind in {StackKind.MULTIPATH, StackKind.NVME}:
        behind = {topology.luns[name].disks if name in topology.luns else (name,) for name in stack.over}
        if len(behind) > 1:
            yield "all paths of a multipath device must lead to the same disk"
    if stack.kind is StackKind.NVME and any(name in topology.stacks for name in stack.over):
        yield "the members of a stack of kind nvme must be LUNs"
    elif stack.kind is StackKind.NVME and topology.driver(stack.name) not in {Driver.NVMET_TCP, Driver.NVME}:
        yield f"a stack of kind nvme needs driver nvmet-tcp or nvme, got {topology.driver(stack.name)}"
    if stack.kind in KEEPING and stack.kind is not StackKind.MD:
        driver = topology.driver(stack.name)
        if driver not in _KEEP_DATA:
            needed = " or ".join(_KEEP_DATA)
            yield f"kind {stack.kind} needs driver {needed}, whose disks keep what is written, got {driver}"
    if zoned := [leaf for leaf in topology.leaves(stack.name) if topology.zoned(leaf)]:
        yield f"{zoned[0]} is zoned, and no stack over zoned disks is modelled"
    yield from _file_reasons(stack, topology)
    if stack.kind is StackKind.MD and topology.driver(stack.name) is Driver.SCSI_DEBUG:
        yield "kind md needs disks that keep its superblocks, and those of scsi_debug keep nothing"
    yield from _array_reasons(stack)
    largest = stack.settings.get(f"queue/{MAX_SECTORS}", "0")
    if said := too_large(largest, [topology.driver(stack.name)]):
        yield said
    bio_based = stack.kind in _BIO_BASED or stack.mode == "bio"
    for key in filter(stack.settings.get, _OF_REQUESTS if bio_based else _OF_DRIVERS):
        yield f"{key.replace('/', '.')}: it has no queue of requests with that; write queue for its disks"
    if not bio_based and stack.settings.get("queue/scheduler", "none") == "none":
        own = (key for key in stack.settings if key.removeprefix("queue/").startswith(OF_ELEVATORS))
        yield from (f"{key.replace('/', '.')} needs an elevator: write queue.scheduler" for key in own)
    yield from _size_reasons(stack, topology)


def _array_reasons(stack: Stack) -> Iterator[str]:
    """What an array lacks of its bitmap and of its settings, attributes such as md/stripe_cache_size."""
    largest = int(stack.settings.get(f"queue/{MAX_SECTORS}", "0"))
    if stack.level == "raid0" and largest > stack.chunk >> 10:
        yield f"queue.{MAX_SECTORS} {largest} exceeds {stack.chunk >> 10}, its chunk, the largest request of raid0"
    if stack.level == "raid0" and stack.bitmap != "none":
        yield "raid0 has no bitmap"
    for key in (key for key in stack.settings if key.startswith("md/")):
        levels = tuple(PARITY) if key in _OF_PARITY else (*PARITY, "raid1", "raid10")
        if stack.level not in levels:
            yield f"{key.replace('/', '.')}: {stack.level} has no such attribute, {in_ranges(levels)} have"


def _size_reasons(stack: Stack, topology: Topology) -> Iterator[str]:
    sizes = [topology.size(member) for member in stack.over]
    if (least := _LEAST_SIZES.get(stack.type, 0)) > sizes[0]:
        yield f"{stack.type} needs {show_size(least)} or more, {stack.over[0]} has {show_size(sizes[0])}"
    if stack.kind is StackKind.LINEAR and stack.offset + stack.size > sum(sizes):
        yield f"offset and size exceed the {show_size(sum(sizes))} of {stack.over[0]}"
    if stack.kind is StackKind.MD:
        sizes = [size - superblocks(size, stack.chunk) for size in sizes]
        if min(sizes) <= 0:
            yield f"{stack.over[sizes.index(min(sizes))]} has no room besides its superblock"
    if stack.kind in {StackKind.MD, StackKind.LOOP} and stack.size > min(sizes):
        yield f"size {show_size(stack.size)} exceeds its smallest member"


def _file_reasons(stack: Stack, topology: Topology) -> Iterator[str]:
    for below in filter(topology.is_filesystem, stack.over):
        if stack.kind is not StackKind.LOOP:
            yield f"only a loop device can be over the filesystem {below}"
        elif not stack.size:
            yield f"size is missing: its file on the filesystem {below} needs one"
    if stack.kind is StackKind.LOOP and stack.size and not any(map(topology.is_filesystem, stack.over)):
        yield f"size is that of a file, and {stack.over[0]} is a device"


def _mismatches(hba: Hba, topology: Topology) -> Iterator[str]:
    """Mismatches between HBAs: their limits are parameters of one module."""
    first = next(iter(topology.hbas.values()))
    if hba is first:
        return
    if hba.driver is not first.driver:
        yield f"driver {hba.driver}, but {first.driver} for HBA {first.name}: all HBAs must have one driver"
    elif hba.driver in {Driver.NVMET_TCP, Driver.NULL_BLK}:
        return
    elif hba.driver not in _LOOPBACK:
        yield f"driver {hba.driver} allows only one HBA (put all LUNs on {first.name}, or use driver tcm_loop for all)"
    elif (hba.can_queue, hba.hw_queues) != (first.can_queue, first.hw_queues):
        yield f"can_queue and hw_queues must equal those of HBA {first.name}: they are module parameters"


def _hba_reasons(hba: Hba, topology: Topology) -> Iterator[str]:
    if hba.cmd_per_lun > hba.can_queue:
        yield f"cmd_per_lun {hba.cmd_per_lun} exceeds can_queue {hba.can_queue}"
    yield from _driver_reasons(hba, topology)
    yield from _mismatches(hba, topology)


def _cpu_reasons(topology: Topology) -> Iterator[Refusal]:
    # blk_mq_alloc_tag_set() makes no more than nr_cpu_ids for a device with one map (4.19 to 7.2).
    cpus, nodes = topology.processors.cpus, topology.processors.nodes
    if cpus % nodes:
        fit = ", ".join(str(count) for count in range(1, cpus + 1) if cpus % count == 0)
        reason = f"machine: cpus {cpus} cannot be divided among {nodes} nodes (write nodes: {fit}, or other cpus)"
        yield Refusal("hba", next(iter(topology.hbas)), reason)
    for hba in topology.hbas.values():
        if hba.hw_queues > cpus:
            reason = f"hw_queues {hba.hw_queues}: the kernel makes no more queues than CPUs, and the guest has {cpus}"
            yield Refusal("hba", hba.name, reason)


def _driver_reasons(hba: Hba, topology: Topology) -> Iterator[str]:
    if hba.interrupts is not None:
        yield f"interrupts: {hba.driver} raises none, it is inside the guest"
    most = MOST_TAGS[hba.driver]
    if hba.can_queue > most:
        yield f"can_queue {hba.can_queue} exceeds {most}, the limit of {hba.driver}"
    if hba.driver is Driver.TCMU and topology.memory < (needed := handler_memory(len(topology.luns))):
        yield (
            f"memory {show_size(topology.memory)} is too little: a guest with the rings of {len(topology.luns)} disks"
            f" needs {show_size(needed)}"
        )
    if hba.driver is Driver.NVMET_TCP:
        yield from _nvme_reasons(hba, topology)
    if hba.driver in {Driver.TCM_LOOP, Driver.TCMU, Driver.NVMET_TCP}:
        return
    disks = [topology.disks[name] for lun in topology.luns.values() if lun.hba == hba.name for name in lun.disks]
    for disk in disks:
        if disk.service is None:
            yield f"driver {hba.driver} needs disks with service, disk {disk.name} has a rate (use tcm_loop)"
    if hba.driver is Driver.NULL_BLK and len(topology.hbas) > 1 < len(disks):
        yield "of several HBAs of null_blk each has one LUN: shared_tags is a parameter of the module"
    if hba.driver is Driver.NULL_BLK and hba.cmd_per_lun != hba.can_queue:
        yield f"null_blk has no cmd_per_lun: any device may hold all {hba.can_queue} tags, so write {hba.can_queue}"
    for disk in disks:
        if hba.driver is Driver.SCSI_DEBUG and disk.service is not None and disk.service >= SCSI_DEBUG_NDELAY:
            yield f"scsi_debug needs a service below 1 s, disk {disk.name} has {show_time(disk.service)}"
    if hba.driver is Driver.SCSI_DEBUG and len({replace(disk, name="") for disk in disks}) > 1:
        yield "all disks of scsi_debug must have the same size and service, and zones: they are module parameters"


def _nvme_reasons(hba: Hba, topology: Topology) -> Iterator[str]:
    if hba.can_queue < LEAST_NVME_TAGS:
        yield f"can_queue {hba.can_queue} is less than {LEAST_NVME_TAGS}, the minimum of nvme-fabrics"
    if hba.cmd_per_lun != hba.can_queue:
        yield f"a namespace may hold all {hba.can_queue} tags of its controller, so write cmd_per_lun {hba.can_queue}"
    if not topology.stacks:
        yield "driver nvmet-tcp needs stacks of kind nvme over its LUNs"


_REASONS: emulated.Reasons = (_disk_reasons, _hba_reasons, _lun_reasons)

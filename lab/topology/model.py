# SPDX-License-Identifier: GPL-2.0-only
"""Storage topologies as frozen values, independent of the devices that realise them.

Sizes are bytes, rates bytes per second, times nanoseconds. All are the lab's values: those of the hardware in the file
with the topology's ``scale`` applied.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lab.base.digest import WORDS


class Driver(StrEnum):
    """The device that plays a host adapter: one inside the guest, or a QEMU controller (``EMULATED``)."""

    TCM_LOOP = "tcm_loop"
    SCSI_DEBUG = "scsi_debug"
    NULL_BLK = "null_blk"
    TCMU = "tcmu"
    NVMET_TCP = "nvmet-tcp"
    MPTSAS = "mptsas1068"
    MEGASAS = "megasas"
    MEGASAS_GEN2 = "megasas-gen2"
    VIRTIO_SCSI = "virtio-scsi"
    NVME = "nvme"


EMULATED = frozenset({Driver.MPTSAS, Driver.MEGASAS, Driver.MEGASAS_GEN2, Driver.VIRTIO_SCSI, Driver.NVME})
"""QEMU controllers, for the wall clock: they complete in host time."""
SCSI = frozenset({Driver.TCM_LOOP, Driver.SCSI_DEBUG, Driver.TCMU, *EMULATED}) - {Driver.NVME}
"""Drivers whose LUNs are SCSI disks."""
SERIAL = frozenset({Driver.TCMU, *EMULATED})
"""Drivers whose disks keep their rate exactly, for any size of requests."""


@dataclass(frozen=True)
class Zone:
    """The rate of a disk from byte ``start`` on."""

    start: int
    rate: int


@dataclass(frozen=True)
class Disk:
    """A disk or flash device: serial at ``rate``, or parallel with ``service`` per request.

    For a serial disk ``seek`` is the time before a request that does not start where the last one ended, ``rotation``
    the time of a revolution (0: none), ``zones`` are rates of later parts, ``ncq`` is the number of queued requests
    among which it serves the nearest, ``look_ahead`` the bytes it reads beyond a request, and keeps. It reports
    ``coalesce`` requests at a time as completed, fewer when it has no other. ``links`` are its own. With a ``buffer``
    it transfers that many requests at once, which share its rate, and has no seek, like a drive whose cache lies
    between its ports and its medium. Without one, a slow link occupies the disk. ``discard``: it takes discards.

    With a ``zone_size`` it is zoned, host-managed: the first ``zone_nr_conv`` zones are conventional, the others are
    written from their start on, ``zone_capacity`` bytes of each, ``zone_max_open`` and ``zone_max_active`` of them at
    once (0: all).
    """

    name: str
    size: int
    rate: int | None = None
    service: int | None = None
    seek: int = 0
    rotation: int = 0
    zones: tuple[Zone, ...] = ()
    ncq: int = 1
    buffer: int = 0
    look_ahead: int = 0
    coalesce: int = 1
    discard: bool = False
    links: tuple[str, ...] = ()
    zone_size: int = 0
    zone_capacity: int = 0
    zone_nr_conv: int = 0
    zone_max_open: int = 0
    zone_max_active: int = 0


@dataclass(frozen=True)
class Link:
    """A capacity that paths share fairly; a request occupies it for ``cost`` plus its size / ``rate``.

    ``what`` describes it, such as ``PCIe 1.0 x8``.
    """

    name: str
    rate: int
    cost: int = 0
    what: str = ""


_CAPTURED_MODELS = {
    "MegaRAID (megaraid_sas)": "megaraid_sas",
    "SAS1068 (mptsas)": "mptsas",
    "3ware (3w-9xxx)": "3w-9xxx",
    "3ware (3w-xxxx)": "3w-xxxx",
    "NVMe (nvme)": "nvme",
}


@dataclass(frozen=True)
class Hba:
    """A host adapter: its LUNs share ``can_queue`` tags and each may hold ``cmd_per_lun`` of them.

    ``model`` is text for readers. ``original_driver`` is the kernel's name of the driver that the real machine had,
    ``controller`` what stands for the adapter among QEMU's controllers (None: by those drivers).

    For null_blk ``can_queue`` is the depth of the tag set that all disks share (``shared_tags=1``). For nvmet-tcp the
    HBA is a port of the target, and its LUNs are controllers with a queue of ``can_queue`` each. ``links`` carry the
    data of all its LUNs. ``interrupts`` is the CPU that takes its interrupts (None: the kernel's choice); only QEMU
    controllers raise any. ``poll_queues`` are further queues of null_blk, for requests whose issuer polls.
    """

    name: str
    driver: Driver
    can_queue: int
    cmd_per_lun: int
    hw_queues: int = 1
    model: str = ""
    links: tuple[str, ...] = ()
    slot: str = ""
    node: int = 0
    interrupts: int | None = None
    poll_queues: int = 0
    original_driver: str = field(default="", metadata=WORDS)
    controller: Driver | None = field(default=None, metadata=WORDS)

    def __post_init__(self) -> None:
        # Files and runs from before the key: blklab capture added the driver to the model.
        if not self.original_driver and self.model in _CAPTURED_MODELS:
            object.__setattr__(self, "original_driver", _CAPTURED_MODELS[self.model])

    @property
    def queues(self) -> int:
        """All hardware queues: each has the tags of the HBA once."""
        return self.hw_queues + self.poll_queues

    @property
    def shares_tags(self) -> bool:
        """Whether its LUNs share the tags: those of nvmet-tcp are controllers with a queue each."""
        return self.driver is not Driver.NVMET_TCP

    @property
    def tags(self) -> int:
        """Requests that fit: a ring of NVMe is full with one entry free, nvme-tcp keeps one tag for its connect."""
        return self.can_queue - 1 if self.driver in (Driver.NVME, Driver.NVMET_TCP) else self.can_queue


@dataclass(frozen=True)
class Lun:
    """A block device of a host; its sectors are those of ``disks``, one after another.

    LUNs with the same disk are paths to it. ``links`` are between the host and its disks.
    """

    name: str
    hba: str
    disks: tuple[str, ...]
    links: tuple[str, ...] = ()


@dataclass(frozen=True)
class Enclosure:
    """A box of disks; ``links`` carry the data of all of them."""

    name: str
    disks: tuple[str, ...]
    model: str = ""
    links: tuple[str, ...] = ()


class StackKind(StrEnum):
    """What is over LUNs: device-mapper, md, NVMe multipath, a loop device, or a filesystem. stripe: LVM stripes."""

    LINEAR = "linear"
    STRIPE = "stripe"
    MULTIPATH = "multipath"
    MD = "md"
    NVME = "nvme"
    SNAPSHOT = "snapshot"
    CRYPT = "crypt"
    LOOP = "loop"
    FILESYSTEM = "filesystem"


@dataclass(frozen=True)
class Loss:
    """The LUN ``path`` fails all I/O from ``start`` to ``end``, in nanoseconds after the start of a load."""

    path: str
    start: int
    end: int


KEEPING = (StackKind.MD, StackKind.SNAPSHOT, StackKind.CRYPT, StackKind.LOOP, StackKind.FILESYSTEM)
"""Stacks whose data, or data about data, is read back by them."""
OWN_REQUESTS = (StackKind.SNAPSHOT, StackKind.LOOP, StackKind.FILESYSTEM)
"""Stacks that make requests of their own, whose number and size the topology does not tell."""
NEAR = "near"


@dataclass(frozen=True)
class Stack:
    """A block device, or a filesystem, over ``over``: names of LUNs or of other stacks.

    linear: the members one after another, or ``size`` bytes of a single one from ``offset`` on. stripe: ``chunk`` bytes
    of each in turn. multipath: paths to one disk, chosen by ``selector``; ``policy`` multibus has one path group,
    failover one for each path; ``mode`` is rq or bio; service-time weighs paths by ``throughput`` (empty: equal). md:
    an array of ``level`` with ``chunk`` that uses ``size`` bytes of each member (0: all); without ``resync`` it is
    assumed clean; the last ``write_mostly`` members of a raid1 are not read, and ``write_behind`` writes to them may be
    outstanding; ``layout`` is where a raid10 has the second copy of a chunk. nvme: a namespace whose paths ``iopolicy``
    chooses. snapshot: of the first member, with a persistent store of ``chunk`` bytes a piece on the second; ``side``
    says which of the two devices it is. crypt: aes-xts-plain64 with a fixed key. loop: over a device, or over a file of
    ``size`` bytes on a filesystem, opened for direct I/O with ``direct_io``. filesystem: ``type`` on its only member,
    made with mkfs's options ``mkfs`` and mounted with the options ``mount``. ``settings`` maps attributes below
    /sys/block/DEV (``md/stripe_cache_size``) to values, ``tried`` those that the kernel may refuse or change.
    """

    name: str
    kind: StackKind
    over: tuple[str, ...]
    chunk: int = 0
    offset: int = 0
    size: int = 0
    selector: str = "round-robin"
    policy: str = "multibus"
    mode: str = "rq"
    repeat_count: int = 1
    throughput: tuple[int, ...] = ()
    level: str = ""
    bitmap: str = "none"
    resync: bool = False
    write_mostly: int = 0
    write_behind: int = 0
    layout: str = NEAR
    no_read_workqueue: bool = False
    no_write_workqueue: bool = False
    same_cpu_crypt: bool = False
    submit_from_crypt_cpus: bool = False
    iopolicy: str = "numa"
    side: str = "snapshot"
    direct_io: bool = False
    type: str = ""
    mkfs: str = ""
    mount: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    tried: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Origin:
    """Where the values of parameters come from; ``of`` is a pattern such as ``disk.*.seek``.

    ``kind`` is cites, fitted (``text`` says to what), chosen (the ratios do not depend on it) or guessed.
    """

    of: str
    kind: str
    text: str


@dataclass(frozen=True)
class Processors:
    """The guest's virtual CPUs. Under the virtual clock each executes ``turn`` instructions, then the next one does.

    ``counted``: what one CPU does is counted as well. ``nodes`` are NUMA nodes, of consecutive CPUs.
    """

    cpus: int = 1
    turn: int = 1000
    counted: bool = False
    nodes: int = 1

    @property
    def of_node(self) -> int:
        """The number of CPUs on each of several nodes, 0 for one node."""
        return self.cpus // self.nodes if self.nodes > 1 else 0

    @property
    def several(self) -> bool:
        return self.cpus > 1

    @property
    def observed(self) -> bool:
        """Whether a plugin counts."""
        return self.several or self.counted


@dataclass(frozen=True)
class Region:
    """The extent of a target on the block device ``lun``, in bytes."""

    lun: str
    offset: int
    size: int


@dataclass(frozen=True)
class Topology:
    """``scale`` is the factor by which rates are lower and times longer than the hardware's.

    ``vm`` maps names in /proc/sys/vm to values, ``queue`` attributes of every LUN's request queue. ``kernel_words``
    are words of the kernel command line.
    """

    name: str
    title: str = field(metadata=WORDS)
    memory: int
    hbas: Mapping[str, Hba]
    disks: Mapping[str, Disk]
    luns: Mapping[str, Lun]
    source: str = field(default="", compare=False, metadata=WORDS)
    links: Mapping[str, Link] = field(default_factory=dict)
    enclosures: Mapping[str, Enclosure] = field(default_factory=dict)
    stacks: Mapping[str, Stack] = field(default_factory=dict)
    scale: int = 1
    origins: tuple[Origin, ...] = field(default=(), metadata=WORDS)
    vm: Mapping[str, str] = field(default_factory=dict)
    queue: Mapping[str, str] = field(default_factory=dict)
    kernel_words: tuple[str, ...] = ()
    processors: Processors = field(default_factory=Processors)

    def region(self, name: str) -> Region:
        """The extent of this disk, LUN or stack. Raises KeyError for a disk without exactly one LUN."""
        if name in self.stacks:
            return Region(name, 0, self.stack_size(name))
        shown = [lun for lun in self.luns.values() if name in lun.disks]
        if len(shown) == 1:
            (lun,) = shown
            before = lun.disks[: lun.disks.index(name)]
            return Region(lun.name, sum(self.disks[each].size for each in before), self.disks[name].size)
        if name in self.luns and name not in self.disks:
            return Region(name, 0, self.lun_size(name))
        raise KeyError(name)

    def targets(self) -> tuple[str, ...]:
        """The names that a role can do I/O on."""
        shown = [disk for lun in self.luns.values() for disk in lun.disks]
        disks = [name for name in self.disks if shown.count(name) == 1]
        whole = [name for name in self.luns if name not in self.disks]
        # The paths of NVMe multipath are hidden devices.
        hidden = {lun for stack in self.stacks.values() if stack.kind is StackKind.NVME for lun in stack.over}
        return (*(name for name in (*disks, *whole) if self.region(name).lun not in hidden), *self.stacks)

    def is_filesystem(self, name: str) -> bool:
        return name in self.stacks and self.stacks[name].kind is StackKind.FILESYSTEM

    def keeping(self) -> frozenset[str]:
        """The LUNs that must read back what was written: those below stacks that store more than the data."""
        return frozenset(
            leaf for name, stack in self.stacks.items() if stack.kind in KEEPING for leaf in self.leaves(name)
        )

    def below(self, name: str) -> Iterator[Stack]:
        """The stack of that name and those that it is over; nothing for a disk or a LUN."""
        if stack := self.stacks.get(name):
            yield stack
            for member in stack.over:
                yield from self.below(member)

    @property
    def emulated(self) -> bool:
        """Whether its HBAs are QEMU controllers, which need the wall clock."""
        return any(hba.driver in EMULATED for hba in self.hbas.values())

    def leaves(self, name: str) -> tuple[str, ...]:
        """The LUNs below a disk, a LUN or a stack, each once."""
        if name not in self.stacks:
            return (self.region(name).lun,)
        over = self.stacks[name].over
        below = (leaf for member in over for leaf in (self.leaves(member) if member in self.stacks else (member,)))
        return tuple(dict.fromkeys(below))

    def path(self, lun: str, disk: str) -> tuple[str, ...]:
        """The links from a LUN's host to one of its disks, each once."""
        box = [name for enclosure in self.enclosures.values() if disk in enclosure.disks for name in enclosure.links]
        hba = self.hbas[self.luns[lun].hba]
        return tuple(dict.fromkeys((*hba.links, *self.luns[lun].links, *box, *self.disks[disk].links)))

    def links_below(self, name: str) -> tuple[str, ...]:
        """The links to all disks below a LUN or a stack, one path after another."""
        ways = ((lun, disk) for lun in self.leaves(name) for disk in self.luns[lun].disks)
        return tuple(link for lun, disk in ways for link in self.path(lun, disk))

    def driver(self, name: str) -> Driver:
        """The driver of the HBA of this disk, LUN or stack; of a disk with several paths that of the first."""
        shown = [lun.name for lun in self.luns.values() if name in lun.disks]
        return self.hbas[self.luns[(shown or self.leaves(name))[0]].hba].driver

    def lun_size(self, lun: str) -> int:
        return sum(self.disks[name].size for name in self.luns[lun].disks)

    def size(self, name: str) -> int:
        """The size of a LUN or a stack in bytes."""
        return self.stack_size(name) if name in self.stacks else self.lun_size(name)

    def zoned(self, name: str) -> Disk | None:
        """The zoned disk of this disk or LUN; None for another one and for a stack."""
        disks = (name,) if name in self.disks else self.luns[name].disks if name in self.luns else ()
        return next((disk for each in disks if (disk := self.disks[each]).zone_size), None)

    def stack_size(self, name: str) -> int:
        """The size of a stack in bytes."""
        stack = self.stacks[name]
        sizes = [self.size(member) for member in stack.over]
        if stack.kind is StackKind.LINEAR:
            return stack.size or sum(sizes) - stack.offset
        if stack.kind is StackKind.LOOP:
            return stack.size or sizes[0]
        if stack.kind not in {StackKind.STRIPE, StackKind.MD}:
            return sizes[0]
        kept = [superblocks(size, stack.chunk) if stack.kind is StackKind.MD else 0 for size in sizes]
        member = min(stack.size or sizes[0], *(size - room for size, room in zip(sizes, kept, strict=True)))
        if stack.level == "raid1" or not stack.chunk:
            return member
        data = len(stack.over) - PARITY.get(stack.level, 0)
        if stack.layout != NEAR:
            return member // stack.chunk // 2 * stack.chunk * data  # raid10_size
        return member // stack.chunk * stack.chunk * data // (2 if stack.level == "raid10" else 1)


PARITY = {"raid4": 1, "raid5": 1, "raid6": 2}


def superblocks(size: int, chunk: int) -> int:
    """Bytes that an array keeps at the start of a member of ``size`` bytes: superblock, bitmap, room for a reshape.

    validate_geometry1 and choose_bm_space in super1.c of mdadm 4.4, for metadata 1.2; without a chunk it is 0.
    """
    room, bitmap = 128 << 20, 4 << 10
    while room << 10 > size and room > chunk:
        room //= 2
    for least, space in ((8 << 30, 32 << 10), (200 << 30, 64 << 10)):
        bitmap = space if size > least else bitmap
    return -(-((12 << 10) + bitmap + room) // (1 << 20)) << 20


def build_order(topology: Topology) -> Iterator[Stack]:
    """Stacks after their members. Stacks in a cycle are left out."""
    made: set[str] = set(topology.luns)
    waiting = list(topology.stacks.values())
    while ready := [stack for stack in waiting if made.issuperset(stack.over)]:
        yield from ready
        made.update(stack.name for stack in ready)
        waiting = [stack for stack in waiting if stack.name not in made]

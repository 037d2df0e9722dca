# SPDX-License-Identifier: GPL-2.0-only
"""Storage topologies as frozen values: what there is, never how it is made.

Sizes are bytes, rates bytes per second, times nanoseconds; all are the lab's own, that is with the
topology's ``scale`` applied to what its file says of the hardware.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lab.base.digest import WORDS

_PCIE = re.compile(r"PCIe (\d+)\.0 x(\d+)")


class Driver(StrEnum):
    """The device family that plays a host adapter: one inside the guest, or a controller of QEMU (``EMULATED``)."""

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
"""Controllers of QEMU: they complete in host time and so belong to the wall clock."""
SCSI = frozenset({Driver.TCM_LOOP, Driver.SCSI_DEBUG, Driver.TCMU, *EMULATED}) - {Driver.NVME}
"""Drivers whose LUNs and hosts are SCSI's."""
SERIAL = frozenset({Driver.TCMU, *EMULATED})
"""Drivers whose disks with a rate carry exactly that, whatever the size of requests."""


@dataclass(frozen=True)
class Zone:
    """From byte ``start`` on a disk reads and writes at ``rate``."""

    start: int
    rate: int


@dataclass(frozen=True)
class Disk:
    """One spindle or flash device. It is serial at ``rate``, or parallel with ``service`` per request.

    Of a serial disk: ``seek`` is the time before a request that does not start where the last one
    ended, ``rotation`` that of a revolution (0: it does not turn), ``zones`` are further rates from some
    byte on, ``ncq`` is how many queued requests it chooses among, ``look_ahead`` how many bytes further than
    asked it reads, and keeps. ``links`` carry its data alone. With a ``buffer`` it moves as many requests at a
    time, which share its rate, and has no seek: what streams see of a drive whose cache stands between its ports and
    its medium. Without one a slow link holds the disk itself.
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
    links: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link:
    """A capacity that paths share fairly; a request takes ``cost`` and its bytes at ``rate`` of its time.

    ``what`` says what it is: ``PCIe 1.0 x8``, say.
    """

    name: str
    rate: int
    cost: int = 0
    what: str = ""

    @property
    def pcie(self) -> tuple[int, int] | None:
        """Generation and lanes of a link of PCI Express, None of another."""
        found = _PCIE.fullmatch(self.what)
        return (int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True)
class Hba:
    """A host adapter: its LUNs share ``can_queue`` tags and each may hold ``cmd_per_lun`` of them.

    For null_blk ``can_queue`` is the tag set's depth, shared by all disks (``shared_tags=1``); for nvmet-tcp
    the HBA is a port of the target, its LUNs are the controllers behind it, each with a queue of ``can_queue``.
    ``links`` carry the data of all its LUNs; ``slot`` and NUMA ``node`` say where it sits. The processor
    ``interrupts`` takes its interrupts, None being the kernel's choice; only controllers of QEMU raise any.
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

    @property
    def tags(self) -> int:
        """Requests that fit: a ring of NVMe is full with one entry free, nvme-tcp keeps one tag for its connect."""
        return self.can_queue - 1 if self.driver in (Driver.NVME, Driver.NVMET_TCP) else self.can_queue


@dataclass(frozen=True)
class Lun:
    """A block device that the host shows; its sectors are those of ``disks``, one after another.

    LUNs that show the same disk are paths to it. ``links`` lie between the host and its disks.
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
    """What is laid over LUNs: dm-linear, dm-stripe (as LVM's stripes), dm-multipath, md, NVMe's own multipath."""

    LINEAR = "linear"
    STRIPE = "stripe"
    MULTIPATH = "multipath"
    MD = "md"
    NVME = "nvme"


@dataclass(frozen=True)
class Stack:
    """A block device over ``over``, names of LUNs or of other stacks.

    linear: one after another, or of a single one the part of ``size`` bytes from ``offset`` on. stripe: ``chunk``
    bytes of each in turn. multipath: all are paths to one disk, chosen by ``selector``; ``policy`` multibus has
    them in one group, failover in one for each; ``mode`` is rq or bio; service-time weighs them by ``throughput``
    (empty: alike). md: an array of ``level`` with ``chunk``; of each member ``size`` bytes are used
    (0: all); ``resync`` False takes it for clean. nvme: one namespace, among whose paths ``iopolicy`` chooses.
    ``settings`` maps attributes below /sys/block/DEV (``md/stripe_cache_size``) to values, ``tried`` those that
    the kernel may refuse or change.
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
    iopolicy: str = "numa"
    settings: Mapping[str, str] = field(default_factory=dict)
    tried: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Origin:
    """Where the value of a parameter comes from: ``of`` is a pattern such as ``disk.*.seek``.

    ``kind`` is cites, fitted (``text`` says on what) or chosen (the ratios do not hang on it).
    """

    of: str
    kind: str
    text: str


@dataclass(frozen=True)
class Region:
    """Where a role's sectors lie: on the block device ``lun``, ``offset`` and ``size`` in bytes."""

    lun: str
    offset: int
    size: int


@dataclass(frozen=True)
class Topology:
    """``scale`` is by how much rates are lower and times longer than the hardware's.

    ``vm`` maps names of /proc/sys/vm to values of the guest.
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

    def region(self, name: str) -> Region:
        """The sectors that are this disk, LUN or stack. Raises KeyError for a disk that no or several LUNs show."""
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
        """Everything that a role can do I/O on: names that ``region`` knows."""
        shown = [disk for lun in self.luns.values() for disk in lun.disks]
        disks = [name for name in self.disks if shown.count(name) == 1]
        whole = [name for name in self.luns if name not in self.disks]
        # The paths of NVMe's multipath are hidden devices.
        hidden = {lun for stack in self.stacks.values() if stack.kind is StackKind.NVME for lun in stack.over}
        return (*(name for name in (*disks, *whole) if self.region(name).lun not in hidden), *self.stacks)

    @property
    def emulated(self) -> bool:
        """Whether controllers of QEMU play its HBAs, which belong to the wall clock."""
        return any(hba.driver in EMULATED for hba in self.hbas.values())

    def leaves(self, name: str) -> tuple[str, ...]:
        """The LUNs below a disk, a LUN or a stack, each once."""
        if name not in self.stacks:
            return (self.region(name).lun,)
        below = (leaf for member in self.stacks[name].over for leaf in self._members_leaves(member))
        return tuple(dict.fromkeys(below))

    def _members_leaves(self, member: str) -> tuple[str, ...]:
        return self.leaves(member) if member in self.stacks else (member,)

    def path(self, lun: str, disk: str) -> tuple[str, ...]:
        """The links between a LUN's host and one of its disks, each once, from the host on."""
        box = [name for enclosure in self.enclosures.values() if disk in enclosure.disks for name in enclosure.links]
        own = self.luns[lun]
        return tuple(dict.fromkeys((*self.hbas[own.hba].links, *own.links, *box, *self.disks[disk].links)))

    def driver(self, name: str) -> Driver:
        """What plays the HBA of this disk, LUN or stack. Raises KeyError as ``region`` does."""
        return self.hbas[self.luns[self.leaves(name)[0]].hba].driver

    def lun_size(self, lun: str) -> int:
        return sum(self.disks[name].size for name in self.luns[lun].disks)

    def stack_size(self, name: str) -> int:
        """Bytes that a stack shows; of md arrays the most that it can be, for its labels take some."""
        stack = self.stacks[name]
        sizes = [self.stack_size(each) if each in self.stacks else self.lun_size(each) for each in stack.over]
        if stack.kind is StackKind.LINEAR:
            return stack.size or sum(sizes) - stack.offset
        if stack.kind in {StackKind.MULTIPATH, StackKind.NVME}:
            return sizes[0]
        return _striped_size(stack, min(stack.size or sizes[0], *sizes))


_PARITY = {"raid4": 1, "raid5": 1, "raid6": 2}


def _striped_size(stack: Stack, member: int) -> int:
    if stack.level == "raid1":
        return member
    per_member = member // stack.chunk * stack.chunk
    data = len(stack.over) - _PARITY.get(stack.level, 0)
    return per_member * data // (2 if stack.level == "raid10" else 1)


def build_order(topology: Topology) -> Iterator[Stack]:
    """Stacks in an order in which each one's members exist already. Stacks in a circle are left out."""
    made: set[str] = set(topology.luns)
    waiting = list(topology.stacks.values())
    while ready := [stack for stack in waiting if made.issuperset(stack.over)]:
        yield from ready
        made.update(stack.name for stack in ready)
        waiting = [stack for stack in waiting if stack.name not in made]

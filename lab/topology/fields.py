# SPDX-License-Identifier: GPL-2.0-only
"""The keys of a topology file. The loader, the knobs of arms and the JSON schema all read these tables."""

from collections.abc import Mapping

from lab.topology.model import Driver, StackKind
from lab.topology.ranges import NamedRanges, Reference, References
from lab.yaml.fields import (
    Choice,
    Field,
    Flag,
    Integer,
    Kind,
    ListOf,
    Record,
    Row,
    Text,
    name_text,
    rate,
    size,
    time,
)

SERVICE_RANGE = (1, 60 * 10**9)

_MEBIBYTE = 1 << 20
_SECOND = 10**9
TOPOLOGY = Field("topology", name_text(), says="the topology's name, that of its file")
TITLE = Field("title", Text(), says="what it stands for, in a sentence")
MEMORY = Field("memory", size(128 * _MEBIBYTE, 1 << 38), required=True, says="the guest's memory, such as 512M")
SCALE = Field("scale", Integer(1, 10**6), says="by how much the lab is slower than the hardware (default: 1)")

SIZE = Field("size", size(_MEBIBYTE), required=True, says="capacity, such as 1G")
RATE = Field("rate", rate(), says="bytes per second of a disk that serves one request after another")
SERVICE = Field("service", time(*SERVICE_RANGE), says="time of a request on a disk that serves all at once")
SEEK = Field("seek", time(0, _SECOND), says="time before a request that does not start where the last one ended")
RPM = Field("rpm", Integer(60, 10**6), says="revolutions a minute: after a seek the sector must come by")
BUFFER = Field("buffer", Integer(2, 256), says="requests that it moves at a time, sharing its rate (default: 1)")
NCQ = Field("ncq", Integer(1, 256), says="queued requests among which the disk takes the soonest (default: 1)")
LOOK_AHEAD = Field(
    "look_ahead", size(0, 1 << 30), says="bytes that it reads further than it was asked to, and keeps (default: 0)"
)
ZONE_FROM = Field("from", size(_MEBIBYTE), required=True, says="where the zone starts")
ZONE_RATE = Field("rate", rate(), required=True, says="bytes per second from there on")
ZONES: Field[list[Row]] = Field(
    "zones", ListOf(Record((ZONE_FROM, ZONE_RATE)), most=16), says="slower tracks, in order"
)
PATH = Field("links", References(), says="links that carry its data")

LINK_RATE = Field("rate", rate(), says="bytes per second that its paths share")
GENERATION = Field("generation", Integer(1, 5), required=True, says="of PCI Express")
LANES = Field("lanes", Integer(1, 32), required=True, says="number of lanes")
GBIT = Field("gbit", Integer(1, 24), required=True, says="Gbit/s of a lane, 8b/10b coded")
PCIE = Field("pcie", Record((GENERATION, LANES)), says="the raw capacity of PCI Express lanes")
SAS = Field("sas", Record((LANES, GBIT)), says="the raw capacity of a SAS port")
EFFICIENCY = Field("efficiency", Integer(1, 100), says="per cent of the raw capacity that carries data (default: 100)")
COST = Field("cost", time(0, _SECOND), says="time that the link spends on each request beside its bytes")

MODEL = Field("model", Text(), says="what is printed on it")
DRIVER = Field("driver", Choice(tuple(Driver)), required=True, says="the device that plays the HBA")
CAN_QUEUE = Field("can_queue", Integer(1, 10240), required=True, says="tags that all LUNs of the HBA share")
CMD_PER_LUN = Field("cmd_per_lun", Integer(1, 10240), says="tags that one LUN may hold (default: can_queue)")
HW_QUEUES = Field("hw_queues", Integer(1, 64), says="hardware queues (default: 1)")
SLOT = Field("slot", Text(), says="where it is plugged in")
NODE = Field("node", Integer(0, 63), says="its NUMA node (default: 0); the virtual clock has one processor")
INTERRUPTS = Field(
    "interrupts", Integer(0, 7), says="the processor that takes its interrupts (default: the kernel's choice)"
)
HBA = Field("hba", Reference(), required=True, says="the HBA that shows the LUN")
LUN_DISKS = Field("disks", References(least=1), required=True, says="disks whose sectors it shows, in order")
BOX_DISKS = Field("disks", References(least=1), required=True, says="disks that are in it")

KIND = Field("kind", Choice(tuple(StackKind)), required=True, says="what it is")
OVER = Field("over", References(least=1), required=True, says="LUNs or other stacks below it")
CHUNK = Field("chunk", size(4096, 1 << 30), says="bytes on one member before the next one's turn")
OFFSET = Field("offset", size(0), says="where the part of its only member starts")
STACK_SIZE = Field("size", size(_MEBIBYTE), says="bytes of the part; of each member of an array")
SELECTORS = ("round-robin", "queue-length", "service-time", "historical-service-time")
SELECTOR = Field("selector", Choice(SELECTORS), says="how a path is chosen (default: round-robin)")
POLICY = Field("policy", Choice(("multibus", "failover")), says="all paths at once (default), or one after another")
MODE = Field("mode", Choice(("rq", "bio")), says="dm-multipath on requests (default) or bios")
REPEAT_COUNT = Field("repeat_count", Integer(1, 10**6), says="requests on a path before the next (rr_min_io)")
THROUGHPUT = Field("throughput", ListOf(Integer(1, 100)), says="of each path, relative to the others (service-time)")
LEVEL = Field("level", Choice(("raid0", "raid1", "raid10", "raid4", "raid5", "raid6")), says="of an md array")
BITMAP = Field("bitmap", Choice(("none", "internal")), says="write-intent bitmap (default: none)")
IOPOLICY = Field("iopolicy", Choice(("numa", "round-robin", "queue-depth")), says="how NVMe chooses a path")
RESYNC = Field("resync", Flag(), says="start out of sync, and resynchronise (default: false)")

QUEUE_FIELDS: tuple[Field[int] | Field[str], ...] = (
    Field("scheduler", Choice(("none", "mq-deadline", "kyber", "bfq")), says="the elevator"),
    Field("nr_requests", Integer(4, 10240)),
    Field(
        "async_depth", Integer(1, 10240), says="what its elevator lets writers have (7.2 has it here, not in iosched)"
    ),
    Field("read_ahead_kb", Integer(0, 1 << 20)),
    Field("max_sectors_kb", Integer(4, 1 << 20)),
    Field("nomerges", Integer(0, 2)),
    Field("rq_affinity", Integer(0, 2)),
    Field("rotational", Integer(0, 1)),
    Field("wbt_lat_usec", Integer(0, 10**8)),
    Field("io_timeout", Integer(100, 10**6), says="ms until a request has timed out (default: 30000)"),
)
MD_FIELDS: tuple[Field[int], ...] = (
    Field("stripe_cache_size", Integer(17, 32768)),
    Field("preread_bypass_threshold", Integer(0, 32768)),
    Field("group_thread_cnt", Integer(0, 64)),
    Field("sync_speed_min", Integer(1, 10**7), says="KiB/s"),
    Field("sync_speed_max", Integer(1, 10**7), says="KiB/s"),
    Field("sync_io_depth", Integer(1, 10**6), says="requests of a resync beside others (since 6.16)"),
)
ATTRIBUTES: Mapping[str, tuple[Field[int] | Field[str], ...]] = {"queue": QUEUE_FIELDS, "md": MD_FIELDS}
"""Attributes of a stack's own block device, by their folder in sysfs."""
STACK_QUEUE = Field("queue", Record(QUEUE_FIELDS), says="settings of its request queue")
STACK_MD = Field("md", Record(MD_FIELDS), says="settings of the array")

VM_FIELDS: tuple[Field[int], ...] = (
    Field("dirty_bytes", size(1 << 16, 1 << 38), says="unwritten bytes at which who writes has to wait"),
    Field("dirty_background_bytes", size(1 << 16, 1 << 38), says="unwritten bytes from which the kernel writes them"),
)
VM = Field("vm", Record(VM_FIELDS), says="settings of the guest's page cache (/proc/sys/vm)")

ORIGIN_OF = Field("of", Text("parameters such as disk.*.seek", r"[a-z]+(\.[a-z0-9_*-]+)*"), required=True)
ORIGIN_TEXTS = (
    Field("cites", Text(), says="the source of the value"),
    Field("fitted", Text(), says="the figure on which it was fitted"),
    Field("chosen", Text(), says="why any such value would do"),
)
ORIGINS: Field[list[Row]] = Field(
    "origins", ListOf(Record((ORIGIN_OF, *ORIGIN_TEXTS))), says="where the values of its parameters come from"
)

_DISK = Record((SIZE, RATE, SERVICE, SEEK, RPM, ZONES, NCQ, LOOK_AHEAD, BUFFER, PATH))
_LINK = Record((LINK_RATE, PCIE, SAS, EFFICIENCY, COST))
_HBA = Record((MODEL, DRIVER, CAN_QUEUE, CMD_PER_LUN, HW_QUEUES, PATH, SLOT, NODE, INTERRUPTS))
_LUN = Record((HBA, LUN_DISKS, PATH))
_BOX = Record((MODEL, BOX_DISKS, PATH))
_STACK = Record(
    (
        KIND,
        OVER,
        CHUNK,
        OFFSET,
        STACK_SIZE,
        SELECTOR,
        POLICY,
        MODE,
        REPEAT_COUNT,
        THROUGHPUT,
        LEVEL,
        BITMAP,
        RESYNC,
        IOPOLICY,
        STACK_QUEUE,
        STACK_MD,
    )
)
DISKS = Field("disks", NamedRanges(_DISK, "disk"), required=True)
HBAS = Field("hbas", NamedRanges(_HBA, "HBA", most=32), required=True)
LUNS = Field("luns", NamedRanges(_LUN, "LUN"), required=True)
LINKS = Field("links", NamedRanges(_LINK, "link"), says="capacities that disks share")
ENCLOSURES = Field("enclosures", NamedRanges(_BOX, "enclosure"), says="boxes of disks")
STACKS = Field("stacks", NamedRanges(_STACK, "stack"), says="what is laid over the LUNs")
TOPOLOGY_RECORD = Record((TOPOLOGY, TITLE, MEMORY, VM, SCALE, LINKS, DISKS, ENCLOSURES, HBAS, LUNS, STACKS, ORIGINS))

_HBA_FIELDS = (CAN_QUEUE, CMD_PER_LUN, HW_QUEUES, INTERRUPTS)
HBA_KNOBS: Mapping[str, Kind[int]] = {field.name: field.kind for field in _HBA_FIELDS}
DISK_KNOBS: Mapping[str, Kind[int]] = {
    field.name: field.kind for field in (RATE, SERVICE, SEEK, RPM, NCQ, LOOK_AHEAD, BUFFER)
}
LINK_KNOBS: Mapping[str, Kind[int]] = {field.name: field.kind for field in (LINK_RATE, COST)}
VM_KNOBS: Mapping[str, Kind[int]] = {field.name: field.kind for field in VM_FIELDS}
STACK_KNOBS: Mapping[str, Kind[int] | Kind[str]] = {
    **{field.name: field.kind for field in (CHUNK, OFFSET, STACK_SIZE, REPEAT_COUNT)},
    **{field.name: field.kind for field in (SELECTOR, POLICY, MODE, LEVEL, BITMAP, IOPOLICY)},
    RESYNC.name: RESYNC.kind,
}

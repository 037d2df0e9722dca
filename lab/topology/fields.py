# SPDX-License-Identifier: GPL-2.0-only
"""The keys of a topology file, for the loader, the settings of arms, the JSON schema and the reference page."""

from collections.abc import Mapping
from typing import TypeVar

from lab.topology.model import Driver, StackKind
from lab.topology.ranges import NamedRanges, Reference, References
from lab.yaml.fields import (
    Choice,
    Field,
    Flag,
    Integer,
    ListOf,
    Record,
    Row,
    Text,
    name_text,
    rate,
    size,
    time,
)

T = TypeVar("T")

SERVICE_RANGE = (1, 60 * 10**9)

_MEBIBYTE = 1 << 20
_SECOND = 10**9
TOPOLOGY = Field("topology", name_text(), says="the topology's name, that of its file", example="3ware-8506")
TITLE = Field("title", Text(), says="what it models, in a sentence", example="Two disks on one host")
MEMORY = Field("memory", size(128 * _MEBIBYTE, 1 << 38), required=True, says="memory of the guest", example="512M")
SCALE = Field(
    "scale", Integer(1, 10**6), default=1, says="factor by which the lab is slower than the hardware", example="20"
)

SIZE = Field("size", size(_MEBIBYTE), required=True, says="capacity", example="1G")
RATE = Field("rate", rate(), says="rate of a disk that serves one request after another", example="50 MB/s")
SERVICE = Field(
    "service", time(*SERVICE_RANGE), says="service time of a disk that serves all requests at once", example="8ms"
)
SEEK = Field(
    "seek",
    time(0, _SECOND),
    default=0,
    says="time before a request that does not start where the last one ended",
    example="8500us",
)
RPM = Field(
    "rpm",
    Integer(60, 10**6),
    absent="no rotation",
    unit="1/min",
    says="speed of rotation: after a seek the disk waits for the sector",
    example="7200",
)
BUFFER = Field(
    "buffer",
    Integer(2, 256),
    absent="1",
    says="requests that it transfers at once, sharing its rate; not with seek, rpm, zones, ncq or look_ahead",
    example="4",
)
NCQ = Field("ncq", Integer(1, 256), default=1, says="queued requests among which it serves the nearest", example="32")
LOOK_AHEAD = Field(
    "look_ahead", size(0, 1 << 30), default=0, says="bytes that it reads beyond a request, and keeps", example="8M"
)
ZONE_FROM = Field("from", size(_MEBIBYTE), required=True, says="start of the zone", example="200G")
ZONE_RATE = Field("rate", rate(), required=True, says="rate from there on", example="45 MB/s")
ZONES: Field[list[Row]] = Field(
    "zones", ListOf(Record((ZONE_FROM, ZONE_RATE)), most=16), says="slower zones, in ascending order"
)
PATH = Field("links", References(), says="links that carry its data", example="[pcie0]")

LINK_RATE = Field("rate", rate(), says="rate that its paths share", example="132 MB/s")
GENERATION = Field("generation", Integer(1, 5), required=True, says="generation of PCI Express", example="1")
LANES = Field("lanes", Integer(1, 32), required=True, says="number of lanes", example="8")
GBIT = Field("gbit", Integer(1, 24), required=True, unit="Gbit/s", says="speed of a lane, 8b/10b coded", example="3")
PCIE = Field("pcie", Record((GENERATION, LANES)), says="raw capacity of PCI Express lanes, in place of rate")
SAS = Field("sas", Record((LANES, GBIT)), says="raw capacity of a SAS port, in place of rate")
EFFICIENCY = Field(
    "efficiency",
    Integer(1, 100),
    default=100,
    unit="%",
    says="share of the raw capacity that carries data",
    example="84",
)
COST = Field(
    "cost", time(0, _SECOND), default=0, says="time of the link for each request, besides its bytes", example="9us"
)

MODEL = Field("model", Text(), says="model name", example="LSI SAS1068E")
DRIVER = Field("driver", Choice(tuple(Driver)), required=True, says="device that plays the HBA")
CAN_QUEUE = Field(
    "can_queue", Integer(1, 10240), required=True, says="tags that all LUNs of the HBA share", example="254"
)
CMD_PER_LUN = Field(
    "cmd_per_lun", Integer(1, 10240), absent="can_queue", says="tags that one LUN may hold", example="32"
)
HW_QUEUES = Field("hw_queues", Integer(1, 64), default=1, says="hardware queues", example="1")
SLOT = Field("slot", Text(), says="slot that it is plugged into", example='"9"')
NODE = Field(
    "node",
    Integer(0, 63),
    default=0,
    says="NUMA node; without effect on the virtual clock, which has one CPU",
    example="2",
)
INTERRUPTS = Field(
    "interrupts", Integer(0, 7), absent="the kernel's choice", says="CPU that takes its interrupts", example="0"
)
HBA = Field("hba", Reference(), required=True, says="HBA that has the LUN", example="mpt0")
LUN_DISKS = Field("disks", References(least=1), required=True, says="disks it consists of, in order", example="[d0..3]")
BOX_DISKS = Field("disks", References(least=1), required=True, says="disks in it", example="[d00..23]")

KIND = Field("kind", Choice(tuple(StackKind)), required=True, says="kind of device")
OVER = Field("over", References(least=1), required=True, says="LUNs or other stacks below it", example="[sda, sdb]")
CHUNK = Field("chunk", size(4096, 1 << 30), says="stripe, md: bytes on one member before the next", example="64k")
OFFSET = Field("offset", size(0), absent="0", says="linear: start of the part of its only member", example="40G")
STACK_SIZE = Field(
    "size",
    size(_MEBIBYTE),
    absent="all",
    says="linear: bytes of the part; md: bytes used of each member",
    example="40G",
)
SELECTORS = ("round-robin", "queue-length", "service-time", "historical-service-time")
SELECTOR = Field("selector", Choice(SELECTORS), default="round-robin", says="multipath: path selector")
POLICY = Field(
    "policy",
    Choice(("multibus", "failover")),
    default="multibus",
    says="multipath: all paths in one group, or a group for each",
)
MODE = Field("mode", Choice(("rq", "bio")), default="rq", says="multipath: request-based or bio-based")
REPEAT_COUNT = Field(
    "repeat_count",
    Integer(1, 10**6),
    default=1,
    says="multipath: requests on a path before the next path (rr_min_io)",
    example="100",
)
THROUGHPUT = Field(
    "throughput",
    ListOf(Integer(1, 100)),
    absent="equal",
    says="multipath, service-time: relative throughput of each path",
    example="[2, 1]",
)
LEVEL = Field("level", Choice(("raid0", "raid1", "raid10", "raid4", "raid5", "raid6")), says="md: level of the array")
BITMAP = Field("bitmap", Choice(("none", "internal")), default="none", says="md: write-intent bitmap")
IOPOLICY = Field(
    "iopolicy", Choice(("numa", "round-robin", "queue-depth")), default="numa", says="nvme: how a path is chosen"
)
RESYNC = Field("resync", Flag(), default=False, says="md: start out of sync and resynchronise")

_KERNEL = "the kernel's"
QUEUE_FIELDS: tuple[Field[int] | Field[str], ...] = (
    Field("scheduler", Choice(("none", "mq-deadline", "kyber", "bfq")), says="elevator"),
    Field("nr_requests", Integer(4, 10240), absent=_KERNEL, says="requests the queue holds", example="128"),
    Field(
        "async_depth",
        Integer(1, 10240),
        absent=_KERNEL,
        says="requests that writers may have (since 7.2; iosched.async_depth before)",
        example="64",
    ),
    Field("read_ahead_kb", Integer(0, 1 << 20), absent=_KERNEL, unit="KiB", says="read-ahead", example="128"),
    Field(
        "max_sectors_kb",
        Integer(4, 1 << 20),
        absent=_KERNEL,
        unit="KiB",
        says="largest size of a request",
        example="512",
    ),
    Field("nomerges", Integer(0, 2), absent=_KERNEL, says="0 merge, 1 simple merges only, 2 never merge", example="2"),
    Field("rq_affinity", Integer(0, 2), absent=_KERNEL, says="CPU that completes a request", example="2"),
    Field("rotational", Integer(0, 1), absent=_KERNEL, says="1 for a rotating disk", example="1"),
    Field(
        "wbt_lat_usec",
        Integer(0, 10**8),
        absent=_KERNEL,
        unit="us",
        says="latency target of wbt, 0 is off",
        example="0",
    ),
    Field("io_timeout", Integer(100, 10**6), absent="30000", unit="ms", says="request timeout", example="5000"),
)
MD_FIELDS: tuple[Field[int], ...] = (
    Field("stripe_cache_size", Integer(17, 32768), absent=_KERNEL, says="stripes in the stripe cache", example="4096"),
    Field(
        "preread_bypass_threshold",
        Integer(0, 32768),
        absent=_KERNEL,
        says="full stripes that may pass one that needs reads",
        example="1",
    ),
    Field("group_thread_cnt", Integer(0, 64), absent=_KERNEL, says="worker threads of a node", example="4"),
    Field(
        "sync_speed_min", Integer(1, 10**7), absent=_KERNEL, unit="KiB/s", says="least rate of a resync", example="1000"
    ),
    Field(
        "sync_speed_max",
        Integer(1, 10**7),
        absent=_KERNEL,
        unit="KiB/s",
        says="highest rate of a resync",
        example="200000",
    ),
    Field(
        "sync_io_depth",
        Integer(1, 10**6),
        absent=_KERNEL,
        says="requests of a resync in flight with other users (since 6.16)",
        example="32",
    ),
)
ATTRIBUTES: Mapping[str, tuple[Field[int] | Field[str], ...]] = {"queue": QUEUE_FIELDS, "md": MD_FIELDS}
"""Attributes of a stack's own block device, by their folder in sysfs."""
QUEUE = Field("queue", Record(QUEUE_FIELDS), says="settings of every LUN's request queue, before those of a scenario")
STACK_QUEUE = Field("queue", Record(QUEUE_FIELDS), says="settings of its own request queue")
STACK_MD = Field("md", Record(MD_FIELDS), says="settings of the array")

VM_FIELDS: tuple[Field[int], ...] = (
    Field(
        "dirty_bytes",
        size(1 << 16, 1 << 38),
        absent=_KERNEL,
        says="dirty bytes at which writers are throttled",
        example="192M",
    ),
    Field(
        "dirty_background_bytes",
        size(1 << 16, 1 << 38),
        absent=_KERNEL,
        says="dirty bytes at which writeback starts",
        example="32M",
    ),
)
VM = Field("vm", Record(VM_FIELDS), says="settings of the guest's page cache (/proc/sys/vm)")

ORIGIN_OF = Field(
    "of",
    Text("a parameter pattern such as disk.*.seek", r"[a-z]+(\.[a-z0-9_*-]+)*"),
    required=True,
    says="the parameters, * standing for any part of a name",
    example="disk.*.seek",
)
ORIGIN_TEXTS = (
    Field("cites", Text(), says="source of the value", example="the report's table of slots"),
    Field("fitted", Text(), says="figure to which the value was fitted", example="the re-read, 864 MB/s"),
    Field("chosen", Text(), says="why any such value gives the same ratios", example="deeper than the load"),
    Field("guessed", Text(), says="what an assumed value rests on; not in the catalogue", example="usual for flash"),
)
ORIGINS: Field[list[Row]] = Field(
    "origins", ListOf(Record((ORIGIN_OF, *ORIGIN_TEXTS))), says="where the values of the parameters come from"
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
DISKS = Field("disks", NamedRanges(_DISK, "disk"), required=True, says="disks")
HBAS = Field("hbas", NamedRanges(_HBA, "HBA", most=32), required=True, says="host adapters")
LUNS = Field("luns", NamedRanges(_LUN, "LUN"), required=True, says="block devices of the HBAs")
LINKS = Field("links", NamedRanges(_LINK, "link"), says="capacities that paths share")
ENCLOSURES = Field("enclosures", NamedRanges(_BOX, "enclosure"), says="boxes of disks")
STACKS = Field("stacks", NamedRanges(_STACK, "stack"), says="devices over the LUNs: dm, md, NVMe multipath")
TOPOLOGY_RECORD = Record(
    (TOPOLOGY, TITLE, MEMORY, VM, QUEUE, SCALE, LINKS, DISKS, ENCLOSURES, HBAS, LUNS, STACKS, ORIGINS)
)


def _by_name(*fields: Field[T]) -> dict[str, Field[T]]:
    return {field.name: field for field in fields}


HBA_SETTINGS = _by_name(CAN_QUEUE, CMD_PER_LUN, HW_QUEUES, INTERRUPTS)
DISK_SETTINGS = _by_name(RATE, SERVICE, SEEK, RPM, NCQ, LOOK_AHEAD, BUFFER)
LINK_SETTINGS = _by_name(LINK_RATE, COST)
VM_SETTINGS = _by_name(*VM_FIELDS)
STACK_SETTINGS: Mapping[str, Field[object]] = {
    **_by_name(CHUNK, OFFSET, STACK_SIZE, REPEAT_COUNT),
    **_by_name(SELECTOR, POLICY, MODE, LEVEL, BITMAP, IOPOLICY),
    **_by_name(RESYNC),
}
"""Keys that an arm may set, by name."""

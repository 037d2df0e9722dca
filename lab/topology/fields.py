# SPDX-License-Identifier: GPL-2.0-only
"""The keys of a topology file, for the loader, the settings of arms and the reference page."""

from collections.abc import Mapping
from itertools import chain
from types import SimpleNamespace

from lab.topology.model import EMULATED, NEAR, Driver, Processors, StackKind, Zone
from lab.topology.ranges import NamedRanges, References
from lab.yaml.fields import NAME, Choice, Field, Flag, Integer, Kind, ListOf, Record, Text, name_text, rate, size, time

_MEBIBYTE = 1 << 20
_SECOND = 10**9
TOPOLOGY = Field("topology", name_text(), "the topology's name, that of its file", "3ware-8506")
TITLE = Field("title", Text(), "what it models, in a sentence", "Two disks on one host", default="")
MEMORY = Field("memory", size(128 * _MEBIBYTE, 1 << 38), "memory of the guest", "512M", required=True)
CONFIG = "config/"  # begins the name of an attribute of null_blk in configfs, or of scsi_debug's driver
MOST_CPUS = 8
"""More than the plugin can tell apart (MOST_CPUS in native/sharing/cpus.h) are refused."""
CPUS = Field("cpus", Integer(1, MOST_CPUS), "virtual CPUs; on the virtual clock they take turns", "4", default=1)
TURN = Field("turn", Integer(100, 10**6), "instructions of a turn, with several CPUs", "300", default=1000)
COUNTED = Field("counted", Flag(), "count locks and locked instructions with one CPU too", default=False)
NODES = Field("nodes", Integer(1, MOST_CPUS), "NUMA nodes: consecutive CPUs, equal parts of the memory", "2", default=1)
MACHINE = Field(
    "machine",
    Record((CPUS, TURN, COUNTED, NODES), make=Processors),
    "the guest's CPUs on the virtual clock; with several, cache lines and locks are counted",
)
SCALE = Field("scale", Integer(1, 10**6), "factor by which the lab is slower than the hardware", "20", default=1)

SIZE = Field("size", size(_MEBIBYTE), "capacity", "1G", required=True)
RATE = Field("rate", rate(), "rate of a disk that serves one request after another", "50 MB/s")
SERVICE = Field("service", time(1, 60 * _SECOND), "service time of a disk that serves all requests at once", "8ms")
SEEK = Field(
    "seek", time(0, _SECOND), "time before a request that does not start where the last one ended", "8500us", default=0
)
RPM = Field(
    "rpm",
    Integer(60, 10**6),
    "speed of rotation: after a seek the disk waits for the sector",
    "7200",
    absent="no rotation",
    unit="1/min",
    into="rotation",
)
BUFFER = Field(
    "buffer",
    Integer(2, 256),
    "requests that it transfers at once, sharing its rate; not with seek, rpm, zones, ncq, look_ahead or coalesce",
    "4",
    absent="1",
)
NCQ = Field("ncq", Integer(1, 256), "queued requests among which it serves the nearest", "32", default=1)
LOOK_AHEAD = Field("look_ahead", size(0, 1 << 30), "bytes that it reads beyond a request, and keeps", "8M", default=0)
COALESCE = Field(
    "coalesce",
    Integer(1, 256),
    "requests that it reports as completed at a time; fewer when it has no other",
    "16",
    default=1,
)
DISCARD = Field("discard", Flag(), "null_blk: takes discards, and keeps what is written", default=False)
_ZONE_FROM = Field("from", size(_MEBIBYTE), "start of the zone", "200G", required=True, into="start")
_ZONE_RATE = Field("rate", rate(), "rate from there on", "45 MB/s", required=True)
_ZONE = Record((_ZONE_FROM, _ZONE_RATE), make=Zone)
ZONES = Field("zones", ListOf(_ZONE, most=16), "slower zones, in ascending order")
ZONE_SIZE = Field(
    "zone_size", size(_MEBIBYTE), "null_blk, scsi_debug: size of a zone of a zoned disk", "16M", absent="not zoned"
)
ZONE_FIELDS = (
    ZONE_SIZE,
    Field("zone_capacity", size(_MEBIBYTE), "bytes of a zone that can be written", "12M", absent="zone_size"),
    Field("zone_nr_conv", Integer(0, 1 << 16), "zones that are conventional, the first ones", "4", default=0),
    Field("zone_max_open", Integer(1, 1 << 16), "zones that can be open at once", "8", absent="all"),
    Field("zone_max_active", Integer(1, 1 << 16), "null_blk: zones that can be open or closed", "12", absent="all"),
)
PATH = Field("links", References(), "links that carry its data", "[pcie0]")

LINK_RATE = Field("rate", rate(), "rate that its paths share", "132 MB/s")
GENERATION = Field("generation", Integer(1, 5), "generation of PCI Express", "1", required=True)
LANES = Field("lanes", Integer(1, 32), "number of lanes", "8", required=True)
GBIT = Field("gbit", Integer(1, 24), "speed of a lane, 8b/10b coded", "3", required=True, unit="Gbit/s")
_PCIE = Record((GENERATION, LANES), make=SimpleNamespace)
PCIE = Field("pcie", _PCIE, "raw capacity of PCI Express lanes, in place of rate")
SAS = Field("sas", Record((LANES, GBIT), make=SimpleNamespace), "raw capacity of a SAS port, in place of rate")
EFFICIENCY = Field(
    "efficiency", Integer(1, 100), "share of the raw capacity that carries data", "84", default=100, unit="%"
)
COST = Field("cost", time(0, _SECOND), "time of the link for each request, besides its bytes", "9us", default=0)

MODEL = Field("model", Text(), "model name", "LSI SAS1068E")
ORIGINAL_DRIVER = Field(
    "original_driver",
    Text("a driver's name such as mpt3sas", "[A-Za-z0-9_-]{1,40}"),
    "driver that the machine had, if another plays the HBA: claims that depend on its code are not judged",
    "mpt3sas",
)
CONTROLLER = Field(
    "controller",
    Choice(tuple(driver for driver in Driver if driver in EMULATED)),
    "QEMU's controller on the wall clock; required there for an HBA with a model",
    absent="by original_driver and driver",
)
DRIVER = Field("driver", Choice(tuple(Driver)), "device that plays the HBA", required=True)
CAN_QUEUE = Field(
    "can_queue", Integer(1, 10240), "tags that all LUNs of the HBA share (nvmet-tcp: of each)", "254", required=True
)
CMD_PER_LUN = Field("cmd_per_lun", Integer(1, 10240), "tags that one LUN may hold", "32", absent="can_queue")
HW_QUEUES = Field("hw_queues", Integer(1, 64), "hardware queues", "1", default=1)
POLL_QUEUES = Field("poll_queues", Integer(0, 8), "null_blk: further queues, of roles with hipri", "1", default=0)
SLOT = Field("slot", Text(), "slot that it is plugged into", '"9"')
NODE = Field("node", Integer(0, 63), "NUMA node; on the virtual clock for several null_blk only", "2", default=0)
INTERRUPTS = Field("interrupts", Integer(0, 7), "CPU that takes its interrupts", "0", absent="the kernel's choice")
HBA = Field("hba", Text("a name", NAME), "HBA that has the LUN", "mpt0", required=True)
LUN_DISKS = Field("disks", References(least=1), "disks it consists of, in order", "[d0..3]", required=True)
BOX_DISKS = Field("disks", References(least=1), "disks in it", "[d00..23]", required=True)

KIND = Field("kind", Choice(tuple(StackKind)), "kind of device, or a filesystem", required=True)
OVER = Field("over", References(least=1), "LUNs or other stacks below it", "[sda, sdb]", required=True)
CHUNK = Field(
    "chunk",
    size(4096, 1 << 30),
    "stripe, md: bytes on one member before the next; snapshot: bytes copied at a time",
    "64k",
)
OFFSET = Field("offset", size(0), "linear: start of the part of its only member", "40G", absent="0")
STACK_SIZE = Field(
    "size",
    size(_MEBIBYTE),
    "linear: bytes of the part; md: bytes used of each member; loop: bytes of the file",
    "40G",
    absent="all",
)
_SELECTORS = Choice(("round-robin", "queue-length", "service-time", "historical-service-time"))
SELECTOR = Field("selector", _SELECTORS, "multipath: path selector", default="round-robin")
POLICY = Field(
    "policy",
    Choice(("multibus", "failover")),
    "multipath: all paths in one group, or a group for each",
    default="multibus",
)
MODE = Field("mode", Choice(("rq", "bio")), "multipath: request-based or bio-based", default="rq")
REPEAT_COUNT = Field(
    "repeat_count",
    Integer(1, 10**6),
    "multipath: requests on a path before the next path (rr_min_io)",
    "100",
    default=1,
)
THROUGHPUT = Field(
    "throughput",
    ListOf(Integer(1, 100)),
    "multipath, service-time: relative throughput of each path",
    "[2, 1]",
    absent="equal",
)
LEVEL = Field("level", Choice(("raid0", "raid1", "raid10", "raid4", "raid5", "raid6")), "md: level of the array")
LOCKLESS = "lockless"
BITMAP = Field(
    "bitmap",
    Choice(("none", "internal", LOCKLESS)),
    "md: write-intent bitmap; lockless: CONFIG_MD_LLBITMAP (since 6.18)",
    default="none",
)
IOPOLICY = Field(
    "iopolicy", Choice(("numa", "round-robin", "queue-depth")), "nvme: how a path is chosen", default="numa"
)
RESYNC = Field("resync", Flag(), "md: start out of sync and resynchronise", default=False)
WRITE_MOSTLY = Field(
    "write_mostly",
    Integer(0, 64),
    "md, raid1: number of members, the last ones, that are read only if no other can be",
    "1",
    default=0,
)
WRITE_BEHIND = Field(
    "write_behind",
    Integer(0, 16383),
    "md, raid1: writes to write-mostly members that may be outstanding when a write completes",
    "256",
    default=0,
)
LAYOUT = Field(
    "layout", Choice((NEAR, "far", "offset")), "md, raid10: where the second copy of a chunk is", default=NEAR
)
CRYPT_FLAGS = tuple(
    Field(name, Flag(), f"crypt: {says}", default=False)
    for name, says in {
        "no_read_workqueue": "decrypt in the completion of a read",
        "no_write_workqueue": "encrypt in the submission of a write",
        "same_cpu_crypt": "encrypt and decrypt on the CPU of the submission",
        "submit_from_crypt_cpus": "submit writes without a thread that sorts them",
    }.items()
)
SIDE = Field(
    "side",
    Choice(("snapshot", "origin")),
    "snapshot: the device is the snapshot, or the origin that has one",
    default="snapshot",
)
DIRECT_IO = Field("direct_io", Flag(), "loop: reads and writes its file past the page cache", default=False)
FS_TYPE = Field("type", Choice(("ext4", "xfs", "btrfs")), "filesystem: its type", "ext4")
_PLAIN = r"[A-Za-z0-9=,_.:+/^%@-]+"
"""Of options that need no quotes in a shell."""
MKFS = Field("mkfs", Text("options of mkfs", rf"{_PLAIN}( {_PLAIN})*"), "filesystem: options of mkfs", "-E stride=16")
MOUNT = Field("mount", Text("mount options", rf"{_PLAIN}(,{_PLAIN})*"), "filesystem: mount options", "noatime")


def _attribute(name: str, kind: Kind, says: str, example: str = "", unit: str = "") -> Field:
    """A setting of the kernel, which keeps its own value where the key is missing."""
    return Field(name, kind, says, example, absent="the kernel's", unit=unit)


QUEUE_FIELDS: tuple[Field, ...] = (
    Field(
        "scheduler",
        Choice(("none", "mq-deadline", "kyber", "bfq", "noop", "deadline", "cfq")),
        "elevator; noop, deadline and cfq belong to the legacy request path (before 5.0)",
    ),
    _attribute("nr_requests", Integer(4, 10240), "requests the queue holds", "128"),
    _attribute(
        "async_depth", Integer(1, 10240), "requests that writers may have (since 7.2; iosched.async_depth before)", "64"
    ),
    _attribute("read_ahead_kb", Integer(0, 1 << 20), "read-ahead", "128", "KiB"),
    _attribute("max_sectors_kb", Integer(4, 1 << 20), "largest size of a request", "512", "KiB"),
    _attribute("nomerges", Integer(0, 2), "0 merge, 1 simple merges only, 2 never merge", "2"),
    _attribute("rq_affinity", Integer(0, 2), "CPU that completes a request", "2"),
    _attribute("rotational", Integer(0, 1), "1 for a rotating disk", "1"),
    _attribute("iostats", Integer(0, 1), "1 counts requests for /proc/diskstats", "0"),
    _attribute("wbt_lat_usec", Integer(0, 10**8), "latency target of wbt, 0 is off", "0", "us"),
    Field("io_timeout", Integer(100, 10**6), "request timeout", "5000", absent="30000", unit="ms"),
)
MD_FIELDS: tuple[Field, ...] = (
    _attribute("stripe_cache_size", Integer(17, 32768), "stripes in the stripe cache", "4096"),
    _attribute("preread_bypass_threshold", Integer(0, 32768), "full stripes that may pass one that needs reads", "1"),
    _attribute("group_thread_cnt", Integer(0, 64), "worker threads of a node", "4"),
    _attribute("sync_speed_min", Integer(1, 10**7), "least rate of a resync", "1000", "KiB/s"),
    _attribute("sync_speed_max", Integer(1, 10**7), "highest rate of a resync", "200000", "KiB/s"),
    _attribute(
        "sync_io_depth", Integer(1, 10**6), "requests of a resync in flight with other users (since 6.16)", "32"
    ),
)
ATTRIBUTES = {"queue": QUEUE_FIELDS, "md": MD_FIELDS}
"""Attributes of a stack's own block device, by their folder in sysfs."""
_QUEUE = Record(QUEUE_FIELDS, make=dict)
QUEUE = Field("queue", _QUEUE, "settings of every LUN's request queue, before those of a scenario")
STACK_QUEUE = Field("queue", _QUEUE, "settings of its own request queue")
STACK_MD = Field("md", Record(MD_FIELDS, make=dict), "settings of the array")
STACK_KEYS: Mapping[StackKind, tuple[Field, ...]] = {
    StackKind.STRIPE: (CHUNK,),
    StackKind.LINEAR: (OFFSET, STACK_SIZE),
    StackKind.MULTIPATH: (SELECTOR, POLICY, MODE, REPEAT_COUNT, THROUGHPUT),
    StackKind.MD: (LEVEL, CHUNK, STACK_SIZE, BITMAP, RESYNC, WRITE_MOSTLY, WRITE_BEHIND, LAYOUT, STACK_MD),
    StackKind.NVME: (IOPOLICY,),
    StackKind.SNAPSHOT: (CHUNK, SIDE),
    StackKind.LOOP: (STACK_SIZE, DIRECT_IO),
    StackKind.FILESYSTEM: (FS_TYPE, MKFS, MOUNT),
    StackKind.CRYPT: CRYPT_FLAGS,
}
"""The keys that each kind has besides its members and its queue."""

VM_FIELDS: tuple[Field, ...] = (
    _attribute("dirty_bytes", size(1 << 16, 1 << 38), "dirty bytes at which writers are throttled", "192M"),
    _attribute("dirty_background_bytes", size(1 << 16, 1 << 38), "dirty bytes at which writeback starts", "32M"),
)
VM = Field("vm", Record(VM_FIELDS, make=dict), "settings of the guest's page cache (/proc/sys/vm)")

_WORD = r"[A-Za-z0-9_.-]{1,60}(=[A-Za-z0-9_.,:+-]{1,60})?"
KERNEL_WORDS = Field(
    "kernel_words",
    Text("words with blanks between them, such as scsi_mod.use_blk_mq=N", f"{_WORD}( {_WORD}){{0,15}}"),
    "words for the kernel command line; MODULE.PARAMETER=VALUE is read back from /sys/module, so write VALUE as it"
    " is shown there: Y or N for a flag",
    "scsi_mod.use_blk_mq=N",
    absent="none",
)

ORIGIN_OF = Field(
    "of",
    Text("a parameter pattern such as disk.*.seek", r"[a-z]+(\.[a-z0-9_*-]+)*"),
    "the parameters, * standing for any part of a name",
    "disk.*.seek",
    required=True,
)
ORIGIN_TEXTS = (
    Field("cites", Text(), "source of the value", "the report's table of slots"),
    Field("fitted", Text(), "figure to which the value was fitted", "the re-read, 864 MB/s"),
    Field("chosen", Text(), "why any such value gives the same ratios", "deeper than the load"),
    Field("guessed", Text(), "what an assumed value rests on; not in the catalogue", "usual for flash"),
)
ORIGINS = Field("origins", ListOf(Record((ORIGIN_OF, *ORIGIN_TEXTS))), "where the values of the parameters come from")

_DISK = Record((SIZE, RATE, SERVICE, SEEK, RPM, ZONES, NCQ, LOOK_AHEAD, COALESCE, BUFFER, DISCARD, *ZONE_FIELDS, PATH))
_LINK = Record((LINK_RATE, PCIE, SAS, EFFICIENCY, COST))
_HBA = Record(
    (
        *(MODEL, DRIVER, ORIGINAL_DRIVER, CONTROLLER, CAN_QUEUE, CMD_PER_LUN),
        *(HW_QUEUES, POLL_QUEUES, PATH, SLOT, NODE, INTERRUPTS),
    )
)
_LUN = Record((HBA, LUN_DISKS, PATH))
_BOX = Record((MODEL, BOX_DISKS, PATH))
_STACK = Record((KIND, OVER, *dict.fromkeys(chain.from_iterable(STACK_KEYS.values())), STACK_QUEUE))
DISKS = Field("disks", NamedRanges(_DISK, "disk"), "disks", required=True)
HBAS = Field("hbas", NamedRanges(_HBA, "HBA", most=32), "host adapters", required=True)
LUNS = Field("luns", NamedRanges(_LUN, "LUN"), "block devices of the HBAs", required=True)
LINKS = Field("links", NamedRanges(_LINK, "link"), "capacities that paths share")
ENCLOSURES = Field("enclosures", NamedRanges(_BOX, "enclosure"), "boxes of disks")
STACKS = Field(
    "stacks", NamedRanges(_STACK, "stack"), "over the LUNs: dm, md, NVMe multipath, loop devices, filesystems"
)
TOPOLOGY_RECORD = Record(
    (
        TOPOLOGY,
        TITLE,
        MEMORY,
        MACHINE,
        KERNEL_WORDS,
        VM,
        QUEUE,
        SCALE,
        LINKS,
        DISKS,
        ENCLOSURES,
        HBAS,
        LUNS,
        STACKS,
        ORIGINS,
    )
)


def _by_name(*fields: Field) -> dict[str, Field]:
    return {field.name: field for field in fields}


HBA_SETTINGS = _by_name(CAN_QUEUE, CMD_PER_LUN, HW_QUEUES, POLL_QUEUES, INTERRUPTS)
DISK_PARAMETERS = _by_name(RATE, SERVICE, SEEK, RPM, NCQ, LOOK_AHEAD, COALESCE, BUFFER)
DISK_SETTINGS = DISK_PARAMETERS | _by_name(*ZONE_FIELDS)
LINK_SETTINGS = _by_name(LINK_RATE, COST)
VM_SETTINGS = _by_name(*VM_FIELDS)
MACHINE_SETTINGS = _by_name(CPUS, TURN, COUNTED, NODES)
STACK_SETTINGS = {
    field.name: field for fields in STACK_KEYS.values() for field in fields if field not in (THROUGHPUT, STACK_MD)
}
"""Keys that an arm may set, by name."""

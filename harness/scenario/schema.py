# SPDX-License-Identifier: GPL-2.0-only
"""The keys of a scenario file, for the loader and the reference page."""

from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from harness.scenario.events import ACTIONS
from harness.scenario.model import Hunt, Requirements, Source, Status, Unseen
from harness.scenario.ratio import BASELINE, BOUND, BOUND_PATTERN
from harness.scenario.timing import Clock
from lab.guest.steps.device import FAULTS, LOSE_DISK
from lab.kernels.model import RANGE_PATTERN
from lab.topology.fields import MOST_CPUS, QUEUE_FIELDS, TOPOLOGY_RECORD
from lab.topology.parameters import setting_fields, tried_fields
from lab.topology.ranges import NameRange
from lab.yaml.fields import (
    NAME,
    Choice,
    Field,
    Flag,
    Integer,
    ListOf,
    Named,
    Number,
    Record,
    Text,
    name_text,
    rate,
    size,
    time,
)
from lab.yaml.strict import Map, Node, Problems, Scalar

MICROSECOND = 10**3
MILLISECOND = 10**6
SECOND = 10**9
HOUR = 3600 * SECOND
SCHEMA = 1
FEWEST_BOOTS = 6
"""The fewest that ``harness.noise`` can judge."""
REQUEST_TIMEOUT = 30 * SECOND


@dataclass(frozen=True)
class TopologyRef:
    """A name or a path, or the mapping of a topology."""

    record = TOPOLOGY_RECORD
    type = "text or mapping"

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        return (self.record if isinstance(node, Map) else Text()).read(problems, label, node)


@dataclass(frozen=True)
class CpuList:
    """CPUs as the kernel lists them; one CPU is a number to YAML."""

    text = Text("a list of CPUs such as 0-3,5", r"[0-7](-[0-7])?(,[0-7](-[0-7])?){0,7}")
    type = "list of CPUs"

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        quoted = replace(node, plain=False) if isinstance(node, Scalar) and node.kind == "integer" else node
        return self.text.read(problems, label, quoted)


TOPOLOGY = Field("topology", TopologyRef(), "a name in the catalogue, a path, or inline", "3ware-8506")
TEACHES = Field("teaches", Text(), "what a reader learns from it", "A deep hog fills the queue.", default="")


_DISTRIBUTION = (
    r"random|zipf:(0\.[0-9]{1,4}|1\.[0-9]{0,3}[1-9]|[2-9](\.[0-9]{1,4})?)"
    r"|pareto:0\.[0-9]{1,4}|normal:[0-9]{1,2}(\.[0-9]{1,4})?"
    r"|zoned:[0-9]{1,3}/[1-9][0-9]{0,2}(:[0-9]{1,3}/[1-9][0-9]{0,2}){0,255}"
)
_SIZE_AND_SHARE = "[1-9][0-9]{0,7}[kKmM]?/[1-9][0-9]?"
_BSSPLIT = f"{_SIZE_AND_SHARE}(:{_SIZE_AND_SHARE}){{1,15}}"
_IO_MAX = r"[rw](bps|iops)=[1-9][0-9]{0,15}( [rw](bps|iops)=[1-9][0-9]{0,15}){0,3}"
_PAUSE = time(MICROSECOND, HOUR, step=MICROSECOND)
CPUS = "cpus"
AGE = "age"
OPTIONS = {
    field.name: field
    for field in (
        Field("rwmixread", Integer(0, 100), "share of reads in a mix", "70", unit="%"),
        Field(CPUS, CpuList(), "CPUs that it runs on; a role on several disks takes one for each in turn", "0-3"),
        Field(
            "rate_iops",
            Integer(1, 10**7),
            "highest rate of requests, for reads and for writes each",
            "500",
            unit="1/s",
        ),
        Field("rate", rate(), "highest rate of bytes, for reads and for writes each", "1 MB/s"),
        Field("thinktime", _PAUSE, "time between two requests", "400us"),
        Field("thinktime_blocks", Integer(1, 10**6), "requests between two such pauses", "32", absent="1"),
        Field("thinktime_spin", _PAUSE, "part of it that keeps the CPU busy", "5us"),
        Field("rate_process", Choice(("linear", "poisson")), "when requests of a rate come", absent="linear"),
        Field("fsync", Integer(0, 10**6), "fsync after so many writes", "64"),
        Field("fdatasync", Integer(0, 10**6), "fdatasync after so many writes", "64"),
        Field("verify", Choice(("crc32c", "md5")), "write blocks with checksums, check blocks that are read"),
        Field(
            "bssplit",
            Text("sizes with shares, such as 4k/60:64k/40", _BSSPLIT),
            "sizes of its requests, each with its share in percent; bs is their mean",
            "4k/60:64k/40",
        ),
        Field("size", size(512), "bytes of the disk to use", "64M", absent="all"),
        Field("offset", size(0), "where on the disk to start", "512M", absent="0"),
        Field("sync", Choice(("sync", "dsync")), "open with O_SYNC, or O_DSYNC", "dsync"),
        Field("files", name_text(), "filesystem: first part of their names", "data", absent="the role's name"),
        Field("nrfiles", Integer(1, 10**5), "filesystem: number of files", "1000", absent="1"),
        Field("create", Flag(), "filesystem: make each file, write it and close it, again and again"),
        Field("invalidate", Flag(), "drop its blocks from the page cache when it starts", absent="true"),
        Field("overwrite", Flag(), "filesystem: write the files before the window"),
        Field(AGE, Flag(), "a step on a filesystem: delete every second file when all are written"),
        Field("io_max", Text("words of io.max", _IO_MAX), "limits of a cgroup of its own", "riops=100 rbps=1048576"),
        Field("io_latency", _PAUSE, "target of its cgroup, slows others; not on Debian's kernels", "2ms"),
        Field("io_weight", Integer(1, 10**4), "weight of a cgroup of its own in iocost", "300"),
        Field("bfq_weight", Integer(1, 1000), "weight of a cgroup of its own in bfq", "300"),
        Field("iodepth_batch", Integer(1, 4096), "requests that are submitted together", "16", absent="1"),
        Field("fixedbufs", Flag(), "io_uring: registered buffers"),
        Field("registerfiles", Flag(), "io_uring: registered files"),
        Field("force_async", Integer(0, 10**6), "io_uring: one of so many is submitted by a thread", "4"),
        Field("hipri", Flag(), "io_uring: poll for completions, in the poll queues of null_blk"),
        Field("sqthread_poll", Flag(), "io_uring: a thread of the kernel polls for requests"),
        Field("zero_buffers", Flag(), "write zeros, which a modelled disk need not store"),
        Field("prioclass", Integer(1, 3), "I/O priority class: 1 real time, 2 best effort, 3 idle", "2"),
        Field("prio", Integer(0, 7), "I/O priority in its class, 0 is the highest", "4"),
        Field("fadvise_hint", Flag(), "tell the page cache the kind of access", absent="true"),
        Field("zonemode", Choice(("zbd",)), "write at the write pointers of zones", "zbd"),
        Field("zonesize", size(512), "zones of a disk that is not zoned", "16M", absent="the disk's"),
        Field("max_open_zones", Integer(1, 4096), "zones that it writes at once", "4", absent="the disk's"),
        Field("norandommap", Flag(), "allow blocks to be done twice"),
        Field(
            "random_distribution",
            Text("a distribution such as zipf:1.2", _DISTRIBUTION),
            "distribution of random offsets",
            "zipf:1.2",
            absent="random",
        ),
    )
}
"""The fio options that a role may set."""


def to_fio(key: str, value: Any) -> str:
    """The value of an option as fio reads it."""
    kind, before = OPTIONS[key].kind, "target=" if key == "io_latency" else ""
    if isinstance(kind, Flag):
        return "1" if value else "0"
    return f"{before}{value // MICROSECOND}" if kind == _PAUSE else str(value)


ONE_IN_FLIGHT = frozenset({"psync", "sync", "posixaio"})
"""Engines that have one request of a file in flight: a thread of glibc does those of posixaio one after another."""
URING_FLAGS = ("fixedbufs", "registerfiles", "hipri", "sqthread_poll")
ONLY_IO_URING = (*URING_FLAGS, "force_async")

MOST_ROLES, MOST_JOBS = 128, 256
DISK = Field(
    "disk", NameRange(), "a disk, LUN or stack of the topology, or several", "d00..23", required=True, into="disks"
)
RW = Field(
    "rw",
    Choice(("read", "write", "rw", "readwrite", "randread", "randwrite", "randrw", "trim")),
    "fio's rw; trim discards blocks one after another",
    "randread",
    required=True,
)
BS = Field("bs", size(512, 1 << 30), "size of a request", "4k", required=True)
IODEPTH = Field("iodepth", Integer(1, 4096), "requests in flight of each job", "32", required=True)
IOENGINE = Field(
    "ioengine", Choice(("libaio", "io_uring", "psync", "sync", "posixaio")), "fio's ioengine", default="libaio"
)
DIRECT = Field("direct", Flag(), "bypass the page cache", default=True)
STARTDELAY = Field(
    "startdelay", time(0, HOUR, step=MICROSECOND), "how long after the others it starts", "1s", default=0
)
STAGGER = Field("stagger", time(0, HOUR, step=MICROSECOND), "delay of the start on each further disk", "5ms", default=0)
NUMJOBS = Field("numjobs", Integer(1, MOST_JOBS), "fio jobs on each disk, each with that iodepth", "4", default=1)
ROLE_KEYS = (DISK, RW, BS, IODEPTH, IOENGINE, DIRECT, STARTDELAY, STAGGER, NUMJOBS)
ROLE = Record((*ROLE_KEYS, *OPTIONS.values()))

SCHEDULER = "scheduler"
_IOSCHED = Field(
    r"iosched\.[a-z_]{1,40}", Integer(0, 2**31 - 1), "an attribute of the elevator", "500", label="iosched.ATTRIBUTE"
)
_THROTTLE = Field(
    r"throttle\.(read|write)_(iops|bps)",
    Integer(1, 10**12),
    "blk-throttle limit of every LUN; also write_iops, read_bps, write_bps",
    "100",
    label="throttle.read_iops",
)
_IOCOST = Field(
    r"iocost\.(qos|model)",
    Text("words of io.cost.qos or io.cost.model", r"[a-z]+=[a-z0-9.]+( [a-z]+=[a-z0-9.]+){0,9}"),
    "line of every LUN in io.cost.qos (enable=1 turns iocost on) or io.cost.model, written as it is read back",
    '"enable=1 ctrl=user rpct=95.00 rlat=20000"',
    label="iocost.qos",
)
_BELOW = (_IOSCHED, _THROTTLE, _IOCOST)
QUEUE = Field("queue", Record(QUEUE_FIELDS, _BELOW), "settings of every LUN's request queue; an arm may override them")

_IN_LOAD = time(0, HOUR, step=MICROSECOND)
_RAMP = Field("ramp", _IN_LOAD, "time before the measured window", "1s", required=True)
_RUNTIME = Field(
    "runtime", time(SECOND // 20, HOUR, step=MICROSECOND), "length of the measured window", "8s", required=True
)
_OF = Field(
    "of",
    time(MICROSECOND, 24 * HOUR, step=MICROSECOND),
    "how long the machine ran the test that the load stands for, in its own time",
    "300s",
    default=0,
    into="published",
)
WINDOW = Field("window", Record((_RAMP, _RUNTIME, _OF), make=dict), "when a load is measured; a load may have its own")
_LOSS = Record(
    (
        Field("path", name_text(), "a LUN below a stack of kind multipath or nvme", "p0", required=True),
        Field("from", _IN_LOAD, "when it fails, counted from the start of the ramp", "1s", required=True, into="start"),
        Field("to", _IN_LOAD, "when it works again", "1500ms", required=True, into="end"),
    )
)
LOST = Field("lost", ListOf(_LOSS, least=1), "paths that fail all I/O for a part of the load")
_STEPS = ListOf(ROLE, least=1, most=16)
PREPARE = Field("prepare", _STEPS, "roles that run before it, one after another, each once over its size")
WARM = Field("warm", _STEPS, "the same, after its files were laid out and the page cache was emptied (filesystems)")
STEP_KEYS = (PREPARE.name, WARM.name)
_EVENT = Record(
    (
        Field("at", _IN_LOAD, "when, counted from the start of the ramp", "20ms", required=True),
        Field("every", time(MILLISECOND, HOUR, step=MICROSECOND), "again after so long, until the load ends", "5ms"),
        QUEUE,
        Field("disk", name_text(), "or: a LUN or stack", "md0", default=""),
        Field(
            "write",
            Text("an attribute", r"[a-z0-9_*/-]{1,80}"),
            "its attribute in sysfs; config/... of null_blk and scsi_debug",
            "md/sync_action",
            default="",
        ),
        Field("to", Text(longest=80), "what is written; the kernel may refuse it", "idle", default=""),
        Field("do", Choice(tuple(ACTIONS)), "or: what is done to it; the kernel may refuse it", "suspend", default=""),
        Field("member", name_text(), "the member of an array that fails or is removed or added", "d0", default=""),
        Field("ios", Integer(1, 10**6), "and when the disk has completed so many I/Os more", "100", default=0),
        Field("errors", Flag(), "I/O of the disk may fail from then on; roles go on after an error", default=False),
        Field("cpu", Integer(0, MOST_CPUS - 1), "the CPU of the task that writes, beside those of other CPUs", "1"),
    )
)
EVENTS = Field("events", ListOf(_EVENT, least=1), "settings that change while the load runs")
FOLIOS = Field("folios", Flag(), "trace folios that its page cache gets, for figures folios.*", default=False)
LOAD_KEYS = (WINDOW.name, LOST.name, EVENTS.name, *STEP_KEYS, FOLIOS.name)
_IN = Field(rf"(?!({'|'.join(LOAD_KEYS)})$){NAME}", ROLE, "one role", label="ROLE")
LOAD = Record((WINDOW, LOST, EVENTS, PREPARE, WARM, FOLIOS), (_IN,))

_ARM_QUEUE = (replace(field, name=f"queue.{field.name}", absent="the scenario's") for field in QUEUE_FIELDS)
_ARM_BELOW = tuple(replace(field, name=rf"queue\.{field.name}", label=f"queue.{field.label}") for field in _BELOW)
_TRY = Record((), tried_fields())
TRY = Field("try", _TRY, "settings that the kernel may refuse or change; a ratio reads ARM.tried.*")
ARM = Record((TOPOLOGY, TEACHES, TRY, *_ARM_QUEUE), (*setting_fields(), *_ARM_BELOW))


@dataclass(frozen=True)
class _Day(Text):
    """A year, month or day that the calendar has."""

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        text = super().read(problems, label, node)
        try:
            return text and f"{date.fromisoformat(f'{text}-01-01'[:10]):%Y-%m-%d}"[: len(text)]
        except ValueError:
            return problems.add(node.mark, f"{label}: the calendar has no {text}")


_ADDRESS = Text("an address", r"https?://\S+|lore\.kernel\.org/\S+")
_LORE = "https://lore.kernel.org/linux-block/"
_DATE = _Day("a date such as 2006-03-14", r"[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?")
_SOURCE = Record(
    (
        Field("report", Text(), "title of the report or thread", "FusionIO Performance", required=True),
        Field("by", Text(), "its author", "Albert Strasheim", default=""),
        Field("on", _DATE, "its date", "2006-03-14", default=""),
        Field("kernel", Text(), "the kernel it is about", '"2.6.33"', default=""),
        Field("link", _ADDRESS, "its address", _LORE, default=""),
    ),
    make=Source,
)
FROM = Field("from", _SOURCE, "the field report that the scenario reproduces")

THAT = Field("that", Text(), "the claim, in a sentence", "the victim keeps its solo IOPS", required=True)
_EXAMPLE = "a.lopsided.victim.iops / a.solo.victim.iops"
RATIO = Field(
    "ratio", Text(longest=400), "a figure, or one divided by another (see Ratios and Figures)", _EXAMPLE, required=True
)
EXPECT = Field(
    "expect", Text('a bound such as ">= 0.9" or "0.98 .. 1.02"', BOUND_PATTERN), "its bound", '">= 0.9"', required=True
)
OPTIONAL = Field("optional", Flag(), "shown, but does not decide the verdict", default=False)
DRAFT = Field("draft", Flag(), "its bound is a placeholder: shown, but does not decide the verdict", default=False)
MEANS = Field("means", Text(), "what it means when the claim holds", "tags are shared fairly", default="")
OTHERWISE = Field("otherwise", Text(), "what it means when the claim fails", "the hog wins", default="")
MUTANT = Field("mutant", name_text(), "the patched kernel on which the control must hold", "no-fair-tags", default="")
KERNELS = Field(
    "kernels",
    Text('kernels such as "5.10" or ">= 5.8, < 5.14" (no <= and no >)', RANGE_PATTERN),
    "kernels that it is about",
    '">= 5.8, < 5.14"',
    required=True,
)
BECAUSE = Field("because", Text(), "why the claim fails there", "fixed in 5.17", required=True)
LINK = Field("link", _ADDRESS, "where that is discussed or fixed", _LORE, required=True)
_KNOWN = Field(
    "known",
    ListOf(Record((KERNELS, BECAUSE, LINK)), least=1),
    "kernels on which the claim is known to fail; if it holds there, the run fails",
)
_ONLY_ON = Field(KERNELS.name, KERNELS.kind, "kernels for which it is made", KERNELS.example, absent="all")
CLAIM = Record((THAT, RATIO, EXPECT, _ONLY_ON, OPTIONAL, DRAFT, MEANS, OTHERWISE, _KNOWN))
_HANGS = Field("hangs", Flag(), "the mutant may hang the guest, which counts as a failure too; an oops does not")
_CONTROL = Record((THAT, RATIO, EXPECT, _ONLY_ON, MUTANT, _HANGS))
_WHEN = Field(
    "when",
    ListOf(Record((RATIO, EXPECT)), least=1),
    "conditions, all of which must hold; *.load.role.metric is the figure of each arm",
    required=True,
)

REPORTED = Field("reported", Number(0, 1e6), "the report's figure", "0.62")
IN_WORDS = Field("in_words", Text(), "the report's words, where it has no figure", "minimal effect", default="")
BECAUSE_OFF = Field(
    "because", Text(), "why the lab's figure is off by more than a fifth", "the report is older", default=""
)

TWIN = Field("scenario", name_text(), "a scenario of the virtual clock", "held-tags", required=True)
THEIRS = Field("theirs", Text(longest=400), "the ratio in that scenario", RATIO.example, absent="the same")
BECAUSE_APART = Field("because", Text(), "why the clocks differ, if they do", "63 tags, not 64", default="")

CLAIMS, CONTROLS = "claims", "controls"
_ARMS = Named(ARM, "arm", most=64, reserved=(BOUND, BASELINE))
_OPTION_NAME = Text("an option without CONFIG_, such as BLK_DEV_NULL_BLK", "[A-Z0-9_]{1,80}")
_REQUIRES = Record(
    (
        Field("config", ListOf(_OPTION_NAME), "kernel options", "[BLK_DEV_THROTTLING]"),
        Field("modules", ListOf(Text("a module's name", "[A-Za-z0-9_-]{1,80}")), "modules", "[dm-multipath]"),
    ),
    make=Requirements,
)
_BOTTLENECK = Field(rf"{NAME}\.{NAME}", Text(), "what limits that load", "link.wire", label="ARM.LOAD")
_SELFTEST = Record(
    (
        Field("status", Choice(tuple(Status)), "status that the run must have", required=True),
        Field("exit", Integer(0, 255), "exit code that the run must have", "125", required=True, into="exit_code"),
        Field("inject", Choice((*FAULTS, LOSE_DISK)), "fault in each guest", "oops", default=""),
        Field("says", Text(), "words that the report must contain", "panic", default=""),
        Field("verify", Flag(), "boot every cell twice", default=False),
        Field("bottleneck", Record((), (_BOTTLENECK,)), "what must be found to limit a load"),
    )
)
_HUNT = Record(
    (
        Field(
            "at",
            ListOf(Text("a function", "[A-Za-z_][A-Za-z0-9_]{0,99}"), least=1),
            "functions in which it changes between CPUs",
            "[rq_qos_wait, rq_qos_wake_function]",
            absent="those that move cache lines between CPUs",
        ),
        Field(
            "stuck",
            time(SECOND, HOUR, step=SECOND),
            "a task that sleeps uninterruptibly for so long hangs",
            "10s",
            default=10 * SECOND,
        ),
        Field("step", Choice(("block", "instruction")), "behind what a CPU stops", "instruction", default="block"),
    ),
    make=Hunt,
)
SCENARIO = Record(
    (
        Field("scenario", name_text(), "its name, that of its file", "shared-queue", required=True),
        Field("title", Text(), "what happens to whom, in a sentence", "A hog starves a disk", required=True),
        FROM,
        TEACHES,
        Field("clock", Choice(tuple(Clock)), "the clock of every boot", default=Clock.VIRTUAL),
        Field("schema", Integer(SCHEMA, SCHEMA), "write schema: 1", str(SCHEMA), required=True),
        TOPOLOGY,
        QUEUE,
        Field("seeds", Integer(1, 64), "virtual clock: boots of each arm", "2", default=3),
        Field("boots", Integer(FEWEST_BOOTS, 64), "wall clock: boots of each arm at most", "12", default=12),
        Field("windows", Integer(1, 16), "wall clock: how often each boot measures every load", "2", default=3),
        WINDOW,
        Field("pause", time(0, HOUR), "idle time before each load", "5s", default=65 * SECOND),
        Field("arms", _ARMS, "the settings that are compared, by name", required=True),
        Field("loads", Named(LOAD, "load", most=64), "roles that run together, by name", required=True),
        Field(CLAIMS, ListOf(CLAIM, least=1), "add a claim; a run without claims and controls only measures"),
        Field(CONTROLS, ListOf(_CONTROL, least=1), "negative controls: add a ratio that shows the claims can fail"),
        Field(
            "diagnoses",
            ListOf(Record((THAT, _WHEN)), least=1),
            "why a claim fails; printed, with its figures, under a failed claim of the same windows if all hold",
        ),
        Field(
            "reproduces",
            ListOf(Record((THAT, RATIO, REPORTED, IN_WORDS, BECAUSE_OFF)), least=1),
            "ratios of the field report, shown next to the lab's",
        ),
        Field(
            "agrees",
            ListOf(Record((THAT, RATIO, TWIN, THEIRS, BECAUSE_APART)), least=1),
            "wall clock: ratios that a scenario of the virtual clock has too",
        ),
        Field(
            "requires",
            _REQUIRES,
            "what the kernel must have besides the topology's needs; otherwise the result is SKIP",
        ),
        Field(
            "meant",
            ListOf(Choice(tuple(Unseen))),
            "what the claims are about although a run cannot show more of it (see Claims, negative controls)",
            "[busy-cpu]",
        ),
        Field("hunt", _HUNT, "what blklab hunt searches (several CPUs)"),
        Field("selftest", _SELFTEST, "how a scenario that tests the lab itself must end"),
    )
)

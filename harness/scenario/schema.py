# SPDX-License-Identifier: GPL-2.0-only
"""The keys of a scenario file, for the loader, the JSON schema and the reference page."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from harness.scenario.bound import BOUND_PATTERN
from harness.scenario.known import RANGE_PATTERN
from harness.scenario.metric_names import HOST, IDLE, LUN, SAMPLED
from harness.scenario.model import Clock, Status
from harness.scenario.ratio import BASELINE, BOUND
from lab.guest.steps.fault import FAULTS, LOSE_DISK
from lab.topology.fields import QUEUE_FIELDS, TOPOLOGY_RECORD
from lab.topology.ranges import NameRange
from lab.topology.settings import setting_fields, tried_fields
from lab.yaml.fields import (
    NAME,
    Choice,
    Either,
    Field,
    Flag,
    Integer,
    ListOf,
    Named,
    Number,
    Record,
    Row,
    Text,
    name_text,
    rate,
    size,
    time,
)

MICROSECOND = 10**3
SECOND = 10**9
HOUR = 3600 * SECOND
SCHEMA_VERSION = 1
FEWEST_BOOTS = 6
"""The fewest that ``harness.noise.stopping`` can judge."""
REQUEST_TIMEOUT = 30 * SECOND
SHORTEST_RAMP = SECOND
"""On the wall clock the first requests run code that QEMU has not translated yet."""

TOPOLOGY = Field(
    "topology", Either(Text(), TOPOLOGY_RECORD), says="a name in the catalogue, a path, or inline", example="3ware-8506"
)
TEACHES = Field(
    "teaches", Text(), default="", says="what a reader learns from it", example="A deep hog fills the queue."
)


@dataclass(frozen=True)
class Option:
    """A fio option that a role may set; ``to_fio`` writes its value as fio reads it."""

    field: Field[int] | Field[str] | Field[bool]
    to_fio: Callable[[object], str] = str


def _as_flag(value: object) -> str:
    return "1" if value else "0"


def _as_microseconds(nanoseconds: object) -> str:
    return str(int(str(nanoseconds)) // MICROSECOND)


_DISTRIBUTION = (
    r"random|zipf:(0\.\d{1,4}|1\.\d{0,3}[1-9]|[2-9](\.\d{1,4})?)|pareto:0\.\d{1,4}|normal:\d{1,2}(\.\d{1,4})?"
)
OPTIONS: Mapping[str, Option] = {
    option.field.name: option
    for option in (
        Option(Field("rwmixread", Integer(0, 100), unit="%", says="share of reads in a mix", example="70")),
        Option(Field("rate_iops", Integer(1, 10**7), unit="1/s", says="highest rate of requests", example="500")),
        Option(Field("rate", rate(), says="highest rate of bytes", example="1 MB/s")),
        Option(
            Field(
                "thinktime",
                time(MICROSECOND, HOUR, step=MICROSECOND),
                says="time between two requests",
                example="400us",
            ),
            _as_microseconds,
        ),
        Option(Field("fsync", Integer(0, 10**6), says="fsync after so many writes", example="64")),
        Option(Field("fdatasync", Integer(0, 10**6), says="fdatasync after so many writes", example="64")),
        Option(
            Field("verify", Choice(("crc32c", "md5")), says="write blocks with checksums, check blocks that are read")
        ),
        Option(Field("size", size(512), absent="all", says="bytes of the disk to use", example="64M")),
        Option(Field("offset", size(0), absent="0", says="where on the disk to start", example="512M")),
        Option(Field("zero_buffers", Flag(), says="write zeros, which a modelled disk need not store"), _as_flag),
        Option(
            Field(
                "prioclass", Integer(1, 3), says="I/O priority class: 1 real time, 2 best effort, 3 idle", example="2"
            )
        ),
        Option(Field("prio", Integer(0, 7), says="I/O priority in its class, 0 is the highest", example="4")),
        Option(Field("fadvise_hint", Flag(), absent="true", says="tell the page cache the kind of access"), _as_flag),
        Option(Field("norandommap", Flag(), says="allow blocks to be done twice"), _as_flag),
        Option(
            Field(
                "random_distribution",
                Text("a distribution such as zipf:1.2", _DISTRIBUTION),
                absent="random",
                says="distribution of random offsets",
                example="zipf:1.2",
            )
        ),
    )
}

DISK = Field(
    "disk", NameRange(), required=True, says="a disk, LUN or stack of the topology, or several", example="d00..23"
)
RW = Field(
    "rw",
    Choice(("read", "write", "rw", "readwrite", "randread", "randwrite", "randrw")),
    required=True,
    says="fio's rw",
    example="randread",
)
BS = Field("bs", size(512, 1 << 26), required=True, says="size of a request", example="4k")
IODEPTH = Field("iodepth", Integer(1, 4096), required=True, says="requests in flight on each disk", example="32")
IOENGINE = Field("ioengine", Choice(("libaio", "io_uring", "psync", "sync")), default="libaio", says="fio's ioengine")
DIRECT = Field("direct", Flag(), default=True, says="bypass the page cache")
STAGGER = Field(
    "stagger", time(0, HOUR, step=MICROSECOND), default=0, says="delay of the start on each further disk", example="5ms"
)
ROLE = Record((DISK, RW, BS, IODEPTH, IOENGINE, DIRECT, STAGGER, *(option.field for option in OPTIONS.values())))

RAMP = Field(
    "ramp", time(0, HOUR, step=MICROSECOND), required=True, says="time before the measured window", example="1s"
)
RUNTIME = Field(
    "runtime",
    time(SECOND // 10, HOUR, step=MICROSECOND),
    required=True,
    says="length of the measured window",
    example="8s",
)
WINDOW = Field("window", Record((RAMP, RUNTIME)), says="when a load is measured; a load may have its own")
LOAD = Record((WINDOW,), (Field(f"(?!window$){NAME}", ROLE, label="ROLE", says="one role"),))
MOST_ROLES = 32

SCHEDULER = "scheduler"
_IOSCHED = Field(
    r"iosched\.[a-z_]{1,40}",
    Integer(0, (1 << 31) - 1),
    label="iosched.ATTRIBUTE",
    says="an attribute of the elevator",
    example="500",
)
_THROTTLE = Field(
    r"throttle\.(read|write)_(iops|bps)",
    Integer(1, 10**12),
    label="throttle.read_iops",
    says="blk-throttle limit of a single SCSI LUN; also write_iops, read_bps, write_bps",
    example="100",
)
_BELOW = (_IOSCHED, _THROTTLE)
QUEUE_RECORD = Record(QUEUE_FIELDS, _BELOW)
QUEUE = Field("queue", QUEUE_RECORD, says="settings of every LUN's request queue; an arm may override them")
_ARM_QUEUE = (
    *(
        replace(cast("Field[object]", field), name=f"queue.{field.name}", absent="the scenario's")
        for field in QUEUE_FIELDS
    ),
)
_ARM_BELOW = tuple(replace(field, name=rf"queue\.{field.name}", label=f"queue.{field.label}") for field in _BELOW)
SETTINGS = Record((), setting_fields())
TRY_RECORD = Record((), tried_fields())
TRY = Field("try", TRY_RECORD, says="settings that the kernel may refuse or change; a ratio reads ARM.tried.*")
ARM = Record((TOPOLOGY, TEACHES, TRY, *_ARM_QUEUE), (*SETTINGS.patterns, *_ARM_BELOW))

FROM_REPORT = Field(
    "report", Text(), required=True, says="title of the report or thread", example="FusionIO Performance"
)
FROM_BY = Field("by", Text(), default="", says="its author", example="Albert Strasheim")
FROM_ON = Field(
    "on",
    Text("a date such as 2006-03-14", r"\d{4}(-\d{2}(-\d{2})?)?"),
    default="",
    says="its date",
    example="2006-03-14",
)
FROM_KERNEL = Field("kernel", Text(), default="", says="the kernel it is about", example='"2.6.33"')
_ADDRESS = Text("an address", r"https?://\S+|lore\.kernel\.org/\S+")
FROM_LINK = Field("link", _ADDRESS, default="", says="its address", example="https://lore.kernel.org/linux-block/")
FROM = Field(
    "from",
    Record((FROM_REPORT, FROM_BY, FROM_ON, FROM_KERNEL, FROM_LINK)),
    says="the field report that the scenario reproduces",
)

THAT = Field("that", Text(), required=True, says="the claim, in a sentence", example="the victim keeps its solo IOPS")
_RATIO_SAYS = (
    "a figure, or one divided by another (see Ratios); sampled in the window: arm.load.lun.NAME.("
    f"{'|'.join(SAMPLED[LUN])}), arm.load.host.NAME.({'|'.join(SAMPLED[HOST])}), arm.load.guest.{IDLE}"
)
RATIO = Field(
    "ratio",
    Text(longest=400),
    required=True,
    says=_RATIO_SAYS,
    example="a.lopsided.victim.iops / a.solo.victim.iops",
)
EXPECT = Field(
    "expect",
    Text('a bound such as ">= 0.9" or "0.98 .. 1.02"', BOUND_PATTERN),
    required=True,
    says="its bound",
    example='">= 0.9"',
)
OPTIONAL = Field("optional", Flag(), default=False, says="shown, but does not decide the verdict")
DRAFT = Field("draft", Flag(), default=False, says="its bound is a placeholder: shown, but does not decide the verdict")
MEANS = Field("means", Text(), default="", says="what it means when the claim holds", example="tags are shared fairly")
OTHERWISE = Field("otherwise", Text(), default="", says="what it means when the claim fails", example="the hog wins")
MUTANT = Field(
    "mutant", name_text(), default="", says="the patched kernel on which the control must hold", example="no-fair-tags"
)
KERNELS = Field(
    "kernels",
    Text('kernels such as "5.10" or ">= 5.8, < 5.14" (no <= and no >)', RANGE_PATTERN),
    required=True,
    says="kernels that it is about",
    example='">= 5.8, < 5.14"',
)
BECAUSE = Field("because", Text(), required=True, says="why the claim fails there", example="fixed in 5.17")
LINK = Field("link", _ADDRESS, required=True, says="where that is discussed or fixed", example=FROM_LINK.example)
KNOWN: Field[list[Row]] = Field(
    "known",
    ListOf(Record((KERNELS, BECAUSE, LINK)), least=1),
    says="kernels on which the claim is known to fail; if it holds there, the run fails",
)
ONLY_ON = Field(KERNELS.name, KERNELS.kind, absent="all", says="kernels for which it is made", example=KERNELS.example)
CLAIM = Record((THAT, RATIO, EXPECT, ONLY_ON, OPTIONAL, DRAFT, MEANS, OTHERWISE, KNOWN))
HANGS = Field("hangs", Flag(), says="what the mutant stops may hang the guest, which is red too; an oops is not")
CONTROL = Record((THAT, RATIO, EXPECT, ONLY_ON, MUTANT, HANGS))

WHEN: Field[list[Row]] = Field(
    "when",
    ListOf(Record((RATIO, EXPECT)), least=1),
    required=True,
    says="conditions, all of which must hold; *.load.role.metric stands for the figure of each arm",
)
DIAGNOSES: Field[list[Row]] = Field(
    "diagnoses",
    ListOf(Record((THAT, WHEN)), least=1),
    says="why a claim fails; printed, with its figures, under a failed claim of the same windows if all hold",
)

REPORTED = Field("reported", Number(0, 1e6), says="the report's figure", example="0.62")
IN_WORDS = Field(
    "in_words", Text(), default="", says="the report's words, where it has no figure", example="minimal effect"
)
BECAUSE_OFF = Field(
    "because",
    Text(),
    default="",
    says="why the lab's figure is off by more than a fifth",
    example="the report is older",
)
REPRODUCES: Field[list[Row]] = Field(
    "reproduces",
    ListOf(Record((THAT, RATIO, REPORTED, IN_WORDS, BECAUSE_OFF)), least=1),
    says="ratios of the field report, shown next to the lab's",
)

TWIN = Field("scenario", name_text(), required=True, says="a scenario of the virtual clock", example="held-tags")
THEIRS = Field("theirs", Text(longest=400), absent="the same", says="the ratio in that scenario", example=RATIO.example)
BECAUSE_APART = Field(
    "because", Text(), default="", says="why the clocks differ, if they do", example="63 tags, not 64"
)
AGREES: Field[list[Row]] = Field(
    "agrees",
    ListOf(Record((THAT, RATIO, TWIN, THEIRS, BECAUSE_APART)), least=1),
    says="wall clock: ratios that a scenario of the virtual clock has too",
)

NAME_FIELD = Field("scenario", name_text(), required=True, says="its name, that of its file", example="shared-queue")
TITLE = Field(
    "title", Text(), required=True, says="what happens to whom, in a sentence", example="A hog starves a disk"
)
CLOCK = Field("clock", Choice(tuple(Clock)), default=Clock.VIRTUAL, says="the clock of every boot")
SCHEMA = Field(
    "schema",
    Integer(SCHEMA_VERSION, SCHEMA_VERSION),
    required=True,
    says="write schema: 1",
    example=str(SCHEMA_VERSION),
)
SEEDS = Field("seeds", Integer(1, 64), default=3, says="virtual clock: boots of each arm", example="2")
BOOTS = Field(
    "boots", Integer(FEWEST_BOOTS, 64), default=12, says="wall clock: boots of each arm at most", example="12"
)
WINDOWS = Field(
    "windows", Integer(1, 16), default=3, says="wall clock: how often each boot measures every load", example="2"
)
PAUSE = Field("pause", time(0, HOUR), default=65 * SECOND, says="idle time before each load", example="5s")
ARMS: Field[dict[str, Row]] = Field(
    "arms",
    Named(ARM, "arm", most=64, reserved=(BOUND, BASELINE)),
    required=True,
    says="the settings that are compared, by name",
)
LOADS: Field[dict[str, Row]] = Field("loads", Named(LOAD, "load", most=64), says="roles that run together, by name")
INTERFERENCE = Field(
    "interference",
    Record(
        (
            Field("hog", ROLE, required=True, says="the deep load"),
            Field("victim", ROLE, required=True, says="the role under test"),
            Field("bystander", ROLE, says="a role that must be unaffected"),
        )
    ),
    says="in place of loads: solo (victim), lopsided (with hog), balanced (hog as deep as the victim)",
)
CLAIMS: Field[list[Row]] = Field("claims", ListOf(CLAIM, least=1), required=True, says="add at least one claim")
CONTROLS: Field[list[Row]] = Field(
    "controls",
    ListOf(CONTROL, least=1),
    required=True,
    says="negative controls: add a ratio that shows the claims can fail",
)
REQUIRES_CONFIG = Field(
    "config",
    ListOf(Text("an option without CONFIG_, such as BLK_DEV_NULL_BLK", "[A-Z0-9_]{1,80}")),
    says="kernel options",
    example="[BLK_DEV_THROTTLING]",
)
REQUIRES_MODULES = Field(
    "modules", ListOf(Text("a module's name", "[A-Za-z0-9_-]{1,80}")), says="modules", example="[dm-multipath]"
)
REQUIRES = Field(
    "requires",
    Record((REQUIRES_CONFIG, REQUIRES_MODULES)),
    says="what the kernel must have besides the topology's needs; otherwise the result is SKIP",
)
SELFTEST_STATUS = Field("status", Choice(tuple(Status)), required=True, says="status that the run must have")
SELFTEST_EXIT = Field("exit", Integer(0, 255), required=True, says="exit code that the run must have", example="125")
SELFTEST_INJECT = Field("inject", Choice((*FAULTS, LOSE_DISK)), default="", says="fault in each guest", example="oops")
SELFTEST_SAYS = Field("says", Text(), default="", says="words that the report must contain", example="panic")
SELFTEST_VERIFY = Field("verify", Flag(), default=False, says="boot every cell twice")
_BOTTLENECK = Field(rf"{NAME}\.{NAME}", Text(), label="ARM.LOAD", says="what limits that load", example="link.wire")
SELFTEST_BOTTLENECK = Field("bottleneck", Record((), (_BOTTLENECK,)), says="what must be found to limit a load")
SELFTEST = Field(
    "selftest",
    Record((SELFTEST_STATUS, SELFTEST_EXIT, SELFTEST_INJECT, SELFTEST_SAYS, SELFTEST_VERIFY, SELFTEST_BOTTLENECK)),
    says="how a scenario that tests the lab itself must end",
)
SCENARIO = Record(
    (
        NAME_FIELD,
        TITLE,
        FROM,
        TEACHES,
        CLOCK,
        SCHEMA,
        TOPOLOGY,
        QUEUE,
        SEEDS,
        BOOTS,
        WINDOWS,
        WINDOW,
        PAUSE,
        ARMS,
        LOADS,
        INTERFERENCE,
        CLAIMS,
        CONTROLS,
        DIAGNOSES,
        REPRODUCES,
        AGREES,
        REQUIRES,
        SELFTEST,
    )
)

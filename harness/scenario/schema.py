# SPDX-License-Identifier: GPL-2.0-only
"""The keys of a scenario file. The loader and the JSON schema for editors both read these tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.scenario.bound import BOUND_PATTERN
from harness.scenario.known import RANGE_PATTERN
from harness.scenario.metric_names import HOST, IDLE, LUN, SAMPLED
from harness.scenario.model import Clock, Status
from harness.scenario.ratio import BASELINE, BOUND
from lab.guest.further import LOSE_DISK
from lab.guest.script import FAULTS
from lab.topology.fields import QUEUE_FIELDS, TOPOLOGY_RECORD
from lab.topology.ranges import Names
from lab.topology.settings import knob_fields, tried_fields
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
DEFAULT_SEEDS = 3
FEWEST_BOOTS = 6
"""What ``harness.noise.stopping`` needs to prove anything."""
DEFAULT_BOOTS = 12
DEFAULT_WINDOWS = 3
DEFAULT_PAUSE = 65 * SECOND
REQUEST_TIMEOUT = 30 * SECOND
SHORTEST_RAMP = SECOND
"""On the wall clock the first requests meet code that QEMU has yet to translate."""

TOPOLOGY = Field("topology", Either(Text(), TOPOLOGY_RECORD), says="a name in the catalogue, a path, or inline")
TEACHES = Field("teaches", Text(), says="what a reader learns from it")


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
        Option(Field("rwmixread", Integer(0, 100), says="per cent of reads in a mix")),
        Option(Field("rate_iops", Integer(1, 10**7), says="requests per second at most")),
        Option(Field("rate", rate(), says="bytes per second at most")),
        Option(
            Field("thinktime", time(MICROSECOND, HOUR, step=MICROSECOND), says="time between two requests"),
            _as_microseconds,
        ),
        Option(Field("fsync", Integer(0, 10**6), says="fsync after so many writes")),
        Option(Field("fdatasync", Integer(0, 10**6), says="fdatasync after so many writes")),
        Option(
            Field("verify", Choice(("crc32c", "md5")), says="write blocks with checksums, check those that are read")
        ),
        Option(Field("size", size(512), says="bytes of the disk to use")),
        Option(Field("offset", size(0), says="where on the disk to start")),
        Option(Field("zero_buffers", Flag(), says="write zeros, which a modelled disk need not keep"), _as_flag),
        Option(Field("prioclass", Integer(1, 3), says="I/O priority class: 1 real time, 2 best effort, 3 idle")),
        Option(Field("prio", Integer(0, 7), says="I/O priority in its class, 0 the highest")),
        Option(Field("fadvise_hint", Flag(), says="tell the page cache how it will be read (fio's default)"), _as_flag),
        Option(Field("norandommap", Flag(), says="do not care which blocks were done"), _as_flag),
        Option(Field("random_distribution", Text("a distribution such as zipf:1.2", _DISTRIBUTION))),
    )
}

DISK = Field("disk", Names(), required=True, says="a disk, LUN or stack of the topology, or several: d00..23, [a, b]")
RW = Field(
    "rw",
    Choice(("read", "write", "rw", "readwrite", "randread", "randwrite", "randrw")),
    required=True,
    says="fio's rw",
)
BS = Field("bs", size(512, 1 << 26), required=True, says="size of a request, such as 4k")
IODEPTH = Field("iodepth", Integer(1, 4096), required=True, says="requests in flight on each disk")
IOENGINE = Field("ioengine", Choice(("libaio", "io_uring", "psync", "sync")), says="fio's ioengine (default: libaio)")
DIRECT = Field("direct", Flag(), says="bypass the page cache (default: true)")
STAGGER = Field("stagger", time(0, HOUR, step=MICROSECOND), says="by how much later it starts on each further disk")
ROLE = Record((DISK, RW, BS, IODEPTH, IOENGINE, DIRECT, STAGGER, *(option.field for option in OPTIONS.values())))

RAMP = Field("ramp", time(0, HOUR, step=MICROSECOND), required=True, says="time before the measured window, such as 1s")
RUNTIME = Field(
    "runtime",
    time(SECOND // 10, HOUR, step=MICROSECOND),
    required=True,
    says="length of the measured window, such as 8s",
)
WINDOW = Field("window", Record((RAMP, RUNTIME)), says="when a load is measured")
LOAD = Record((WINDOW,), (Field(f"(?!window$){NAME}", ROLE, says="names of roles (a-z, 0-9 and -)"),))
MOST_ROLES = 32

SCHEDULER = "scheduler"
_IOSCHED = Field(r"iosched\.[a-z_]{1,40}", Integer(0, (1 << 31) - 1), says="iosched.NAME")
_THROTTLE = Field(
    r"throttle\.(read|write)_(iops|bps)",
    Integer(1, 10**12),
    says="throttle.read_iops: what blk-throttle lets pass in a second",
)
_BELOW = (_IOSCHED, _THROTTLE)
QUEUE_RECORD = Record(QUEUE_FIELDS, _BELOW)
QUEUE = Field("queue", QUEUE_RECORD, says="settings of every LUN's request queue")
_ARM_QUEUE = (*(Field[object](f"queue.{field.name}", field.kind, says=field.says) for field in QUEUE_FIELDS),)
_ARM_BELOW = tuple(Field(rf"queue\.{field.name}", field.kind, says=f"queue.{field.says}") for field in _BELOW)
KNOBS = Record((), knob_fields())
TRY_RECORD = Record((), tried_fields())
TRY = Field("try", TRY_RECORD, says="knobs that the kernel may refuse or change: see tried in a ratio")
ARM = Record((TOPOLOGY, TEACHES, TRY, *_ARM_QUEUE), (*KNOBS.patterns, *_ARM_BELOW))

FROM_REPORT = Field("report", Text(), required=True, says="title of the report or thread")
FROM_BY = Field("by", Text())
FROM_ON = Field("on", Text("a date such as 2006-03-14", r"\d{4}(-\d{2}(-\d{2})?)?"))
FROM_KERNEL = Field("kernel", Text())
_ADDRESS = Text("an address", r"https?://\S+|lore\.kernel\.org/\S+")
FROM_LINK = Field("link", _ADDRESS)
FROM = Field("from", Record((FROM_REPORT, FROM_BY, FROM_ON, FROM_KERNEL, FROM_LINK)), says="the field report")

_RATIO_SAYS = (
    "arm.load.role.metric / arm.load.role.metric; sampled in the window: arm.load.lun.NAME.("
    f"{'|'.join(SAMPLED[LUN])}), arm.load.host.NAME.({'|'.join(SAMPLED[HOST])}), arm.load.guest.{IDLE}"
)
THAT = Field("that", Text(), required=True, says="the claim, in a sentence")
RATIO = Field("ratio", Text(longest=400), required=True, says=_RATIO_SAYS)
EXPECT = Field(
    "expect", Text('a bound such as ">= 0.9" or "0.98 .. 1.02"', BOUND_PATTERN), required=True, says="its bound"
)
OPTIONAL = Field("optional", Flag(), says="shown, but does not decide")
MEANS = Field("means", Text(), says="what it means when the claim holds")
OTHERWISE = Field("otherwise", Text(), says="what it means when it does not")
MUTANT = Field("mutant", name_text(), says="the patched kernel under which the ratio turns red")
KERNELS = Field(
    "kernels",
    Text('kernels such as "5.10" or ">= 5.8, < 5.14" (no <= and no >)', RANGE_PATTERN),
    required=True,
    says="which kernels",
)
BECAUSE = Field("because", Text(), required=True, says="why the claim fails there")
LINK = Field("link", _ADDRESS, required=True, says="where that is discussed or fixed")
KNOWN: Field[list[Row]] = Field(
    "known",
    ListOf(Record((KERNELS, BECAUSE, LINK)), least=1),
    says="kernels on which the claim is known to fail; when it holds there, the run fails",
)
ONLY_ON = Field(KERNELS.name, KERNELS.kind, says="kernels for which it is made (default: all)")
CLAIM = Record((THAT, RATIO, EXPECT, ONLY_ON, OPTIONAL, MEANS, OTHERWISE, KNOWN))
CONTROL = Record((THAT, RATIO, EXPECT, ONLY_ON, MUTANT))

WHEN: Field[list[Row]] = Field(
    "when", ListOf(Record((RATIO, EXPECT)), least=1), required=True, says="conditions, of which all must hold"
)
DIAGNOSES: Field[list[Row]] = Field(
    "diagnoses",
    ListOf(Record((THAT, WHEN)), least=1),
    says="why a claim fails: shown, with its figures, under a failed claim of the same arms when all conditions hold",
)

REPORTED = Field("reported", Number(0, 1e6), says="the report's own figure for it")
IN_WORDS = Field("in_words", Text(), says="what the report says of it, where it has no figure")
BECAUSE_OFF = Field("because", Text(), says="why ours is another, if it is off by more than a fifth")
REPRODUCES: Field[list[Row]] = Field(
    "reproduces",
    ListOf(Record((THAT, RATIO, REPORTED, IN_WORDS, BECAUSE_OFF)), least=1),
    says="ratios of the field report, shown beside ours",
)

TWIN = Field("scenario", name_text(), required=True, says="the scenario of the virtual clock")
THEIRS = Field("theirs", Text(longest=400), says="the ratio as that one names it (default: the same)")
BECAUSE_APART = Field("because", Text(), says="why the clocks differ, if they do")
AGREES: Field[list[Row]] = Field(
    "agrees",
    ListOf(Record((THAT, RATIO, TWIN, THEIRS, BECAUSE_APART)), least=1),
    says="on the wall clock: ratios that a scenario of the virtual clock has too, for blklab check agree",
)

NAME_FIELD = Field("scenario", name_text(), required=True, says="the scenario's name, that of its file")
TITLE = Field("title", Text(), required=True, says="what it shows, in a sentence")
CLOCK = Field("clock", Choice(tuple(Clock)), says="virtual (default) or wall")
SCHEMA = Field("schema", Integer(SCHEMA_VERSION, SCHEMA_VERSION), required=True, says="schema: 1")
SEEDS = Field("seeds", Integer(1, 64), says=f"boots of each arm (default: {DEFAULT_SEEDS})")
BOOTS = Field(
    "boots",
    Integer(FEWEST_BOOTS, 64),
    says=f"on the wall clock: boots of each arm at most (default: {DEFAULT_BOOTS})",
)
WINDOWS = Field(
    "windows",
    Integer(1, 16),
    says=f"on the wall clock: times that each boot measures every load (default: {DEFAULT_WINDOWS})",
)
PAUSE = Field("pause", time(0, HOUR), says="rest before each load (default: 65s)")
ARMS: Field[dict[str, Row]] = Field("arms", Named(ARM, "arm", most=64, reserved=(BOUND, BASELINE)), required=True)
LOADS: Field[dict[str, Row]] = Field("loads", Named(LOAD, "load", most=64), says="names of loads")
INTERFERENCE = Field(
    "interference",
    Record((Field("hog", ROLE, required=True), Field("victim", ROLE, required=True), Field("bystander", ROLE))),
    says="instead of loads: the default ones, solo, lopsided and balanced",
)
CLAIMS: Field[list[Row]] = Field("claims", ListOf(CLAIM, least=1), required=True, says="at least one claim")
CONTROLS: Field[list[Row]] = Field(
    "controls",
    ListOf(CONTROL, least=1),
    required=True,
    says="add a ratio that must turn red: a scenario that cannot turn red proves nothing",
)
REQUIRES_CONFIG = Field(
    "config", ListOf(Text("an option without CONFIG_, such as BLK_DEV_NULL_BLK", "[A-Z0-9_]{1,80}")), says="options"
)
REQUIRES_MODULES = Field("modules", ListOf(Text("a module's name", "[A-Za-z0-9_-]{1,80}")), says="modules")
REQUIRES = Field(
    "requires", Record((REQUIRES_CONFIG, REQUIRES_MODULES)), says="what the kernel must have, else its cells are SKIP"
)
SELFTEST_STATUS = Field("status", Choice(tuple(Status)), required=True, says="the status that the run must have")
SELFTEST_EXIT = Field("exit", Integer(0, 255), required=True, says="the exit code that it must have")
SELFTEST_INJECT = Field("inject", Choice((*FAULTS, LOSE_DISK)), says="what is done to each guest")
SELFTEST_SAYS = Field("says", Text(), says="words that the report must contain")
SELFTEST_VERIFY = Field("verify", Flag(), says="boot every cell twice")
_BOTTLENECK = Field(rf"{NAME}\.{NAME}", Text(), says="ARM.LOAD: what limits it, such as link.wire or cpu")
SELFTEST_BOTTLENECK = Field("bottleneck", Record((), (_BOTTLENECK,)), says="what must be found to limit a load")
SELFTEST = Field(
    "selftest",
    Record((SELFTEST_STATUS, SELFTEST_EXIT, SELFTEST_INJECT, SELFTEST_SAYS, SELFTEST_VERIFY, SELFTEST_BOTTLENECK)),
    says="this scenario tests the lab itself",
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

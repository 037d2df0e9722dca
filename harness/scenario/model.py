# SPDX-License-Identifier: GPL-2.0-only
"""A scenario as frozen values, with every name resolved."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from harness.base.plain import identity
from harness.scenario.events import Event
from harness.scenario.timing import TIMINGS, Clock, Timing
from lab.base.digest import WORDS
from lab.base.units import parse_size
from lab.kernels.model import Release, parse_range
from lab.topology.model import Loss, Topology


class Status(StrEnum):
    """Statuses of kcidb, worst first: a run's status is the first one that any of its parts has."""

    FAIL = "FAIL"
    ERROR = "ERROR"
    MISS = "MISS"
    PASS = "PASS"  # noqa: S105
    DONE = "DONE"
    SKIP = "SKIP"


class Unseen(StrEnum):
    """What a run cannot show. A scenario whose claims are meant so names it under ``meant``."""

    CPU = "busy-cpu"
    PARALLEL = "parallel-jobs"
    CACHED = "page-cache"
    SHORT = "short-window"
    DRIVER = "other-driver"
    FEW = "few-ios"


READS = frozenset({"read", "randread"})
MIXED = frozenset({"rw", "readwrite", "randrw"})
RANDOM = frozenset({"randread", "randwrite", "randrw"})
"""Values of ``rw`` that only read, that both read and write, and whose requests are at random places."""


@dataclass(frozen=True)
class Source:
    report: str
    by: str = ""
    on: str = ""
    kernel: str = ""
    link: str = ""


@dataclass(frozen=True)
class Role:
    """fio jobs of one purpose (victim, hog), ``numjobs`` on each of ``disks``.

    ``bs`` is in bytes, the mean of those in bssplit. ``options`` are further fio options, already checked. ``iodepth``
    and the options apply to each job. The role starts ``startdelay`` ns after the others, on each disk ``stagger`` ns
    after the previous one, within the ramp.
    """

    name: str
    disks: tuple[str, ...]
    rw: str
    bs: int
    iodepth: int
    ioengine: str
    direct: bool
    options: Mapping[str, str] = field(default_factory=dict)
    stagger: int = 0
    startdelay: int = 0
    numjobs: int = 1

    @property
    def jobs(self) -> int:
        """The jobs on all of its disks."""
        return len(self.disks) * self.numjobs

    @property
    def delays(self) -> tuple[int, ...]:
        """How late its jobs on each disk start, in ns."""
        return tuple(self.startdelay + place * self.stagger for place in range(len(self.disks)))

    @property
    def depth(self) -> int:
        """Requests that its jobs have in flight on each disk."""
        return self.numjobs * self.iodepth

    @property
    def disk(self) -> str:
        """The disk of a role on one disk, such as those of ``apart``. Raises ValueError for several disks."""
        (disk,) = self.disks
        return disk

    @property
    def sizes(self) -> Mapping[int, int]:
        """The sizes of its requests in bytes, each with its share in percent."""
        return of_split(split) if (split := self.options.get("bssplit")) else {self.bs: PERCENT}

    @property
    def polls(self) -> bool:
        """Whether it polls for completions, in a queue that raises no interrupts."""
        return self.options.get("hipri") == "1"

    @property
    def pace(self) -> float:
        """Requests a second at most of each job, by its thinktime, rate_iops and rate; infinite without any.

        fio limits reads and writes apart, so a mix has twice its rate, and takes rate_iops for the smallest size.
        """
        think = float(self.options.get("thinktime", 0)) / int(self.options.get("thinktime_blocks", 1))
        ways = 2 if self.mixes else 1
        by_count = float(self.options.get("rate_iops", math.inf)) * min(self.sizes) / self.bs
        by_bytes = float(self.options.get("rate", math.inf)) / self.bs
        return min(1e6 / think if think else math.inf, ways * by_count, ways * by_bytes)

    @property
    def mixes(self) -> bool:
        """Whether it both reads and writes."""
        return self.rw in MIXED and 0 < int(self.options.get("rwmixread", 50)) < PERCENT

    @property
    def cpus(self) -> tuple[int, ...]:
        """The CPUs that it runs on, in the order of the file; empty for all."""
        parts = (part.partition("-") for part in self.options.get("cpus", "").split(",") if part)
        return tuple(cpu for first, _, last in parts for cpu in range(int(first), int(last or first) + 1))

    def apart(self) -> tuple["Role", ...]:
        """The role as one role for each disk, ``NAME.DISK``; these take its CPUs in turn."""
        if len(self.disks) == 1:
            return (self,)
        return tuple(
            replace(
                self,
                name=f"{self.name}.{disk}",
                disks=(disk,),
                options={**self.options, "cpus": str(self.cpus[place % len(self.cpus)])} if self.cpus else self.options,
            )
            for place, disk in enumerate(self.disks)
        )


def of_split(text: str) -> Mapping[int, int]:
    """Sizes in bytes of fio's bssplit, each with its share in percent."""
    return {parse_size(size): int(share) for size, _, share in (part.partition("/") for part in text.split(":"))}


PERCENT = 100


def mean_size(sizes: Mapping[int, int]) -> int:
    """The mean in bytes of sizes with their shares in percent."""
    return round(sum(size * share for size, share in sizes.items()) / PERCENT)


@dataclass(frozen=True)
class Load:
    """Roles that run together for ``runtime`` ns after ``ramp`` ns; ``lost`` are paths that fail for a part of it.

    ``published`` is for how many ns the machine ran the test that it stands for, 0 where none is known. The roles of
    ``prepare`` run before it, one after another, each once over its size; then its files are laid out and the page
    cache is emptied (filesystems), and the roles of ``warm`` run. ``folios``: those of its page cache are traced.
    """

    name: str
    roles: Mapping[str, Role]
    runtime: int
    ramp: int
    lost: tuple[Loss, ...] = ()
    published: int = 0
    prepare: tuple[Role, ...] = ()
    warm: tuple[Role, ...] = ()
    folios: bool = False
    events: tuple[Event, ...] = ()

    def windows(self, count: int) -> tuple["Load", ...]:
        """The load once for each window of a boot, ``NAME.NUMBER`` if there are several."""
        if count == 1:
            return (self,)
        return tuple(replace(self, name=f"{self.name}.{number}") for number in range(1, count + 1))

    @property
    def jobs(self) -> int:
        return sum(role.jobs for role in self.roles.values())

    def tells_hits(self, role: Role) -> bool:
        """Whether its disks read what the buffered ``role`` lacks in the page cache, within its window, and no more."""
        others = {disk for other in self.roles.values() if other.name != role.name for disk in other.disks}
        return role.rw in READS and not (role.direct or self.ramp or others.intersection(role.disks))

    def apart(self) -> "Load":
        """The same I/O with one role for each disk."""
        return replace(self, roles={part.name: part for role in self.roles.values() for part in role.apart()})


@dataclass(frozen=True)
class Arm:
    """One setting of the parameters: a topology with its limits applied, and the queue settings.

    ``queue`` maps attributes of /sys/block/DEV/queue (scheduler, nr_requests, read_ahead_kb ...) to values, for every
    LUN. ``settings`` are the arm's settings as the file has them, for the report.
    """

    name: str
    topology: Topology
    queue: Mapping[str, str]
    settings: Mapping[str, str] = field(metadata=WORDS)
    teaches: str = field(default="", metadata=WORDS)


@dataclass(frozen=True)
class Operand:
    """``arm.load.role.metric``, ``bound.NAME``, ``baseline.arm.load.role.metric`` or a number."""

    kind: str
    path: tuple[str, ...]
    number: float = 0.0

    @property
    def arm(self) -> str:
        """Raises ValueError for a number, as ``key`` does."""
        arm, *_ = self.path
        return arm

    @property
    def key(self) -> tuple[str, str, str]:
        """(load, role, metric)"""
        _, load, role, metric = self.path
        return load, role, metric


@dataclass(frozen=True)
class Ratio:
    """``left / right``, or ``left`` alone if ``right`` is None. ``text`` is the expression as written."""

    text: str
    left: Operand
    right: Operand | None

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.left,) if self.right is None else (self.left, self.right)


@dataclass(frozen=True)
class Bound:
    """Limits of a figure; None is no limit. An open limit excludes the limit itself. ``text`` is as written."""

    text: str
    low: float | None
    high: float | None
    low_open: bool = False
    high_open: bool = False

    def holds(self, value: float) -> bool:
        above = self.low is None or (value > self.low if self.low_open else value >= self.low)
        below = self.high is None or (value < self.high if self.high_open else value <= self.high)
        return above and below

    def decides(self, low: float, high: float) -> bool:
        """Whether all values between two ends hold, or none does."""
        outside = (self.low is not None and high < self.low) or (self.high is not None and low > self.high)
        return outside or (self.holds(low) and self.holds(high))


@dataclass(frozen=True)
class KnownFailure:
    """A range of kernels on which a claim is known to fail, and why."""

    kernels: str
    because: str = field(metadata=WORDS)
    link: str = field(metadata=WORDS)


@dataclass(frozen=True)
class Claim:
    """``means`` and ``otherwise`` are shown when the claim holds and when it fails.

    ``kernels`` is the range for which the claim is made; empty: all. No person has set the bound of a ``draft``: it is
    shown and decides nothing.
    """

    that: str = field(metadata=WORDS)
    ratio: Ratio
    expect: Bound
    optional: bool = False
    means: str = field(default="", metadata=WORDS)
    otherwise: str = field(default="", metadata=WORDS)
    known: tuple[KnownFailure, ...] = ()
    kernels: str = ""
    draft: bool = False

    @property
    def decides(self) -> bool:
        return not (self.optional or self.draft)


@dataclass(frozen=True)
class Control:
    """A negative control: a ratio that must be within ``expect``, in this run or on the kernel ``mutant``.

    ``hangs``: on the mutant, a guest that hangs fulfils the control too.
    """

    that: str = field(metadata=WORDS)
    ratio: Ratio
    expect: Bound
    mutant: str = ""
    kernels: str = ""
    hangs: bool = False


@dataclass(frozen=True)
class Condition:
    ratio: Ratio
    expect: Bound


@dataclass(frozen=True)
class Diagnosis:
    """Why claims of these arms and loads fail, when all conditions hold. It is shown, and decides nothing."""

    that: str
    when: tuple[Condition, ...]


@dataclass(frozen=True)
class Reproduction:
    """A ratio of the field report.

    ``reported`` is None where the report has no figure but describes it ``in_words``. ``because`` says why the lab's
    figure differs.
    """

    that: str
    ratio: Ratio
    reported: float | None
    in_words: str = field(default="", metadata=WORDS)
    because: str = field(default="", metadata=WORDS)


@dataclass(frozen=True)
class Agreement:
    """A ratio that ``scenario``, of the virtual clock, has as ``theirs``. ``because`` says why they differ."""

    that: str
    ratio: Ratio
    scenario: str
    theirs: str
    because: str = field(default="", metadata=WORDS)


@dataclass(frozen=True)
class Requirements:
    """What a kernel must have besides the needs of its topology: options without ``CONFIG_``, and modules."""

    config: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Selftest:
    """How a scenario that tests the lab itself must end.

    ``inject`` is the fault in its guests, ``says`` must occur in the reasons, ``verify`` boots each cell twice.
    ``bottleneck`` maps ``ARM.LOAD`` to what must be found to limit it.
    """

    status: Status
    exit_code: int
    inject: str = ""
    says: str = ""
    verify: bool = False
    bottleneck: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hunt:
    """Where blklab hunt changes between CPUs: ``at`` are functions, none for those that move cache lines.

    A task that sleeps uninterruptibly for ``stuck`` ns hangs. A CPU stops behind a ``step``, block or instruction.
    """

    at: tuple[str, ...] = ()
    stuck: int = 10 * 10**9
    step: str = "block"


@dataclass(frozen=True)
class Scenario:
    """``seeds`` is the number of boots of each arm, on the wall clock at most; each measures ``windows`` times.

    ``meant`` are the things in ``Unseen`` that do not keep its claims from being judged; None in a run stored before
    the key, in which only a busy CPU did. ``digest`` covers everything measured and each bound, and its order, but no
    text for readers.
    """

    name: str
    title: str = field(metadata=WORDS)
    path: Path = field(metadata=WORDS)
    digest: str = field(metadata=WORDS)
    clock: Clock
    source: Source | None = field(metadata=WORDS)
    teaches: str = field(metadata=WORDS)
    seeds: int
    pause: int
    arms: Mapping[str, Arm]
    loads: Mapping[str, Load]
    claims: tuple[Claim, ...]
    controls: tuple[Control, ...]
    requires: Requirements = field(default_factory=Requirements)
    selftest: Selftest | None = None
    reproduces: tuple[Reproduction, ...] = ()
    windows: int = 1
    agrees: tuple[Agreement, ...] = field(default=(), metadata=WORDS)
    diagnoses: tuple[Diagnosis, ...] = field(default=(), metadata=WORDS)
    meant: tuple[Unseen, ...] | None = field(default=None, metadata=WORDS)
    hunt: Hunt | None = field(default=None, metadata=WORDS)

    @property
    def entries(self) -> "tuple[Claim | Control, ...]":
        return (*self.claims, *self.controls)

    @property
    def timing(self) -> Timing:
        return TIMINGS[self.clock]

    @property
    def is_draft(self) -> bool:
        """Whether no person has set a bound: its claims show what was measured and decide nothing."""
        return bool(self.claims) and all(claim.draft for claim in self.claims)

    @cached_property
    def measurement_digest(self) -> str:
        """Identifies what the boots measure: unlike ``digest`` it does not change with bounds."""
        return identity((self.clock, self.arms, self.loads, self.pause, self.windows))


def is_in(release: str, kernels: str) -> bool:
    """Whether a kernel is in a range (``lab.kernels.model``). False for a release that cannot be parsed."""
    try:
        version = Release.parse(release)
    except ValueError:
        return False
    return parse_range(kernels).has(version)

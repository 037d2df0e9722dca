# SPDX-License-Identifier: GPL-2.0-only
"""The registry of figures: a row for each, with all that claims, bounds, thresholds, reports and references ask of it.

A figure is known by (load, role, metric). The role is one of the load's, or ``guest``; with ``lun`` or ``host`` the
metric begins with the NAME of the LUN or host. ``harness.figures`` reads the values from the row's ``source``.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from functools import partial
from math import inf
from operator import attrgetter

from harness import fitted
from harness.scenario.events import io_may_fail
from harness.scenario.model import MIXED, Load, Role
from lab.base.record import INVENTORY, SAMPLES, TRACE_FILE
from lab.topology.model import Processors

FigureKey = tuple[str, str, str]
"""(load, role, metric)"""
Figures = Mapping[FigureKey, float]
Readings = Iterator[tuple[FigureKey, float]]
"""What a reader yields."""

ROLE, GUEST, LUN, HOST = "role", "guest", "lun", "host"
"""What may have a figure."""


class Basis(Enum):
    """What a figure depends on. TIME: on how fast the window's requests were served. COUNT: on their number, so that
    the quotient of two counts of one window has no time in it. CPU: on the instructions of an I/O. OTHER: a share, a
    property, what CPUs share."""

    TIME = auto()
    COUNT = auto()
    CPU = auto()
    OTHER = auto()


class Rate(Enum):
    """What a rate counts: figures that count the same have the same bound."""

    REQUESTS = auto()
    BYTES = auto()


class BootFile(StrEnum):
    """The file of a boot that a figure comes from."""

    FIO = "{load}.json"
    COUNTERS = "{load}.after"
    DISKS = "{load}.after.disks.json"
    SAMPLES = SAMPLES
    PLUGIN = "{load}.lines"
    TRACE = TRACE_FILE
    INVENTORY = INVENTORY


class Noise(StrEnum):
    """How layout and seeds move a figure: kinds that thresholds tell apart (``harness.judge.difference``).

    MOVES, LINES and EXECUTED are counts of the plugin, each of a kind of its own. NONE: a property or a share.
    """

    NONE = ""
    RATE = "rate"
    COUNTER = "counter"
    TICKS = "time by a counter of ms"
    MEAN = "mean latency"
    MEDIAN = "median latency"
    LONGEST = "longest latency"
    PERCENTILE = "percentile of latency"
    SUBMISSION_MEAN = "submission, mean latency"
    SUBMISSION_LONGEST = "submission, longest latency"
    CPU = "CPU time"
    MOVES = "transfers of lines"
    LINES = "lines"
    EXECUTED = "instructions"


class Machine(Enum):
    """What a machine must have for a figure: ``why`` another one lacks it, and the ``remedy``."""

    has: Callable[[Processors], int]
    why: str
    remedy: str

    ANY = attrgetter("cpus"), "", ""
    COUNTED = attrgetter("observed"), "its machine counts no instructions", "give machine.cpus or machine.counted"
    SEVERAL = attrgetter("several"), "its machine has one CPU", "give machine.cpus"
    NODES = attrgetter("of_node"), "its machine has one NUMA node", "give machine.nodes"

    def __init__(self, has: Callable[[Processors], int], why: str, remedy: str) -> None:
        self.has, self.why, self.remedy = has, why, remedy


@dataclass(frozen=True)
class Figure:
    """``held_by`` may be empty: no ratio names it. ``bounded``: the topology sets a bound (``bound.*``).

    ``least`` and ``most`` limit its value on any kernel. ``below``: it is counted at the LUNs below a role's device.
    ``lacks`` says why a role of a load cannot have it, ``absent`` why a boot with these figures does not have it, which
    makes its claims SKIP; each is empty otherwise.
    """

    name: str
    says: str
    source: BootFile = BootFile.FIO
    unit: str = ""
    more_is_better: bool = False
    basis: Basis = Basis.OTHER
    noise: Noise = Noise.NONE
    held_by: tuple[str, ...] = (ROLE,)
    bounded: bool = False
    rate: Rate | None = None
    below: bool = False
    least: float = 0.0
    most: float = inf
    machine: Machine = Machine.ANY
    lacks: Callable[[Load, Role], str] = lambda load, role: ""
    absent: Callable[[FigureKey, Figures], str] = lambda key, figures: ""


IOPS, RUNTIME, TOTAL_IOS, IDLE, PER_IO, SEEN = "iops", "runtime", "total_ios", "cpu.idle", "cpu.per_io", "lines.seen"
MOST_PROCESSORS = 8
LARGEST_FOLIO = 9
"""The order of 2 MiB, the largest folio that filesystems get in the page cache (MAX_PAGECACHE_ORDER on x86)."""
SLOTS = {"node": "node", "slot.lanes": "max_link_width", "slot.gts": "max_link_speed"}
"""Figures of a controller of QEMU, each with the attribute of its PCI device."""


def values_of(figures: Figures, metric: str, load: str = "") -> Iterator[tuple[FigureKey, float]]:
    """The figures of that metric, of ``load`` or of all."""
    return ((key, value) for key, value in figures.items() if key[2] == metric and load in ("", key[0]))


def on_several_cpus(load: str, figures: Figures) -> bool:
    """Whether the plugin counted what several CPUs did in a load."""
    return (load, GUEST, SEEN) in figures


def _apart(load: Load, role: Role) -> str:
    # Percentiles of two distributions cannot be combined.
    if role.numjobs > 1:
        return "fio counts its jobs apart"
    return "fio counts its reads and writes apart" if role.rw in MIXED else ""


def _single(load: Load, role: Role) -> str:
    return "" if role.numjobs > 1 else "it is known of a role with numjobs"


def _errorless(load: Load, role: Role) -> str:
    return "" if io_may_fail(load.events) else "its load has no event with errors"


def _fio() -> Iterator[Figure]:
    rate = partial(Figure, basis=Basis.TIME, noise=Noise.RATE, more_is_better=True, bounded=True)
    yield rate(IOPS, "I/Os of the window that did not fail", unit="1/s", rate=Rate.REQUESTS)
    yield rate("bw", "bytes of the window", unit="B/s", rate=Rate.BYTES)
    share = partial(rate, unit="1/s", bounded=False, lacks=_single)
    yield share("job.iops.min", "I/Os of the window of the slowest job of a role with numjobs")
    yield share("job.iops.max", "I/Os of the window of its fastest job")
    for kind in ("lat", "clat", "slat"):
        says = "latency: lat is total, clat completion, slat submission"
        latency = partial(Figure, says=says, unit="ns", basis=Basis.TIME, least=0.0 if kind == "slat" else 1.0)
        submission = kind == "slat"
        mean, longest = (Noise.SUBMISSION_MEAN, Noise.SUBMISSION_LONGEST) if submission else (Noise.MEAN, Noise.LONGEST)
        yield latency(f"{kind}.mean", noise=mean, bounded=kind == "lat")
        yield latency(f"{kind}.max", noise=longest)
        for name in () if submission else ("p50", "p90", "p99", "p99.9"):
            noise = Noise.MEDIAN if name == "p50" else Noise.PERCENTILE
            yield latency(f"{kind}.{name}", noise=noise, lacks=_apart)
    says = "blocks that a role with verify read and that were not what had been written there"
    yield Figure("verify.bad", says, lacks=lambda load, role: "" if _errorless(load, role) else "errors counts them")
    yield Figure("errors", "I/Os that failed, bad blocks of a role with verify among them", lacks=_errorless)
    for name, unit in ((TOTAL_IOS, ""), (RUNTIME, "ns")):
        yield Figure(name, "recorded for other figures", unit=unit, basis=Basis.TIME, held_by=())


_WAYS = ("reads", "writes", "discards")


def _diskstats() -> Iterator[Figure]:
    def uncounted(key: FigureKey, figures: Figures) -> str:
        return "/proc/diskstats of this kernel has no flushes, which Linux 5.5 and later have"

    says = "/proc/diskstats of the role's block device (disk) or summed over the LUNs below it (members), with the ramp"
    says_both = "reads and writes there, not discards; bios are requests and what was merged into them"
    says_flushes = "flush requests there, which writes include and sectors do not"
    for where in ("disk", "members"):
        count = partial(Figure, says=says, source=BootFile.COUNTERS, below=where == "members")
        if where == "disk":  # Where a role's device is a stack, its members have their own.
            count = partial(count, held_by=(ROLE, LUN))
        counter = partial(count, basis=Basis.COUNT, noise=Noise.COUNTER)
        time = partial(count, unit="ms", basis=Basis.TIME, noise=Noise.TICKS)
        for way in _WAYS:
            yield counter(f"{where}.{way}")
            yield counter(f"{where}.{way}.merged")
            yield counter(f"{where}.{way}.sectors", unit="sectors")
            yield time(f"{where}.{way}.ms")
        yield counter(f"{where}.flushes", says=says_flushes, absent=uncounted)
        yield time(f"{where}.flushes.ms", says=says_flushes, absent=uncounted)
        yield time(f"{where}.busy.ms")
        yield time(f"{where}.weighted.ms")
        both = partial(counter, says=says_both)
        for name in ("merges", "requests", "bios"):
            yield both(f"{where}.{name}")
        yield both(f"{where}.sectors", unit="sectors")
    yield Figure(
        "paths.busiest",
        "the busiest LUN's share of the requests below: 1 for one path in use, 0.5 for two used equally",
        BootFile.COUNTERS,
        most=1.0,
    )
    yield Figure(
        "page_cache.hits",
        "share of the bytes read by a buffered role that its device did not read; 0 where read-ahead and metadata make "
        "that as much or more",
        BootFile.COUNTERS,
        more_is_better=True,
        most=1.0,
        lacks=_no_hits,
    )
    says = "how fast md goes over its members, of all arrays together"
    rate = partial(Figure, unit="B/s", basis=Basis.TIME, noise=Noise.RATE, more_is_better=True)
    yield rate("resync.bw", says, BootFile.COUNTERS)


def _no_hits(load: Load, role: Role) -> str:
    # /proc/diskstats have the ramp, and fio's bytes do not.
    known = "it is known of a buffered role that only reads, from a disk of its own, with ramp: 0s"
    return "" if load.tells_hits(role) else known


def _folios() -> Iterator[Figure]:
    def unsized(key: FigureKey, figures: Figures) -> str:
        return "the kernel's trace does not say how large a folio is, which Linux 5.17 and later do"

    says = "folios that the page cache got for files on the role's filesystem, their size, and how many have 2^N pages"
    folio = partial(Figure, says=says, source=BootFile.TRACE, basis=Basis.COUNT, noise=Noise.COUNTER)
    untraced = "they are counted in a load with folios: true"
    folio = partial(folio, lacks=lambda load, role: "" if load.folios else untraced, absent=unsized)
    yield folio("folios")
    yield folio("folios.sectors", unit="sectors")
    yield from (folio(f"folios.order{order}") for order in range(LARGEST_FOLIO + 1))


def _controllers() -> Iterator[Figure]:
    says = "interrupts of the role's controllers (QEMU's), and those of them that one CPU took"
    count = partial(Figure, says=says, source=BootFile.COUNTERS, basis=Basis.COUNT, noise=Noise.COUNTER)
    yield count("interrupts")
    yield from (count(f"interrupts.cpu{number}") for number in range(MOST_PROCESSORS))
    says = "the NUMA node of the role's controllers (QEMU's), and the width and GT/s of their slots"
    yield from (Figure(name, says, BootFile.INVENTORY, more_is_better=True) for name in SLOTS)


def _modelled_disks() -> Iterator[Figure]:
    # fio's own rates include the time after the window in which requests in flight complete.
    says = "at the modelled disks (driver tcmu) below a role's devices, within the window alone"
    rate = partial(Figure, says=says, source=BootFile.DISKS, more_is_better=True, below=True)
    rate = partial(rate, basis=Basis.TIME, noise=Noise.RATE)
    yield rate("members.bw", unit="B/s", rate=Rate.BYTES)
    yield rate("members.iops", unit="1/s", rate=Rate.REQUESTS)
    yield Figure(
        "members.seeks",
        "share of the requests at the modelled disks that began elsewhere than the one before ended; disks without "
        "seek and rotation count none",
        BootFile.DISKS,
        below=True,
        most=1.0,
    )


def _cpu() -> Iterator[Figure]:
    def in_ticks(key: FigureKey, figures: Figures) -> str:
        load = key[0]
        if any(value for _, value in values_of(figures, IOPS, load)) and _idle(load, figures) > fitted.KNOWN_IDLE:
            return "idle time is known in ticks only, which do not tell what an I/O costs a CPU that is often idle"
        return ""

    says = "CPU time of each I/O of the load; under the virtual clock that many instructions"
    cost = partial(Figure, source=BootFile.SAMPLES, unit="ns", basis=Basis.CPU, noise=Noise.CPU, least=1.0)
    yield cost(PER_IO, says, absent=in_ticks)
    says = "share of the window in which the CPUs were idle"
    yield Figure(IDLE, says, BootFile.SAMPLES, most=1.0, more_is_better=True, held_by=(GUEST,))


def _idle(load: str, figures: Figures) -> float:
    return figures.get((load, GUEST, IDLE), 0.0)


def _plugin() -> Iterator[Figure]:
    """A role has the counts of its CPUs, where no other role runs on them; ``guest`` those of all CPUs."""
    count = partial(Figure, source=BootFile.PLUGIN, held_by=(ROLE, GUEST))
    lines = partial(count, machine=Machine.SEVERAL)
    says = "per I/O, transfers of cache lines between CPUs in the order in which they executed: depends on the turn"
    yield lines(SEEN, says, noise=Noise.MOVES)
    says = "per I/O, transfers that follow from who reads and writes each line in each I/O, in any order"
    yield lines("lines.footprint", says, noise=Noise.MOVES)
    says = "those of lines.footprint from a CPU of another NUMA node, where the guest has several (machine.nodes)"
    yield count("lines.remote", says, noise=Noise.LINES, machine=Machine.NODES)
    says = "lines that several CPUs use and one writes, in the window"
    yield lines("lines.written", says, noise=Noise.LINES)
    executed = partial(count, noise=Noise.EXECUTED, machine=Machine.COUNTED)
    yield executed(
        "syncs", "per I/O, fsyncs and fdatasyncs of fio; they are no I/Os, and what they execute is their I/Os'"
    )
    yield executed("atomics", "per I/O, locked instructions")
    yield executed("locks", "per I/O, acquisitions of spinlocks, rwlocks and mutexes")
    says = "per I/O, instructions while each of them is held; those within another one count twice"
    yield executed("locks.held", says)
    yield executed("instructions", "per I/O, instructions of the kernel and of programs")


def _named_lines() -> Iterator[Figure]:
    """NAME is a symbol of the kernel, without what gcc appends to it."""

    def no_symbol(key: FigureKey, figures: Figures) -> str:
        if not on_several_cpus(key[0], figures):
            return ""
        return f"the kernel has no function or variable {named(*key[1:])[0]}, or inlines it"

    line = partial(Figure, source=BootFile.PLUGIN, held_by=(GUEST,), noise=Noise.EXECUTED)
    line = partial(line, machine=Machine.SEVERAL, absent=no_symbol)
    says = "as lines and locks, of lines that the function NAME itself (no callee) writes, or the variable NAME is in"
    for count in ("seen", "footprint", "locks", "locks.held"):
        yield line(f"line.NAME.{count}", says)


def _sampled() -> Iterator[Figure]:
    sample = partial(Figure, source=BootFile.SAMPLES, basis=Basis.TIME)
    says = (
        "tags (null_blk, NVMe) or commands (SCSI) of a LUN, or of all LUNs of a host; a command that waits for "
        "cmd_per_lun may hold a tag besides"
    )
    for what in ("tags", "commands"):
        yield sample(f"{what}.mean", says, held_by=(LUN, HOST))
        yield sample(f"{what}.max", says, held_by=(LUN,))
        yield sample(f"{what}.none", "share of the samples without any", held_by=(LUN,), most=1.0)
    says = "iodepth of the load on the LUN less its tags or commands; not of roles that pace themselves"
    yield sample("waiting.mean", says, held_by=(LUN,))
    yield sample("device.mean", "requests at a modelled disk, by this path", source=BootFile.DISKS, held_by=(LUN,))
    yield sample("tags.free", "the rest of can_queue; not for SCSI, nor for LUNs that share no tags", held_by=(HOST,))


FIGURES: Mapping[str, Figure] = {
    figure.name: figure
    for family in (
        *(_fio(), _cpu(), _diskstats(), _folios(), _controllers(), _modelled_disks()),
        *(_plugin(), _named_lines(), _sampled()),
    )
    for figure in family
}
FUNCTION = Figure(
    "function.NAME",
    "per I/O, instructions of the function NAME itself, no callee, by a profile",
    BootFile.PLUGIN,
    held_by=(),
    noise=Noise.EXECUTED,
)
"""Of a tracker: no boot that a scenario asks for has it."""
_UNKNOWN = Figure("", "of another version, or of a setting under try:", basis=Basis.TIME, held_by=())
_OF_LINE = re.compile(r"line\.(\w+)\.(.+)")
_OF_FUNCTION = re.compile(r"function\.(\w+)")


def held_by(holder: str) -> tuple[str, ...]:
    """The figures that a role, ``guest``, a LUN or a host has."""
    return tuple(name for name, figure in FIGURES.items() if holder in figure.held_by)


OF_ROLES = held_by(ROLE)
COUNTED = tuple(name for name in OF_ROLES if GUEST in FIGURES[name].held_by)
"""What the plugin counts of a role, and of all CPUs."""


def named(role: str, metric: str) -> tuple[str, Figure]:
    """The LUN, host or symbol in a metric ("" where it has none), and the row of its figure."""
    name, _, rest = metric.partition(".")
    if role in (LUN, HOST) and role in FIGURES.get(rest, _UNKNOWN).held_by:
        return name, FIGURES[rest]
    if match := _OF_LINE.fullmatch(metric):
        return match[1], FIGURES.get(f"line.NAME.{match[2]}", _UNKNOWN)
    if match := _OF_FUNCTION.fullmatch(metric):
        return match[1], FUNCTION
    return "", FIGURES.get(metric, _UNKNOWN)


def figure_of(role: str, metric: str) -> Figure:
    """The row of a figure; one without a name where no row has it."""
    return named(role, metric)[1]

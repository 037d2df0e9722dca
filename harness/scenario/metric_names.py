# SPDX-License-Identifier: GPL-2.0-only
"""The figures of a role that a ratio may use."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto


class Basis(Enum):
    """What a figure depends on. TIME: on how fast the window's requests were served. COUNT: on their number, so that
    the quotient of two counts of one window has no time in it. OTHER: the CPU itself, a share, a property."""

    TIME = auto()
    COUNT = auto()
    OTHER = auto()


@dataclass(frozen=True)
class Metric:
    """``bounded``: the topology sets a bound (``bound.*``)."""

    unit: str
    more_is_better: bool
    bounded: bool = False
    percentile: bool = False
    basis: Basis = Basis.TIME


def _counter_unit(counter: str) -> str:
    last = counter.rpartition(".")[2]
    return last if last in ("ms", "sectors") else ""


_PERCENTILES = ("p50", "p90", "p99", "p99.9")
_LATENCIES = {"lat": ("mean", "max", *_PERCENTILES), "clat": ("mean", "max", *_PERCENTILES), "slat": ("mean", "max")}

COUNTED_ON = ("disk", "members")
"""The role's block device, and the sum over the LUNs below it."""
COUNTERS = (
    *(f"{way}{count}" for way in ("reads", "writes", "discards") for count in ("", ".merged", ".sectors", ".ms")),
    *("busy.ms", "weighted.ms", "merges", "requests", "bios", "sectors"),
)
"""Counters of /proc/diskstats; sums of reads and writes: ``requests`` issued, and the ``bios`` merged into them."""

HANDLED = ("members.bw", "members.iops")
"""Bytes and requests per second at the modelled disks (driver tcmu) below a role's devices, within the window only.
fio's own rates include the time after the window in which requests in flight complete."""

SEEKS = "members.seeks"
"""Share of the requests at the modelled disks that began elsewhere than the one before ended. Disks without seek and
rotation count none."""

MOST_PROCESSORS = 8
INTERRUPTS = "interrupts"
"""Interrupts of the role's controllers; ``interrupts.cpu0`` ... are those taken by one CPU."""
BUSIEST = "paths.busiest"
"""The busiest LUN's share of the requests below a role's devices: 1 for one path in use, 0.5 for two used equally."""
HITS = "page_cache.hits"
"""Share of the bytes read by a buffered role that its device did not read: 0 where read-ahead and metadata make that as
much or more. /proc/diskstats have the ramp and fio's bytes do not, so only those have it that ``Load.tells_hits``."""
LARGEST_FOLIO = 9
"""The order of 2 MiB, the largest folio that filesystems get in the page cache (MAX_PAGECACHE_ORDER on x86)."""
FOLIOS = ("folios", "folios.sectors", *(f"folios.order{order}" for order in range(LARGEST_FOLIO + 1)))
"""Folios that the page cache got for files on the role's filesystem, their size, and how many have 2^N pages."""
BAD_BLOCKS = "verify.bad"
"""Blocks that a role with `verify` read and that were not what had been written there."""
PLACES = {"node": "node", "slot.lanes": "max_link_width", "slot.gts": "max_link_speed"}
"""The NUMA node of the role's controllers (QEMU's), and the width and GT/s of their slots."""

LOCKS: Mapping[str, str] = {
    "atomics": "locked instructions",
    "locks": "acquisitions of spinlocks, rwlocks and mutexes",
    "locks.held": "instructions while each of them is held; those within another one count twice",
    "instructions": "instructions of the kernel and of programs",
}
"""Counted with one CPU too, where the topology asks for it (machine.counted)."""
REMOTE = "lines.remote"
SHARING: Mapping[str, str] = {
    "lines.seen": "transfers of cache lines between CPUs, at the length of the turns",
    "lines.footprint": "transfers that follow from who reads and writes each line, whatever the length of the turns",
    REMOTE: "those of lines.footprint from a CPU of another NUMA node, where the guest has several (machine.nodes)",
    "lines.written": "lines that several CPUs use and one writes, in the window",
    **LOCKS,
}
"""Counted where the guest has several CPUs; for each I/O, but for lines.written. A role has those of its CPUs, where no
other role runs on them; ``guest`` those of all CPUs."""
NAMED_LINES: Mapping[str, str] = {
    "line.NAME.seen": "as lines.seen, of the lines that the function NAME writes or that the variable NAME is in",
    "line.NAME.footprint": "as lines.footprint, of these lines",
    "line.NAME.locks": "acquisitions of the locks in these lines",
    "line.NAME.locks.held": "instructions while each of them is held",
}
"""Figures of ``guest`` where it has several CPUs. NAME is a symbol of the kernel, without what gcc appends to it."""
_OF_LINE = re.compile(r"line\.(\w+)\.(.+)")

METRICS: Mapping[str, Metric] = {
    "iops": Metric("1/s", more_is_better=True, bounded=True),
    "bw": Metric("B/s", more_is_better=True, bounded=True),
    **{
        f"{kind}.{figure}": Metric("ns", more_is_better=False, percentile=figure in _PERCENTILES)
        for kind, figures in _LATENCIES.items()
        for figure in figures
    },
    "lat.mean": Metric("ns", more_is_better=False, bounded=True),
    "resync.bw": Metric("B/s", more_is_better=True),
    "cpu.per_io": Metric("ns", more_is_better=False, basis=Basis.OTHER),
    **{
        f"{where}.{counter}": Metric(
            _counter_unit(counter), more_is_better=False, basis=Basis.TIME if counter.endswith(".ms") else Basis.COUNT
        )
        for where in COUNTED_ON
        for counter in COUNTERS
    },
    BUSIEST: Metric("", more_is_better=False, basis=Basis.OTHER),
    HITS: Metric("", more_is_better=True, basis=Basis.OTHER),
    **{name: Metric(_counter_unit(name), more_is_better=False, basis=Basis.COUNT) for name in FOLIOS},
    BAD_BLOCKS: Metric("", more_is_better=False, basis=Basis.OTHER),
    INTERRUPTS: Metric("", more_is_better=False, basis=Basis.COUNT),
    **{
        f"{INTERRUPTS}.cpu{number}": Metric("", more_is_better=False, basis=Basis.COUNT)
        for number in range(MOST_PROCESSORS)
    },
    **{name: Metric("", more_is_better=True, basis=Basis.OTHER) for name in PLACES},
    SEEKS: Metric("", more_is_better=False, basis=Basis.OTHER),
    **{name: Metric("", more_is_better=False, basis=Basis.OTHER) for name in SHARING},
    **{name: Metric("B/s" if name.endswith("bw") else "1/s", more_is_better=True) for name in HANDLED},
}
GUEST, LUN, HOST = "guest", "lun", "host"
"""What an operand may name in place of a role: ``arm.load.lun.NAME.tags.mean``, ``arm.load.guest.cpu.idle``."""
IDLE = "cpu.idle"
SHARES = frozenset({SEEKS, BUSIEST, HITS, IDLE})
"""At most 1, as those of ``SAMPLED`` that end in ``none``."""
SAMPLED: Mapping[str, tuple[str, ...]] = {
    LUN: (
        *(f"{what}.{figure}" for what in ("tags", "commands") for figure in ("mean", "max", "none")),
        *("waiting.mean", "device.mean"),
    ),
    HOST: ("tags.mean", "tags.free", "commands.mean"),
}
"""Sampled in the window, see ``harness.metrics.occupancy``: tags are those of null_blk and NVMe, commands SCSI's."""
_LATENCY_PREFIXES = tuple(f"{kind}." for kind in _LATENCIES)


def named_line(metric: str) -> tuple[str, str]:
    """The NAME of a figure such as line.NAME.seen, and the key of ``NAMED_LINES``; of another one "" and itself."""
    match = _OF_LINE.fullmatch(metric)
    return (match[1], f"line.NAME.{match[2]}") if match else ("", metric)


def basis(role: str, metric: str) -> Basis:
    """What a figure depends on, by its last two parts."""
    if role == GUEST:
        return Basis.OTHER
    return METRICS[metric].basis if metric in METRICS else Basis.TIME


def unit(metric: str) -> str:
    """The unit of any measured figure; empty for counts and shares."""
    if metric in METRICS:
        return METRICS[metric].unit
    return "ns" if metric.startswith(_LATENCY_PREFIXES) or metric.endswith("runtime") else ""

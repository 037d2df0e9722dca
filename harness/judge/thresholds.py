# SPDX-License-Identifier: GPL-2.0-only
"""How far layout and seeds alone move each kind of figure: the data that ``blklab check thresholds`` measures."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from harness.scenario.metric_names import GUEST, METRICS, NAMED_LINES, SHARING, Basis, named_line

DATA = Path(__file__).with_name("thresholds.json")
_LATENCIES = {"mean": "mean latency", "p50": "median latency", "max": "longest latency"}
FEW = 1000
"""Counters below it are a kind of their own: one event more is a large share of them."""
MOVED, FEW_MOVED = ("lines.seen", "lines.footprint"), (0.5, 3)
"""Transfers of all CPUs for each I/O below which they are kinds of their own. Below the first no line moves with each
I/O. Tags move more, and by chance: each CPU begins at a random tag, so one to four CPUs share a word of them."""
SLOW = 1000
"""IOPS below which a role among several is a kind of its own: few decisions of the scheduler make its share."""
BUSY = 0.95
"""Share of the CPU from which its time is exact: some kernels count an idle CPU only in ticks of 10 ms."""
SHORT, SHORT_WINDOWS = 75_000_000, ", short windows"
"""ns that fio ran, below which its rates and latencies on several CPUs are kinds of their own: it ends up to 3 ms early
or 2 late."""
SHARED_TAGS = ", shared tags"
"""Lines where CPUs share the tags of a host (it has figures there): which of them use one request's lines is chance.
Made after another layout moved scsi_debug's 5.00 transfers to 16.5 on 6.12.118; arms without such tags: up to 27 %."""
TWINS = 2
"""Times what one other layout moved a claim is what layouts may move it. Fixed before the first such boot."""
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Threshold:
    """``share`` of the first figure, and why it is as large."""

    share: float
    because: str


LARGE = Threshold(
    0.05,
    "device models are only checked to this precision; only between kernels of one configuration and compiler is a"
    " difference the code's",
)
SINGLE = 2.0
"""Factor from which two single values differ: seeds of one kernel were up to 1.5 apart (shared-queue, 6.1, victim of
one-queue-mq-deadline: 0.94 and 1.39 IOPS)."""
LEAST_ARMS = 3
"""Arms in which figures of a kind must differ between null pairs, before the largest difference is a threshold below
the general ones: figures that are equal because fio's bins are wide, or in one arm, say nothing of another arm."""


@dataclass(frozen=True)
class NullEvidence:
    """The largest relative differences of null pairs.

    ``layout``: another layout under the same seed. ``seeds``: two boots of one layout under other seeds.
    ``single``: any two boots. ``pairs`` counts those of ``layout``, ``arms`` those in which boots differ, and
    ``where`` names the figure of the largest ``layout``. ``general``: between kernels of different configuration.
    """

    layout: float
    seeds: float
    single: float
    pairs: int
    arms: int
    where: str
    general: bool = False

    @property
    def suffices(self) -> bool:
        return self.arms >= LEAST_ARMS

    def usable(self) -> "NullEvidence":
        """With the general thresholds where they are larger and the arms are too few."""
        if self.suffices:
            return self
        return replace(self, layout=max(self.layout, LARGE.share), single=max(self.single, SINGLE - 1))

    def between_configurations(self) -> "NullEvidence":
        """With the general threshold of several seeds, which one seed a side exceeds too."""
        return replace(self, layout=LARGE.share, single=max(self.single, LARGE.share), general=True)


def kind(key: Key, figures: Mapping[Key, float]) -> str:
    """The kind of a figure (load, role, metric) of a boot with these ``figures``; empty for properties and shares."""
    load, role, metric = key
    counted = named_line(metric)[1]
    if counted in SHARING or counted in NAMED_LINES:
        sizes = FEW_MOVED if role == GUEST and metric in MOVED else ()
        below = next((f" below {most}" for most in sizes if figures.get(key, 0.0) < most), "")
        tags = counted.startswith("lines.") and any(where == "host" for _, where, _ in figures)
        name, short = f"{counted}{below}, {role if role == GUEST else 'one role'}{SHARED_TAGS if tags else ''}", False
    else:
        ran = [value for (where, _, what), value in figures.items() if (where, what) == (load, "runtime")]
        name, short = _kind(key, figures), max(ran, default=SHORT) < SHORT
    if not name or (load, GUEST, "lines.seen") not in figures:
        return name
    return f"{name}, several CPUs{SHORT_WINDOWS if short else ''}"


def _kind(key: Key, figures: Mapping[Key, float]) -> str:
    load, role, metric = key
    known = METRICS.get(metric)
    if known is None or (known.basis is Basis.OTHER and known.unit != "ns"):
        return ""
    roles = [value for (where, _, name), value in figures.items() if where == load and name == "iops"]
    if known.basis is Basis.OTHER:
        busy = figures.get(key, 0.0) * sum(roles) / 1e9 >= BUSY
        return f"{metric}, CPU {'busy' if busy else 'partly idle'}"
    if metric.endswith(".ms"):
        return "time by a counter of ms"
    company = "one role"
    if len(roles) > 1:
        company = f"several roles{f', below {SLOW:,} IOPS' if figures.get((load, role, 'iops'), 0.0) < SLOW else ''}"
    if known.basis is Basis.COUNT:
        return f"counter{f' below {FEW:,}' if figures.get(key, 0.0) < FEW else ''}, {company}"
    if known.unit != "ns":
        return f"rate, {company}"
    what = _LATENCIES.get(metric.partition(".")[2], "percentile of latency")
    return f"{'submission, ' if metric.startswith('slat') else ''}{what}, {company}"


@lru_cache
def null_pairs(path: Path = DATA) -> Mapping[str, NullEvidence]:
    """What was measured, by kind; empty before the first measurement."""
    if not path.exists():
        return {}
    return {name: NullEvidence(**row) for name, row in json.loads(path.read_text())["kinds"].items()}


@lru_cache
def claim_layouts(path: Path = DATA) -> Mapping[str, Mapping[str, tuple[float, float]]]:
    """By shipped scenario and ratio of a claim: its figure on the source, and by how much layout moves it.

    That is by the kinds of its figures, or ``TWINS`` times what one other layout moved the claim itself, where its
    bound is nearer than the kinds say: the most moved figure of a kind says little of one that a rate limits.
    """
    rows = json.loads(path.read_text()).get("claims", {}) if path.exists() else {}
    return {name: {ratio: (value, layout) for ratio, (value, layout) in own.items()} for name, own in rows.items()}


@lru_cache
def evidence(path: Path = DATA, *, same: bool = True) -> Mapping[str, NullEvidence]:
    """What compare uses, by kind. ``same``: between kernels of the same configuration."""
    usable = {name: pairs.usable() for name, pairs in null_pairs(path).items()}
    return usable if same else {name: pairs.between_configurations() for name, pairs in usable.items()}


def single_share(key: Key, figures: Mapping[Key, float]) -> float:
    """By which share a figure must differ between kernels with one seed a side."""
    known = evidence(same=False).get(kind(key, figures))
    return known.single if known else SINGLE - 1

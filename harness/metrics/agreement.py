# SPDX-License-Identifier: GPL-2.0-only
"""Whether fio's counts agree with what else was counted in their window: each rule holds for every boot.

Two rules are about I/Os of one size that reach a LUN one by one: those of direct roles on LUNs without a stack. A role
that paces itself, or whose I/Os wait long, leaves room for other counts.
"""

from collections.abc import Iterator, Mapping
from math import nan

from harness.metrics.occupancy import read_handler
from harness.scenario.model import Arm, Load, Role
from harness.scenario.registry import Figures

_SECTOR = 512
_ROUNDING = 1.001
"""fio prints means with few digits; the fullest of 191 windows of 18 scenarios was at 0.9955 of its room."""


def disagreements(files: Mapping[str, bytes], arm: Arm, load: Load, figures: Figures) -> Iterator[str]:
    """What I/Os of each role disagree with: its latencies, /proc/diskstats, the counters of its modelled disk."""
    topology, counts = arm.topology, arm.queue.get("iostats") != "0"
    moved: dict[str, tuple[float, float]] = {}
    for role in load.roles.values():
        yield from _latencies(load, role, figures)
        luns = {topology.region(disk).lun for disk in role.disks}
        plain = role.direct and len(role.sizes) == 1 and not topology.stacks.keys() & {*role.disks}
        if len(luns) == 1 and plain and role.rw != "trim":
            (lun,) = luns
            done = figures[load.name, role.name, "disk.sectors"] * _SECTOR
            counted, _ = moved.get(lun, (0.0, done))
            moved[lun] = (counted + figures[load.name, role.name, "total_ios"] * role.bs, done)
            if sum(topology.region(disk).lun == lun for other in load.roles.values() for disk in other.disks) == 1:
                yield from _served(files, load, role, lun, figures)
    for lun, (counted, done) in moved.items():
        if counted > done and counts:
            yield f"{counted:.0f} bytes of LUN {lun} in the window, /proc/diskstats has {done:.0f} with the ramp"


def _latencies(load: Load, role: Role, figures: Figures) -> Iterator[str]:
    """I/Os of one slot of the queue come one after another; the first and the last reach out of the window."""
    ios, mean, longest, ran = (
        figures.get((load.name, role.name, metric), nan) for metric in ("total_ios", "lat.mean", "lat.max", "runtime")
    )
    slots = role.iodepth * len(role.disks)
    if ios * mean > slots * (max(ran, load.runtime) + 2 * longest) * _ROUNDING:
        yield f"{ios:.0f} I/Os of {role.name}, {mean:.0f} ns each: more than {slots} at a time are in flight"


def _served(files: Mapping[str, bytes], load: Load, role: Role, lun: str, figures: Figures) -> Iterator[str]:
    """A modelled disk counts in nearly the same window; what is in flight at its ends may be in one count alone."""
    before, after = files.get(f"{load.name}.before.disks.json"), files.get(f"{load.name}.after.disks.json")
    if before is None or after is None or not load.ramp or figures[load.name, role.name, "runtime"] < load.runtime:
        return
    handler = read_handler(before, after, load.name)
    if lun in handler.paths:
        served, counted = handler.paths[lun].bytes / role.bs, figures[load.name, role.name, "total_ios"]
        edges = 2 * role.iodepth + 1 + served * abs(1 - handler.time / load.runtime)
        if abs(served - counted) > edges:
            yield f"{counted:.0f} I/Os of {role.name}, {load.name}.after.disks.json has {served:.0f}"

# SPDX-License-Identifier: GPL-2.0-only
"""Measures what an I/O costs the CPU of a guest, by driver: the rows of CPU_COSTS in harness/limits/cost.py.

Reads and writes of 4 and 256 KiB on one disk, at depths of 1, 4 and 16, without an elevator and with two of them. A row
is above all of them.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

from harness.commands.boots import bench_of, kernel_of
from harness.commands.options import JOBS, KERNEL, RESULTS, tell
from harness.commands.parser import Command, option
from harness.limits.cost import CPU_COSTS, CpuCost
from harness.limits.entries import load_scenario
from harness.record.judging import results_of
from harness.run.bench import Bench
from harness.run.plan import Request
from harness.scenario.registry import PER_IO, values_of
from lab.base.errors import EXIT_PASS
from lab.kernels.model import Kernel
from lab.topology.model import Driver
from tools.command import tool

SMALL, LARGE = 4, 256
"""KiB"""
DEPTH, LARGE_DEPTH = 16, 4
LOADS = {
    f"{rw[4:]}-{kib}k-{depth}": (rw, kib, depth)
    for rw in ("randread", "randwrite")
    for kib, depth in ((SMALL, 1), (SMALL, DEPTH), (LARGE, LARGE_DEPTH))
}
_ELEVATORS = ("none", "mq-deadline", "bfq")
_STEP, _KIB_STEP = 1000, 10
"""Nanoseconds to which a row is rounded."""
_SERVED: Mapping[str, object] = {"size": "1G", "service": "2ms"}


def _topology(driver: str, disk: Mapping[str, object] = _SERVED) -> dict[str, object]:
    return {
        "memory": "512M",
        "disks": {"a": disk},
        "hbas": {"h": {"driver": driver, "can_queue": 128}},
        "luns": {"a": {"hba": "h", "disks": ["a"]}},
    }


TOPOLOGIES: dict[Driver, dict[str, object]] = {
    **{driver: _topology(driver) for driver in (Driver.NULL_BLK, Driver.SCSI_DEBUG, Driver.TCM_LOOP)},
    # So slow that the CPU keeps up with 4 KiB.
    Driver.TCMU: _topology(Driver.TCMU, {"size": "1G", "rate": "60 MB/s"}),
    Driver.NVMET_TCP: {
        **_topology(Driver.NVMET_TCP),
        "luns": {"l": {"hba": "h", "disks": ["a"]}},
        "stacks": {"n": {"kind": "nvme", "over": ["l"]}},
    },
}


def scenario(driver: Driver) -> dict[str, object]:
    """The loads on one disk of the driver, as a scenario's file has them."""
    disk = "n" if driver is Driver.NVMET_TCP else "a"
    reads, writes = (f"none.{rw}-256k-4.one.cpu.per_io / none.{rw}-4k-16.one.cpu.per_io" for rw in ("read", "write"))
    return {
        "scenario": "costs",
        "title": f"CPU time of an I/O with {driver}",
        "schema": 1,
        "seeds": 1,
        "window": {"ramp": "100ms", "runtime": "500ms"},
        "topology": TOPOLOGIES[driver],
        "arms": {name: {"queue.scheduler": name} for name in _ELEVATORS},
        "loads": {
            name: {
                "one": {
                    **{"disk": disk, "rw": rw, "bs": f"{kib}k", "iodepth": depth},
                    **({"zero_buffers": True} if rw == "randwrite" else {}),
                }
            }
            for name, (rw, kib, depth) in LOADS.items()
        },
        "claims": [{"that": "256 KiB cost no less than 4", "ratio": reads, "expect": ">= 0.9"}],
        "controls": [{"that": "of a write they do not cost half", "ratio": writes, "expect": "> 0.5"}],
    }


def measure(bench: Bench, kernel: Kernel, driver: Driver) -> dict[tuple[str, str], float]:
    """Nanoseconds of an I/O by elevator and load. Raises what a run raises."""
    with tempfile.TemporaryDirectory(prefix="blklab-costs-") as folder:
        path = Path(folder) / "costs.yaml"
        path.write_text(json.dumps(scenario(driver)))
        request = Request(load_scenario(str(path)), kernel, seeds=1)
    run = bench.run(bench.plan(request)).folder
    return {
        (result.arm, load): ns for result in results_of(run) for (load, _, _), ns in values_of(result.figures, PER_IO)
    }


def row(costs: Mapping[tuple[str, str], float]) -> CpuCost:
    """The row for what was measured."""
    alone, queued, large = (
        max(ns for (_, load), ns in costs.items() if LOADS[load][1:] == kind)
        for kind in ((SMALL, 1), (SMALL, DEPTH), (LARGE, LARGE_DEPTH))
    )
    kib = _KIB_STEP * ceil((large - queued) / (LARGE - SMALL) / _KIB_STEP)
    requests = [_STEP * ceil((ns - kib * SMALL) / _STEP) for ns in (alone, queued)]
    return CpuCost(requests[0], requests[1], kib)


class Costs(Command):
    kernel: str = KERNEL
    driver: Sequence[str] = option(action="append", default=[], choices=[*map(str, TOPOLOGIES)], help="default: all")
    results: str | None = RESULTS
    jobs: int = JOBS

    def __call__(self) -> int:
        bench, built = bench_of(self.results, self.jobs, folder="costs"), kernel_of(self.kernel)
        for own in map(Driver, self.driver or TOPOLOGIES):
            costs = measure(bench, built, own)
            for (elevator, load), ns in costs.items():
                tell(f"{own} {elevator} {load} {ns:,.0f} ns")
            fitted, known = row(costs), CPU_COSTS[own]
            note = "" if fitted == known else f"  # the table has {known.alone:_}, {known.queued:_}, {known.kib:_}"
            print(f"    Driver.{own.name}: CpuCost({fitted.alone:_}, {fitted.queued:_}, {fitted.kib:_}),{note}")
        return EXIT_PASS


main = tool("costs", "Measure what an I/O costs the CPU of a guest, by driver.", Costs)


if __name__ == "__main__":
    sys.exit(main())

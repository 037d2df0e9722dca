# SPDX-License-Identifier: GPL-2.0-only
"""What the guest read back after set-up: knobs with their effective values, and device names."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from harness.metrics.node import MeasurementError
from lab.base.record import NOTHING_THERE, ROUTED_BY_KERNEL, TRIED

FILE = "readback"
_DEVICE = "device"
_FIELDS = 3
# The scheduler is set first: where its file is not there, neither is the disk.
_ABSENT = re.compile(rf"queue\.(iosched/|(?!scheduler))(\S+)\[\S+\]: {NOTHING_THERE} ")
_MANAGED = re.compile(rf"hba\.interrupts\[(\S+)\]: {ROUTED_BY_KERNEL} (\d+) ")


@dataclass(frozen=True)
class Reading:
    """A knob, the sysfs path it was read from, and its effective value."""

    knob: str
    path: str
    value: str


def read_readback(data: bytes) -> tuple[Reading, ...]:
    """Rows ``knob<TAB>path<TAB>value`` in the guest's order. Raises MeasurementError."""
    readings = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        fields = line.split("\t")
        if len(fields) != _FIELDS:
            raise MeasurementError(FILE, f"line {number} has {len(fields)} fields, not {_FIELDS}")
        readings.append(Reading(*fields))
    return tuple(readings)


def read_tried(data: bytes) -> dict[tuple[str, str, str], float]:
    """Figures ``("tried", "accepted" | "effective", knob)``. Raises MeasurementError."""
    figures = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        knob, _, accepted, value, *rest = [*line.split("\t"), *[""] * 4][: max(4, line.count("\t") + 1)]
        if rest or accepted not in {"0", "1"} or not value.isdecimal():
            raise MeasurementError(TRIED, f'line {number} is not a knob, a path, 0 or 1, and a number: "{line}"')
        figures[TRIED, "accepted", knob] = float(accepted)
        figures[TRIED, "effective", knob] = float(value)
    return figures


def refused(unfit: str, scheduler: str, release: str) -> str:
    """Which setting the kernel does not let anybody have; empty where a guest could not be set up for another reason.

    ``unfit`` is what the guest said; ``scheduler`` is the elevator that it was to use.
    """
    if absent := _ABSENT.search(unfit):
        return f"{scheduler if absent[1] else 'a queue'} of {release} has no attribute {absent[2]}"
    managed = _MANAGED.search(unfit)
    return f"{release} routes interrupt {managed[2]} of {managed[1]} itself" if managed else ""


def devices(readings: tuple[Reading, ...]) -> dict[str, str]:
    """Name of a LUN -> the kernel's name of its block device (``sda``, ``nullb0``)."""
    return {PurePosixPath(row.path).name: row.value for row in readings if row.knob == _DEVICE}

# SPDX-License-Identifier: GPL-2.0-only
"""What the guest read back after set-up: knobs with their effective values, and device names."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from harness.metrics.errors import MeasurementError

FILE = "readback"
_DEVICE = "device"
_FIELDS = 3


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


def devices(readings: tuple[Reading, ...]) -> dict[str, str]:
    """Name of a LUN -> the kernel's name of its block device (``sda``, ``nullb0``)."""
    return {PurePosixPath(row.path).name: row.value for row in readings if row.knob == _DEVICE}

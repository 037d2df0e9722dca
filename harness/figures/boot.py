# SPDX-License-Identifier: GPL-2.0-only
"""The files that a boot left, read strictly: whatever is missing or odd is an error that names the file and field."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from harness.scenario.model import Load
from lab.base.errors import CannotJudge
from lab.base.reading import parse_json
from lab.base.units import printable
from lab.topology.model import Topology

READBACK = "readback"
_FIELDS = 3
_DEVICE = "device"


class MeasurementError(CannotJudge):
    """``file`` (as the guest named it) does not hold what was to be measured."""

    def __init__(self, file: str, what: str, *, remedy: str = "") -> None:
        super().__init__(printable(f"{file}: {what}"), remedy=remedy)
        self.file = file


_CONSOLE = "look at console.txt of this boot"


def sent(files: Mapping[str, bytes], name: str, remedy: str = _CONSOLE) -> bytes:
    """A file of the guest. Raises MeasurementError when it did not send it."""
    if name not in files:
        raise MeasurementError(name, "the guest did not send it", remedy=remedy)
    return files[name]


def parse(data: bytes, file: str) -> "Node":
    """The document. Raises MeasurementError for an incomplete one, for NaN, and as ``lab.base.reading`` does."""
    if not data.strip():
        raise MeasurementError(file, "is empty: nothing was written to it")
    try:
        document = parse_json(data)
    except ValueError as error:
        start = data.lstrip()[:60].decode("utf-8", "replace").splitlines()[0]
        raise MeasurementError(file, f'is not complete JSON ({error}); it starts with "{start}"') from error
    return Node(document, file, "")


class Node:
    """A JSON object that knows where it stands, so that an error can name the field. All figures are positive."""

    def __init__(self, value: Any, file: str, where: str) -> None:
        if not isinstance(value, dict):
            raise MeasurementError(file, f"{where or 'the document'} is not an object")
        self._value, self._file, self._where = value, file, where

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def __iter__(self) -> Any:
        return iter(self._value)

    def _get(self, key: str) -> Any:
        if key not in self._value:
            raise self.wrong(key, "is missing")
        return self._value[key]

    def _path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def text(self, key: str) -> str:
        value = self._get(key)
        if not isinstance(value, str):
            raise self.wrong(key, "is not a string")
        return value

    def key_number(self, key: str) -> float:
        """A key that is itself a figure, as percentiles are."""
        try:
            number = float(key)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise MeasurementError(self._file, f'the name of field "{self._path(key)}" is not a figure')
        return number

    def number(self, key: str) -> float:
        value = self._get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise self.wrong(key, f"is not a figure: {value!r}")
        return float(value)

    def whole(self, key: str) -> int:
        value = self.number(key)
        if value != int(value):
            raise self.wrong(key, f"is not a whole number: {value!r}")
        return int(value)

    def node(self, key: str) -> "Node":
        return Node(self._get(key), self._file, self._path(key))

    def nodes(self, key: str) -> list["Node"]:
        items = enumerate(self.items(key))
        return [Node(item, self._file, f"{self._path(key)}[{index}]") for index, item in items]

    def items(self, key: str) -> list[Any]:
        value = self._get(key)
        if not isinstance(value, list):
            raise self.wrong(key, "is not a list")
        return value

    def wrong(self, key: str, what: str) -> MeasurementError:
        return MeasurementError(self._file, f'field "{self._path(key)}" {what}')


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
            raise MeasurementError(READBACK, f"line {number} has {len(fields)} fields, not {_FIELDS}")
        readings.append(Reading(*fields))
    return tuple(readings)


@dataclass(frozen=True)
class LoadFiles:
    """What one boot on a topology left of one load. Its names of files are those of ``registry.BootFile``."""

    files: Mapping[str, bytes]
    topology: Topology
    load: Load

    def name(self, file: str) -> str:
        return file.format(load=self.load.name)

    def get(self, file: str) -> bytes | None:
        return self.files.get(self.name(file))

    def sent(self, file: str, remedy: str = _CONSOLE) -> bytes:
        """Raises MeasurementError when the guest did not send it."""
        return sent(self.files, self.name(file), remedy)

    @cached_property
    def readback(self) -> tuple[Reading, ...]:
        return read_readback(sent(self.files, READBACK))

    @cached_property
    def devices(self) -> Mapping[str, str]:
        """Name of a LUN -> the kernel's name of its block device (``sda``, ``nullb0``)."""
        return {PurePosixPath(row.path).name: row.value for row in self.readback if row.knob == _DEVICE}

    def luns(self, disks: tuple[str, ...]) -> dict[str, None]:
        """The LUNs below these disks."""
        return dict.fromkeys(lun for disk in disks for lun in self.topology.leaves(disk))

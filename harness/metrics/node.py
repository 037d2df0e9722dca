# SPDX-License-Identifier: GPL-2.0-only
"""Measured JSON, read strictly: whatever is missing or odd is an error that names the field."""

import math
from collections.abc import Mapping
from typing import Any

from lab.base.errors import CannotJudge
from lab.base.reading import parse_json
from lab.base.units import printable


class MeasurementError(CannotJudge):
    """``file`` (as the guest named it) does not hold what was to be measured."""

    def __init__(self, file: str, what: str, *, remedy: str = "") -> None:
        super().__init__(printable(f"{file}: {what}"), remedy=remedy)
        self.file = file


def sent(files: Mapping[str, bytes], name: str, remedy: str = "look at console.txt of this boot") -> bytes:
    """A file of the guest. Raises MeasurementError when it did not send it."""
    if name not in files:
        raise MeasurementError(name, "the guest did not send it", remedy=remedy)
    return files[name]


def parse(data: bytes, file: str) -> Any:
    """The document. Raises MeasurementError for an incomplete one, for NaN, and as ``lab.base.reading`` does."""
    if not data.strip():
        raise MeasurementError(file, "is empty: nothing was written to it")
    try:
        return parse_json(data)
    except ValueError as error:
        start = data.lstrip()[:60].decode("utf-8", "replace").splitlines()[0]
        raise MeasurementError(file, f'is not complete JSON ({error}); it starts with "{start}"') from error


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

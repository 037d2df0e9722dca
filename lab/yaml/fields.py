# SPDX-License-Identifier: GPL-2.0-only
"""Typed fields of a strict YAML document.

A ``Kind`` reads one node and describes itself as JSON schema and in words: the loader, the schema for editors and the
reference pages use the same tables. Mistakes are added to a ``Problems``; a wrong value reads as None.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from lab.base.units import parse_rate, parse_size, parse_time, show_rate, show_size, show_time
from lab.yaml.strict import Broken, Entry, Items, Map, Mark, Node, Problems, Scalar, describe, names, nearest, quoted

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Json = dict[str, object]

NAME = r"[a-z0-9][a-z0-9-]{0,39}"
_MEANT = {
    **dict.fromkeys(("true", "yes", "on", "y"), "write true, without quotes"),
    **dict.fromkeys(("false", "no", "off", "n"), "write false, without quotes"),
}
_GUESSED_KEYS = 20
"""Unknown keys of a mapping that get a suggestion; each is compared with every known key."""
_LONGEST_NUMBER = 30
_DIGITS = re.compile(r"[-+]?[0-9]+")
_DECIMAL = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")


class Kind(Protocol[T_co]):
    @property
    def type(self) -> str:
        """The kind in words, for the reference pages."""

    def read(self, problems: Problems, label: str, node: Node) -> T_co | None:
        """The value, or None after reporting what is wrong with ``label``."""

    def json(self) -> Json:
        """The same rule as JSON schema."""


def _refuse(problems: Problems, label: str, node: Node, wanted: str, remedy: str = "") -> None:
    # A Broken node has been reported already.
    if not isinstance(node, Broken):
        problems.add(node.mark, f"{label}: expected {wanted}, got {describe(node)}", remedy)


@dataclass(frozen=True)
class Integer:
    low: int
    high: int

    @property
    def type(self) -> str:
        return f"integer from {self.low}" + (f" to {self.high}" if self.high < 1 << 30 else "")

    def read(self, problems: Problems, label: str, node: Node) -> int | None:
        if not isinstance(node, Scalar) or node.kind != "integer" or not _DIGITS.fullmatch(node.text):
            is_number = isinstance(node, Scalar) and not node.plain and _DIGITS.fullmatch(node.text)
            _refuse(problems, label, node, "an integer", "remove the quotes" if is_number else "")
            return None
        # int() refuses thousands of digits.
        value = int(node.text) if len(node.text) <= _LONGEST_NUMBER else None
        if value is None or not self.low <= value <= self.high:
            _refuse(problems, label, node, f"an integer from {self.low} to {self.high}")
            return None
        return value

    def json(self) -> Json:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True)
class Number:
    """A number with or without a fraction, above ``above`` and at most ``high``."""

    above: float
    high: float

    @property
    def type(self) -> str:
        return f"number above {self.above:g}"

    def read(self, problems: Problems, label: str, node: Node) -> float | None:
        plain = isinstance(node, Scalar) and node.kind in {"integer", "float"}
        value = float(node.text) if isinstance(node, Scalar) and plain and _DECIMAL.fullmatch(node.text) else None
        if value is None or not self.above < value <= self.high:
            _refuse(problems, label, node, f"a number above {self.above:g} and up to {self.high:g}")
            return None
        return value

    def json(self) -> Json:
        return {"type": "number", "exclusiveMinimum": self.above, "maximum": self.high}


@dataclass(frozen=True)
class Flag:
    type = "true or false"

    def read(self, problems: Problems, label: str, node: Node) -> bool | None:
        if isinstance(node, Scalar) and node.plain and node.text in {"true", "false"}:
            return node.text == "true"
        remedy = _MEANT.get(node.text.lower(), "") if isinstance(node, Scalar) else ""
        _refuse(problems, label, node, "true or false", remedy)
        return None

    def json(self) -> Json:
        return {"type": "boolean"}


def _string(problems: Problems, label: str, node: Node, wanted: str, pattern: str = "") -> Scalar | None:
    """A scalar that is a string in YAML; the remedy proposes quotes where the quoted text would match ``pattern``."""
    if isinstance(node, Scalar) and node.kind == "string":
        return node
    quotes_help = isinstance(node, Scalar) and bool(re.fullmatch(pattern or ".+", node.text))
    remedy = f'quote it: "{node.text}"' if isinstance(node, Scalar) and quotes_help else ""
    if isinstance(node, Scalar) and node.kind == "float":
        problems.add(node.mark, f"{label}: expected {wanted}, got {node.text}, a number in YAML", remedy)
    else:
        _refuse(problems, label, node, wanted, remedy)
    return None


@dataclass(frozen=True)
class Text:
    """A string that is not empty. ``pattern``, if given, must match all of it; ``wanted`` describes it in words."""

    wanted: str = "a string"
    pattern: str = ""
    longest: int = 4000

    @property
    def type(self) -> str:
        return "text" if not self.pattern else self.wanted.removeprefix("a ").removeprefix("an ")

    def read(self, problems: Problems, label: str, node: Node) -> str | None:
        scalar = _string(problems, label, node, self.wanted, self.pattern)
        if scalar is None:
            return None
        good = bool(scalar.text.strip()) and len(scalar.text) <= self.longest
        if not good or (self.pattern and not re.fullmatch(self.pattern, scalar.text)):
            too_long = f" of at most {self.longest} characters" if len(scalar.text) > self.longest else ""
            _refuse(problems, label, node, self.wanted + too_long)
            return None
        return scalar.text

    def json(self) -> Json:
        shape: Json = {"type": "string", "minLength": 1, "maxLength": self.longest}
        return {**shape, "pattern": f"^(?:{self.pattern})$"} if self.pattern else shape


def name_text() -> Text:
    return Text("a name of at most 40 characters a-z, 0-9 and -", NAME)


@dataclass(frozen=True)
class Choice:
    values: tuple[str, ...]

    @property
    def type(self) -> str:
        return names(self.values)

    def read(self, problems: Problems, label: str, node: Node) -> str | None:
        wanted = f"one of {names(self.values)}"
        scalar = _string(problems, label, node, wanted, "|".join(self.values))
        if scalar is None:
            return None
        if scalar.text not in self.values:
            _refuse(problems, label, node, wanted, nearest(scalar.text, self.values).removeprefix(", "))
            return None
        return scalar.text

    def json(self) -> Json:
        return {"type": "string", "enum": list(self.values)}


@dataclass(frozen=True)
class Quantity:
    """A size, rate or time in its smallest unit, from ``low`` to ``high`` in multiples of ``step``."""

    type: str
    unit: str
    parse: Callable[[str], int]
    show: Callable[[int], str]
    pattern: str
    wanted: str
    low: int
    high: int
    bare_number: bool = False
    step: int = 1

    def read(self, problems: Problems, label: str, node: Node) -> int | None:
        is_bare = self.bare_number and isinstance(node, Scalar) and node.kind == "integer"
        if not isinstance(node, Scalar) or (node.kind != "string" and not is_bare):
            lacks_unit = isinstance(node, Scalar) and node.kind in {"integer", "float"}
            _refuse(problems, label, node, self.wanted, "add the unit" if lacks_unit else "")
            return None
        try:
            value = self.parse(node.text) if len(node.text) <= _LONGEST_NUMBER else None
        except (ValueError, OverflowError):
            value = None
        if value is None:
            _refuse(problems, label, node, self.wanted)
        elif not self.low <= value <= self.high:
            limit = f"at least {self.show(self.low)}" if value < self.low else f"at most {self.show(self.high)}"
            problems.add(node.mark, f"{label}: expected {limit}, got {quoted(node.text)}")
            return None
        elif value % self.step:
            problems.add(node.mark, f"{label}: {quoted(node.text)} is not a multiple of {self.show(self.step)}")
            return None
        return value

    def json(self) -> Json:
        text: Json = {"type": "string", "pattern": f"^(?:{self.pattern})$"}
        return {"anyOf": [text, {"type": "integer", "minimum": 0}]} if self.bare_number else text


def size(low: int = 1, high: int = 1 << 44) -> Quantity:
    pattern, wanted = r"\d+(\.\d+)? *([kKmMgGtT]?([iI]?[bB])?)", "a size such as 4k or 256M"
    return Quantity("size", "B, k, M, G, T", parse_size, show_size, pattern, wanted, low, high, bare_number=True)


def rate(low: int = 1, high: int = 10**11) -> Quantity:
    pattern, wanted = r"\d+(\.\d+)? *[kMG]?B/s", "a rate such as 1 MB/s"
    return Quantity("rate", "B/s, kB/s, MB/s, GB/s", parse_rate, show_rate, pattern, wanted, low, high)


def time(low: int, high: int, step: int = 1) -> Quantity:
    pattern, wanted = r"\d+(\.\d+)? *(ns|us|ms|s|min)", "a time such as 400ms or 20s"
    return Quantity("time", "ns, us, ms, s, min", parse_time, show_time, pattern, wanted, low, high, step=step)


@dataclass(frozen=True)
class ListOf(Generic[T]):
    item: Kind[T]
    least: int = 0
    most: int = 256

    @property
    def type(self) -> str:
        return f"list: {self.item.type}"

    def read(self, problems: Problems, label: str, node: Node) -> list[T] | None:
        if not isinstance(node, Items):
            _refuse(problems, label, node, "a list", "write [a, b], or one line with - for each")
            return None
        if not self.least <= len(node.items) <= self.most:
            problems.add(node.mark, f"{label}: expected {self.least} to {self.most} entries, got {len(node.items)}")
        values = [self.item.read(problems, label, item) for item in node.items[: self.most]]
        return [value for value in values if value is not None]

    def json(self) -> Json:
        return {"type": "array", "items": self.item.json(), "minItems": self.least, "maxItems": self.most}


@dataclass(frozen=True)
class Field(Generic[T_co]):
    """One key of a record; of a pattern ``name`` is the expression and ``label`` what readers see.

    ``says`` is its meaning, ``default`` its value where the key is missing, or ``absent`` what holds then, in words.
    ``unit`` is that of a plain number, ``example`` a value as YAML text.
    """

    name: str
    kind: Kind[T_co]
    says: str = ""
    example: str = ""
    required: bool = False
    default: T_co | None = None
    absent: str = ""
    unit: str = ""
    label: str = ""

    @property
    def default_text(self) -> str:
        kind: object = self.kind
        if isinstance(self.default, int) and isinstance(kind, Quantity):
            return kind.show(self.default).replace(" ", "")
        text = self.absent if self.default is None else str(self.default)
        return text.lower() if isinstance(self.default, bool) else text

    def json(self) -> Json:
        default = f"default: {self.default_text}" if self.default_text else ""
        words = " ".join(part for part in (self.says, f"({default})" if self.says and default else default) if part)
        return {**self.kind.json(), **({"description": words} if words else {})}


@dataclass(frozen=True)
class Record:
    """A mapping with known keys; further keys must match one of ``patterns``, whose values have that kind."""

    fields: tuple[Field[object], ...]
    patterns: tuple[Field[object], ...] = ()
    type = "mapping"

    def read(self, problems: Problems, label: str, node: Node) -> "Row | None":
        if not isinstance(node, Map):
            _refuse(problems, label, node, "a mapping", "write key: value lines")
            return None
        self._check_keys(problems, label, node)
        return Row(problems, node)

    def _check_keys(self, problems: Problems, label: str, node: Map) -> None:
        known = {entry.name for entry in self.fields}
        unknown = [key for key in node.entries if key not in known and not self.pattern(key)]
        meant: set[str] = set()
        for place, key in enumerate(unknown):
            shown = [entry.label or entry.name for entry in (*self.fields, *self.patterns)]
            guess = nearest(key, known) if place < _GUESSED_KEYS else ""
            if guess:
                meant.update(name for name in known if guess.endswith(f" {name}?"))
            remedy = f"known: {names(shown)}" if place < _GUESSED_KEYS and not guess else ""
            problems.add(node.entries[key].key.mark, f"{key}: unknown key{guess}", remedy)
        for wanted in self.fields:
            if wanted.required and wanted.name not in meant.union(node.entries):
                problems.add(node.mark, f"{label}: {wanted.name} is missing", wanted.says, symptom=bool(unknown))

    def pattern(self, key: str) -> Field[object] | None:
        """The pattern that a key matches."""
        # One expression for all: an arm has more than a hundred.
        match = self._any_pattern.fullmatch(key) if self.patterns else None
        return self.patterns[int(match.lastgroup.removeprefix("key"))] if match and match.lastgroup else None

    @cached_property
    def _any_pattern(self) -> re.Pattern[str]:
        alternatives = (f"(?P<key{place}>{entry.name})" for place, entry in enumerate(self.patterns))
        return re.compile("|".join(alternatives))

    def json(self) -> Json:
        shape: Json = {
            "type": "object",
            "properties": {entry.name: entry.json() for entry in self.fields},
            "additionalProperties": False,
        }
        if self.patterns:
            shape["patternProperties"] = {f"^(?:{entry.name})$": entry.json() for entry in self.patterns}
        wanted = [entry.name for entry in self.fields if entry.required]
        return {**shape, "required": wanted} if wanted else shape


@dataclass(frozen=True)
class Row:
    """A mapping whose keys have been checked; values are read field by field."""

    problems: Problems
    node: Map

    @property
    def mark(self) -> Mark:
        return self.node.mark

    def entry(self, name: str) -> Entry | None:
        return self.node.entries.get(name)

    def place(self, name: str) -> Mark:
        """The position of the value of ``name``, or of the mapping if the key is missing."""
        return self.node.entries[name].value.mark if name in self.node.entries else self.mark

    def get(self, wanted: Field[T]) -> T | None:
        """None if the key is missing, or its value wrong and reported."""
        there = self.entry(wanted.name)
        return wanted.kind.read(self.problems, wanted.name, there.value) if there else None

    def get_or(self, wanted: Field[T], default: T) -> T:
        value = self.get(wanted)
        return default if value is None else value

    def given(self, wanted: Iterable[Field[object]]) -> dict[str, Any]:
        """The values of the keys that are there, by name."""
        return {one.name: value for one in wanted if (value := self.get(one)) is not None}

    def value(self, wanted: Field[T]) -> T:
        """As ``get``, with the field's own default."""
        if wanted.default is None:
            raise ValueError(f"{wanted.name} has no default")
        return self.get_or(wanted, wanted.default)


@dataclass(frozen=True)
class Named(Generic[T]):
    """A mapping from names to values of one kind, in the order of the file."""

    value: Kind[T]
    what: str
    least: int = 1
    most: int = 256
    reserved: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        return f"{self.what}s by name"

    def read(self, problems: Problems, label: str, node: Node) -> dict[str, T] | None:
        if not isinstance(node, Map):
            _refuse(problems, label, node, f"a mapping from names to {self.what}s")
            return None
        if not self.least <= len(node.entries) <= self.most:
            wanted = f"{self.least} to {self.most} {self.what}s"
            problems.add(node.mark, f"{label}: expected {wanted}, got {len(node.entries)}")
        values: dict[str, T] = {}
        # A value is kept under a wrong name, so that references to it are not reported as well.
        for name, entry in list(node.entries.items())[: self.most]:
            name_text().read(problems, f"{self.what} {quoted(name)}", entry.key)
            if name in self.reserved:
                problems.add(entry.key.mark, f"{self.what} {name}: the name is reserved", "choose another name")
            value = self.value.read(problems, name, entry.value)
            if value is not None:
                values[name] = value
        return values

    def json(self) -> Json:
        pattern = NAME if not self.reserved else f"(?!(?:{'|'.join(self.reserved)})$){NAME}"
        return {
            "type": "object",
            "patternProperties": {f"^{pattern}$": self.value.json()},
            "additionalProperties": False,
            "minProperties": self.least,
            "maxProperties": self.most,
        }


@dataclass(frozen=True)
class Either(Generic[T_co]):
    """A string, or a mapping of the other kind; the caller checks which."""

    text: Text
    other: Kind[T_co]

    @property
    def type(self) -> str:
        return f"{self.text.type} or {self.other.type}"

    def read(self, problems: Problems, label: str, node: Node) -> "str | T_co | None":
        if isinstance(node, Map):
            return self.other.read(problems, label, node)
        return self.text.read(problems, label, node)

    def json(self) -> Json:
        return {"anyOf": [self.text.json(), self.other.json()]}


def mapping_values(row: Row) -> Mapping[str, str]:
    """The scalars of a row as text, for reports."""
    scalars = ((key, entry.value) for key, entry in row.node.entries.items())
    return {key: value.text for key, value in scalars if isinstance(value, Scalar)}

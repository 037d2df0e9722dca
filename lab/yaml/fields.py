# SPDX-License-Identifier: GPL-2.0-only
"""Typed fields of a strict YAML document.

A ``Kind`` reads one node and describes itself in words: the loader and the reference pages use the same tables.
Mistakes are added to a ``Problems``; a wrong value reads as None.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any, Protocol, TypeVar

from lab.base.units import parse_rate, parse_size, parse_time, show_rate, show_size, show_time
from lab.yaml.strict import Broken, Entry, Items, Map, Node, Problems, Scalar, closest, describe, names, quoted

T = TypeVar("T")

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


class Kind(Protocol):
    @property
    def type(self) -> str:
        """The kind in words, for the reference pages."""

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        """The value, or None after reporting what is wrong with ``label``."""


def _refuse(problems: Problems, label: str, node: Node, wanted: str, remedy: str = "") -> Any:
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

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        if not isinstance(node, Scalar) or node.kind != "integer" or not _DIGITS.fullmatch(node.text):
            is_number = isinstance(node, Scalar) and not node.plain and _DIGITS.fullmatch(node.text)
            return _refuse(problems, label, node, "an integer", "remove the quotes" if is_number else "")
        # int() refuses thousands of digits.
        if len(node.text) > _LONGEST_NUMBER or not self.low <= int(node.text) <= self.high:
            return _refuse(problems, label, node, f"an integer from {self.low} to {self.high}")
        return int(node.text)


@dataclass(frozen=True)
class Number:
    """A number with or without a fraction, above ``above`` and at most ``high``."""

    above: float
    high: float

    @property
    def type(self) -> str:
        return f"number above {self.above:g}"

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        plain = isinstance(node, Scalar) and node.kind in {"integer", "float"} and _DECIMAL.fullmatch(node.text)
        if plain and self.above < float(plain[0]) <= self.high:
            return float(plain[0])
        return _refuse(problems, label, node, f"a number above {self.above:g} and up to {self.high:g}")


@dataclass(frozen=True)
class Flag:
    type = "true or false"

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        if isinstance(node, Scalar) and node.plain and node.text in {"true", "false"}:
            return node.text == "true"
        remedy = _MEANT.get(node.text.lower(), "") if isinstance(node, Scalar) else ""
        return _refuse(problems, label, node, self.type, remedy)


def _string(problems: Problems, label: str, node: Node, wanted: str, pattern: str = "") -> Any:
    """The text of a string in YAML; the remedy proposes quotes where the quoted text would match ``pattern``."""
    if not isinstance(node, Scalar):
        return _refuse(problems, label, node, wanted)
    if node.kind == "string":
        return node.text
    remedy = f'quote it: "{node.text}"' if re.fullmatch(pattern or ".+", node.text) else ""
    got = f"{node.text}, a number in YAML" if node.kind == "float" else describe(node)
    problems.add(node.mark, f"{label}: expected {wanted}, got {got}", remedy)
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

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        text = _string(problems, label, node, self.wanted, self.pattern)
        if text is None or (
            text.strip() and len(text) <= self.longest and re.fullmatch(self.pattern or "(?s).*", text)
        ):
            return text
        too_long = f" of at most {self.longest} characters" if len(text) > self.longest else ""
        return _refuse(problems, label, node, self.wanted + too_long)


def name_text() -> Text:
    return Text("a name of at most 40 characters a-z, 0-9 and -", NAME)


@dataclass(frozen=True)
class Choice:
    values: tuple[str, ...]

    @property
    def type(self) -> str:
        return names(self.values)

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        wanted = f"one of {names(self.values)}"
        text = _string(problems, label, node, wanted, "|".join(self.values))
        if text is None or text in self.values:
            return text and self.values[self.values.index(text)]
        close = closest(text, self.values)
        return _refuse(problems, label, node, wanted, f"did you mean {close}?" if close else "")


@dataclass(frozen=True)
class Quantity:
    """A size, rate or time in its smallest unit, from ``low`` to ``high`` in multiples of ``step``."""

    type: str
    unit: str
    parse: Callable[[str], int]
    show: Callable[[int], str]
    wanted: str
    low: int
    high: int
    bare_number: bool = False
    step: int = 1

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        is_bare = self.bare_number and isinstance(node, Scalar) and node.kind == "integer"
        if not isinstance(node, Scalar) or (node.kind != "string" and not is_bare):
            lacks_unit = isinstance(node, Scalar) and node.kind in {"integer", "float"}
            return _refuse(problems, label, node, self.wanted, "add the unit" if lacks_unit else "")
        try:
            value = self.parse(node.text) if len(node.text) <= _LONGEST_NUMBER else None
        except (ValueError, OverflowError):
            value = None
        if value is None:
            return _refuse(problems, label, node, self.wanted)
        if not self.low <= value <= self.high:
            limit = f"at least {self.show(self.low)}" if value < self.low else f"at most {self.show(self.high)}"
            problems.add(node.mark, f"{label}: expected {limit}, got {quoted(node.text)}")
        elif value % self.step:
            problems.add(node.mark, f"{label}: {quoted(node.text)} is not a multiple of {self.show(self.step)}")
        else:
            return value
        return None


def size(low: int = 1, high: int = 1 << 44) -> Quantity:
    wanted = "a size such as 4k or 256M"
    return Quantity("size", "B, k, M, G, T", parse_size, show_size, wanted, low, high, bare_number=True)


def rate(low: int = 1, high: int = 10**11) -> Quantity:
    return Quantity("rate", "B/s, kB/s, MB/s, GB/s", parse_rate, show_rate, "a rate such as 1 MB/s", low, high)


def time(low: int, high: int, step: int = 1) -> Quantity:
    wanted = "a time such as 400ms or 20s"
    return Quantity("time", "ns, us, ms, s, min", parse_time, show_time, wanted, low, high, step=step)


@dataclass(frozen=True)
class ListOf:
    item: Kind
    least: int = 0
    most: int = 256

    @property
    def type(self) -> str:
        return f"list: {self.item.type}"

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        if not isinstance(node, Items):
            return _refuse(problems, label, node, "a list", "write [a, b], or one line with - for each")
        if not self.least <= len(node.items) <= self.most:
            problems.add(node.mark, f"{label}: expected {self.least} to {self.most} entries, got {len(node.items)}")
        values = (self.item.read(problems, label, item) for item in node.items[: self.most])
        return tuple(value for value in values if value is not None)


@dataclass(frozen=True)
class Field:
    """One key of a record; of a pattern ``name`` is the expression and ``label`` what readers see.

    ``says`` is its meaning, ``default`` its value where the key is missing, or ``absent`` what holds then, in words.
    ``unit`` is that of a plain number, ``example`` a value as YAML text. ``into`` is the argument that it becomes where
    that has another name.
    """

    name: str
    kind: Kind
    says: str = ""
    example: str = ""
    required: bool = False
    default: Any = None
    absent: str = ""
    unit: str = ""
    label: str = ""
    into: str = ""

    @property
    def default_text(self) -> str:
        if self.default is not None and isinstance(self.kind, Quantity):
            return self.kind.show(self.default).replace(" ", "")
        text = self.absent if self.default is None else str(self.default)
        return text.lower() if isinstance(self.default, bool) else text


@dataclass(frozen=True)
class Record:
    """A mapping with known keys; further keys must match one of ``patterns``, whose values have that kind.

    ``make`` is called with the values of a sound mapping; without it a mapping reads as a ``Row``.
    """

    fields: tuple[Field, ...]
    patterns: tuple[Field, ...] = ()
    make: Callable[..., Any] | None = None
    type = "mapping"

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        if not isinstance(node, Map):
            return _refuse(problems, label, node, "a mapping", "write key: value lines")
        before = problems.count
        self._check_keys(problems, label, node)
        known = ((key, entry, self.field(key)) for key, entry in node.entries.items())
        values = {key: field.kind.read(problems, key, entry.value) for key, entry, field in known if field}
        row = Row(problems, node, self, values, sound=problems.count == before)
        return row.build(self.make) if self.make else row

    def _check_keys(self, problems: Problems, label: str, node: Map) -> None:
        unknown = [key for key in node.entries if not self.field(key)]
        by_label = {field.label or field.name: field for field in (*self.fields, *self.patterns)}
        guesses = [closest(key, by_label) for key in unknown[:_GUESSED_KEYS]]
        known = f"known: {names(by_label)}"
        for key, guess in zip_longest(unknown, guesses):
            meant, remedy = f", did you mean {guess}?" if guess else "", known if guess == "" else ""
            problems.add(node.entries[key].key.mark, f"{key}: unknown key{meant}", remedy)
        for field in self.fields:
            if field.required and field.name not in node.entries and field.name not in guesses:
                problems.add(node.mark, f"{label}: {field.name} is missing", field.says, symptom=bool(unknown))

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        return {field.name: field for field in self.fields}

    def field(self, key: str) -> Field | None:
        """The field of a key, by its name or by a pattern."""
        return self.by_name.get(key) or self.pattern(key)

    def pattern(self, key: str) -> Field | None:
        """The pattern that a key matches."""
        # One expression for all: an arm has more than a hundred.
        match = self._any_pattern.fullmatch(key) if self.patterns else None
        return self.patterns[int(match.lastgroup.removeprefix("key"))] if match and match.lastgroup else None

    @cached_property
    def _any_pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?P<key{place}>{field.name})" for place, field in enumerate(self.patterns)))


@dataclass(frozen=True)
class Row:
    """A mapping that was read: ``values`` are those of known keys, None for a wrong one.

    ``sound``: no mistake was found in it.
    """

    problems: Problems
    node: Map
    record: Record
    values: Mapping[str, Any]
    sound: bool

    def entry(self, name: str) -> Entry | None:
        return self.node.entries.get(name)

    def add(self, key: str, message: str, remedy: str = "", *, symptom: bool = False) -> None:
        """Reports a mistake at the value of ``key``, or at the mapping if there is no such key."""
        entry = self.entry(key)
        self.problems.add(entry.value.mark if entry else self.node.mark, message, remedy, symptom=symptom)

    def get(self, key: str | Field, default: Any = None) -> Any:
        """The field's default, else ``default``, if the key is missing, or its value wrong and reported."""
        name = key if isinstance(key, str) else key.name
        value = self.values.get(name)
        if value is None and (field := self.record.field(name)):
            value = field.default
        return default if value is None else value

    def given(self, wanted: Iterable[Field]) -> dict[str, Any]:
        """The values of the keys that are there, by the names of the arguments that they become."""
        values = ((field, self.values.get(field.name)) for field in wanted)
        return {field.into or field.name: value for field, value in values if value is not None}

    def matches(self) -> Iterator[tuple[str, Entry, Any]]:
        """The keys that match a pattern, with their values; None for a wrong one."""
        for key, entry in self.node.entries.items():
            if key in self.values and key not in self.record.by_name:
                yield key, entry, self.values[key]

    def build(self, make: Callable[..., T], **others: Any) -> T | None:
        """``make`` with all values that are there, and with ``others``.

        None if one of the others is None, or a required key has no value.
        """
        wanted = [field for field in self.record.fields if (field.into or field.name) not in others]
        values = {field.into or field.name: self.get(field) for field in wanted}
        lacks_key = any(field.required and values[field.into or field.name] is None for field in wanted)
        if lacks_key or any(value is None for value in others.values()):
            return None
        return make(**{key: value for key, value in values.items() if value is not None}, **others)


@dataclass(frozen=True)
class Named:
    """A mapping from names to values of one kind, in the order of the file."""

    value: Kind
    what: str
    least: int = 1
    most: int = 256
    reserved: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        return f"{self.what}s by name"

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        if not isinstance(node, Map):
            return _refuse(problems, label, node, f"a mapping from names to {self.what}s")
        if not self.least <= len(node.entries) <= self.most:
            wanted = f"{self.least} to {self.most} {self.what}s"
            problems.add(node.mark, f"{label}: expected {wanted}, got {len(node.entries)}")
        values = {}
        # A value is kept under a wrong name, so that references to it are not reported as well.
        for name, entry in list(node.entries.items())[: self.most]:
            name_text().read(problems, f"{self.what} {quoted(name)}", entry.key)
            if name in self.reserved:
                problems.add(entry.key.mark, f"{self.what} {name}: the name is reserved", "choose another name")
            values[name] = self.value.read(problems, name, entry.value)
        return {name: value for name, value in values.items() if value is not None}


def mapping_values(row: Row) -> dict[str, str]:
    """The scalars of a row as text, for reports."""
    return {key: entry.value.text for key, entry in row.node.entries.items() if isinstance(entry.value, Scalar)}

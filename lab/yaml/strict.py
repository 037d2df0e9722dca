# SPDX-License-Identifier: GPL-2.0-only
"""A strict subset of YAML: a document as a tree of nodes with line and column.

Accepted are mappings with distinct string keys, sequences and scalars. Scalars resolve as in YAML 1.2's core schema:
``on``, ``yes`` and ``2006-03-14`` are strings. The reader of a field decides whether it may be a number.
"""

import difflib
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from yaml import events

from lab.base.errors import InputErrors, Misuse, Problem
from lab.base.reading import read_regular, real
from lab.base.units import printable

MAX_BYTES = 1 << 20
MAX_DEPTH = 16
_SHOWN = 60

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_BOOLEANS = {"true", "True", "TRUE", "false", "False", "FALSE"}
_NULLS = {"", "~", "null", "Null", "NULL"}
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@dataclass(frozen=True, order=True)
class Mark:
    """A position in a file; ``line`` and ``column`` count from 1."""

    path: str
    line: int
    column: int


@dataclass(frozen=True)
class Scalar:
    """``plain``: neither quoted nor a block scalar. ``verbatim``: the file has ``text`` unchanged in one line."""

    mark: Mark
    text: str
    plain: bool
    verbatim: bool = True

    @property
    def kind(self) -> str:
        """Its type in YAML's core schema: string, null, boolean, integer or float."""
        if not self.plain:
            return "string"
        if self.text in _NULLS:
            return "null"
        if self.text in _BOOLEANS:
            return "boolean"
        if _INTEGER.fullmatch(self.text):
            return "integer"
        return "float" if _FLOAT.fullmatch(self.text) else "string"

    def inside(self, offset: int) -> Mark:
        """The position of the character at ``offset``; the scalar's start where it is not verbatim."""
        right = offset + (0 if self.plain else 1)
        return replace(self.mark, column=self.mark.column + right) if self.verbatim else self.mark


@dataclass(frozen=True)
class Entry:
    key: Scalar
    value: "Node"


@dataclass(frozen=True)
class Map:
    mark: Mark
    entries: Mapping[str, Entry]


@dataclass(frozen=True)
class Items:
    mark: Mark
    items: "tuple[Node, ...]"


@dataclass(frozen=True)
class Broken:
    """A node whose mistake has been reported, so that it is reported only once."""

    mark: Mark


Node = Scalar | Map | Items | Broken


class Problems:
    """All mistakes of one or several documents, to be raised together."""

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}

    @property
    def all(self) -> tuple[Problem, ...]:
        return tuple(self._found)

    @property
    def count(self) -> int:
        return len(self._found)

    def add(self, mark: Mark, message: str, remedy: str = "", *, symptom: bool = False) -> None:
        """``symptom``: another mistake may be its cause, so it is listed after the others."""
        self._found[Problem(mark.path, mark.line, mark.column, message, remedy, symptom)] = None

    def raise_if_any(self) -> None:
        """Raises InputErrors."""
        if self._found:
            raise InputErrors(self.all)


def similar(word: str, known: Iterable[str], most: int = 5) -> list[str]:
    """The known words that are most similar, best first."""
    return difflib.get_close_matches(word[:80], sorted(known), n=most)


def closest(word: str, known: Iterable[str]) -> str:
    """The known word that is most similar; empty if none is."""
    return next(iter(similar(word, known, 1)), "")


def nearest(word: str, known: Iterable[str]) -> str:
    """``, did you mean X?``, or nothing if no known word is similar."""
    return f", did you mean {close}?" if (close := closest(word, known)) else ""


def quoted(text: str) -> str:
    """The text in quotes, shortened, for an error message."""
    return f'"{text}"' if len(text) <= _SHOWN else f'"{text[:_SHOWN]}..."'


def shown_path(path: Path) -> str:
    """The path relative to the current folder if it lies below it."""
    try:
        return str(real(path).relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def read_bytes(path: Path, what: str, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file of at most ``limit``, 1 MiB. Raises Misuse."""
    shown = shown_path(path)
    try:
        if not path.is_file():
            problem = "is not a regular file" if os.path.lexists(path) else "does not exist"
            raise Misuse(f"{what} {shown} {problem}", remedy="check the path")
        return read_regular(path, limit)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise Misuse(f"{what} {shown} cannot be read: {why}", remedy="check the path and its permissions") from error


def parse(data: bytes, path: str, problems: Problems) -> Node:
    """The document's tree. Mistakes are added to ``problems`` and leave a Broken node; bad input raises nothing."""
    start = Mark(path, 1, 1)
    text = _decode(data, start, problems)
    if text is None or _has_strange_characters(text, path, problems):
        return Broken(start)
    try:
        # libyaml reads 1 MiB in a second where PyYAML's own parser takes ten.
        return _Builder(path, problems).build(yaml.parse(text, Loader=yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        _report_syntax(error, start, problems)
    except yaml.YAMLError as error:
        problems.add(start, f"not YAML: {error}")
    return Broken(start)


def plain_value(node: Node) -> object:
    """The tree as dict, list, str, int, float, bool and None, by YAML 1.2's core schema."""
    if isinstance(node, Map):
        return {key: plain_value(entry.value) for key, entry in node.entries.items()}
    if isinstance(node, Items):
        return [plain_value(item) for item in node.items]
    if isinstance(node, Broken) or node.kind == "null":
        return None
    if node.kind == "boolean":
        return node.text.lower() == "true"
    if node.kind == "integer":
        return int(node.text, 0) if node.text[:2] in {"0o", "0x"} else int(node.text)
    return float(node.text.replace(".inf", "inf").replace(".nan", "nan")) if node.kind == "float" else node.text


def _decode(data: bytes, start: Mark, problems: Problems) -> str | None:
    if len(data) > MAX_BYTES:
        problems.add(start, "larger than 1 MiB")
        return None
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        problems.add(Mark(start.path, line, column), "not UTF-8", "save the file as UTF-8")
        return None
    if not text.strip():
        problems.add(start, "the file is empty")
        return None
    return text


def _has_strange_characters(text: str, path: str, problems: Problems) -> bool:
    clean = True
    for number, line in enumerate(text.split("\n"), start=1):
        for column, character in enumerate(line, start=1):
            if " " <= character <= "~" or unicodedata.category(character) not in _INVISIBLE:
                continue
            clean = False
            mark = Mark(path, number, column)
            if character == "\t":
                problems.add(mark, "a tab", "use spaces")
            else:
                problems.add(mark, f"an invisible character, U+{ord(character):04X}", "remove it")
            break
    return not clean


def _report_syntax(error: yaml.MarkedYAMLError, start: Mark, problems: Problems) -> None:
    place = error.problem_mark or error.context_mark
    mark = Mark(start.path, place.line + 1, place.column + 1) if place else start
    words = ", ".join(part for part in (error.context, error.problem) if part)
    problems.add(mark, f"not YAML: {words}", "check the indentation, the quotes and the brackets")


def _position(mark: "yaml.error.Mark | yaml._yaml.Mark | None") -> tuple[int, int]:
    """Line and column, counted from 0."""
    return (mark.line, mark.column) if mark else (0, 0)


@dataclass
class _Open:
    """A collection whose end has not been read yet."""

    mark: Mark
    is_map: bool
    parts: list[Node]


class _Builder:
    """Builds the tree from parser events, without recursion: nesting cannot exhaust the stack."""

    def __init__(self, path: str, problems: Problems) -> None:
        self._path = path
        self._problems = problems
        self._open: list[_Open] = []
        self._roots: list[Node] = []

    def build(self, stream: Iterator[events.Event]) -> Node:
        for event in stream:
            if isinstance(event, events.DocumentStartEvent):
                self._document(event)
            elif isinstance(event, events.NodeEvent):
                self._node(event)
            elif isinstance(event, events.CollectionEndEvent):
                done = self._open.pop()
                self._append(self._map(done) if done.is_map else Items(done.mark, tuple(done.parts)))
            if len(self._open) > MAX_DEPTH:
                self._problems.add(self._open[-1].mark, f"nested deeper than {MAX_DEPTH} levels")
                return Broken(Mark(self._path, 1, 1))
        if not self._roots:
            self._problems.add(Mark(self._path, 1, 1), "the file is empty")
            return Broken(Mark(self._path, 1, 1))
        return self._roots[0]

    def _mark(self, event: events.Event) -> Mark:
        line, column = _position(event.start_mark)
        return Mark(self._path, line + 1, column + 1)

    def _document(self, event: events.DocumentStartEvent) -> None:
        if event.version or event.tags:
            self._problems.add(self._mark(event), "YAML directives are refused", "remove the lines that start with %")
        if self._roots:
            self._problems.add(self._mark(event), "more than one document in the file", "write one file for each")

    def _node(self, event: events.NodeEvent) -> None:
        mark = self._mark(event)
        if isinstance(event, events.AliasEvent):
            self._problems.add(mark, f"alias *{event.anchor}: anchors and aliases are refused", "write the value out")
            self._append(Broken(mark))
            return
        if event.anchor is not None:
            self._problems.add(mark, f"anchor &{event.anchor}: anchors and aliases are refused", "remove it")
        if isinstance(event, events.ScalarEvent):
            self._scalar(event, mark)
            return
        if isinstance(event, events.CollectionStartEvent):
            self._refuse_tag(event.tag, mark)
            self._open.append(_Open(mark, isinstance(event, events.MappingStartEvent), []))

    def _refuse_tag(self, tag: str | None, mark: Mark) -> None:
        if tag is not None:
            self._problems.add(mark, f"tag {quoted(tag)}: tags are refused", "remove it")

    def _scalar(self, event: events.ScalarEvent, mark: Mark) -> None:
        self._refuse_tag(event.tag, mark)
        if printable(event.value) != event.value:
            self._problems.add(mark, f"control characters in {quoted(event.value)}", "remove them")
        plain = not event.style
        (first, left), (last, right) = _position(event.start_mark), _position(event.end_mark)
        length = right - left - (0 if plain else 2)
        self._append(Scalar(mark, event.value, plain, first == last and length == len(event.value)))

    def _append(self, node: Node) -> None:
        (self._open[-1].parts if self._open else self._roots).append(node)

    def _map(self, done: _Open) -> Map:
        entries: dict[str, Entry] = {}
        for key, value in zip(done.parts[::2], done.parts[1::2], strict=True):
            if not isinstance(key, Scalar):
                if not isinstance(key, Broken):
                    self._problems.add(key.mark, "a key must be a scalar")
            elif key.text == "<<" and key.plain:
                self._problems.add(key.mark, "merge keys are refused", "write the keys out")
            elif key.kind != "string":
                self._problems.add(key.mark, f"key {key.text}: expected a string", f'quote it: "{key.text}"')
            elif key.text in entries:
                first = entries[key.text].key.mark.line
                self._problems.add(key.mark, f"{key.text}: duplicate key, first in line {first}", "remove one")
            else:
                entries[key.text] = Entry(key, value)
        return Map(done.mark, entries)


def describe(node: Scalar | Map | Items) -> str:
    """The node in words, for "expected ..., got ..."."""
    if isinstance(node, Map):
        return "a mapping"
    if isinstance(node, Items):
        return "a list"
    if node.kind == "null":
        return "nothing"
    return node.text if node.plain else quoted(node.text)


def names(words: Iterable[str]) -> str:
    """A list for an error message."""
    return ", ".join(words) or "none"

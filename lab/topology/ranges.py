# SPDX-License-Identifier: GPL-2.0-only
"""Ranges of names: ``d00..23`` is d00, d01 and so on up to d23.

As a key a range makes one row for each name; in a row, a range of the same length becomes the name at the same
position. In a list a range becomes all of its names.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from lab.yaml.fields import ListOf, Named, name_text
from lab.yaml.strict import Entry, Items, Map, Node, Problems, Scalar, quoted

_RANGE = re.compile(r"([a-z0-9-]*?[a-z-]|)([0-9]{1,4})\.\.([0-9]{1,4})([a-z-][a-z0-9-]*)?")
_NUMBERED = re.compile(r"([a-z0-9-]*?)([0-9]{1,4})([a-z-]*)")
_MOST = 256


def range_names(text: str) -> tuple[str, ...]:
    """The names of a range; empty for a text that is no range."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return ()
    before, first, last, after = match.groups()
    numbers = range(int(first), int(last) + 1)
    if len(numbers) > _MOST:
        return ()
    return tuple(f"{before}{number:0{len(first)}d}{after or ''}" for number in numbers)


def ranged(names: Iterable[str]) -> tuple[str, ...]:
    """Names with consecutive ones combined into ranges, the inverse of ``range_names``."""
    runs: list[list[str]] = []
    for name in names:
        if not (runs and range_names(_range(runs[-1][0], name)) == (*runs[-1], name)):
            runs.append([])
        runs[-1].append(name)
    return tuple(_range(run[0], run[-1]) if len(run) > 1 else run[0] for run in runs)


def in_ranges(names: Iterable[str]) -> str:
    """Names with ranges, for reports: ``d00..23``, ``a, b``, ``d0..3, d5``."""
    return ", ".join(ranged(names))


def _range(first: str, last: str) -> str:
    """``d00..23``, or nothing if the two differ in more than their last number."""
    start, end = _NUMBERED.fullmatch(first), _NUMBERED.fullmatch(last)
    if not start or not end or start.group(1, 3) != end.group(1, 3):
        return ""
    return f"{start[1]}{start[2]}..{end[2]}{start[3]}"


@dataclass(frozen=True)
class References:
    """A list of names and ranges."""

    least: int = 0

    type = "list of names"

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        if isinstance(node, Items):
            node = replace(node, items=tuple(name for item in node.items for name in _all_names(item)))
        return ListOf(name_text(), self.least).read(problems, label, node)


@dataclass(frozen=True)
class NameRange:
    """A name or a range, or a list of names and ranges without repetition."""

    type = "name, range or list of names"

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        if isinstance(node, Map):
            name_text().read(problems, label, node)
            return None
        listed = Items(node.mark, (node,)) if isinstance(node, Scalar) else node
        names = References(1).read(problems, label, listed) or ()
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                problems.add(node.mark, f"{label}: {quoted(name)} is listed twice")
        return tuple(dict.fromkeys(names)) or None


def _all_names(item: Node) -> Iterator[Node]:
    if isinstance(item, Scalar) and (names := range_names(item.text)):
        yield from (replace(item, text=name, verbatim=False) for name in names)
    else:
        yield item


class NamedRanges(Named):
    """As ``Named``, with ranges as keys."""

    @property
    def type(self) -> str:
        return f"{self.what}s by name or range"

    def read(self, problems: Problems, label: str, node: Node) -> Any:
        return super().read(problems, label, _expand(problems, node) if isinstance(node, Map) else node)


def _expand(problems: Problems, node: Map) -> Map:
    entries: dict[str, Entry] = {}
    for key, entry in node.entries.items():
        names = range_names(key)
        for position, name in enumerate(names or (key,)):
            if name in entries:
                problems.add(entry.key.mark, f"{quoted(name)}: duplicate name, here as part of {key}")
            value = _at_position(problems, entry.value, position, len(names)) if names else entry.value
            entries[name] = Entry(replace(entry.key, text=name), value)
    return replace(node, entries=entries)


def _at_position(problems: Problems, node: Node, position: int, count: int) -> Node:
    """The node of one row of ``count``, each range replaced by the name at position ``position``."""
    if isinstance(node, Map):
        values = {key: _at_position(problems, entry.value, position, count) for key, entry in node.entries.items()}
        return replace(node, entries={key: replace(node.entries[key], value=value) for key, value in values.items()})
    if isinstance(node, Items):
        return replace(node, items=tuple(_at_position(problems, item, position, count) for item in node.items))
    if not isinstance(node, Scalar) or not (names := range_names(node.text)):
        return node
    if len(names) == count:
        return replace(node, text=names[position], verbatim=False)
    message = f"{node.text} has {len(names)} names, the row's key {count}"
    problems.add(node.mark, message, "write ranges of the same length")
    return node

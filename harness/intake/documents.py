# SPDX-License-Identifier: GPL-2.0-only
"""Topologies and scenarios as documents: their values as the files have them, and the files for people to read."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.topology.load import load_topology
from lab.topology.model import Topology
from lab.yaml.fields import Field
from lab.yaml.strict import Map, Node, Problems, parse

_WIDTH = 118
_LICENCE = "SPDX-License-Identifier: GPL-2.0-only"

Document = dict[str, object]


@dataclass(frozen=True)
class AnnotatedDocument:
    """A file to be written; ``notes`` are what it leaves out or does not show."""

    document: Document
    notes: tuple[str, ...]


def accepts(field: Field, value: str | int | None) -> bool:
    """Whether a key may have this value."""
    node = parse(yaml.safe_dump(value).encode(), "", Problems())
    return field.kind.read(Problems(), field.name, node) is not None


def exact_size(value: int) -> str | int:
    """Bytes in the largest unit that leaves no remainder."""
    for unit, shift in zip("TGMk", (40, 30, 20, 10), strict=True):
        if value and not value % (1 << shift):
            return f"{value >> shift}{unit}"
    return value


def exact_time(ns: int) -> str:
    return f"{ns}ns" if ns % 1000 else f"{ns // 1000}us"


class _Dumper(yaml.SafeDumper):
    """Writes a short mapping without mappings in it as one row, and long text as a paragraph."""

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        parts = [part for value in mapping.values() for part in (value if isinstance(value, list) else [value])]
        nested = any(isinstance(part, Mapping) for part in parts)
        return super().represent_mapping(tag, mapping, flow_style=not nested and len(str(mapping)) < _WIDTH)

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=">" if len(data) > _WIDTH else None)

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


_Dumper.add_representer(str, _Dumper.represent_str)


def yaml_text(document: Mapping[str, object], comments: Sequence[str] = ()) -> str:
    """The document; ``comments`` are paragraphs. Names and text in it must be printable."""
    wrapper = textwrap.TextWrapper(_WIDTH, "# ", "#   ", break_on_hyphens=False, break_long_words=False)
    lines = [f"# {_LICENCE}", *(line for paragraph in comments for line in wrapper.wrap(paragraph))]
    text = yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True)
    return "\n".join((*lines, text))


def keys_at(node: Node, line: int, column: int) -> tuple[str, ...]:
    """The keys down to what stands at a place of a document."""
    entries = node.entries.values() if isinstance(node, Map) else ()
    before = [entry for entry in entries if (entry.key.mark.line, entry.key.mark.column) <= (line, column)]
    return (before[-1].key.text, *keys_at(before[-1].value, line, column)) if before else ()


def node_at(node: Node, keys: Sequence[str]) -> Node:
    """What the keys lead to, as far as the document has them."""
    for key in keys:
        node = node.entries[key].value if isinstance(node, Map) and key in node.entries else node
    return node


def read_text(text: str, path: str) -> Topology:
    """The topology that a text describes; ``path`` names it in messages. Raises InputErrors."""
    problems = Problems()
    node = parse(text.encode(), path, problems)
    problems.raise_if_any()
    return load_topology(node, near=Path())

# SPDX-License-Identifier: GPL-2.0-only
"""Documents as YAML files for people: a row to a line, with comments at the top."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from lab.topology.load import load_topology
from lab.topology.model import Topology
from lab.yaml.strict import Problems, parse

_WIDTH = 118
_LICENCE = "SPDX-License-Identifier: GPL-2.0-only"


def yaml_text(document: Mapping[str, object], comments: Sequence[str] = ()) -> str:
    """The document; ``comments`` are paragraphs. Names and text in it must be printable."""
    lines = [f"# {_LICENCE}", *(line for paragraph in comments for line in _wrap(paragraph, "# ", "#   "))]
    for key, value in document.items():
        by_row = isinstance(value, Mapping) and all(isinstance(row, Mapping) for row in value.values())
        lines += _entry(key, value, "", by_row=by_row)
    return "\n".join((*lines, ""))


def _wrap(text: str, first: str, further: str) -> list[str]:
    wrapper = textwrap.TextWrapper(_WIDTH, first, further, break_on_hyphens=False, break_long_words=False)
    return wrapper.wrap(text)


def _entry(key: str, value: object, before: str, *, by_row: bool = False) -> Iterator[str]:
    flow, head = _flow(value), f"{before}{_flow(key)}:"
    rows = value if isinstance(value, list) and any(isinstance(row, Mapping) for row in value) else []
    if not rows and not by_row and len(before) + len(key) + len(flow) < _WIDTH:
        yield f"{head} {flow}"
    elif isinstance(value, Mapping):
        yield head
        for name, row in value.items():
            yield from _entry(name, row, f"{before}  ")
    elif rows:
        yield head
        for row in rows:
            yield from _item(row, f"{before}  ")
    elif isinstance(value, str):
        yield f"{head} >-"
        yield from _wrap(value, f"{before}  ", f"{before}  ")
    else:
        yield f"{head} {flow}"


def _item(value: object, before: str) -> Iterator[str]:
    flow = _flow(value)
    if not isinstance(value, Mapping) or len(before) + len(flow) < _WIDTH:
        yield f"{before}- {flow}"
        return
    lines = [line for key, part in value.items() for line in _entry(key, part, f"{before}  ")]
    yield f"{before}- {lines[0].strip()}"
    yield from lines[1:]


def _flow(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1 << 20, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def read_text(text: str, path: str) -> Topology:
    """The topology that a text describes; ``path`` names it in messages. Raises InputErrors."""
    problems = Problems()
    node = parse(text.encode(), path, problems)
    problems.raise_if_any()
    return load_topology(node, near=Path())

# SPDX-License-Identifier: GPL-2.0-only
"""Documents as YAML files for people: a row to a line, with comments at the top."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence

import yaml

_WIDTH = 118
_LICENCE = "SPDX-License-Identifier: GPL-2.0-only"


def written(document: Mapping[str, object], comments: Sequence[str] = ()) -> str:
    """The document; ``comments`` are paragraphs. Names and text in it must be printable."""
    lines = [f"# {_LICENCE}"]
    for paragraph in comments:
        lines += _wrapped(paragraph, "# ", "#   ")
    for key, value in document.items():
        if isinstance(value, Mapping) and all(isinstance(row, Mapping) for row in value.values()):
            lines += [f"{key}:", *(line for name, row in value.items() for line in _entry(name, row, "  "))]
        else:
            lines += _entry(key, value, "")
    return "\n".join((*lines, ""))


def _wrapped(text: str, first: str, further: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=further,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _entry(key: str, value: object, before: str) -> Iterator[str]:
    flow = _flow(value)
    if len(before) + len(key) + len(flow) < _WIDTH and not _is_list_of_rows(value):
        yield f"{before}{_flow(key)}: {flow}"
    elif isinstance(value, Mapping):
        yield f"{before}{_flow(key)}:"
        for name, one in value.items():
            yield from _entry(name, one, f"{before}  ")
    elif _is_list_of_rows(value) and isinstance(value, list):
        yield f"{before}{_flow(key)}:"
        for one in value:
            yield from _item(one, f"{before}  ")
    elif isinstance(value, str):
        yield f"{before}{_flow(key)}: >-"
        yield from _wrapped(value, f"{before}  ", f"{before}  ")
    else:
        yield f"{before}{_flow(key)}: {flow}"


def _item(value: object, before: str) -> Iterator[str]:
    flow = _flow(value)
    if not isinstance(value, Mapping) or len(before) + len(flow) < _WIDTH:
        yield f"{before}- {flow}"
        return
    mark = "- "
    for key, one in value.items():
        first, *rest = _entry(key, one, f"{before}  ")
        yield f"{before}{mark}{first.strip()}"
        yield from rest
        mark = "  "


def _is_list_of_rows(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(one, Mapping) for one in value)


def _flow(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1 << 20, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")

# SPDX-License-Identifier: GPL-2.0-only
"""Paragraphs of ``Key: value`` fields, as dpkg and apt write them (man 5 deb822)."""

from collections.abc import Iterator, Mapping


def paragraphs(text: str) -> Iterator[Mapping[str, str]]:
    """Yield each paragraph as field name (lower case) to value; continued lines keep their breaks."""
    fields = dict[str, str]()
    name = ""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield fields
            fields, name = {}, ""
        elif line[0] in " \t":
            if name:
                fields[name] += "\n" + line.strip()
        else:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    if fields:
        yield fields

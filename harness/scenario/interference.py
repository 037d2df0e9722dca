# SPDX-License-Identifier: GPL-2.0-only
"""The default loads of a scenario about neighbours: solo, lopsided and balanced, from one hog and one victim.

A bystander, where there is one, is in all three: it shares nothing with the hog and must not notice it.

The three figures that the block layer's maintainers ask for when fair tag sharing is discussed:
the victim alone, beside a hog, and beside a hog that keeps no more in flight than the victim does.
"""

from collections.abc import Mapping
from dataclasses import replace

from lab.yaml.strict import Entry, Map, Node, Problems, Scalar

INTERFERENCE, LOADS = "interference", "loads"
HOG, VICTIM, BYSTANDER = "hog", "victim", "bystander"
_IODEPTH = "iodepth"


def with_default_loads(node: Node, problems: Problems) -> Node:
    """The document with ``interference`` spelt out as ``loads``; every role keeps the place where it was written."""
    if not isinstance(node, Map):
        return node
    entry = node.entries.get(INTERFERENCE)
    if entry is None:
        if LOADS not in node.entries:
            problems.add(
                node.mark, "scenario: loads is missing", "write loads, or interference: {hog: ..., victim: ...}"
            )
        return node
    if LOADS in node.entries:
        problems.add(entry.key.mark, "interference: the file has loads as well", "keep one of them")
        return node
    pair = entry.value
    if not isinstance(pair, Map) or not {HOG, VICTIM} <= pair.entries.keys():
        return node
    loads = {name: _entry(entry.key, name, Map(pair.mark, roles)) for name, roles in _loads(pair.entries).items()}
    return replace(node, entries={**node.entries, LOADS: _entry(entry.key, LOADS, Map(pair.mark, loads))})


def _loads(pair: Mapping[str, Entry]) -> dict[str, dict[str, Entry]]:
    hog, victim = pair[HOG], pair[VICTIM]
    quiet = {name: pair[name] for name in (VICTIM, BYSTANDER) if name in pair}
    return {
        "solo": quiet,
        "lopsided": {HOG: hog, **quiet},
        "balanced": {HOG: _as_deep_as(hog, victim.value), **quiet},
    }


def _as_deep_as(hog: Entry, victim: Node) -> Entry:
    if not isinstance(hog.value, Map) or not isinstance(victim, Map) or _IODEPTH not in victim.entries:
        return hog
    return replace(hog, value=replace(hog.value, entries={**hog.value.entries, _IODEPTH: victim.entries[_IODEPTH]}))


def _entry(key: Scalar, name: str, value: Node) -> Entry:
    return Entry(replace(key, text=name), value)

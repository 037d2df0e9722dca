# SPDX-License-Identifier: GPL-2.0-only
"""The default loads of an interference scenario: solo, lopsided and balanced, from one hog and one victim.

A bystander, if any, runs in all three; it shares nothing with the hog. Maintainers of the block layer asked for these
three figures when fair tag sharing was discussed: the victim alone, with a hog, and with a hog as deep as the victim
(lore.kernel.org/linux-block/7a69eba2-42e4-4c67-8a54-37b5b41675f9@kernel.dk).
"""

from collections.abc import Mapping
from dataclasses import replace

from lab.yaml.strict import Entry, Map, Node, Problems, Scalar

INTERFERENCE, LOADS = "interference", "loads"
HOG, VICTIM, BYSTANDER = "hog", "victim", "bystander"
_IODEPTH = "iodepth"


def with_default_loads(node: Node, problems: Problems) -> Node:
    """The document with ``interference`` expanded to ``loads``; every role keeps its position in the file."""
    if not isinstance(node, Map):
        return node
    entry = node.entries.get(INTERFERENCE)
    if entry is None:
        if LOADS not in node.entries:
            remedy = "write loads, or interference: {hog: ..., victim: ...}"
            problems.add(node.mark, "scenario: loads is missing", remedy, symptom=True)
        return node
    if LOADS in node.entries:
        problems.add(entry.key.mark, "interference: the file also has loads", "keep one of them")
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

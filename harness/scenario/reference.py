# SPDX-License-Identifier: GPL-2.0-only
"""The reference pages docs/scenario.md and docs/topology.md, generated from the tables of the loaders.

In a page the text above ``MARK`` is written by hand, and the rest is generated.
"""

from collections.abc import Iterator, Mapping, Sequence

from harness.scenario.registry import FIGURES, GUEST, HOST, LUN, ROLE, Figure
from harness.scenario.schema import SCENARIO, TopologyRef
from lab.topology.fields import TOPOLOGY_RECORD
from lab.topology.ranges import NamedRanges
from lab.yaml.fields import Choice, Field, Flag, ListOf, Named, Quantity, Record

MARK = "<!-- Generated from here on, from the tables of the loader. -->\n"
_OVERRIDES = {
    "stack.NAME.queue.": "topology.md#queue",
    "stack.NAME.md.": "topology.md#stacksstackmd",
    "stack.NAME.": "topology.md#stacksstack",
    "disk.NAME.": "topology.md#disksdisk",
    "link.NAME.": "topology.md#linkslink",
    "hba.": "topology.md#hbashba",
    "vm.": "topology.md#vm",
    "queue.": "#queue",
}
"""Where the keys are described that an arm overrides, by prefix, the longer one first."""
_HEAD = ("key", "type", "unit", "default", "example", "meaning")


def references() -> Mapping[str, str]:
    """The generated part of each page, by file name in docs/."""
    known = {TOPOLOGY_RECORD: "topology.md"}
    scenario = "\n".join(_sections(SCENARIO, "", "## Keys of a scenario file", known))
    topology = "\n".join(_sections(TOPOLOGY_RECORD, "", "## Keys of a topology file", {}))
    return {"scenario.md": f"{scenario}\n{_figures()}", "topology.md": topology}


def sample(field: Field) -> str:
    """An example of a field as YAML text: its own, else its default or first choice; empty for a mapping."""
    if field.example or field.default is not None:
        return field.example or field.default_text
    return field.kind.values[0] if isinstance(field.kind, Choice) else "true" if isinstance(field.kind, Flag) else ""


def inside(kind: object) -> tuple[Record, str] | None:
    """The record in a kind, and the placeholder of a name in it: ``.ARM``, or nothing."""
    if isinstance(kind, Record):
        return kind, ""
    if isinstance(kind, TopologyRef):
        return kind.record, ""
    if isinstance(kind, ListOf):
        return inside(kind.item)
    if isinstance(kind, Named | NamedRanges) and (nested := inside(kind.value)):
        return nested[0], f".{kind.what.upper()}"
    return None


def _sections(record: Record, path: str, heading: str, known: dict[Record, str]) -> Iterator[str]:
    """A table of the keys of a record, then a section for each record in it that is not ``known`` by its address."""
    known[record] = _address(path)
    every = (*record.fields, *record.patterns)
    below = {part[0]: f"{path}.{field.label or field.name}{part[1]}" for field in every if (part := inside(field.kind))}
    rows: list[Sequence[str]] = []
    overrides: dict[str, list[str]] = {}
    for field in every:
        name, kind = field.label or field.name, field.kind.type
        if path == "arms.ARM" and (prefix := next(filter(name.startswith, _OVERRIDES), "")):
            overrides.setdefault(prefix, []).append(f"`{name}`")
            continue
        if nested := inside(field.kind):
            kind = f"[{kind}]({known.get(nested[0], _address(below[nested[0]]))})"
        rows.append((f"`{name}`", kind, *_facts(field)))
    for prefix, names in overrides.items():
        rows.append((", ".join(names), f"[as there]({_OVERRIDES[prefix]})", "", "", "", "in place of that value"))
    yield f"{heading}\n\n{_table(_HEAD, rows)}"
    for inner, inner_path in below.items():
        if inner not in known:
            yield from _sections(inner, inner_path.lstrip("."), f"### {inner_path.lstrip('.')}", known)


def _address(heading: str) -> str:
    return "#" + "".join(letter for letter in heading.lower() if letter.isalnum() or letter in "-_")


def _facts(field: Field) -> Sequence[str]:
    unit = field.kind.unit if isinstance(field.kind, Quantity) else field.unit
    example = sample(field)
    return (
        unit,
        "**required**" if field.required else field.default_text,
        f"`{example}`" if example else "",
        field.says,
    )


_NAMED_AS = {ROLE: "ROLE", GUEST: "guest", LUN: "lun.NAME", HOST: "host.NAME"}


def _figures() -> str:
    """A row for the figures that have everything but their names and units in common."""
    rows: dict[Sequence[str], list[Figure]] = {}
    for figure in FIGURES.values():
        holders = ", ".join(f"`{_NAMED_AS[holder]}`" for holder in figure.held_by)
        better = "more" if figure.more_is_better else "less"
        if holders:
            facts = (holders, better, "yes" if figure.bounded else "", figure.says)
            rows.setdefault(facts, []).append(figure)
    table = [
        (
            ", ".join(f"`{figure.name}`" for figure in figures),
            ", ".join(dict.fromkeys(figure.unit for figure in figures if figure.unit)),
            *facts,
        )
        for facts, figures in rows.items()
    ]
    return f"## Figures\n\n{_table(('figure', 'unit', 'of', 'better', 'has a bound', 'meaning'), table)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (head, ["---" for _ in head], *rows)
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)

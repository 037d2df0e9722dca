# SPDX-License-Identifier: GPL-2.0-only
"""Topologies from YAML: by name from the catalogue, by path, or inline in a scenario."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from lab.base.errors import Misuse
from lab.topology.fields import ATTRIBUTES, STACK_KEYS, STACK_SETTINGS, THROUGHPUT, TOPOLOGY, TOPOLOGY_RECORD
from lab.topology.limits import refusals
from lab.topology.model import (
    NEAR,
    Disk,
    Enclosure,
    Hba,
    Link,
    Lun,
    Processors,
    Stack,
    StackKind,
    Topology,
    build_order,
)
from lab.topology.parameters import SCALED, read_origins, scaled
from lab.yaml.fields import NAME, Row
from lab.yaml.strict import Map, Node, Problems, names, nearest, parse, read_bytes, shown_path

T = TypeVar("T")
CATALOGUE = Path(__file__).parent / "catalogue"
_PCIE_LANE = {1: 250_000_000, 2: 500_000_000, 3: 984_615_384, 4: 1_969_230_769, 5: 3_938_461_538}
"""Bytes per second of a lane in one direction: 2.5 and 5 GT/s in 8b/10b, from generation 3 on in 128b/130b."""
_SAS_GBIT = 100_000_000
"""Bytes per second for each Gbit/s, 8b/10b."""


def load_topology(ref: str | Node, *, near: Path) -> Topology:
    """A topology by name from the catalogue, by a path relative to the folder ``near``, or from a mapping.

    Raises InputErrors with all mistakes, Misuse if there is no such file.
    """
    problems = Problems()
    given = ref if isinstance(ref, str) else TOPOLOGY_RECORD.read(problems, "topology", ref)
    topology = read_topology(given, near=near, problems=problems) if given else None
    problems.raise_if_any()
    if topology is None:
        raise Misuse("the topology cannot be read", remedy="report this as a bug in blklab")
    return topology


def read_topology(ref: str | Row, *, near: Path, problems: Problems) -> Topology | None:
    """As ``load_topology``, also of a mapping in another file, with the mistakes added to ``problems``.

    Raises Misuse if there is no such file.
    """
    if isinstance(ref, Row):
        return _read(ref, "inline", "inline")
    path = find_topology(ref, near=near)
    shown = shown_path(path)
    node = parse(read_bytes(path, "topology"), shown, problems)
    if isinstance(node, Map) and "topology" not in node.entries:
        problems.add(node.mark, "topology is missing", TOPOLOGY.says)
    in_catalogue = path.parent == CATALOGUE
    row = TOPOLOGY_RECORD.read(problems, "topology", node)
    topology = _read(row, path.stem, shown, in_catalogue=in_catalogue) if row else None
    if topology and in_catalogue and topology.name != path.stem and isinstance(node, Map):
        problems.add(node.entries["topology"].value.mark, f"topology: expected {path.stem}, the name of the file")
    return topology


def catalogue() -> tuple[Topology, ...]:
    """Every topology of the catalogue, by name. Raises InputErrors."""
    return tuple(load_topology(path.stem, near=CATALOGUE) for path in sorted(CATALOGUE.glob("*.yaml")))


def find_topology(ref: str, *, near: Path) -> Path:
    """The file of a name or a path. Raises Misuse for a name that is not in the catalogue."""
    if not re.fullmatch(NAME, ref):
        return near / ref
    path = CATALOGUE / f"{ref}.yaml"
    if not path.is_file():
        known = sorted(file.stem for file in CATALOGUE.glob("*.yaml"))
        raise Misuse(
            f"no topology {ref} in the catalogue{nearest(ref, known)}",
            remedy=f"known: {names(known)}; a path needs a / or .yaml in it",
        )
    return path


Rows = Mapping[str, Row]
_SECTIONS = ("links", "disks", "enclosures", "hbas", "luns", "stacks")


def _read(row: Row, name: str, source: str, *, in_catalogue: bool = False) -> Topology | None:
    problems = row.problems
    before = problems.count
    scale, rows = row.get("scale"), {key: row.get(key, {}) for key in _SECTIONS}
    for section, parts in rows.items():
        _check_references(section.removesuffix("s"), parts, rows)
    links = {key: _link(key, part, scale) for key, part in rows["links"].items()}
    disks = _parts(rows["disks"], lambda key, part: _disk(key, part, scale))
    boxes = _parts(rows["enclosures"], lambda key, part: part.build(Enclosure, name=key))
    hbas = _parts(rows["hbas"], _hba)
    luns = _parts(rows["luns"], lambda key, part: part.build(Lun, name=key))
    _check_use(rows)
    _check_boxes(boxes, rows["enclosures"])
    origins = read_origins(row, complete=in_catalogue)
    if not row.sound or problems.count > before:
        return None
    vm, queue = ({key: str(value) for key, value in row.get(part, {}).items()} for part in ("vm", "queue"))
    topology = Topology(
        row.get("topology", name),
        row.get("title"),
        row.get("memory"),
        hbas,
        disks,
        luns,
        source,
        links,
        boxes,
        scale=scale,
        origins=origins,
        vm=vm,
        queue=queue,
        kernel_words=tuple(row.get("kernel_words", "").split()),
        processors=row.get("machine") or Processors(),
    )
    topology = read_stacks(topology, rows["stacks"])
    if problems.count > before:
        return None
    for refusal in refusals(topology, any_clock=True):
        rows[f"{refusal.kind}s"][refusal.name].add("", str(refusal))
    return topology if problems.count == before else None


def _parts(rows: Rows, read: Callable[[str, Row], T | None]) -> dict[str, T]:
    return {name: part for name, row in rows.items() if (part := read(name, row))}


def _link(name: str, row: Row, scale: int) -> Link:
    if sum(row.entry(key) is not None for key in ("rate", "pcie", "sas")) != 1:
        row.add("", f"link {name}: expected one of rate, pcie and sas", "such as rate: 132 MB/s")
    rate, what = row.get("rate", 1), ""
    if pcie := row.get("pcie"):
        rate, what = _PCIE_LANE[pcie.generation] * pcie.lanes, f"PCIe {pcie.generation}.0 x{pcie.lanes}"
    if sas := row.get("sas"):
        rate, what = _SAS_GBIT * sas.gbit * sas.lanes, f"SAS {sas.gbit} Gbit/s x{sas.lanes}"
    return Link(name, max(1, rate * row.get("efficiency") // 100 // scale), row.get("cost") * scale, what)


def _disk(name: str, row: Row, scale: int) -> Disk | None:
    if ("rate" in row.node.entries) == ("service" in row.node.entries):
        row.add("", f"disk {name}: expected either rate or service", "write one of the two")
    disk = row.build(Disk, name=name)
    if disk is None:
        return None
    starts = [0, *(zone.start for zone in disk.zones)]
    if starts != sorted(set(starts)) or starts[-1] >= disk.size:
        row.add("zones", f"disk {name}: expected zones in ascending order within the disk")
    times: dict[str, Any] = {key: scaled(scale, key, value) for key in SCALED if (value := getattr(disk, key))}
    zones = tuple(replace(zone, rate=scaled(scale, "rate", zone.rate)) for zone in disk.zones)
    return replace(disk, zones=zones, **times)


def _hba(name: str, row: Row) -> Hba | None:
    return row.build(Hba, name=name, cmd_per_lun=row.get("cmd_per_lun") or row.get("can_queue"))


_REFERENCES = {"links": ("links", "link"), "disks": ("disks", "disk"), "hba": ("hbas", "HBA")}
"""Keys of a part that name others: their section, and what they are."""


def _check_references(kind: str, parts: Rows, sections: Mapping[str, Rows]) -> None:
    """Report names that are unknown or listed twice."""
    for (name, row), (key, (section, what)) in product(parts.items(), _REFERENCES.items()):
        value, known = row.get(key, ()), sections[section]
        listed = (value,) if isinstance(value, str) else value
        for other in dict.fromkeys(listed):
            if other not in known:
                remedy = f"known: {names(known)}" if known else f"add it under {section}"
                row.add(key, f"{kind} {name}: no {what} {other}{nearest(other, known)}", remedy)
            elif listed.count(other) > 1:
                row.add(key, f"{kind} {name}: {what} {other} is listed twice")


def _check_use(sections: Mapping[str, Rows]) -> None:
    """Report disks, HBAs and links that nothing uses."""
    luns = sections["luns"].values()
    used = {
        "disks": {name for row in luns for name in row.get("disks", ())},
        "hbas": {row.get("hba") for row in luns},
        "links": {link for parts in sections.values() for row in parts.values() for link in row.get("links", ())},
    }
    for section, (kind, user, remedy) in _USERS.items():
        for name in sections[section].keys() - used[section]:
            sections[section][name].add("", f"{kind} {name}: {user} uses it", f"remove it or {remedy}", symptom=True)


_USERS = {
    "disks": ("disk", "no LUN", "list it under luns"),
    "hbas": ("hba", "no LUN", "name it under luns"),
    "links": ("link", "nothing", "list it under links of a disk, LUN, HBA or enclosure"),
}


def _check_boxes(boxes: Mapping[str, Enclosure], rows: Rows) -> None:
    housed: dict[str, str] = {}
    for name, box in boxes.items():
        for disk in box.disks:
            if housed.setdefault(disk, name) != name:
                rows[name].add("disks", f"enclosure {name}: disk {disk} is in {housed[disk]} already")
            housed[disk] = name


_LEAST_MEMBERS = {"raid0": 1, "raid1": 2, "raid10": 2, "raid4": 3, "raid5": 3, "raid6": 4}
_MEMBERS: Mapping[StackKind, tuple[int, str]] = {
    **dict.fromkeys((StackKind.CRYPT, StackKind.LOOP, StackKind.FILESYSTEM), (1, "one device")),
    StackKind.SNAPSHOT: (2, "two devices: the origin and the store of its snapshot"),
}
_COMMON_KEYS = {"kind", "over", "queue"}


def read_stacks(topology: Topology, rows: Rows) -> Topology:
    """The topology with its stacks; mistakes are reported at their rows."""
    stacks = _parts(rows, _stack)
    known = {*topology.luns, *rows}
    for name, stack in stacks.items():
        row = rows[name]
        if name in topology.luns or name in topology.disks:
            row.add("", f"stack {name}: a LUN or a disk has that name", "choose another name")
        for member in dict.fromkeys(stack.over):
            if member not in known:
                text = f"stack {name}: no LUN or stack {member}{nearest(member, known)}"
                row.add("over", text, f"known: {names(sorted(known - {name}))}")
    sound = {name: stack for name, stack in stacks.items() if known.issuperset(stack.over)}
    made = {stack.name for stack in build_order(replace(topology, stacks=sound))}
    for name in sound.keys() - made:
        if {*topology.luns, *sound}.issuperset(sound[name].over):
            rows[name].add("", f"stack {name}: it is over itself")
    return replace(topology, stacks={name: stack for name, stack in sound.items() if name in made})


def _stack(name: str, row: Row) -> Stack | None:
    kind, over = row.get("kind"), row.get("over")
    if kind is None or not over:
        return None
    for key in row.node.entries.keys() - {field.name for field in STACK_KEYS[kind]} - _COMMON_KEYS:
        row.add(key, f"stack {name}: kind {kind} has no {key}")
    settings = {f"{part}/{key}": str(value) for part in ATTRIBUTES for key, value in row.get(part, {}).items()}
    others = row.given((THROUGHPUT, *STACK_SETTINGS.values()))
    stack = Stack(name, kind, tuple(over), settings=settings, **others)
    for key, reason in _lacks(stack):
        row.add(key, f"stack {name}: {reason}")
    return stack


def _lacks_of_array(stack: Stack) -> Iterator[tuple[str, str]]:
    least = _LEAST_MEMBERS.get(stack.level)
    if least is None:
        yield "level", "level is missing"
    elif len(stack.over) < least:
        yield "over", f"{stack.level} needs at least {least} members"
    if stack.level != "raid1" and not stack.chunk:
        yield "chunk", "chunk is missing"
    elif stack.level == "raid1" and stack.chunk:
        yield "chunk", "raid1 has no chunk"
    if stack.write_mostly and (stack.level != "raid1" or stack.write_mostly >= len(stack.over)):
        yield "write_mostly", "some members of a raid1, but not all, may be write-mostly"
    if stack.write_behind and not (stack.write_mostly and stack.bitmap == "internal"):
        yield "write_behind", "it needs write_mostly and bitmap: internal"
    if stack.layout != NEAR and stack.level != "raid10":
        yield "layout", f"{stack.level} has no layout, only raid10 has"


def _lacks(stack: Stack) -> Iterator[tuple[str, str]]:
    """What is missing or wrong in a stack, as (key, reason)."""
    if stack.kind is StackKind.MD:
        yield from _lacks_of_array(stack)
    if stack.throughput and len(stack.throughput) != len(stack.over):
        yield "throughput", f"throughput has {len(stack.throughput)} entries for {len(stack.over)} paths"
    if stack.kind is StackKind.FILESYSTEM and not stack.type:
        yield "type", "type is missing"
    if stack.kind in _MEMBERS and len(stack.over) != _MEMBERS[stack.kind][0]:
        yield "over", f"a stack of kind {stack.kind} is over {_MEMBERS[stack.kind][1]}"
    if stack.kind in {StackKind.STRIPE, StackKind.SNAPSHOT} and not stack.chunk:
        yield "chunk", "chunk is missing"
    if stack.chunk & (stack.chunk - 1):
        yield "chunk", "chunk must be a power of two"
    if (stack.offset or stack.size) and stack.kind is StackKind.LINEAR and len(stack.over) > 1:
        yield "over", "offset and size need a single member"
    repeated = {member for member in stack.over if stack.over.count(member) > 1}
    if repeated:
        yield "over", f"{names(repeated)} is listed twice (make two linear parts of it)"

# SPDX-License-Identifier: GPL-2.0-only
"""Topologies from YAML: by name from the catalogue, by path, or inline in a scenario."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

from lab.base.errors import Misuse
from lab.topology import fields
from lab.topology.fields import TOPOLOGY, TOPOLOGY_RECORD
from lab.topology.limits import refusals
from lab.topology.model import Disk, Driver, Enclosure, Hba, Link, Lun, Topology, Zone
from lab.topology.origins import read_origins
from lab.topology.settings import scaled
from lab.topology.stacks import read_stacks
from lab.yaml.fields import NAME, Field, Row
from lab.yaml.strict import Map, Node, Problems, names, nearest, parse, read_bytes, shown_path

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
    topology = read_topology(ref, near=near, problems=problems)
    problems.raise_if_any()
    if topology is None:
        raise Misuse("the topology cannot be read", remedy="report this as a bug in blklab")
    return topology


def read_topology(ref: str | Node, *, near: Path, problems: Problems) -> Topology | None:
    """As ``load_topology``, with the mistakes added to ``problems``. Raises Misuse if there is no such file."""
    if not isinstance(ref, str):
        return _read(ref, "inline", "inline", problems)
    path = find_topology(ref, near=near)
    shown = shown_path(path)
    node = parse(read_bytes(path, "topology"), shown, problems)
    if isinstance(node, Map) and "topology" not in node.entries:
        problems.add(node.mark, "topology is missing", TOPOLOGY.says)
    in_catalogue = path.parent == CATALOGUE
    topology = _read(node, path.stem, shown, problems, in_catalogue=in_catalogue)
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


def _read(node: Node, name: str, source: str, problems: Problems, *, in_catalogue: bool = False) -> Topology | None:
    row = TOPOLOGY_RECORD.read(problems, "topology", node)
    if row is None:
        return None
    before = len(problems.found)
    memory, scale = row.get(fields.MEMORY), row.value(fields.SCALE)
    link_rows, disk_rows, box_rows, hba_rows, lun_rows, stack_rows = (
        row.get(field) or {}
        for field in (fields.LINKS, fields.DISKS, fields.ENCLOSURES, fields.HBAS, fields.LUNS, fields.STACKS)
    )
    links = {key: _link(key, one, scale) for key, one in link_rows.items()}
    disks = {key: _disk(key, one, links, scale) for key, one in disk_rows.items()}
    boxes = {key: _box(key, one, disk_rows, links) for key, one in box_rows.items()}
    hbas = {key: hba for key, one in hba_rows.items() if (hba := _hba(key, one, links))}
    luns = {key: lun for key, one in lun_rows.items() if (lun := _lun(key, one, disk_rows, hba_rows, links))}
    _check_use(lun_rows, disk_rows, hba_rows, problems)
    _check_boxes(boxes, box_rows)
    users: Iterable[Disk | Enclosure | Hba | Lun] = chain(*(one.values() for one in (disks, boxes, hbas, luns)))
    used = {link for user in users for link in user.links}
    for key in set(links) - used:
        remedy = "remove it, or list it under links of a disk, LUN, HBA or enclosure"
        problems.add(link_rows[key].mark, f"link {key}: nothing uses it", remedy, symptom=True)
    title, name = row.get_or(fields.TITLE, ""), row.get_or(TOPOLOGY, name)
    origins = read_origins(row, complete=in_catalogue)
    if len(problems.found) > before or memory is None:
        return None
    vm, queue = _values(row, fields.VM, fields.VM_FIELDS), _values(row, fields.QUEUE, fields.QUEUE_FIELDS)
    topology = Topology(name, title, memory, hbas, disks, luns, source, links, boxes, {}, scale, origins, vm, queue)
    topology = replace(topology, kernel_words=tuple(row.get_or(fields.KERNEL_WORDS, "").split()))
    topology = read_stacks(topology, stack_rows, lun_rows)
    places = {"disk": disk_rows, "hba": hba_rows, "lun": lun_rows, "stack": stack_rows}
    if len(problems.found) > before:
        return None
    for refusal in refusals(topology):
        problems.add(places[refusal.kind][refusal.name].mark, str(refusal))
    return topology if len(problems.found) == before else None


def _link(name: str, row: Row, scale: int) -> Link:
    given = [field for field in (fields.LINK_RATE, fields.PCIE, fields.SAS) if row.entry(field.name)]
    if len(given) != 1:
        row.problems.add(row.mark, f"link {name}: expected one of rate, pcie and sas", "such as rate: 132 MB/s")
    rate, what = row.get_or(fields.LINK_RATE, 1), ""
    if pcie := row.get(fields.PCIE):
        generation, lanes = pcie.get_or(fields.GENERATION, 1), pcie.get_or(fields.LANES, 1)
        rate, what = _PCIE_LANE[generation] * lanes, f"PCIe {generation}.0 x{lanes}"
    if sas := row.get(fields.SAS):
        lanes, gbit = sas.get_or(fields.LANES, 1), sas.get_or(fields.GBIT, 1)
        rate, what = _SAS_GBIT * gbit * lanes, f"SAS {gbit} Gbit/s x{lanes}"
    efficiency = row.value(fields.EFFICIENCY)
    return Link(name, max(1, rate * efficiency // 100 // scale), row.value(fields.COST) * scale, what)


def _disk(name: str, row: Row, links: Iterable[str], scale: int) -> Disk:
    if ("rate" in row.node.entries) == ("service" in row.node.entries):
        row.problems.add(row.mark, f"disk {name}: expected either rate or service", "write one of the two")
    size, given = row.get_or(fields.SIZE, 0), row.given(fields.DISK_SETTINGS.values())
    numbers = {key: scaled(scale, key, value) for key, value in given.items()}
    rotation, zones = numbers.pop(fields.RPM.name, 0), _zones(name, row, size, scale)
    path = _references(f"disk {name}", row, fields.PATH, "link", links)
    discard = row.value(fields.DISCARD)
    return Disk(name, size, rotation=rotation, zones=zones, links=path, discard=discard, **numbers)


def _zones(name: str, row: Row, size: int, scale: int) -> tuple[Zone, ...]:
    zones: list[Zone] = []
    for zone in row.get(fields.ZONES) or ():
        start, rate = zone.get(fields.ZONE_FROM), zone.get(fields.ZONE_RATE)
        if start is None or rate is None:
            continue
        if start >= size or (zones and start <= zones[-1].start):
            zone.problems.add(zone.mark, f"disk {name}: expected zones in ascending order within the disk")
        zones.append(Zone(start, max(1, rate // scale)))
    return tuple(zones)


def _box(name: str, row: Row, disks: Iterable[str], links: Iterable[str]) -> Enclosure:
    members = _references(f"enclosure {name}", row, fields.BOX_DISKS, "disk", disks)
    path = _references(f"enclosure {name}", row, fields.PATH, "link", links)
    return Enclosure(name, members, row.get_or(fields.MODEL, ""), path)


def _references(label: str, row: Row, field: Field[list[str]], what: str, known: Iterable[str]) -> tuple[str, ...]:
    """The names in a list; unknown and repeated ones are reported."""
    found = row.get(field) or []
    for name in dict.fromkeys(found):
        if name not in known:
            remedy = f"known: {names(known)}" if known else f"add it under {what}s"
            row.problems.add(row.place(field.name), f"{label}: no {what} {name}{nearest(name, known)}", remedy)
        elif found.count(name) > 1:
            row.problems.add(row.place(field.name), f"{label}: {what} {name} is listed twice")
    return tuple(found)


def _hba(name: str, row: Row, links: Iterable[str]) -> Hba | None:
    driver, can_queue = row.get(fields.DRIVER), row.get(fields.CAN_QUEUE)
    cmd_per_lun = row.get(fields.CMD_PER_LUN)
    path = _references(f"hba {name}", row, fields.PATH, "link", links)
    if driver is None or can_queue is None:
        return None
    others = row.given((fields.HW_QUEUES, fields.MODEL, fields.SLOT, fields.NODE, fields.INTERRUPTS))
    return Hba(name, Driver(driver), can_queue, cmd_per_lun or can_queue, links=path, **others)


def _lun(name: str, row: Row, disks: Iterable[str], hbas: Iterable[str], links: Iterable[str]) -> Lun | None:
    hba = row.get(fields.HBA)
    if hba is not None and hba not in hbas:
        row.problems.add(row.place("hba"), f"lun {name}: no HBA {hba}{nearest(hba, hbas)}", f"known: {names(hbas)}")
    members = _references(f"lun {name}", row, fields.LUN_DISKS, "disk", disks)
    path = _references(f"lun {name}", row, fields.PATH, "link", links)
    return None if hba is None or not members else Lun(name, hba, members, path)


def _check_use(luns: Rows, disks: Rows, hbas: Rows, problems: Problems) -> None:
    quiet = Problems()
    busy = {fields.HBA.kind.read(quiet, "", entry.value) for row in luns.values() if (entry := row.entry("hba"))}
    shown = {
        name
        for row in luns.values()
        if (entry := row.entry("disks"))
        for name in fields.LUN_DISKS.kind.read(quiet, "", entry.value) or ()
    }
    for kind, rows, used, remedy in (("disk", disks, shown, "list it"), ("hba", hbas, busy, "name it")):
        for name, row in rows.items():
            if name not in used:
                problems.add(
                    row.mark, f"{kind} {name}: no LUN uses it", f"remove it or {remedy} under luns", symptom=True
                )


def _check_boxes(boxes: Mapping[str, Enclosure], rows: Rows) -> None:
    housed: dict[str, str] = {}
    for name, box in boxes.items():
        for disk in box.disks:
            if disk in housed and housed[disk] != name:
                row = rows[name]
                row.problems.add(row.place("disks"), f"enclosure {name}: disk {disk} is in {housed[disk]} already")
            housed[disk] = name


def _values(row: Row, section: Field[Row], keys: Iterable[Field[int] | Field[str]]) -> dict[str, str]:
    own = row.get(section)
    return {name: str(value) for name, value in own.given(keys).items()} if own else {}

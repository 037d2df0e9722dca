# SPDX-License-Identifier: GPL-2.0-only
"""Topologies from YAML: by name from the catalogue, by path, or inline in a scenario."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from lab.errors import Misuse
from lab.strict_yaml import Map, Node, Problems, names, nearest, parse, read_bytes, shown_path
from lab.topology.limits import refusals
from lab.topology.model import Disk, Driver, Hba, Link, Lun, Topology
from lab.yaml_fields import (
    NAME,
    Choice,
    Field,
    Integer,
    Json,
    Kind,
    ListOf,
    Named,
    Record,
    Row,
    Text,
    name_text,
    rate,
    size,
    time,
)

CATALOGUE = Path(__file__).parent / "catalogue"
SERVICE_RANGE = (1, 60 * 10**9)
QEMU_DRIVERS = ("megasas", "mptsas1068", "nvme", "virtio-scsi")
"""Devices of QEMU: they complete in host time and so belong to the wall clock."""

_MEBIBYTE = 1 << 20
TOPOLOGY = Field("topology", name_text(), says="the topology's name, that of its file")
TITLE = Field("title", Text(), says="what it stands for, in a sentence")
MEMORY = Field("memory", size(128 * _MEBIBYTE, 1 << 38), required=True, says="the guest's memory, such as 512M")
SIZE = Field("size", size(_MEBIBYTE), required=True, says="capacity, such as 1G")
RATE = Field("rate", rate(), says="bytes per second of a disk that serves one request after another")
SERVICE = Field("service", time(*SERVICE_RANGE), says="time of a request on a disk that serves all at once")
SEEK = Field("seek", time(0, 10**9), says="time before a request that does not start where the last one ended")
DISK_LINK = Field("link", name_text(), says="the link that carries the disk's data")
LINK_RATE = Field("rate", rate(), required=True, says="bytes per second that its disks share")
COST = Field("cost", time(0, 10**9), says="time that the link spends on each request beside its bytes")
MODEL = Field("model", Text(), says="the adapter that the HBA stands for")
DRIVER = Field("driver", Choice((*Driver, *QEMU_DRIVERS)), required=True, says="the device that plays the HBA")
CAN_QUEUE = Field("can_queue", Integer(1, 10240), required=True, says="tags that all LUNs of the HBA share")
CMD_PER_LUN = Field("cmd_per_lun", Integer(1, 10240), says="tags that one LUN may hold (default: can_queue)")
HW_QUEUES = Field("hw_queues", Integer(1, 64), says="hardware queues (default: 1)")
HBA = Field("hba", name_text(), required=True, says="the HBA that shows the LUN")
LUN_DISKS = Field("disks", ListOf(name_text(), least=1), required=True, says="disks whose sectors it shows, in order")

_DISK = Record((SIZE, RATE, SERVICE, SEEK, DISK_LINK))
_LINK = Record((LINK_RATE, COST))
_HBA = Record((MODEL, DRIVER, CAN_QUEUE, CMD_PER_LUN, HW_QUEUES))
_LUN = Record((HBA, LUN_DISKS))
DISKS = Field("disks", Named(_DISK, "disk"), required=True)
HBAS = Field("hbas", Named(_HBA, "HBA", most=32), required=True)
LUNS = Field("luns", Named(_LUN, "LUN"), required=True)
LINKS = Field("links", Named(_LINK, "link"), says="capacities that disks share")
TOPOLOGY_RECORD = Record((TOPOLOGY, TITLE, MEMORY, LINKS, DISKS, HBAS, LUNS))

_HBA_KNOBS: Mapping[str, Kind[int]] = {field.name: field.kind for field in (CAN_QUEUE, CMD_PER_LUN, HW_QUEUES)}
_DISK_KNOBS: Mapping[str, Kind[int]] = {field.name: field.kind for field in (RATE, SERVICE, SEEK)}
_LINK_KNOBS: Mapping[str, Kind[int]] = {field.name: field.kind for field in (LINK_RATE, COST)}


def knob_fields() -> tuple[Field[int], ...]:
    """Settings of an arm that change a topology, as fields whose names are patterns."""
    hba = [Field(rf"hba\.({NAME}\.)?{key}", kind, says=f"hba.{key}") for key, kind in _HBA_KNOBS.items()]
    disk = [Field(rf"disk\.{NAME}\.{key}", kind, says=f"disk.NAME.{key}") for key, kind in _DISK_KNOBS.items()]
    link = [Field(rf"link\.{NAME}\.{key}", kind, says=f"link.NAME.{key}") for key, kind in _LINK_KNOBS.items()]
    return (*hba, *disk, *link)


def load_topology(ref: str | Node, *, near: Path) -> Topology:
    """A topology by name from the catalogue, by a path relative to the folder ``near``, or from a mapping.

    Raises InputErrors with all mistakes, Misuse if there is no such file.
    """
    problems = Problems()
    topology = read_topology(ref, near=near, problems=problems)
    problems.raise_if_any()
    if topology is None:
        raise Misuse("the topology cannot be read", remedy="report this as a bug of blklab")
    return topology


def read_topology(ref: str | Node, *, near: Path, problems: Problems) -> Topology | None:
    """As ``load_topology``, with the mistakes left in ``problems``. Raises Misuse if there is no such file."""
    if not isinstance(ref, str):
        return _read(ref, "inline", "inline", problems)
    path = find_topology(ref, near=near)
    shown = shown_path(path)
    node = parse(read_bytes(path, "topology"), shown, problems)
    if isinstance(node, Map) and "topology" not in node.entries:
        problems.add(node.mark, "topology is missing", TOPOLOGY.says)
    topology = _read(node, path.stem, shown, problems)
    if topology and path.parent == CATALOGUE and topology.name != path.stem and isinstance(node, Map):
        problems.add(node.entries["topology"].value.mark, f"topology: expected {path.stem}, the name of the file")
    return topology


def find_topology(ref: str, *, near: Path) -> Path:
    """The file that a name or a path means. Raises Misuse for a name that the catalogue does not have."""
    if not re.fullmatch(NAME, ref):
        return near / ref
    path = CATALOGUE / f"{ref}.yaml"
    if not path.is_file():
        known = sorted(file.stem for file in CATALOGUE.glob("*.yaml"))
        raise Misuse(
            f"no topology {ref} in the catalogue{nearest(ref, known)}",
            remedy=f"known: {names(known)}; or give a path with a / or .yaml in it",
        )
    return path


def _read(node: Node, name: str, source: str, problems: Problems) -> Topology | None:
    row = TOPOLOGY_RECORD.read(problems, "topology", node)
    if row is None:
        return None
    before = len(problems.found)
    memory = row.get(MEMORY)
    disk_rows, hba_rows, lun_rows, link_rows = (row.get(field) or {} for field in (DISKS, HBAS, LUNS, LINKS))
    links = {key: Link(key, one.get_or(LINK_RATE, 1), one.get_or(COST, 0)) for key, one in link_rows.items()}
    disks = {key: _disk(key, disk, links) for key, disk in disk_rows.items()}
    hbas = {key: hba for key, one in hba_rows.items() if (hba := _hba(key, one))}
    luns = {key: lun for key, one in lun_rows.items() if (lun := _lun(key, one, disk_rows, hba_rows))}
    title = row.get_or(TITLE, "")
    name = row.get_or(TOPOLOGY, name)
    _check_use(lun_rows, disk_rows, hba_rows, problems)
    for key in set(links) - {disk.link for disk in disks.values()}:
        problems.add(link_rows[key].mark, f"link {key} carries no disk", "remove it or name it as link of a disk")
    if len(problems.found) > before or memory is None:
        return None
    topology = Topology(name, title, memory, hbas, disks, luns, source, links)
    places = {"disk": disk_rows, "hba": hba_rows, "lun": lun_rows}
    for refusal in refusals(topology):
        problems.add(places[refusal.kind][refusal.name].mark, str(refusal))
    return topology if len(problems.found) == before else None


def _disk(name: str, row: Row, links: Iterable[str]) -> Disk:
    size, link = row.get_or(SIZE, 0), row.get(DISK_LINK)
    disk = Disk(name, size, row.get(RATE), row.get(SERVICE), seek=row.get_or(SEEK, 0), link=link)
    if link is not None and link not in links:
        known = f"known: {names(links)}" if links else "add it under links"
        row.problems.add(row.place("link"), f"disk {name}: no link {link}{nearest(link, links)}", known)
    if ("rate" in row.node.entries) == ("service" in row.node.entries):
        row.problems.add(row.mark, f"disk {name}: expected either rate or service", "one of the two")
    return disk


def _hba(name: str, row: Row) -> Hba | None:
    driver, can_queue = row.get(DRIVER), row.get(CAN_QUEUE)
    cmd_per_lun, hw_queues, model = row.get(CMD_PER_LUN), row.get_or(HW_QUEUES, 1), row.get_or(MODEL, "")
    if driver in QEMU_DRIVERS:
        row.problems.add(
            row.place("driver"),
            f"driver {driver} is a device of QEMU on the host's clock: under the virtual clock that is a mix of clocks",
            f"in-guest drivers: {names(Driver)}",
        )
        return None
    if driver is None or can_queue is None:
        return None
    return Hba(name, Driver(driver), can_queue, cmd_per_lun or can_queue, hw_queues, model)


def _lun(name: str, row: Row, disks: Iterable[str], hbas: Iterable[str]) -> Lun | None:
    hba, members = row.get(HBA), row.get(LUN_DISKS)
    if hba is not None and hba not in hbas:
        row.problems.add(row.place("hba"), f"lun {name}: no HBA {hba}{nearest(hba, hbas)}", f"known: {names(hbas)}")
    for member in members or ():
        if member not in disks:
            known = f"known: {names(disks)}"
            row.problems.add(row.place("disks"), f"lun {name}: no disk {member}{nearest(member, disks)}", known)
    return None if hba is None or not members else Lun(name, hba, tuple(members))


def _check_use(luns: Mapping[str, Row], disks: Mapping[str, Row], hbas: Mapping[str, Row], problems: Problems) -> None:
    shown: dict[str, str] = {}
    busy: set[str] = set()
    for name, row in luns.items():
        quiet = Problems()
        busy.add(HBA.kind.read(quiet, "hba", entry.value) or "" if (entry := row.entry("hba")) else "")
        members = LUN_DISKS.kind.read(quiet, "disks", entry.value) if (entry := row.entry("disks")) else None
        for member in members or ():
            if member in shown:
                problems.add(row.place("disks"), f"disk {member} is on lun {shown[member]} already", "use it once")
            shown[member] = name
    for name, row in disks.items():
        if name not in shown:
            problems.add(row.mark, f"disk {name} is on no lun", "remove it or list it under luns")
    for name, row in hbas.items():
        if name not in busy:
            problems.add(row.mark, f"hba {name} has no lun", "remove it or list it under luns")


def apply_setting(topology: Topology, key: str, value: int) -> Topology:
    """The topology with one knob turned: ``hba.KNOB`` (all HBAs), ``hba.NAME.KNOB``,
    ``disk.NAME.KNOB`` or ``link.NAME.KNOB``.

    Limits that belong together are not checked here (see ``limits.refusals``), so that several
    knobs can be turned one after another. Raises ValueError for a name or knob that is not there.
    """
    (kind, *name), knob = key.split(".")[:-1] or [""], key.rsplit(".", maxsplit=1)[-1]
    if kind == "hba" and knob in _HBA_KNOBS and len(name) <= 1:
        chosen = _chosen(name, topology.hbas, "HBA")
        hbas = {each: _turned(hba, knob, value) if each in chosen else hba for each, hba in topology.hbas.items()}
        return replace(topology, hbas=hbas)
    if kind == "disk" and knob in _DISK_KNOBS and len(name) == 1:
        _chosen(name, topology.disks, "disk")
        return replace(topology, disks={**topology.disks, name[0]: _turned_disk(topology.disks[name[0]], knob, value)})
    if kind == "link" and knob in _LINK_KNOBS and len(name) == 1:
        _chosen(name, topology.links, "link")
        link = topology.links[name[0]]
        turned = replace(link, rate=value) if knob == "rate" else replace(link, cost=value)
        return replace(topology, links={**topology.links, name[0]: turned})
    raise ValueError(f"{key}: no such knob")


def _turned(hba: Hba, knob: str, value: int) -> Hba:
    if knob == "can_queue":
        # null_blk knows no limit but that of its tag set.
        cmd_per_lun = value if hba.driver is Driver.NULL_BLK else hba.cmd_per_lun
        return replace(hba, can_queue=value, cmd_per_lun=cmd_per_lun)
    return replace(hba, cmd_per_lun=value) if knob == "cmd_per_lun" else replace(hba, hw_queues=value)


def _turned_disk(disk: Disk, knob: str, value: int) -> Disk:
    if knob == "seek":
        return replace(disk, seek=value)
    return replace(disk, rate=value, service=None) if knob == "rate" else replace(disk, rate=None, service=value)


def _chosen(name: list[str], known: Iterable[str], what: str) -> set[str]:
    missing = [each for each in name if each not in known]
    if missing:
        raise ValueError(f"no {what} {missing[0]}{nearest(missing[0], known)} (known: {names(known)})")
    return set(name) or set(known)


def topology_schema() -> Json:
    return TOPOLOGY_RECORD.json()

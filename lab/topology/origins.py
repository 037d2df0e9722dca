# SPDX-License-Identifier: GPL-2.0-only
"""Where the parameters of a topology come from. In the catalogue every parameter has an origin.

A parameter is named ``kind.name.key``: ``disk.d3.seek``. A link's capacity is ``rate``, also if it is written as PCIe
lanes or as a SAS port.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from math import ceil, floor
from typing import TypeVar

from lab.topology import fields
from lab.topology.model import Disk, Hba, Link, Origin, Topology
from lab.yaml.fields import Field, Row
from lab.yaml.strict import names

_KEYS: Mapping[str, tuple[Field[dict[str, Row]], Mapping[str, str]]] = {
    "disk": (
        fields.DISKS,
        {key: key for key in ("rate", "service", "seek", "rpm", "ncq", "look_ahead", "coalesce", "buffer", "zones")},
    ),
    "link": (fields.LINKS, {"rate": "rate", "pcie": "rate", "sas": "rate", "efficiency": "efficiency", "cost": "cost"}),
    "hba": (fields.HBAS, {key: key for key in ("can_queue", "cmd_per_lun")}),
}
_FACTS: Mapping[str, tuple[Field[dict[str, Row]], Mapping[str, str]]] = {
    "disk": (fields.DISKS, {"size": "size"}),
    "hba": (fields.HBAS, {"node": "node"}),
    "stack": (fields.STACKS, {"chunk": "chunk"}),
}
"""What a file may say the origin of, but need not: a report or a machine states it."""
_KINDS = [field.name for field in fields.ORIGIN_TEXTS]
_GUESS = "guessed"
_REMEDY = "write origins: [{of: disk.*.seek, cites: ...}], or fitted: to what, or chosen: why any such value will do"


def free_parameters(row: Row) -> tuple[str, ...]:
    """The parameters that a topology file sets, as ``kind.name.key``."""
    return _set_in(row, _KEYS)


def _set_in(row: Row, sections: Mapping[str, tuple[Field[dict[str, Row]], Mapping[str, str]]]) -> tuple[str, ...]:
    return tuple(
        f"{kind}.{name}.{parameter}"
        for kind, (section, keys) in sections.items()
        for name, one in (row.get(section) or {}).items()
        for key, parameter in keys.items()
        if one.entry(key)
    )


def read_origins(row: Row, *, complete: bool) -> tuple[Origin, ...]:
    """The origins in a topology file. ``complete`` reports parameters without one."""
    origins: list[Origin] = []
    parameters = free_parameters(row)
    known_ones = (*parameters, *_set_in(row, _FACTS))
    for one in row.get(fields.ORIGINS) or ():
        of = one.get(fields.ORIGIN_OF)
        texts = [(field.name, text) for field in fields.ORIGIN_TEXTS if (text := one.get(field))]
        if len(texts) != 1:
            one.problems.add(one.mark, f"origins: expected one of {names(_KINDS)}", "write one of them")
        elif complete and texts[0][0] == _GUESS:
            one.problems.add(one.mark, "origins: the catalogue has no guesses", "write cites, fitted or chosen")
        elif of is not None:
            origins.append(Origin(of, *texts[0]))
            if not any(fnmatchcase(parameter, of) for parameter in known_ones):
                known = dict.fromkeys(_every(parameter) for parameter in known_ones)
                one.problems.add(one.place("of"), f"origins: this file has no parameter {of}", f"known: {names(known)}")
    uncovered = {each for each in parameters if not any(fnmatchcase(each, origin.of) for origin in origins)}
    if complete and uncovered:
        lacking = names(_together(parameters, uncovered))
        row.problems.add(row.place("origins"), f"origins: parameters without an origin: {lacking}", _REMEDY)
    return tuple(origins)


def _every(parameter: str) -> str:
    kind, _, key = parameter.split(".")
    return f"{kind}.*.{key}"


def _together(parameters: tuple[str, ...], chosen: set[str]) -> Iterator[str]:
    """The chosen parameters, with ``disk.*.seek`` for the seeks of all disks if all are chosen."""
    left = {_every(parameter) for parameter in parameters if parameter not in chosen}
    yield from dict.fromkeys(
        parameter if _every(parameter) in left else _every(parameter) for parameter in parameters if parameter in chosen
    )


T = TypeVar("T", Disk, Hba, Link)
_NS_PER_REVOLUTION = "rpm"


def multiplied(topology: Topology, of: str, factor: float) -> Topology:
    """``of`` names parameters as an origin does: ``disk.*.seek``, ``link.slot1.efficiency``, ``hba.*.can_queue``.

    Zones are multiplied with the rate of their disk. Parameters that the topology lacks are ignored.
    """

    def turned(kind: str, parts: Mapping[str, T], keys: Mapping[str, Callable[[T], T]]) -> dict[str, T]:
        changed = dict(parts)
        for name in parts:
            for key, change in keys.items():
                if fnmatchcase(f"{kind}.{name}.{key}", of):
                    changed[name] = change(changed[name])
        return changed

    def times(value: int) -> int:
        return max(1, round(value * factor))

    def choices(value: int) -> int:
        """Rounded away from ``value``; otherwise small numbers would not change."""
        return max(1, ceil(value * factor) if factor > 1 else floor(value * factor))

    def rated(disk: Disk) -> Disk:
        zones = tuple(replace(zone, rate=times(zone.rate)) for zone in disk.zones)
        return replace(disk, rate=times(disk.rate) if disk.rate else None, zones=zones)

    disk_keys: dict[str, Callable[[Disk], Disk]] = {
        "rate": rated,
        "service": lambda disk: replace(disk, service=times(disk.service) if disk.service else None),
        "seek": lambda disk: replace(disk, seek=round(disk.seek * factor)),
        _NS_PER_REVOLUTION: lambda disk: replace(disk, rotation=round(disk.rotation / factor)),
        "ncq": lambda disk: replace(disk, ncq=choices(disk.ncq)),
        "look_ahead": lambda disk: replace(disk, look_ahead=round(disk.look_ahead * factor)),
        "coalesce": lambda disk: replace(disk, coalesce=choices(disk.coalesce)),
        "buffer": lambda disk: replace(disk, buffer=times(disk.buffer)),
    }
    link_keys: dict[str, Callable[[Link], Link]] = {
        "rate": lambda link: replace(link, rate=times(link.rate)),
        "efficiency": lambda link: replace(link, rate=times(link.rate)),
        "cost": lambda link: replace(link, cost=round(link.cost * factor)),
    }
    hba_keys: dict[str, Callable[[Hba], Hba]] = {
        "can_queue": lambda hba: replace(hba, can_queue=times(hba.can_queue)),
        "cmd_per_lun": lambda hba: replace(hba, cmd_per_lun=min(hba.can_queue, times(hba.cmd_per_lun))),
    }
    return replace(
        topology,
        disks=turned("disk", topology.disks, disk_keys),
        links=turned("link", topology.links, link_keys),
        hbas=turned("hba", topology.hbas, hba_keys),
    )

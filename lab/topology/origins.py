# SPDX-License-Identifier: GPL-2.0-only
"""Where the parameters of a topology come from. In the catalogue every parameter has an origin.

A parameter is named ``kind.name.key``: ``disk.d3.seek``; those of the request queues are ``queue.key``. A link's
capacity is ``rate``, also if it is written as PCIe lanes or as a SAS port.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from math import ceil, floor
from typing import Any, TypeVar

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
    "stack": (fields.STACKS, {key: key for key in ("chunk", "offset", "size", "level", "queue", "md")}),
}
"""What a file may say the origin of, but need not: a report or a machine states it."""
T = TypeVar("T", Disk, Link, Hba)
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
    queue = row.get(fields.QUEUE)
    settings = (f"queue.{one.name}" for one in fields.QUEUE_FIELDS if queue and queue.entry(one.name))
    known_ones = (*parameters, *_set_in(row, _FACTS), *settings)
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
    kind, *name, key = parameter.split(".")
    return f"{kind}.*.{key}" if name else parameter


def _together(parameters: tuple[str, ...], chosen: set[str]) -> Iterator[str]:
    """The chosen parameters, with ``disk.*.seek`` for the seeks of all disks if all are chosen."""
    left = {_every(parameter) for parameter in parameters if parameter not in chosen}
    yield from dict.fromkeys(
        parameter if _every(parameter) in left else _every(parameter) for parameter in parameters if parameter in chosen
    )


_ATTRIBUTES = {"rpm": "rotation", "efficiency": "rate"}
"""Fields of a part whose names are not those of their parameters."""


def multiplied(topology: Topology, of: str, factor: float) -> Topology:
    """``of`` names parameters as an origin does: ``disk.*.seek``, ``link.slot1.efficiency``, ``hba.*.can_queue``.

    Zones are multiplied with the rate of their disk. Parameters that the topology lacks are ignored.
    """

    def changed(kind: str, part: T) -> T:
        for key in dict.fromkeys(_KEYS[kind][1].values()):
            if fnmatchcase(f"{kind}.{part.name}.{key}", of):
                part = replace(part, **_multiple(part, key, factor))
        return part

    return replace(
        topology,
        disks={name: changed("disk", disk) for name, disk in topology.disks.items()},
        links={name: changed("link", link) for name, link in topology.links.items()},
        hbas={name: changed("hba", hba) for name, hba in topology.hbas.items()},
    )


def _multiple(part: Disk | Link | Hba, key: str, factor: float) -> dict[str, Any]:
    """The fields of ``part`` that change when its parameter ``key`` is multiplied."""
    attribute = _ATTRIBUTES.get(key, key)
    value = getattr(part, attribute)
    if not value or key == "zones":
        return {}
    if key == "rpm":
        return {attribute: round(value / factor)}
    if key in {"seek", "look_ahead", "cost"}:
        return {attribute: round(value * factor)}
    if key in {"ncq", "coalesce"}:
        # Away from the value; otherwise small numbers would not change.
        return {attribute: max(1, ceil(value * factor) if factor > 1 else floor(value * factor))}
    times = max(1, round(value * factor))
    if isinstance(part, Disk) and key == "rate":
        zones = tuple(replace(zone, rate=max(1, round(zone.rate * factor))) for zone in part.zones)
        return {"rate": times, "zones": zones}
    return {attribute: min(part.can_queue, times) if isinstance(part, Hba) and key == "cmd_per_lun" else times}

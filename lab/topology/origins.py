# SPDX-License-Identifier: GPL-2.0-only
"""Where the parameters of a topology come from. In the catalogue every parameter has an origin.

A parameter is named ``kind.name.key``: ``disk.d3.seek``; those of the request queues are ``queue.key``. A link's
capacity is ``rate``, also if it is written as PCIe lanes or as a SAS port.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from math import ceil, floor
from typing import Any

from lab.topology.fields import ORIGIN_TEXTS
from lab.topology.model import Disk, Hba, Link, Origin, Topology
from lab.yaml.fields import Row
from lab.yaml.strict import names

_DISK_KEYS = ("rate", "service", "seek", "rpm", "ncq", "look_ahead", "coalesce", "buffer", "zones")
_KEYS: Mapping[str, Mapping[str, str]] = {
    "disk": {key: key for key in _DISK_KEYS},
    "link": {"rate": "rate", "pcie": "rate", "sas": "rate", "efficiency": "efficiency", "cost": "cost"},
    "hba": {key: key for key in ("can_queue", "cmd_per_lun")},
}
"""The parameter of each key, by kind."""
_FACTS: Mapping[str, Mapping[str, str]] = {
    "disk": {"size": "size"},
    "hba": {"node": "node"},
    "stack": {key: key for key in ("chunk", "offset", "size", "level", "queue", "md")},
}
"""What a file may say the origin of, but need not: a report or a machine states it."""
_KINDS = [field.name for field in ORIGIN_TEXTS]
_GUESS = "guessed"
_REMEDY = "write origins: [{of: disk.*.seek, cites: ...}], or fitted: to what, or chosen: why any such value will do"


def _parameters(row: Row, kinds: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """The parameters that a topology file sets, as ``kind.name.key``."""
    return tuple(
        f"{kind}.{name}.{parameter}"
        for kind, keys in kinds.items()
        for name, part in row.get(f"{kind}s", {}).items()
        for key, parameter in keys.items()
        if part.entry(key)
    )


def read_origins(row: Row, *, complete: bool) -> tuple[Origin, ...]:
    """The origins in a topology file. ``complete`` reports parameters without one."""
    origins: list[Origin] = []
    parameters = _parameters(row, _KEYS)
    known = (*parameters, *_parameters(row, _FACTS), *(f"queue.{key}" for key in row.get("queue", {})))
    for origin in row.get("origins", ()):
        of, texts = origin.get("of"), origin.given(ORIGIN_TEXTS)
        if len(texts) != 1:
            origin.add("", f"origins: expected one of {names(_KINDS)}", "write one of them")
        elif complete and _GUESS in texts:
            origin.add("", "origins: the catalogue has no guesses", "write cites, fitted or chosen")
        elif of is not None:
            origins.append(Origin(of, *next(iter(texts.items()))))
            if not any(fnmatchcase(parameter, of) for parameter in known):
                remedy = f"known: {names(dict.fromkeys(map(_every, known)))}"
                origin.add("of", f"origins: this file has no parameter {of}", remedy)
    uncovered = {each for each in parameters if not any(fnmatchcase(each, origin.of) for origin in origins)}
    if complete and uncovered:
        lacking = names(_together(parameters, uncovered))
        row.add("origins", f"origins: parameters without an origin: {lacking}", _REMEDY)
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
    kind = of.partition(".")[0]
    parts: Mapping[str, Disk | Link | Hba] = getattr(topology, f"{kind}s") if kind in _KEYS else {}
    changed = dict(parts)
    for name in parts:
        for key in dict.fromkeys(_KEYS[kind].values()):
            if fnmatchcase(f"{kind}.{name}.{key}", of):
                changed[name] = replace(changed[name], **_multiple(changed[name], key, factor))
    return replace(topology, **{f"{kind}s": changed}) if parts else topology  # type: ignore[arg-type]


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

# SPDX-License-Identifier: GPL-2.0-only
"""Where the free parameters of a topology come from: in the catalogue each has an origin, and each origin a parameter.

A parameter is called ``kind.name.key``: ``disk.d3.seek``; that of a link's capacity is ``rate``
whether it is written as a rate, as PCIe lanes or as a SAS port.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from lab.topology import fields
from lab.topology.model import Origin
from lab.yaml.fields import Field, Row
from lab.yaml.strict import names

_KEYS: Mapping[str, tuple[Field[dict[str, Row]], Mapping[str, str]]] = {
    "disk": (
        fields.DISKS,
        {key: key for key in ("rate", "service", "seek", "rpm", "ncq", "look_ahead", "buffer", "zones")},
    ),
    "link": (fields.LINKS, {"rate": "rate", "pcie": "rate", "sas": "rate", "efficiency": "efficiency", "cost": "cost"}),
    "hba": (fields.HBAS, {key: key for key in ("can_queue", "cmd_per_lun")}),
}
_REMEDY = "under origins: {of: disk.*.seek, cites: ...}, or fitted: on what, or chosen: why any such value would do"


def free_parameters(row: Row) -> tuple[str, ...]:
    """The parameters that a topology's file sets, as ``kind.name.key``."""
    return tuple(
        f"{kind}.{name}.{parameter}"
        for kind, (section, keys) in _KEYS.items()
        for name, one in (row.get(section) or {}).items()
        for key, parameter in keys.items()
        if one.entry(key)
    )


def read_origins(row: Row, *, complete: bool) -> tuple[Origin, ...]:
    """The origins of a topology's row. ``complete`` reports the parameters that have none."""
    origins: list[Origin] = []
    parameters = free_parameters(row)
    for one in row.get(fields.ORIGINS) or ():
        of = one.get(fields.ORIGIN_OF)
        texts = [(field.name, text) for field in fields.ORIGIN_TEXTS if (text := one.get(field))]
        if len(texts) != 1:
            one.problems.add(one.mark, "origins: expected one of cites, fitted and chosen")
        elif of is not None:
            origins.append(Origin(of, *texts[0]))
            if not any(fnmatchcase(parameter, of) for parameter in parameters):
                known = dict.fromkeys(_every(parameter) for parameter in parameters)
                one.problems.add(one.place("of"), f"origins: {of} is no parameter of this file", names(known))
    uncovered = {each for each in parameters if not any(fnmatchcase(each, origin.of) for origin in origins)}
    if complete and uncovered:
        lacking = names(_together(parameters, uncovered))
        row.problems.add(row.place("origins"), f"origins: nothing says where these come from: {lacking}", _REMEDY)
    return tuple(origins)


def _every(parameter: str) -> str:
    kind, _, key = parameter.split(".")
    return f"{kind}.*.{key}"


def _together(parameters: tuple[str, ...], chosen: set[str]) -> Iterator[str]:
    """``disk.*.seek`` in place of the seeks of all disks when all of them are chosen."""
    left = {_every(parameter) for parameter in parameters if parameter not in chosen}
    yield from dict.fromkeys(
        parameter if _every(parameter) in left else _every(parameter) for parameter in parameters if parameter in chosen
    )

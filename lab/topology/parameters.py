# SPDX-License-Identifier: GPL-2.0-only
"""Parameters of a topology: settings of an arm that change them, multiples of them, where they come from, and scale.

A parameter is named ``kind.name.key``: ``disk.d3.seek``; those of the request queues are ``queue.key``. A link's
capacity is ``rate``, also if it is written as PCIe lanes or as a SAS port. In the catalogue each has an origin. The
scale may carry times of the hardware across a timer of the kernel.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import ceil, floor
from typing import Any, TypeVar

from lab.base.units import show_size
from lab.topology.fields import (
    ATTRIBUTES,
    DISK_PARAMETERS,
    DISK_SETTINGS,
    HBA_SETTINGS,
    KERNEL_WORDS,
    LINK_SETTINGS,
    MACHINE_SETTINGS,
    ORIGIN_TEXTS,
    REPEAT_COUNT,
    RPM,
    STACK_SETTINGS,
    VM_SETTINGS,
)
from lab.topology.limits import COMMAND_TIMEOUT, slowest_service
from lab.topology.model import Disk, Driver, Hba, Link, Origin, Stack, Topology
from lab.topology.ranges import in_ranges
from lab.yaml.fields import NAME, Field, Integer, Row
from lab.yaml.strict import names, nearest

T = TypeVar("T")
Value = int | str
_CHOSEN = r"[a-z0-9*][a-z0-9*-]{0,39}"
_MINUTE = 60 * 10**9
_ONE_LIMIT = {Driver.NULL_BLK, Driver.NVMET_TCP, Driver.NVME}
"""Their LUNs have no limit but that of the tag set."""


def setting_fields() -> tuple[Field, ...]:
    """The settings as fields whose names are patterns; ``*`` matches any part of a name."""
    tables: tuple[tuple[str, str, Mapping[str, Field]], ...] = (
        ("", "", {KERNEL_WORDS.name: KERNEL_WORDS}),
        (rf"hba\.({NAME}\.)?", "hba.", HBA_SETTINGS),
        (r"vm\.", "vm.", VM_SETTINGS),
        (r"machine\.", "machine.", MACHINE_SETTINGS),
        (rf"disk\.{_CHOSEN}\.", "disk.NAME.", DISK_SETTINGS),
        (rf"link\.{_CHOSEN}\.", "link.NAME.", LINK_SETTINGS),
        (rf"stack\.{_CHOSEN}\.", "stack.NAME.", STACK_SETTINGS),
        *(
            (rf"stack\.{_CHOSEN}\.{folder}\.", f"stack.NAME.{folder}.", {field.name: field for field in attributes})
            for folder, attributes in ATTRIBUTES.items()
        ),
    )
    return tuple(
        replace(field, name=f"{pattern}{key}", label=f"{label}{key}", default=None, absent="the topology's")
        for pattern, label, settings in tables
        for key, field in settings.items()
    )


def tried_fields() -> tuple[Field, ...]:
    """Attributes of stacks under ``try:``, with any number: the kernel decides which it takes."""
    folders = "|".join(ATTRIBUTES)
    name = rf"stack\.{NAME}\.({folders})\.[a-z0-9_]{{1,40}}"
    says = "an attribute of a stack's queue, or of md, that the kernel may refuse or change"
    count = replace(
        REPEAT_COUNT,
        name=rf"stack\.{NAME}\.{REPEAT_COUNT.name}",
        label=f"stack.NAME.{REPEAT_COUNT.name}",
        default=None,
        says="a repeat count that the path selector may change",
    )
    return (Field(name, Integer(0, 1 << 62), says, "1280", label="stack.NAME.queue.KEY"), count)


def apply_try(topology: Topology, key: str, value: int) -> Topology:
    """The topology with an attribute to be tried on a stack. Raises ValueError for an unknown stack."""
    _, name, attribute = key.split(".", 2)

    def attempt(stack: Stack) -> Stack:
        asked = replace(stack, repeat_count=value) if attribute == REPEAT_COUNT.name else stack
        return replace(asked, tried={**stack.tried, attribute.replace(".", "/"): str(value)})

    return replace(topology, stacks=_change(topology.stacks, "stack", name, attempt))


def apply_setting(topology: Topology, key: str, value: Value) -> Topology:
    """The topology with one setting changed. ``value`` is the hardware's, as in the topology file.

    ``hba.KEY`` applies to all HBAs; otherwise the kind is followed by a name, in which ``*`` matches any part. Limits
    that depend on each other are checked later (``limits.refusals``), so settings can be applied one by one. Raises
    ValueError for an unknown name or key.
    """
    if key == KERNEL_WORDS.name:
        return replace(topology, kernel_words=tuple(str(value).split()))
    kind, *rest = key.split(".")
    if kind == "hba" and len(rest) == 1:
        rest = ["*", *rest]
    name, _, parameter = ".".join(rest).partition(".")
    if kind == "vm" and name in VM_SETTINGS:
        return replace(topology, vm={**topology.vm, name: str(value)})
    if kind == "machine" and name in MACHINE_SETTINGS:
        return replace(topology, processors=replace(topology.processors, **{name: value}))  # type: ignore[arg-type]
    section, what, settings = _SECTIONS.get(kind, ("", "", {}))
    folder, _, attribute = parameter.partition(".")
    attributes = ATTRIBUTES.get(folder, ()) if kind == "stack" else ()
    if parameter not in settings and not any(field.name == attribute for field in attributes):
        raise ValueError(f"{key}: no such setting")
    of_lab = value if kind == "stack" else scaled(topology.scale, parameter, int(value))
    parts: Mapping[str, Hba | Disk | Link | Stack] = getattr(topology, section)
    changed = _change(parts, what, name, lambda part: replace(part, **_fields(part, parameter, of_lab)))
    return replace(topology, **{section: changed})  # type: ignore[arg-type]


_SECTIONS: Mapping[str, tuple[str, str, Mapping[str, Field]]] = {
    "hba": ("hbas", "HBA", HBA_SETTINGS),
    "disk": ("disks", "disk", DISK_SETTINGS),
    "link": ("links", "link", LINK_SETTINGS),
    "stack": ("stacks", "stack", STACK_SETTINGS),
}
"""By kind: the field of the topology, the kind in messages, and the settings."""


def _fields(part: Hba | Disk | Link | Stack, parameter: str, value: Value) -> dict[str, Any]:
    """The fields of a part that a setting changes, with their new values."""
    if isinstance(part, Stack) and "." in parameter:
        return {"settings": {**part.settings, parameter.replace(".", "/"): str(value)}}
    if isinstance(part, Hba) and parameter == "can_queue" and part.driver in _ONE_LIMIT:
        return {"can_queue": value, "cmd_per_lun": value}
    if isinstance(part, Disk) and parameter in {"rate", "service"}:
        return {"rate": None, "service": None, parameter: value}
    return {RPM.into if parameter == RPM.name else parameter: value}


def _change(known: Mapping[str, T], what: str, pattern: str, change: Callable[[T], T]) -> dict[str, T]:
    chosen = {name for name in known if fnmatchcase(name, pattern)}
    if not chosen:
        raise ValueError(f"no {what} {pattern}{nearest(pattern, known)} (known: {names(known)})")
    return {name: change(part) if name in chosen else part for name, part in known.items()}


SCALED = ("rate", "service", "seek", RPM.into)
"""Fields of a disk that differ between hardware and lab."""


def scaled(scale: int, parameter: str, value: int) -> int:
    """The lab's value of a parameter of the hardware; of rpm the nanoseconds of a revolution."""
    if parameter in (RPM.name, RPM.into):
        return _MINUTE * scale // value
    if parameter == "rate":
        return max(1, value // scale)
    return value * scale if parameter in {"service", "seek", "cost"} else value


_KEYS: Mapping[str, Mapping[str, str]] = {
    "disk": {key: key for key in (*DISK_PARAMETERS, "zones")},
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


_ATTRIBUTES = {RPM.name: "rotation", "efficiency": "rate"}
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


_MS = 10**6
_REQUESTS = (4 << 10, 1 << 20)


@dataclass(frozen=True)
class Timer:
    """``time`` in nanoseconds; ``source`` is where Linux sets it, ``does`` what happens when it expires.

    ``rotates``: the only disks that it concerns, None for all.
    """

    name: str
    time: int
    source: str
    does: str
    rotates: bool | None = None


_WBT = "block/blk-wbt.c, wbt_default_latency_nsec"

TIMERS = (
    Timer("slice_idle", 8 * _MS, "block/bfq-iosched.c, bfq_slice_idle", "BFQ no longer waits for the next request"),
    Timer("wbt", 75 * _MS, _WBT, "writeback is throttled for slow reads of a rotating disk", rotates=True),
    Timer("wbt", 2 * _MS, _WBT, "writeback is throttled for slow reads of flash", rotates=False),
    Timer("read_expire", 500 * _MS, "block/mq-deadline.c, read_expire", "mq-deadline takes the oldest read first"),
    Timer("write_expire", 5000 * _MS, "block/mq-deadline.c, write_expire", "mq-deadline takes the oldest write first"),
    Timer("timeout", COMMAND_TIMEOUT, "drivers/scsi/sd.h, SD_TIMEOUT", "commands are aborted"),
)


@dataclass(frozen=True)
class Crossing:
    """``what`` takes ``hardware`` ns on the machine, less than the timer, but ``lab`` ns in the lab."""

    what: str
    hardware: float
    lab: float
    timer: Timer


def crossings(topology: Topology) -> tuple[Crossing, ...]:
    """Every time that is below a timer on the hardware but not in the lab, by timer."""
    times = tuple(_times(topology))
    return tuple(
        Crossing(what, lab / topology.scale, lab, timer)
        for timer in TIMERS
        for what, lab, rotates in times
        if lab / topology.scale < timer.time <= lab and timer.rotates in (None, rotates)
    )


def _times(topology: Topology) -> Iterator[tuple[str, float, bool | None]]:
    """What takes time, its nanoseconds in the lab, and whether it is a disk that rotates (None: a link)."""
    for alike, disk, depth in _alike(topology):
        rotates = bool(disk.seek or disk.rotation)
        kinds = {"a seek": disk.seek, "a revolution": disk.rotation, "a request": disk.service or 0}
        yield from ((f"{alike}: {what}", time, rotates) for what, time in kinds.items() if time)
        if topology.driver(disk.name) is not Driver.TCMU:
            continue
        for size in _REQUESTS:
            longest = slowest_service(disk, size)
            yield f"{alike}: a request of {show_size(size)}", longest, rotates
            if depth > 1:
                yield f"{alike}: {depth} requests of {show_size(size)} queued", depth * longest, rotates
    for link in topology.links.values():
        yield f"{link.name}: the cost of a request", link.cost, None


def _alike(topology: Topology) -> Iterator[tuple[str, Disk, int]]:
    """Groups of disks that differ only in name: their names, one of them, and how many requests it may hold."""
    alike: dict[tuple[object, ...], list[Disk]] = {}
    for disk in topology.disks.values():
        depths = [topology.hbas[lun.hba].cmd_per_lun for lun in topology.luns.values() if disk.name in lun.disks]
        key = (disk.seek, disk.rotation, disk.service, slowest_service(disk, 1 << 30), sum(depths))
        alike.setdefault(key, []).append(disk)
    for (*_, depth), disks in alike.items():
        yield in_ranges(disk.name for disk in disks), disks[0], int(str(depth))

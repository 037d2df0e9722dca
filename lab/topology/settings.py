# SPDX-License-Identifier: GPL-2.0-only
"""Settings of an arm that change its topology: ``hba.can_queue``, ``disk.p0.rate``, ``stack.vol.chunk`` ..."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from lab.topology.fields import (
    ATTRIBUTES,
    DISK_SETTINGS,
    HBA_SETTINGS,
    KERNEL_WORDS,
    LINK_SETTINGS,
    MACHINE_SETTINGS,
    REPEAT_COUNT,
    RPM,
    STACK_SETTINGS,
    VM_SETTINGS,
)
from lab.topology.model import Disk, Driver, Hba, Link, Stack, Topology
from lab.yaml.fields import NAME, Field, Integer
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
    own = value if kind == "stack" else scaled(topology.scale, parameter, int(value))
    parts: Mapping[str, Hba | Disk | Link | Stack] = getattr(topology, section)
    changed = _change(parts, what, name, lambda part: replace(part, **_fields(part, parameter, own)))
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

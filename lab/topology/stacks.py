# SPDX-License-Identifier: GPL-2.0-only
"""The stacks of a topology file: device-mapper, md arrays, NVMe multipath, loop devices, filesystems."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from lab.topology.fields import ATTRIBUTES, STACK_SETTINGS, THROUGHPUT
from lab.topology.model import Stack, StackKind, Topology, build_order
from lab.yaml.fields import Row
from lab.yaml.strict import names, nearest

_LEAST_MEMBERS = {"raid0": 1, "raid1": 2, "raid10": 2, "raid4": 3, "raid5": 3, "raid6": 4}
_OWN_KEYS: Mapping[StackKind, frozenset[str]] = {
    StackKind.LINEAR: frozenset({"offset", "size"}),
    StackKind.STRIPE: frozenset({"chunk"}),
    StackKind.MULTIPATH: frozenset({"selector", "policy", "mode", "repeat_count", "throughput"}),
    StackKind.MD: frozenset({"level", "chunk", "size", "bitmap", "resync", "write_mostly", "md"}),
    StackKind.NVME: frozenset({"iopolicy"}),
    StackKind.SNAPSHOT: frozenset({"chunk", "side"}),
    StackKind.CRYPT: frozenset(),
    StackKind.LOOP: frozenset({"size", "direct_io"}),
    StackKind.FILESYSTEM: frozenset({"type", "mkfs", "mount"}),
}
_MEMBERS: Mapping[StackKind, tuple[int, str]] = {
    **dict.fromkeys((StackKind.CRYPT, StackKind.LOOP, StackKind.FILESYSTEM), (1, "one device")),
    StackKind.SNAPSHOT: (2, "two devices: the origin and the store of its snapshot"),
}
_COMMON_KEYS = {"kind", "over", "queue"}


def read_stacks(topology: Topology, rows: Mapping[str, Row], luns: Iterable[str]) -> Topology:
    """The topology with its stacks; mistakes are reported at their rows. ``luns`` includes those with a mistake."""
    stacks = {name: stack for name, row in rows.items() if (stack := _stack(name, row))}
    known = {*luns, *rows}
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
    for key in row.node.entries.keys() - _OWN_KEYS[kind] - _COMMON_KEYS:
        row.add(key, f"stack {name}: kind {kind} has no {key}")
    settings = {f"{part}/{key}": str(value) for part in ATTRIBUTES for key, value in row.get(part, {}).items()}
    others = row.given((THROUGHPUT, *STACK_SETTINGS.values()))
    stack = Stack(name, kind, tuple(over), settings=settings, **others)
    for key, reason in _lacks(stack):
        row.add(key, f"stack {name}: {reason}")
    return stack


def _lacks(stack: Stack) -> Iterator[tuple[str, str]]:
    """What is missing or wrong in a stack, as (key, reason)."""
    if stack.kind is StackKind.MD:
        least = _LEAST_MEMBERS.get(stack.level)
        if least is None:
            yield "level", "level is missing"
        elif len(stack.over) < least:
            yield "over", f"{stack.level} needs at least {least} members"
        if stack.level != "raid1" and not stack.chunk:
            yield "chunk", "chunk is missing"
    if stack.write_mostly and (stack.level != "raid1" or stack.write_mostly >= len(stack.over)):
        yield "write_mostly", "some members of a raid1, but not all, may be write-mostly"
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

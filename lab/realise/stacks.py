# SPDX-License-Identifier: GPL-2.0-only
"""Stacks over LUNs: device-mapper tables, md arrays, loop devices and filesystems, named as in the topology.

A striped LVM volume is a dm-stripe table with the offset of a physical extent; the data path is the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from lab.guest.steps import Step
from lab.guest.steps.device import Array, Filesystem, LocklessArray, Loop, Module, TableStep, device, sysfs
from lab.guest.steps.setting import Confirm, Try, Tune
from lab.topology.fields import CRYPT_FLAGS, LOCKLESS, REPEAT_COUNT
from lab.topology.model import NEAR, Stack, StackKind, Topology, build_order

_SECTOR = 512
_SELECTOR_MODULES = {
    "round-robin": "dm-round-robin",
    "queue-length": "dm-queue-length",
    "service-time": "dm-service-time",
    "historical-service-time": "dm-historical-service-time",
}
_SELECTOR_ARGUMENTS = {"round-robin": "1 {count}", "queue-length": "1 {count}", "service-time": "2 {count} {weight}"}
"""Selector arguments of each path in a table: their number, the repeat count, service-time's relative throughput."""
_UUID = "11111111-2222-4333-8444-{:012}"
"""A random UUID would make each boot write other bytes, and its hash seed another order of directories."""
_FIRST_UUID = 555_555_555_555
_MKFS_WORDS = {
    "ext4": "-q -F -U {uuid} -E hash_seed={uuid}",
    # mkfs.xfs 6.13 would make counters of extents that kernels before 5.19 do not mount.
    "xfs": "-q -f -m uuid={uuid} -i nrext64=0",
    "btrfs": "-q -f -U {uuid}",
}
_KEY = bytes(range(64)).hex()
"""The two halves of a key of aes-xts must differ."""
# dm-crypt asks modprobe for its cipher, which the guest does not have.
_MODULES: Mapping[StackKind, tuple[str, ...]] = {
    StackKind.SNAPSHOT: ("dm-snapshot",),
    StackKind.CRYPT: ("dm-crypt", "aesni-intel"),
}
_MD_MODULES = {"raid0": "raid0", "raid1": "raid1", "raid10": "raid10"}


def steps(topology: Topology) -> Iterator[Step]:
    numbers = {kind: count() for kind in StackKind}
    for stack in build_order(topology):
        number = next(numbers[stack.kind])
        if stack.kind is StackKind.MD:
            yield from _array(stack, number)
        elif stack.kind is StackKind.FILESYSTEM:
            yield from _filesystem(stack, number)
        elif stack.kind is StackKind.LOOP:
            yield from _loop(topology, stack, number)
        elif stack.kind is not StackKind.NVME:
            yield Module("dm-mod")
            yield from map(Module, _modules(stack))
            yield from _tables(topology, stack)
        for attribute, value in stack.settings.items():
            yield Tune(f"stack.{attribute.replace('/', '.')}[{stack.name}]", f"{sysfs(stack.name)}/{attribute}", value)
        for attribute, value in stack.tried.items():
            if attribute == REPEAT_COUNT.name:
                continue  # in the table
            knob = attribute.replace("/", ".")
            yield Try(f"stack.{stack.name}.{knob}", f"{sysfs(stack.name)}/{attribute}", value)


def _modules(stack: Stack) -> tuple[str, ...]:
    if stack.kind is StackKind.MULTIPATH:
        return ("dm-multipath", _SELECTOR_MODULES[stack.selector])
    return _MODULES.get(stack.kind, ())


def _tables(topology: Topology, stack: Stack) -> Iterator[Step]:
    if stack.kind is not StackKind.SNAPSHOT:
        yield TableStep(stack.name, _rows(topology, stack))
        return
    sectors, (origin, store) = topology.stack_size(stack.name) // _SECTOR, map(device, stack.over)
    # P: the store is persistent, as that of LVM.
    row = f"0 {sectors} snapshot {origin} {store} P {stack.chunk // _SECTOR}"
    if stack.side == "snapshot":
        yield TableStep(stack.name, (row,))
        return
    yield TableStep(f"{stack.name}-snapshot", (row,))
    yield TableStep(stack.name, (f"0 {sectors} snapshot-origin {origin}",))


def _rows(topology: Topology, stack: Stack) -> tuple[str, ...]:
    if stack.kind is StackKind.LINEAR:
        return tuple(linear((device(name), stack.offset, _part(topology, stack, name)) for name in stack.over))
    sectors = topology.stack_size(stack.name) // _SECTOR
    if stack.kind is StackKind.STRIPE:
        members = "".join(f" {device(member)} 0" for member in stack.over)
        return (f"0 {sectors} striped {len(stack.over)} {stack.chunk // _SECTOR}{members}",)
    if stack.kind is StackKind.CRYPT:
        flags = [flag.name for flag in CRYPT_FLAGS if getattr(stack, flag.name)]
        options = " ".join(("", str(len(flags)), *flags)) if flags else ""
        return (f"0 {sectors} crypt aes-xts-plain64 {_KEY} 0 {device(stack.over[0])} 0{options}",)
    return (f"0 {sectors} multipath {_multipath(stack)}",)


def _part(topology: Topology, stack: Stack, member: str) -> int:
    """Bytes of a member that a linear stack uses."""
    whole = topology.stack_size(member) if member in topology.stacks else topology.lun_size(member)
    return stack.size or whole - stack.offset


def linear(parts: Iterable[tuple[str, int, int]]) -> Iterator[str]:
    """A table with parts of devices one after another, each with its node, offset and size in bytes."""
    start = 0
    for node, offset, size in parts:
        yield f"{start} {size // _SECTOR} linear {node} {offset // _SECTOR}"
        start += size // _SECTOR


def _multipath(stack: Stack) -> str:
    every = tuple(zip(stack.over, stack.throughput or (1,) * len(stack.over), strict=True))
    groups = [every] if stack.policy == "multibus" else [(path,) for path in every]
    features = "2 queue_mode bio" if stack.mode == "bio" else "0"
    return f"{features} 0 {len(groups)} 1 " + " ".join(_group(stack, group) for group in groups)


def _group(stack: Stack, paths: tuple[tuple[str, int], ...]) -> str:
    """``paths`` with their relative throughput."""
    arguments = _SELECTOR_ARGUMENTS.get(stack.selector, "0")
    each = []
    for path, weight in paths:
        repeats, *values = arguments.format(count=stack.repeat_count, weight=weight).split()
        each.append(" ".join((device(path), *values)))
    return f"{stack.selector} 0 {len(paths)} {repeats} {' '.join(each)}"


def _filesystem(stack: Stack, number: int) -> Iterator[Step]:
    yield Module(stack.type)
    words = (_MKFS_WORDS[stack.type].format(uuid=_UUID.format(_FIRST_UUID + number)), *stack.mkfs.split())
    yield Filesystem(stack.name, stack.over[0], " ".join((stack.type, stack.mount or "defaults", *words)))


def _loop(topology: Topology, stack: Stack, number: int) -> Iterator[Step]:
    (below,) = stack.over
    file = f"{device(below)}/{stack.name}.loop" if topology.is_filesystem(below) else device(below)
    yield Module("loop")
    mode = "on" if stack.direct_io else "off"
    yield Loop(stack.name, number, f"{file} {stack.size} --direct-io={mode}")
    # The kernel goes through the page cache where the file cannot be read directly.
    yield Confirm(f"stack.direct_io[{stack.name}]", f"{sysfs(stack.name)}/loop/dio", str(int(stack.direct_io)))


def _array(stack: Stack, number: int) -> Iterator[Step]:
    yield Module("md-mod")
    yield Module(_MD_MODULES.get(stack.level, "raid456"))
    lockless = stack.bitmap == LOCKLESS
    bitmap = "internal" if lockless else stack.bitmap
    arguments = [f"--level={stack.level}", f"--raid-devices={len(stack.over)}", f"--bitmap={bitmap}"]
    if stack.chunk:
        arguments.append(f"--chunk={stack.chunk >> 10}K")
    if stack.size:
        arguments.append(f"--size={stack.size >> 10}K")
    if stack.layout != NEAR:
        arguments.append(f"--layout={stack.layout[0]}2")
    if stack.write_behind:
        arguments.append(f"--write-behind={stack.write_behind}")
    if not stack.resync and stack.level != "raid0":
        arguments.append("--assume-clean")
    members, first = tuple(map(device, stack.over)), len(stack.over) - stack.write_mostly
    flag = ("--write-mostly",) if stack.write_mostly else ()
    made = LocklessArray if lockless else Array
    yield made(stack.name, number, " ".join((*arguments, *members[:first], *flag, *members[first:])))
    if stack.write_behind:
        backlog = f"{sysfs(stack.name)}/md/bitmap/backlog"
        yield Confirm(f"stack.write_behind[{stack.name}]", backlog, str(stack.write_behind))
    if lockless:
        yield Confirm(f"stack.bitmap[{stack.name}]", f"{sysfs(stack.name)}/md/bitmap_type", "llbitmap")

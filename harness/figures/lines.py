# SPDX-License-Identifier: GPL-2.0-only
"""What CPUs shared in the window of a load: cache lines that move between them, and locks (native/sharing/plugin.c)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO, TextIOWrapper
from typing import NamedTuple

from harness.figures.boot import LoadFiles, MeasurementError
from harness.scenario.model import Load
from harness.scenario.registry import GUEST, BootFile, Figures, Readings
from lab.base.record import LINE_NAMES

_LINE, _ADDRESSES = 64, 1 << 64


class CpuCounts(NamedTuple):
    """What one CPU did in the window: ``user`` are instructions of programs, ``held`` those while a lock was held.

    ``base`` is the address of its per-CPU area, ``ios`` and ``syncs`` are I/Os and fsyncs that fio completed
    there. Runs without ``syncs`` count them as I/Os.
    """

    base: int
    instructions: int
    user: int
    ios: int
    bios: int
    atomics: int
    taken: int
    held: int
    syncs: int = 0


class LineUse(NamedTuple):
    """One CPU's use of a line: in how many steps it read and wrote it, how often that moved it, and which bytes."""

    reads: int
    writes: int
    read_moves: int
    write_moves: int
    bytes_read: int
    bytes_written: int


class Accessor(NamedTuple):
    """An instruction that used a line on one CPU after another CPU had used it."""

    address: int
    cpu: int
    reads: int
    writes: int
    read_moves: int
    write_moves: int
    bytes: int


@dataclass(frozen=True)
class CacheLine:
    """A line of 64 bytes that several CPUs used and one at least wrote; ``address`` is the kernel's."""

    physical: int
    address: int
    users: dict[int, LineUse] = field(default_factory=dict)
    accessors: list[Accessor] = field(default_factory=list)

    def seen(self, cpus: Iterable[int]) -> int:
        """Transfers to these CPUs at the order in which the CPUs executed."""
        uses = (self.users[cpu] for cpu in cpus if cpu in self.users)
        return sum(use.read_moves + use.write_moves for use in uses)

    def footprint(self, cpus: Iterable[int], of_node: int = 1) -> float:
        """Transfers to these CPUs from other nodes of ``of_node`` CPUs, if the accesses of all come in any order.

        A read moves the line if a write of another CPU came after the CPU's own last access, a write if any access did:
        from the CPU of the last such write or access, of which each is as likely as any other.
        """
        moves = 0.0
        for cpu in cpus:
            if cpu not in self.users:
                continue
            use = self.users[cpu]
            others = {other: theirs for other, theirs in self.users.items() if other != cpu}
            far = [theirs for other, theirs in others.items() if other // of_node != cpu // of_node]
            written, used = (sum(theirs[at] for theirs in others.values()) for at in (1, 0))
            far_written, far_used = (sum(theirs[at] for theirs in far) for at in (1, 0))
            if use.reads:
                moves += use.reads * far_written / (use.reads + use.writes + written)
            if use.writes:
                moves += use.writes * (far_written + far_used) / (use.writes + written + used)
        return moves


class SymbolPart(NamedTuple):
    """A part of a function, or a variable; ``addresses`` of a per-CPU one are without the base of a CPU."""

    addresses: range
    per_cpu: bool


Names = Mapping[str, tuple[SymbolPart, ...]]


class LockUse(NamedTuple):
    """A lock: ``cpus`` are those that took it. ``held`` and ``longest`` are in instructions."""

    address: int
    cpus: frozenset[int]
    taken: int
    contended: int
    held: int
    longest: int


@dataclass(frozen=True)
class Sharing:
    """One window. ``turns`` is how often the guest went on to another CPU."""

    turns: int
    cpus: Mapping[int, CpuCounts]
    locks: tuple[LockUse, ...]
    lines: tuple[CacheLine, ...]

    def ios(self, cpus: Iterable[int]) -> int:
        return sum(self.cpus[cpu].ios for cpu in cpus if cpu in self.cpus)


def read_sharing(data: bytes, file: str) -> Sharing:
    """Raises MeasurementError."""
    turns, cpus, locks, lines = 0, dict[int, CpuCounts](), list[LockUse](), list[CacheLine]()
    try:
        for row in TextIOWrapper(BytesIO(data), "ascii"):  # hundreds of MB
            kind, *words = row.split()
            match kind:
                case "turns":
                    turns = int(words[0])
                case "cpu":
                    cpus[int(words[0])] = CpuCounts(int(words[1], 16), *map(int, words[2:]))
                case "lock":
                    users = int(words[1], 16)
                    takers = frozenset(cpu for cpu in range(users.bit_length()) if users >> cpu & 1)
                    locks.append(LockUse(int(words[0], 16), takers, *map(int, words[2:])))
                case "line":
                    lines.append(CacheLine(int(words[0], 16), int(words[1], 16)))
                case "user":
                    masks = (int(word, 16) for word in words[5:])
                    lines[-1].users[int(words[0])] = LineUse(*map(int, words[1:5]), *masks)
                case "by":
                    address, mask = int(words[0], 16), int(words[6], 16)
                    cpu, reads, writes, read_moves, write_moves = map(int, words[1:6])
                    accessor = Accessor(address, cpu, reads, writes, read_moves, write_moves, mask)
                    lines[-1].accessors.append(accessor)
                case _:
                    raise ValueError(f"unknown row {kind}")
    except (ValueError, TypeError, IndexError) as error:
        raise MeasurementError(file, f"cannot be read: {error}") from error
    if not cpus:
        raise MeasurementError(file, "has no CPU")
    return Sharing(turns, cpus, tuple(locks), tuple(lines))


def read_names(data: bytes, file: str) -> Names:
    """Raises MeasurementError."""
    names: dict[str, tuple[SymbolPart, ...]] = {}
    try:
        for row in data.decode().splitlines():
            name, per_cpu, start, end = row.split()
            place = SymbolPart(range(int(start, 16), int(end, 16)), bool(int(per_cpu)))
            names[name] = (*names.get(name, ()), place)
    except ValueError as error:
        raise MeasurementError(file, f"cannot be read: {error}") from error
    return names


def line_figures(files: LoadFiles, figures: Figures) -> Readings:
    """Figures of ``guest``, and of each role that has CPUs to itself. Raises MeasurementError."""
    if (data := files.get(BootFile.PLUGIN)) is not None:
        names = read_names(files.get(LINE_NAMES) or b"", LINE_NAMES)
        of_node = files.topology.processors.of_node
        yield from sharing_figures(read_sharing(data, files.name(BootFile.PLUGIN)), files.load, names, of_node=of_node)


def sharing_figures(sharing: Sharing, load: Load, names: Names, *, of_node: int = 0) -> Readings:
    """Figures of ``guest``, and of each role that has CPUs to itself; nothing where no I/Os are.

    One CPU shares no lines. ``of_node`` are the CPUs of each NUMA node, 0 for one node. I/Os are those that fio
    completed in the window, counted with the rest: its rate is of another time, as jobs do not begin and end together.
    """
    of_role = {name: frozenset(cpu for part in role.apart() for cpu in part.cpus) for name, role in load.roles.items()}
    if not (ios := sharing.ios(sharing.cpus)):
        return
    for metric, value in _figures(sharing, frozenset(sharing.cpus), ios, of_node):
        yield (load.name, GUEST, metric), value
    if len(sharing.cpus) > 1:
        for name, places in names.items():
            for metric, value in _line_figures(sharing, places, ios):
                yield (load.name, GUEST, f"line.{name}.{metric}"), value
    for name, cpus in of_role.items():
        others = [other_cpus for other, other_cpus in of_role.items() if other != name]
        if (ios := sharing.ios(cpus)) and all(other_cpus and not cpus & other_cpus for other_cpus in others):
            for metric, value in _figures(sharing, cpus, ios, of_node):
                yield (load.name, name, metric), value


def _line_figures(sharing: Sharing, places: Collection[SymbolPart], ios: int) -> Iterator[tuple[str, float]]:
    """Of the lines that code at these places writes, or that a variable there is in."""
    bases = [cpu.base for cpu in sharing.cpus.values()]
    lines = [line for line in sharing.lines if any(_is_of(line, place, bases) for place in places)]
    addresses = {line.address for line in lines}
    locks = [lock for lock in sharing.locks if lock.address // _LINE * _LINE in addresses]
    yield "seen", sum(line.seen(line.users) for line in lines) / ios
    yield "footprint", sum(line.footprint(line.users) for line in lines) / ios
    yield "locks", sum(lock.taken for lock in locks) / ios
    yield "locks.held", sum(lock.held for lock in locks) / ios


def _is_of(line: CacheLine, place: SymbolPart, bases: Iterable[int]) -> bool:
    if any(by.writes and by.address in place.addresses for by in line.accessors):
        return True
    starts = ((line.address - base) % _ADDRESSES for base in (bases if place.per_cpu else (0,)))
    return any(start < place.addresses.stop and place.addresses.start < start + _LINE for start in starts)


def _figures(sharing: Sharing, cpus: frozenset[int], ios: int, of_node: int) -> Iterator[tuple[str, float]]:
    counts = [count for cpu, count in sharing.cpus.items() if cpu in cpus]
    if len(sharing.cpus) > 1:
        yield "lines.seen", sum(line.seen(cpus) for line in sharing.lines) / ios
        yield "lines.footprint", sum(line.footprint(cpus) for line in sharing.lines) / ios
        if of_node:
            yield "lines.remote", sum(line.footprint(cpus, of_node) for line in sharing.lines) / ios
        yield "lines.written", float(sum(not cpus.isdisjoint(line.users) for line in sharing.lines))
    yield "syncs", sum(count.syncs for count in counts) / ios
    yield "atomics", sum(count.atomics for count in counts) / ios
    yield "locks", sum(count.taken for count in counts) / ios
    yield "locks.held", sum(count.held for count in counts) / ios
    yield "instructions", sum(count.instructions for count in counts) / ios

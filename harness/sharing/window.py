# SPDX-License-Identifier: GPL-2.0-only
"""The cache lines and locks of one load of a stored run, named by the kernel's symbols.

A line of the heap has no name in a kernel without debug information: it is known by the functions that move it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

from harness.figures.lines import CacheLine, LockUse, Sharing, read_sharing
from harness.figures.read import figures_of
from harness.profile.cells import ProfiledCell
from harness.record.store import RunFolder
from harness.run.plan import guest_job
from harness.scenario.model import Scenario
from harness.scenario.registry import GUEST
from lab.base.cache import Cache
from lab.base.errors import BlklabError, CannotJudge
from lab.base.record import BootRecord
from lab.base.units import Tell
from lab.kernels.fields import fields
from lab.kernels.model import Kernel
from lab.kernels.objects import SourceLine, Wanted, source_lines, source_of
from lab.session import Lab, prepare_job
from lab.symbols import LINES_FILE, Symbols, source_name, symbols_of

HEAP, PER_CPU, UNKNOWN = "heap", "per-CPU", "unknown"
LINES = 12
"""Groups of lines that are shown, and whose fields are looked up."""
_KNOWN_BY = 2
"""Functions that a line of the heap is known by, and symbols of another line."""
_LOOKED_AT = 3
"""Instructions, of those that move a line most, whose bytes name it."""
_STATIC_GAP = 1 << 20
"""A symbol does not name what is further behind it."""


@dataclass(frozen=True, order=True)
class Place:
    """``name`` of a symbol, ``HEAP``, or "per-CPU NAME"; ``movers`` are functions, for what has no name of its own."""

    name: str
    movers: tuple[str, ...] = ()

    @property
    def per_cpu(self) -> bool:
        return self.name.startswith(PER_CPU)

    def __str__(self) -> str:
        return f"{self.name} of {', '.join(self.movers)}" if self.movers else self.name


@dataclass(frozen=True)
class Use:
    """What one instruction did to the lines of a group, for each I/O.

    ``owner`` is "vmlinux" or a module, ``symbol`` that of the code: gcc appends .isra.0 and the like to a function.
    ``field`` is what it uses ("unknown" where debug information does not say), ``source`` its line of source; both are
    empty where they were not looked for.
    """

    owner: str
    symbol: str
    offset: int
    reads: float
    writes: float
    moves: float
    field: str = ""
    source: str = ""

    @property
    def function(self) -> str:
        return source_name(self.symbol)


@dataclass(frozen=True)
class LineGroup:
    """Lines of one place. Counts are for each I/O: transfers by ``footprint``, and those seen by reads and writes.

    ``remote`` are those from another NUMA node, None for one; ``saturated`` the transfers by footprint with any
    number of CPUs. ``overlap`` is true where a byte that one CPU writes is used by another one.
    """

    place: Place
    lines: tuple[CacheLine, ...]
    footprint: float
    remote: float | None
    seen_reads: float
    seen_writes: float
    saturated: float
    overlap: bool
    uses: tuple[Use, ...] = field(repr=False, default=())

    @property
    def cpus(self) -> frozenset[int]:
        return frozenset(cpu for line in self.lines for cpu in line.users)

    @property
    def fields(self) -> tuple[str, ...]:
        """Those that are known, the one that moves most first."""
        return tuple(dict.fromkeys(use.field for use in self.uses if use.field not in ("", UNKNOWN)))


@dataclass(frozen=True)
class NamedLock:
    """A lock that several CPUs take: acquisitions, and instructions while it is held, for each I/O."""

    place: Place
    taken: float
    held: float
    longest: int
    contended: float


@dataclass(frozen=True)
class WindowHead:
    scenario: str
    cell: str
    seed: int
    release: str
    cpus: int
    turn: int
    of_node: int = 0


@dataclass(frozen=True)
class Window:
    """``groups`` begin with that which moves most by footprint. ``figures`` are those of the guest."""

    head: WindowHead
    ios: int
    groups: tuple[LineGroup, ...]
    locks: tuple[NamedLock, ...]
    figures: Mapping[str, float]


def window_of(sharing: Sharing, symbols: Symbols, head: WindowHead, figures: Mapping[str, float]) -> Window:
    """``figures`` are those of the guest in this load."""
    ios = sharing.ios(sharing.cpus)
    names = LineNames(sharing, symbols)
    lines: dict[Place, list[CacheLine]] = {}
    for line in sharing.lines:
        lines.setdefault(names.place(line), []).append(line)
    groups = [_group(place, own, names, ios, head.of_node) for place, own in lines.items()]
    groups.sort(key=lambda group: (-group.footprint, group.place))
    shared = [lock for lock in sharing.locks if len(lock.cpus) > 1]
    places = {lock.address: names.lock(lock) for lock in shared}
    return Window(head, ios, tuple(groups), tuple(_locks(shared, places, ios)), figures)


def with_sources(window: Window, known: Mapping[tuple[str, str, int], SourceLine | None], *, lines: bool) -> Window:
    """``window`` with what is known of the instructions that were looked up, by owner, symbol and offset."""

    def use_known(use: Use) -> Use:
        if (at := (use.owner, use.symbol, use.offset)) not in known:
            return use
        line = known[at]
        source = f"{line.file}:{line.number} {line.text}" if lines and line else ""
        return replace(use, field=(line.field if line else "") or UNKNOWN, source=source)

    groups = (replace(group, uses=tuple(map(use_known, group.uses))) for group in window.groups)
    return replace(window, groups=tuple(groups))


def _locks(shared: Iterable[LockUse], places: Mapping[int, Place], ios: int) -> list[NamedLock]:
    locks = [
        NamedLock(places[lock.address], lock.taken / ios, lock.held / ios, lock.longest, lock.contended / ios)
        for lock in shared
    ]
    return sorted(locks, key=lambda lock: (-lock.held, lock.place))


def _group(place: Place, lines: list[CacheLine], names: "LineNames", ios: int, of_node: int) -> LineGroup:
    users = [use for line in lines for use in line.users.values()]
    counts: dict[int, list[int]] = {}
    for line in lines:
        for by in line.accessors:
            own = counts.setdefault(by.address, [0, 0, 0])
            for column, value in enumerate((by.reads, by.writes, by.read_moves + by.write_moves)):
                own[column] += value
    ranked = sorted(counts.items(), key=lambda item: (-item[1][2], -item[1][1], item[0]))
    return LineGroup(
        place=place,
        lines=tuple(sorted(lines, key=lambda line: -line.footprint(line.users))),
        footprint=sum(line.footprint(line.users) for line in lines) / ios,
        remote=sum(line.footprint(line.users, of_node) for line in lines) / ios if of_node else None,
        seen_reads=sum(use.read_moves for use in users) / ios,
        seen_writes=sum(use.write_moves for use in users) / ios,
        saturated=sum(map(_saturated, lines)) / ios,
        overlap=any(map(_overlaps, lines)),
        uses=tuple(names.use(address, *(value / ios for value in row)) for address, row in ranked),
    )


def _saturated(line: CacheLine) -> int:
    """Transfers where another CPU has used the line before each step: all writes, and reads if several CPUs write."""
    writers = sum(use.writes > 0 for use in line.users.values())
    reads = sum(use.reads for use in line.users.values() if writers > (1 if use.writes else 0))
    return reads + sum(use.writes for use in line.users.values())


def _overlaps(line: CacheLine) -> bool:
    pairs = permutations(line.users.values(), 2)
    return any(first.bytes_written & (second.bytes_read | second.bytes_written) for first, second in pairs)


class LineNames:
    """Names of lines, locks and instructions of a window."""

    def __init__(self, sharing: Sharing, symbols: Symbols) -> None:
        self._symbols = symbols
        self._bases = {number: cpu.base for number, cpu in sharing.cpus.items()}

    def place(self, line: CacheLine) -> Place:
        """By the symbols of the bytes that move it most, of which a line may hold several."""
        ranked = sorted(line.accessors, key=lambda by: (by.read_moves + by.write_moves, by.writes), reverse=True)
        offsets = [(by.bytes & -by.bytes).bit_length() - 1 for by in ranked[:_LOOKED_AT]] or [0]
        places = (line.address + offset for offset in offsets)
        named = dict.fromkeys(name for at in places if (name := self._static(at) or self._of_cpu(at)))
        if named:
            return Place(" + ".join(sorted([*named][:_KNOWN_BY])))
        movers: Counter[str] = Counter()
        for by in line.accessors:
            movers[self.use(by.address).function] += 1000 * (by.read_moves + by.write_moves) + by.writes
        return Place(HEAP, tuple(sorted(name for name, _ in movers.most_common(_KNOWN_BY))))

    def lock(self, lock: LockUse) -> Place:
        name = self._static(lock.address) or self._of_cpu(lock.address)
        return Place(name or f"{HEAP} {lock.address:x}")

    def use(self, address: int, reads: float = 0, writes: float = 0, moves: float = 0) -> Use:
        hit = self._symbols.at(address)
        if hit is None or hit[1] > _STATIC_GAP:
            return Use("", f"{address:x}", 0, reads, writes, moves)
        symbol, offset = hit
        return Use(symbol.module or "vmlinux", symbol.name, offset, reads, writes, moves)

    def _static(self, address: int) -> str:
        """The symbol that ``address`` is in, empty for the heap."""
        hit = self._symbols.at(address)
        return hit[0].name if hit and hit[0].address >> 40 == address >> 40 and hit[1] < _STATIC_GAP else ""

    def _of_cpu(self, address: int) -> str:
        for number, base in self._bases.items():
            offset = (address - base) % (1 << 64)
            if offset in self._symbols.per_cpu and (hit := self._symbols.at(offset)):
                return f"{PER_CPU} {hit[0].name} of CPU {number}"
        return ""


_USES = 4
"""Instructions of each place whose fields and lines of source are shown."""


def figures_by_turn(run: RunFolder, cell: ProfiledCell) -> dict[int, Mapping[str, float]]:
    """The figures of the same load with turns of other lengths, by length."""
    twins = {turn: replace(cell, arm=arm) for turn, arm in other_turns(run.scenario, cell.arm).items()}
    records = {turn: (twin, _counted(run, twin)) for turn, twin in twins.items()}
    return {turn: _figures(run, twin, record) for turn, (twin, record) in records.items() if record}


def other_turns(scenario: Scenario, arm: str) -> dict[int, str]:
    """Arms that differ from ``arm`` in the length of a turn alone, by that length."""
    own = scenario.arms[arm]
    turn = own.topology.processors.turn
    twins = {}
    for name, other in scenario.arms.items():
        processors = other.topology.processors
        alike = replace(other.topology, processors=replace(processors, turn=turn)), other.queue
        if processors.turn != turn and alike == (own.topology, own.queue):
            twins[processors.turn] = name
    return twins


def _counted(run: RunFolder, cell: ProfiledCell) -> BootRecord | None:
    """The cell's boot, if it has counts of lines."""
    planned = next((own for own in run.facts.cells if (own.arm, own.seed) == (cell.arm, cell.seed)), None)
    record = run.boot(planned) if planned and not planned.skip else None
    return record if record and LINES_FILE.format(load=cell.load) in record.files else None


def _figures(run: RunFolder, cell: ProfiledCell, record: BootRecord) -> dict[str, float]:
    """Those of the guest in the cell's load."""
    figures = figures_of(record.files, run.scenario.arms[cell.arm].topology, run.scenario.loads.values())
    return {metric: value for (load, role, metric), value in figures.items() if (load, role) == (cell.load, GUEST)}


def window_of_cell(lab: Lab, run: RunFolder, kernel: Kernel, cell: ProfiledCell, tell: Tell) -> Window:
    """What the cell's boot counted, with the symbols of the run's kernel.

    Raises CannotJudge for a cell without a complete boot, or on one CPU."""
    if (record := _counted(run, cell)) is None:
        raise CannotJudge(
            f"{run.path} has no counts of lines for {cell.arm}.{cell.load}, seed {cell.seed}",
            remedy="run it with several CPUs (machine: {cpus: 4})",
        )
    arm, name = run.scenario.arms[cell.arm], LINES_FILE.format(load=cell.load)
    prepared = prepare_job(lab, kernel, arm.topology, guest_job(run.scenario, arm, cell.seed))
    symbols = symbols_of(lab, prepared, record, lambda phase: tell(f"{kernel.release}: {phase}"))
    processors = arm.topology.processors
    head = WindowHead(
        *(run.facts.scenario, f"{cell.arm}.{cell.load}", cell.seed, run.facts.kernel.release),
        *(processors.cpus, processors.turn, processors.of_node),
    )
    return window_of(read_sharing(record.files[name], name), symbols, head, _figures(run, cell, record))


def with_fields(
    cache: Cache,
    kernel: Kernel,
    windows: Sequence[Window],
    tell: Tell,
    shown: Collection[Place] = (),
    *,
    lines: bool = False,
) -> list[Window]:
    """``windows`` of a kernel with fields, and lines of source if ``lines``, of the instructions that move most and
    those that move what is ``shown`` besides.

    Raises what ``source_lines`` raises, if lines were asked for.
    """
    offsets: dict[tuple[str, str], set[int]] = {}
    ranked = (ranked for window in windows for ranked in enumerate(window.groups))
    for group in (group for rank, group in ranked if rank < LINES or group.place in shown):
        for use in group.uses[:_USES]:
            offsets.setdefault((use.owner, use.symbol), set()).add(use.offset)
    wanted = [Wanted(owner, symbol, own) for (owner, symbol), own in offsets.items()]
    try:
        sources = source_lines(kernel, source_of(kernel, cache, tell), wanted, cache, fields=fields, tell=tell)
    except BlklabError as error:
        if lines:
            raise
        tell(f"fields are unknown: {error}")
        return list(windows)
    known = {
        (own.owner, own.function, offset): by_offset.get(offset)
        for own, by_offset in zip(wanted, sources, strict=True)
        for offset in own.offsets
    }
    return [with_sources(window, known, lines=lines) for window in windows]

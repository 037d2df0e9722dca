# SPDX-License-Identifier: GPL-2.0-only
"""A find as people read it: the changes of CPU in their order, who sleeps where, and what was searched."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby

from harness.hunt.reduce import MOST_BOOTS, REPEATS, Reduction
from harness.hunt.search import Find, Progress
from harness.hunt.trial import Access, Ground
from harness.report.format import plural
from harness.report.html import Values, render
from lab.base.errors import BlklabError
from lab.base.units import Tell
from lab.kernels.fields import fields
from lab.kernels.objects import SourceLine, Wanted, source_lines, source_of
from lab.kit import CONSOLE
from lab.schedule import NOBODY, Position, read_log

LIMITS = "The guest is sequentially consistent: a missing memory barrier cannot appear here."
_TASK = re.compile(r"\] task:(?P<name>\S+)\s+state:(?P<state>\S)|\] (?P<old>\S+)\s+(?P<letter>D) +[0-9]+ ")
_FRAME = re.compile(r"\]  (?P<unsure>\? )?(?P<name>[\w.]+)\+0x[0-9a-f]+/0x")
_RIP = re.compile(r"RIP: 0010:(?P<name>[\w.]+\+0x[0-9a-f]+)")
_FRAMES, _STAYS, _NAMES, _LINES, _CHANGES = 8, 12, 6, 2, 6
_SWITCH = frozenset({"__schedule", "schedule", "dump_stack_lvl", "dump_stack", "show_stack"})


@dataclass(frozen=True)
class Location:
    """Where a CPU is: function and offset, on kernels that were built here the line of source too.

    ``uses`` says what its block does to cache lines that CPUs share.
    """

    cpu: int
    place: str
    source: str = ""
    uses: tuple[str, ...] = ()

    def __str__(self) -> str:
        source = f" ({self.source})" if self.source else ""
        return f"CPU {self.cpu} in {self.place}{source}" + (f" [{'; '.join(self.uses)}]" if self.uses else "")


@dataclass(frozen=True)
class Step:
    """A change: ``at`` stops for the ``nth`` time, ``others`` execute, and it goes on at ``back``.

    ``instructions``: of all CPUs, and of the block of ``at``. The ``leader``, if a CPU, executes before the others.
    """

    at: Location
    nth: int
    passes: int
    leader: int
    others: tuple[Location, ...]
    back: Location | None
    instructions: int

    @property
    def stop(self) -> str:
        blocks = f"this block and the next {self.passes - 1}" if self.passes > 1 else "this block"
        first = f", CPU {self.leader} executes first" if self.leader != NOBODY else ""
        return f"time {self.nth}, stops behind {blocks}{first}"


@dataclass(frozen=True)
class Story:
    fault: str
    scenario: str
    arm: str
    kernel: str
    seed: int
    strategy: str
    repeated: int
    before: int
    boots: int
    steps: tuple[Step, ...]
    stacks: Mapping[str, tuple[str, ...]]
    limits: str = LIMITS

    def plain(self) -> dict[str, object]:
        return asdict(self)

    def page(self) -> str:
        """As HTML, with a column for each CPU."""
        rows = [row for number, step in enumerate(self.steps, start=1) for row in _rows(number, step)]
        cpus = sorted({row["location"].cpu for row in rows})
        return render("story.html", story=self, rows=rows, cpus=cpus, repeats=REPEATS)

    def lines(self) -> Iterator[str]:
        yield f"FOUND  {self.fault}"
        yield f"       {self.scenario}, arm {self.arm}, on {self.kernel}"
        yield f"       seed {self.seed} of strategy {self.strategy}, repeated {self.repeated} of {REPEATS} times"
        yield ""
        fewer = "; fewer may do" if self.boots > MOST_BOOTS else ""
        yield f"{plural(len(self.steps), 'change')} of CPU ({self.before} before reduction, {self.boots} boots{fewer})"
        if hidden := max(len(self.steps) - _CHANGES, 0):
            yield f"  the first {hidden} are in story.json"
        for number, step in enumerate(self.steps[hidden:], start=hidden + 1):
            yield f"  {number}. {step.at}, {step.stop}"
            for other in step.others[:_STAYS]:
                yield f"       -> {other}"
            if len(step.others) > _STAYS:
                yield f"       -> {len(step.others) - _STAYS} more places"
            end = f"{step.back} goes on" if step.back else "it never goes on"
            yield f"     -> {end}, after {step.instructions:,} instructions"
        if self.stacks:
            yield ""
            yield "Tasks and stacks in the kernel's log (callee <- caller)"
            for task, frames in self.stacks.items():
                yield f"  {task}: {' <- '.join(frames)}"
        yield ""
        yield self.limits


def _rows(number: int, step: Step) -> Iterator[Values]:
    """What CPUs do while one has stopped; the first row has the ``number`` of the change."""
    rows = [("■", "miss", step.at, step.stop)]
    rows += [("→", "done", other, "") for other in step.others]
    rows += [("▶", "miss", step.back, f"after {step.instructions:,} instructions")] if step.back else []
    for place, (mark, kind, location, note) in enumerate(rows):
        row = {"mark": mark, "kind": kind, "location": location, "note": note, "stands": step.at.cpu}
        yield {**row, "number": "" if place else number}


def story_of(find: Find, repeated: int, reduced: Reduction, strategy: str, tell: Tell) -> Story:
    ground = find.ground
    changes = [*read_log(reduced.trial.folder)]
    positions = [position for each in changes for position in (*each.others, each.back) if position]
    starts = {position.address for position in positions} | {each.change.address for each in changes}
    uses = {start: ground.uses.get(start, ()) for start in starts}
    of, known = ground.symbols.function_at, ground.accesses
    stops = {
        at: [each for each in known if of(each.address) == of(at)] for at in (each.change.address for each in changes)
    }
    inside = {access.address for accesses in (*uses.values(), *stops.values()) for access in accesses}
    lines = _sources(ground, starts | inside, tell)
    names = {at: line.field for at, line in lines.items()}

    def location(*blocks: Position) -> Location:
        first, values = blocks[0], {at: value for position in blocks for at, value in position.values.items()}
        own = uses_of((access for position in blocks for access in uses[position.address]), names, values)
        source = f"{line.file}:{line.number}" if (line := lines.get(first.address)) else ""
        return Location(first.cpu, place_of(ground, first.address), source, tuple(own))

    def stop(position: Position) -> Location:
        """With what its function does to shared lines, where the block does nothing."""
        own = location(position)
        wider = (f"its function {each}" for each in uses_of(stops[position.address], names, {}))
        return own if own.uses else replace(own, uses=tuple(wider))

    steps = tuple(
        Step(
            stop(Position(each.change.cpu, each.change.address, each.executed, each.values)),
            *(each.change.nth, each.change.passes, each.change.leader),
            tuple(location(*near) for _, near in groupby(each.others, lambda other: (other.cpu, of(other.address)))),
            location(each.back) if each.back else None,
            each.back.executed - each.executed if each.back else 0,
        )
        for each in changes
    )
    fault, kernel = find.trial.fault, ground.job.kernel
    console = (reduced.trial.folder / CONSOLE).read_text(errors="replace")
    return Story(
        str(fault),
        *(find.ground.scenario.name, ground.arm.name, f"{kernel.release} ({kernel.spec})", find.seed, strategy),
        *(repeated, reduced.before, reduced.boots, steps, stacks(console.splitlines())),
    )


def place_of(ground: Ground, address: int) -> str:
    symbol = ground.symbols.function_at(address)
    return f"{symbol.name}+{address - symbol.address:#x}" if symbol else "user space"


def uses_of(accesses: Iterable[Access], fields: Mapping[int, str], values: Mapping[int, int]) -> Iterator[str]:
    """``reads and writes NAME (0x3)`` of the lines that move most; by the field that an instruction uses, where known,
    and with the last of ``values`` of instructions that use one line alone."""
    lines: dict[str, list[int]] = {}
    of: dict[int, set[str]] = {}
    for access in accesses:
        name = fields.get(access.address) or access.line
        of.setdefault(access.address, set()).add(name)
        own = lines.setdefault(name, [0, 0, 0])
        for column, count in enumerate((access.moves, access.reads, access.writes)):
            own[column] += count
    last = {name: f" ({values[at]:#x})" for at, (name, *others) in sorted(of.items()) if at in values and not others}
    for name, (_, reads, writes) in sorted(lines.items(), key=lambda item: -item[1][0])[:_LINES]:
        yield f"{' and '.join(['reads'] * bool(reads) + ['writes'] * bool(writes))} {name}{last.get(name, '')}"


def stacks(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The functions of each task that sleeps uninterruptibly, and of each fault, as the kernel's log has them."""
    tasks: dict[str, list[str]] = {}
    frames: list[str] | None = None
    for line in lines:
        if task := _TASK.search(line):
            state = task["state"] or task["letter"]
            name = f"{task['name'] or task['old']} ({state})"
            frames = tasks.setdefault(name, []) if state == "D" else None
        elif rip := _RIP.search(line):
            frames = tasks.setdefault(f"fault at {rip['name']}", [])
        elif frames is not None and len(frames) < _FRAMES and (frame := _FRAME.search(line)):
            frames += [frame["name"]] if not frame["unsure"] and frame["name"] not in _SWITCH else []
    return {name: tuple(frames) for name, frames in tasks.items() if frames}


def _sources(ground: Ground, addresses: Iterable[int], tell: Tell) -> dict[int, SourceLine]:
    """The lines of source of addresses, with fields; empty on kernels that were not built here."""
    wanted: dict[tuple[str, str], dict[int, int]] = {}
    for address in addresses:
        if address and (symbol := ground.symbols.function_at(address)):
            key = symbol.module or "vmlinux", symbol.name
            wanted.setdefault(key, {})[address - symbol.address] = address
    kernel, cache = ground.job.kernel, ground.lab.cache
    asked = [Wanted(owner, name, frozenset(offsets)) for (owner, name), offsets in wanted.items()]
    try:
        known = source_lines(kernel, source_of(kernel, cache, tell), asked, cache, fields=fields, tell=tell)
    except BlklabError:
        return {}
    return {
        address: lines[offset]
        for offsets, lines in zip(wanted.values(), known, strict=True)
        for offset, address in offsets.items()
        if offset in lines
    }


def progress_lines(progress: Progress, grounds: Sequence[Ground], at_once: int) -> Iterator[str]:
    """How much was searched."""
    now = progress.seeds - progress.earlier
    rate = f", {now / progress.seconds:.2f} a second with {at_once} at once" if now and progress.seconds else ""
    yield f"{plural(progress.seeds, 'seed')} ({progress.earlier} of them earlier){rate}"
    yield f"{plural(len(progress.orders), 'distinct order')}, {plural(progress.changes, 'change')} of CPU"
    if progress.either:
        pairs = f"{progress.either:,} pairs of blocks that use one shared line, one of them to write it"
        yield f"{pairs}: {progress.both:,} of them in both orders"
    for ground in grounds:
        names = ", ".join(ground.functions[:_NAMES]) + (" ..." if len(ground.functions) > _NAMES else "")
        yield (
            f"arm {ground.arm.name}: {ground.course.hits:,} times at {len(ground.course.places)} places of "
            f"{plural(len(ground.functions), 'function')} ({names})"
        )
    if now:
        phases = ", ".join(f"{phase} {seconds / now:.1f} s" for phase, seconds in progress.phases.items())
        yield f"time of a boot: {phases}"

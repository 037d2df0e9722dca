# SPDX-License-Identifier: GPL-2.0-only
"""One boot of a scenario under one schedule: what is common to all of them, and what went wrong in it."""

import re
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from shutil import rmtree

from harness.figures.boot import MeasurementError
from harness.figures.lines import read_sharing
from harness.figures.read import figures_of
from harness.judge.cells import CellResult, Evidence, Unavailable, ratio_value
from harness.run.bench import BootMaker
from harness.run.plan import guest_job
from harness.scenario.model import Arm, Hunt, Operand, Scenario, Status
from harness.scenario.registry import BootFile, figure_of
from harness.sharing.window import LineNames
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.base.record import INVENTORY, BootRecord, Outcome
from lab.base.units import Tell, silent
from lab.guest.steps.device import Write, sysfs
from lab.guest.steps.setting import Counters
from lab.kernels.model import Kernel
from lab.observers import counted, functions_file, scheduled
from lab.realise.inventory import read_inventory
from lab.schedule import SCHEDULE_RESULT, Course, Schedule, read_course
from lab.session import Job, Lab, PreparedJob, prepare_job, run_job, unmet
from lab.symbols import LINES_FILE, Symbols, source_name, symbols_of

PLACE = "p"
_TIMEOUT = "/proc/sys/kernel/hung_task_timeout_secs"
_IDLE = "idle."
_SECOND = 10**9
_SEED = 1
"""Of fio and of the phase of its loads: what differs between two boots of a hunt is the schedule."""
_STAMP = re.compile(r"^\[ *[0-9.]+\]\s*|\b[0-9a-f]{8,}\b|[0-9]+")


KINDS = ("hang", "oops", "warning", "data", "counter", "claim")


@dataclass(frozen=True)
class Fault:
    """``kind`` is one of ``KINDS``; ``text`` is the line or sentence that says so."""

    kind: str
    text: str

    def like(self, other: "Fault | None") -> bool:
        """Whether it says the same, apart from times, numbers and addresses."""
        ours, theirs = (_STAMP.sub("", fault.text) if fault else "" for fault in (self, other))
        return other is not None and self.kind == other.kind and (self.kind == "hang" or ours == theirs)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True)
class Trial:
    """A boot in ``folder``. ``course`` is None for a guest that did not come to the end of its loads."""

    folder: Path
    fault: Fault | None
    course: Course | None
    digest: str
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class Access:
    """How often the instruction at ``address`` read, wrote and moved a cache line that CPUs share: ``line``."""

    address: int
    line: str
    reads: int
    writes: int
    moves: int


@dataclass(frozen=True)
class Ground:
    """An arm on a kernel, ready for any schedule. ``places`` is the plugin's list, ``course`` a boot without changes.

    ``functions`` are those in which changes are made, ``accesses`` what a boot that counts lines has seen.
    """

    lab: Lab
    scenario: Scenario
    arm: Arm
    job: PreparedJob
    symbols: Symbols
    functions: tuple[str, ...]
    course: Course = field(default_factory=Course)
    clean: Fault | None = None
    accesses: tuple[Access, ...] = field(default=(), repr=False)

    @cached_property
    def uses(self) -> Mapping[int, Sequence[Access]]:
        """What the block at each place does to lines that CPUs share, as far as no other block begins in it."""
        starts = sorted({address for _, address in self.course.places})
        uses: dict[int, list[Access]] = {}
        for access in self.accesses:
            start = starts[max(bisect_right(starts, access.address) - 1, 0)] if starts else 0
            if start <= access.address and self.symbols.function_at(start) == self.symbols.function_at(access.address):
                uses.setdefault(start, []).append(access)
        return uses

    @cached_property
    def _numbered(self) -> tuple[tuple[int, int, bool], ...]:
        """The accesses of all windows, each once, with a number for each line: the plugin compares those of blocks."""
        number = {line: place for place, line in enumerate(sorted({access.line for access in self.accesses}))}
        return tuple(sorted({(each.address, number[each.line], each.writes > 0) for each in self.accesses}))

    @cached_property
    def places(self) -> str:
        return functions_file(self.symbols, (("|".join(map(re.escape, self.names)), PLACE),))

    @cached_property
    def names(self) -> Collection[str]:
        """The symbols of ``functions``, with the copies that gcc makes of some."""
        wanted = {*self.functions}
        return sorted({symbol.name for symbol in self.symbols.code if source_name(symbol.name) in wanted})

    @cached_property
    def identity(self) -> str:
        """Of two hunts with equal ones each seed does the same."""
        inputs = {key: text for key, text in self.job.fingerprint.items() if key != "turns"}
        return digest_bytes(canonical(inputs | {"schedule": self._scheduled(Schedule()).fingerprint["schedule"]}))

    def _scheduled(self, schedule: Schedule) -> PreparedJob:
        """Between changes the turns are those of the topology."""
        whole = replace(schedule, turn=self.job.topology.processors.turn, uses=self._numbered)
        return scheduled(self.lab, self.job, whole, self.places)

    def boot(
        self, schedule: Schedule, folder: Path, abort: threading.Event | None = None, make: BootMaker = run_job
    ) -> Trial:
        """By ``make``, here or elsewhere, in an empty ``folder``. Raises LabBroken for a boot that the host or the
        emulator ended."""
        rmtree(folder, ignore_errors=True)
        folder.mkdir()
        record = make(self.lab, self._scheduled(schedule), folder, phase_seen=silent, abort=abort)
        course = None
        for name in (SCHEDULE_RESULT.format(load=load) for load in self.scenario.loads):
            if name in record.files:
                course = read_course(record.files[name].decode())
        return Trial(folder, fault_of(record, self.scenario, self.arm), course, record.digest or "", record.wall)


def ready(
    lab: Lab, kernel: Kernel, cell: tuple[Scenario, Arm], *, functions: Sequence[str], folder: Path, tell: Tell
) -> Ground:
    """Boots twice without a change: for the kernel's symbols and lines that CPUs share, and for the times of places.

    Without ``functions`` changes are made in those whose instructions move cache lines between CPUs. Raises
    CannotJudge where the kernel lacks something or runs none of the functions, Misuse for one that it does not have.
    """
    scenario, arm = cell
    if reasons := unmet(lab, kernel, arm.topology, arm.queue):
        raise CannotJudge(f"arm {arm.name}: {'; '.join(reasons)}", remedy="choose another kernel or --arm")
    hunt, job = scenario.hunt or Hunt(), job_of(scenario, arm)
    prepared = prepare_job(lab, kernel, arm.topology, job)
    tell(f"{arm.name}: a boot that counts what CPUs share")
    (folder / "shared").mkdir()
    record = run_job(lab, counted(lab, prepared, tell), folder / "shared")
    if record.outcome is not Outcome.BYE:
        raise CannotJudge(f"arm {arm.name} fails without a change of CPU: {record.outcome}: {record.detail}")
    symbols = symbols_of(lab, prepared, record, tell)
    if strange := {*functions} - {*_known(functions, symbols)}:
        raise Misuse(f"{kernel.release} has no function {', '.join(sorted(strange))}", remedy="see its /proc/kallsyms")
    accesses = tuple(accesses_of(record, scenario, symbols))
    moving = (symbols.function_at(access.address) for access in accesses if access.moves)
    named = tuple(functions) or _known(hunt.at, symbols)
    named = named or tuple(sorted({source_name(symbol.name) for symbol in moving if symbol}))
    ground = Ground(lab, scenario, arm, prepared, symbols, named, accesses=accesses)
    tell(f"{arm.name}: a boot without changes, places in {len(named)} functions")
    plain = ground.boot(Schedule(), folder / "plain")
    if plain.course is not None and not plain.course.hits:
        raise CannotJudge(f"arm {arm.name} executes none of {', '.join(named)}", remedy="name others with --at")
    course = (plain.course or Course()).among({access.address for access in accesses if job.single})
    return replace(ground, course=course, clean=plain.fault)


def job_of(scenario: Scenario, arm: Arm) -> Job:
    """The job of the arm, with what a hunt looks at."""
    hunt, job = scenario.hunt or Hunt(), guest_job(scenario, arm, _SEED)
    topology = arm.topology
    idle = tuple(Counters(f"{_IDLE}{name}", sysfs(name)) for name in (*topology.luns, *topology.stacks))
    patience = Write(_TIMEOUT, str(max(1, hunt.stuck // _SECOND)))
    return replace(job, before=(*job.before, patience), after=idle, single=hunt.step == "instruction")


def _known(functions: Collection[str], symbols: Symbols) -> tuple[str, ...]:
    """Those of a scenario's ``functions`` that the kernel has."""
    known = {source_name(symbol.name) for symbol in symbols.code}
    return tuple(name for name in functions if name in known)


def accesses_of(record: BootRecord, scenario: Scenario, symbols: Symbols) -> Iterator[Access]:
    counts: dict[tuple[int, str], tuple[int, int, int]] = {}
    for load in scenario.loads:
        name = LINES_FILE.format(load=load)
        sharing = read_sharing(record.files[name], name)
        names = LineNames(sharing, symbols)
        for line in sharing.lines:
            place = str(names.place(line))
            for by in line.accessors:
                reads, writes, moves = counts.get((by.address, place), (0, 0, 0))
                now = reads + by.reads, writes + by.writes, moves + by.read_moves + by.write_moves
                counts[by.address, place] = now
    return (Access(*which, *count) for which, count in counts.items())


def fault_of(record: BootRecord, scenario: Scenario, arm: Arm) -> Fault | None:
    """What is wrong with the kernel in this boot. Raises LabBroken where the boot says nothing of the kernel."""
    match record.outcome:
        case Outcome.HANG | Outcome.OOPS as outcome:
            return Fault(str(outcome), record.detail)
        case Outcome.UNFIT if record.unfit[:2] == ("ended", "fio"):
            return Fault("data", record.detail)
        case Outcome.BYE:
            faults = [*(Fault("warning", line) for line in record.warnings), *_busy(record)]
            return next(iter(faults), None) or next(_broken(record, scenario, arm), None)
        case outcome:
            raise LabBroken(f"{record.folder}: {outcome}: {record.detail}", remedy="re-run the same command to resume")


def _busy(record: BootRecord) -> Iterator[Fault]:
    """Counters that are not zero when all loads have ended."""
    for key, text in read_inventory(record.files.get(INVENTORY, b"")).items():
        if key.startswith(_IDLE) and (busy := [word for word in text.split() if not word.endswith("=0")]):
            yield Fault("counter", f"{key.removeprefix(_IDLE)} is idle, and {', '.join(busy)}")


def _broken(record: BootRecord, scenario: Scenario, arm: Arm) -> Iterator[Fault]:
    """Claims on figures of this arm alone that do not hold; lines are not counted in a hunt."""
    claims = [
        claim
        for claim in scenario.claims
        if claim.decides
        and {operand.path[0] for operand in claim.ratio.operands if operand.path} == {arm.name}
        and not any(map(_of_lines, claim.ratio.operands))
    ]
    if not claims:
        return
    try:
        figures = figures_of(record.files, arm.topology, scenario.loads.values())
    except MeasurementError as error:
        yield Fault("data", str(error))
        return
    cell = CellResult(arm.name, _SEED, Status.PASS, figures=figures)
    for claim in claims:
        try:
            value = ratio_value(claim.ratio, _SEED, Evidence(scenario, {(arm.name, _SEED): cell}))
        except Unavailable as error:
            yield Fault("claim", f"{claim.that}: {error.reason}")
            continue
        if not claim.expect.holds(value):
            yield Fault("claim", f"{claim.that}: {claim.ratio.text} is {value:.4g}, expected {claim.expect.text}")


def _of_lines(operand: Operand) -> bool:
    match operand.path:
        case (_, _, role, metric):
            return figure_of(role, metric).source is BootFile.PLUGIN
    return False

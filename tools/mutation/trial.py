# SPDX-License-Identifier: GPL-2.0-only
"""One mutant under the arms whose loads execute its place: what ``compare`` marks there, and which claims fail."""

import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from harness.base.files import read_json, write_json
from harness.base.plain import from_plain, to_plain
from harness.figures.read import KMSG
from harness.judge.cells import CellResult, arms_needed
from harness.judge.difference import Precision, compare_figures
from harness.judge.verdict import Verdict
from harness.profile.cells import ProfiledCell, busy_cell, profile_of
from harness.profile.model import kernel_costs
from harness.record.judging import Run, results_of
from harness.record.store import Store
from harness.run.bench import Bench
from harness.run.plan import Request, expand, guest_job
from harness.scenario.model import Arm, Scenario, Status
from harness.scenario.registry import FUNCTION, GUEST, OF_ROLES
from harness.track.moves import METRICS
from lab.base.digest import digest_bytes
from lab.base.errors import CannotJudge
from lab.guest.steps.device import Write
from lab.kernels.model import Kernel
from lab.session import Job, prepare_job
from tools.mutation.kernel import NONE, PARAMETER, WIDTH, Mutant, reached_numbers

_SLOWER, _LEAST_SECONDS = 6, 30
"""A boot of a mutant may take this many times the host time of the reference, and at least these seconds."""


@dataclass(frozen=True)
class ReferenceArm:
    """An arm with no mutant active. ``reached`` are the mutants whose places its loads execute.

    ``seconds`` is the host time of its boot. ``failing`` are claims of the scenario that fail here, because the
    schemata cost instructions; they count for no mutant.
    """

    scenario: Scenario
    run: Run
    cell: CellResult
    seconds: float
    reached: frozenset[int]
    failing: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.scenario.name}.{self.cell.arm}"

    @property
    def compared(self) -> str:
        """Digests of the results and of the scenario."""
        return f"{(self.cell.digest or '')[:16]} {self.scenario.digest[:16]}"


@dataclass(frozen=True)
class MarkedFigure:
    """A figure that ``compare`` marks; ``name`` is SCENARIO.ARM.LOAD.ROLE.METRIC."""

    name: str
    before: float
    after: float


@dataclass(frozen=True)
class Trial:
    """What became of a mutant. ``arms`` are SCENARIO.ARM, each with ``compared`` of its reference.

    ``differs``: arms whose results are not those of the reference. ``died``: how a boot ended. ``claim``: the first
    that fails. ``tracked``: what ``blklab track`` marks besides, of the guest and of the functions that contain the
    mutant. ``seconds`` of host time.
    """

    place: str
    arms: Mapping[str, str] = field(default_factory=dict)
    differs: tuple[str, ...] = ()
    marked: tuple[MarkedFigure, ...] = ()
    claim: str = ""
    died: str = ""
    tracked: tuple[MarkedFigure, ...] = ()
    seconds: float = 0

    @property
    def detected(self) -> bool:
        return bool(self.marked or self.claim or self.tracked)

    @property
    def ended(self) -> bool:
        """Whether further arms would change nothing."""
        return bool(self.died or (self.claim and self.marked))


@dataclass(frozen=True)
class MutantBench:
    """Measures with one kernel that has all mutants.

    ``containing``: the functions that contain a mutant, by its number and the names of those that were executed.
    """

    bench: Bench
    kernel: Kernel
    containing: Callable[[int, Collection[str]], Collection[str]]

    def run(self, scenario: Scenario, arms: Sequence[str], number: int, limits: Mapping[str, float]) -> Run:
        """A run of these arms in which mutant ``number`` is active from the end of set-up to that of the last load.

        ``limits`` are seconds of host time by arm.
        """
        plan = self.bench.plan(
            Request(scenario, self.kernel, 1, tuple(arms), command=("python", "-m", "tools.mutation"))
        )
        jobs = dict(plan.jobs)
        for arm, seed in expand(scenario, 1, tuple(arms)):
            if (key := (arm.name, seed)) in jobs:
                job = _job(scenario, arm, seed, number)
                prepared = prepare_job(self.bench.lab, self.kernel, arm.topology, job)
                limit = limits.get(arm.name, prepared.wall_limit)
                jobs[key] = replace(prepared, wall_limit=min(limit, prepared.wall_limit))
        return self.bench.measure(replace(plan, jobs=jobs))

    def profiled(self, run: Run, cell: ProfiledCell, number: int) -> dict[str, float]:
        """What functions of the kernel execute for each I/O in a load of such a run; empty where that is not known."""
        folder = run.folder
        job = _job(folder.scenario, folder.scenario.arms[cell.arm], cell.seed, number)
        try:
            return kernel_costs(
                profile_of(self.bench.lab, folder, cell, self.kernel, phase_seen=lambda _: None, job=job)
            )
        except CannotJudge:
            return {}


def _job(scenario: Scenario, arm: Arm, seed: int, number: int) -> Job:
    # As many digits for each mutant: a shorter number would take the guest fewer instructions.
    on, off = (Write(PARAMETER, text) for text in (f"{number:0{WIDTH}}", "0" * WIDTH))
    return replace(guest_job(scenario, arm, seed), before=(on,), after=(off,))


def reference(bench: MutantBench, scenario: Scenario) -> tuple[ReferenceArm, ...]:
    """The scenario's arms with no mutant active. Raises CannotJudge when a boot does not end well."""
    run = bench.run(scenario, tuple(scenario.arms), NONE, {})
    cells = {cell.arm: cell for cell in results_of(run.folder)}
    if wrong := ended_badly(cells.values()):
        raise CannotJudge(f"{scenario.name} does not pass without a mutant: {wrong}", remedy="leave it out")
    failing = tuple(failed_claims(run.verdict))
    return tuple(
        ReferenceArm(scenario, run, cells[cell.arm], sum(record.wall.values()), _reached(record.files), failing)
        for cell, record in run.folder.boots()
        if cells[cell.arm].status is Status.PASS
    )


def _reached(files: Mapping[str, bytes]) -> frozenset[int]:
    return reached_numbers(files.get(KMSG, b"").decode(errors="replace"))


def failed_claims(verdict: Verdict) -> list[str]:
    return [claim.that for claim in verdict.claims if claim.counts_as is Status.FAIL and not claim.optional]


def ended_badly(cells: Iterable[CellResult]) -> str:
    """How the first boot ended that did not end well; empty when all did."""
    bad = (cell for cell in cells if cell.status not in (Status.PASS, Status.SKIP))
    return next((f"{cell.outcome}: {' '.join(cell.reasons)}" for cell in bad), "")


def try_mutant(bench: MutantBench, number: int, begun: Trial, arms: Sequence[ReferenceArm], most: int) -> Trial:
    """Boot at most ``most`` arms that execute the mutant, cheapest first; one that differs, with those that its claims
    compare. One that nothing detects there is tracked in the cheapest arm that keeps the CPU busy, too. Arms of
    ``begun`` are not booted again.
    """
    started, trial = time.monotonic(), begun
    references = {arm.name: arm for arm in arms}

    def limit(arm: ReferenceArm) -> float:
        return max(_LEAST_SECONDS, _SLOWER * arm.seconds)

    for arm in cheapest_arms(number, arms)[:most]:
        if arm.name in trial.arms or trial.ended:
            continue
        fellows = [other for other in arms if other.scenario.name == arm.scenario.name]
        limits = {other.cell.arm: limit(other) for other in fellows}
        for group in dict.fromkeys((frozenset({arm.cell.arm}), companions(arm, fellows))):
            run = bench.run(arm.scenario, sorted(group), number, limits)
            trial = _extend_trial(trial, run, references)
            if not trial.died and group == {arm.cell.arm}:
                tracked = _tracked_figures(bench, arm, run, number, _FURTHER)
                trial = replace(trial, tracked=(*trial.tracked, *tracked))
            if trial.died or arm.name not in trial.differs:
                break
    busy = _busy_arm(number, arms, most)
    if busy and busy.name not in trial.arms and not (trial.detected or trial.died):
        run = bench.run(busy.scenario, [busy.cell.arm], number, {busy.cell.arm: limit(busy)})
        died = ended_badly(results_of(run.folder))
        trial = replace(trial, arms={**trial.arms, busy.name: busy.compared}, died=died)
        if not died:
            trial = replace(trial, tracked=tuple(_tracked_figures(bench, busy, run, number, METRICS)))
    return replace(trial, seconds=begun.seconds + time.monotonic() - started)


def _extend_trial(trial: Trial, run: Run, references: Mapping[str, ReferenceArm]) -> Trial:
    """``trial`` with what this run adds."""
    scenario = run.folder.scenario.name
    cells = {f"{scenario}.{cell.arm}": cell for cell in results_of(run.folder)}
    before = [references[name].cell for name in cells]
    differs = [name for name, cell in cells.items() if cell.digest != references[name].cell.digest]
    known = {figure.name: figure for figure in (*trial.marked, *_marked_figures(scenario, before, [*cells.values()]))}
    died = ended_badly(cells.values())
    failing = references[next(iter(cells))].failing
    failed = [f"{scenario}: {claim}" for claim in failed_claims(run.verdict) if claim not in failing]
    return replace(
        trial,
        arms={**trial.arms, **{name: references[name].compared for name in cells}},
        differs=tuple(dict.fromkeys((*trial.differs, *differs))),
        marked=tuple(known.values()),
        claim=trial.claim or ("" if died or not failed else failed[0]),
        died=died and f"{scenario}: {died}",
    )


def _marked_figures(
    scenario: str, before: Sequence[CellResult], after: Sequence[CellResult], metrics: Sequence[str] = OF_ROLES
) -> Iterator[MarkedFigure]:
    # The jobs differ in the number of the mutant: ``compare_cells`` compares what differs in the kernel alone.
    for change in compare_figures(before, after, metrics, Precision(exact=True, alike=True)):
        if change.before and change.after and change.marked:
            yield MarkedFigure(".".join((scenario, *change.figure)), change.before.median, change.after.median)


_FURTHER = tuple(name for name in METRICS if name not in OF_ROLES)
"""What ``blklab track`` compares and ``blklab compare`` does not."""


def _tracked_figures(
    bench: MutantBench, arm: ReferenceArm, run: Run, number: int, metrics: Sequence[str]
) -> Iterator[MarkedFigure]:
    """Those of ``metrics`` that are marked, and of functions that contain the mutant what they execute."""
    after = [cell for cell in results_of(run.folder) if cell.arm == arm.cell.arm]
    yield from _marked_figures(arm.scenario.name, [arm.cell], after, metrics)
    cell = busy_cell([arm.cell])
    counts = bench.profiled(arm.run, cell, NONE) if cell else {}
    names = sorted(bench.containing(number, counts))
    changed = bench.profiled(run, cell, number) if cell and names else {}
    if cell and changed:
        keys = {name: (cell.load, GUEST, FUNCTION.name.replace("NAME", name)) for name in names}
        before, after = (
            [replace(arm.cell, figures={key: side.get(name, 0.0) for name, key in keys.items()})]
            for side in (counts, changed)
        )
        yield from _marked_figures(arm.scenario.name, before, after, [key[2] for key in keys.values()])


def cheapest_arms(number: int, arms: Sequence[ReferenceArm]) -> list[ReferenceArm]:
    """The arms that execute a mutant: the cheapest of each scenario, then the second ones."""
    ranks: dict[str, int] = {}
    ranked = []
    for arm in sorted(arms, key=lambda arm: (arm.seconds, arm.name)):
        if number in arm.reached:
            ranks[arm.scenario.name] = ranks.get(arm.scenario.name, -1) + 1
            ranked.append((ranks[arm.scenario.name], arm))
    return [arm for _, arm in sorted(ranked, key=lambda pair: pair[0])]


def _busy_arm(number: int, arms: Sequence[ReferenceArm], most: int) -> ReferenceArm | None:
    """The cheapest arm with a load that keeps the CPU busy; None where one of the ``most`` cheapest is such an arm."""
    chosen = cheapest_arms(number, arms)
    first = next((place for place, arm in enumerate(chosen) if busy_cell([arm.cell])), -1)
    return chosen[first] if first >= most else None


def companions(arm: ReferenceArm, fellows: Sequence[ReferenceArm]) -> frozenset[str]:
    """The arm and those of the same scenario that its claims compare it with."""
    needed = (arms_needed((claim.ratio,)) for claim in arm.scenario.claims if claim.decides)
    names = frozenset({arm.cell.arm}).union(*(group for group in needed if arm.cell.arm in group))
    return names & {fellow.cell.arm for fellow in fellows}


SEED = 402
"""Of the held-out sample. Claims are never written for a mutant of it: the score says what claims and comparisons
detect that nobody looked at. The first seed whose sample has none of the mutants that were tried before it was drawn,
and that scenarios were written for."""
_MOST_SECONDS, _MOST_MEMORY = 280, 1 << 30
_TRIALS, _WORK = "trials", "work"


def cheap(scenario: Scenario) -> bool:
    """Whether mutants are tried in it: all its arms together load for so few seconds of virtual time."""
    seconds = sum(load.runtime + load.ramp + scenario.pause for load in scenario.loads.values()) / 10**9
    memory = max(arm.topology.memory for arm in scenario.arms.values())
    return len(scenario.arms) * seconds <= _MOST_SECONDS and memory <= _MOST_MEMORY


@dataclass(frozen=True)
class MutantCampaign:
    """``root`` is the folder of one kernel's trials; ``most`` arms are tried for each mutant."""

    root: Path
    numbers: Mapping[int, Mutant]
    arms: tuple[ReferenceArm, ...]
    most: int
    seed: int = SEED

    @cached_property
    def reached(self) -> frozenset[int]:
        """The mutants whose places the loads execute."""
        return frozenset[int]().union(*(arm.reached for arm in self.arms)) & self.numbers.keys()

    def sample(self, count: int) -> tuple[int, ...]:
        """``count`` of the reached ones, by the digests of seed and place: a place keeps its rank as arms are added."""
        places = {number: self.numbers[number].place for number in self.reached}
        return tuple(sorted(places, key=lambda number: digest_bytes(f"{self.seed} {places[number]}".encode()))[:count])

    def trial(self, number: int) -> Trial | None:
        """The stored one; None where its arms had other results or claims than now, or its version other fields."""
        try:
            trial = from_plain(Trial, read_json(self._file(number)))
        except ValueError:
            return None
        current = {arm.name: arm.compared for arm in self.arms}
        return trial if trial.arms.items() <= current.items() else None

    def lacks(self, number: int) -> bool:
        """Whether the mutant was not tried, or not in all arms that it is to be tried in."""
        trial = self.trial(number)
        chosen = cheapest_arms(number, self.arms)[: self.most]
        if trial and not trial.detected and (busy := _busy_arm(number, self.arms, self.most)):
            chosen.append(busy)
        return trial is None or not (trial.ended or all(arm.name in trial.arms for arm in chosen))

    def measure(self, bench: MutantBench, number: int) -> Trial:
        """Continue the trial of a mutant and store it. Its boots are deleted then."""
        place = self.numbers[number].place
        work = self.root / _WORK / digest_bytes(place.encode())[:16]
        trial = try_mutant(
            replace(bench, bench=replace(bench.bench, store=Store(work))),
            number,
            self.trial(number) or Trial(place),
            self.arms,
            self.most,
        )
        write_json(self._file(number), to_plain(trial))
        shutil.rmtree(work, ignore_errors=True)
        return trial

    def measure_all(self, bench: MutantBench, wanted: Sequence[int], tell: Callable[[Trial], None]) -> None:
        """Try those that ``lacks`` names, as many at a time as the lanes admit."""
        (self.root / _TRIALS).mkdir(parents=True, exist_ok=True)
        lanes = (bench.bench.cluster or bench.bench.turns).lanes
        with ThreadPoolExecutor(lanes.at_once, thread_name_prefix="mutant") as pool:
            futures = [pool.submit(self.measure, bench, number) for number in wanted if self.lacks(number)]
            try:
                for future in as_completed(futures):
                    tell(future.result())
            except BaseException:
                bench.bench.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _file(self, number: int) -> Path:
        return self.root / _TRIALS / f"{digest_bytes(self.numbers[number].place.encode())[:16]}.json"

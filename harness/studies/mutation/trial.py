# SPDX-License-Identifier: GPL-2.0-only
"""One mutant under the arms whose loads execute its place, until an arm detects it."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from harness.judge.cells import CellResult
from harness.judge.operands import arms_needed
from harness.judge.verdict import Verdict
from harness.metrics.figures import Figures
from harness.metrics.readback import KMSG
from harness.record.judging import judge_run, results_of
from harness.record.store import RunFolder, Store
from harness.run.boots import Turns
from harness.run.events import Listener
from harness.run.plan import PlannedRun, Request, cell_job, plan_run
from harness.run.runner import measure
from harness.scenario.expand import expand
from harness.scenario.model import Scenario, Status
from harness.studies.mutation import schemata
from lab.base.errors import CannotJudge
from lab.guest.steps.device import Write
from lab.kernels.model import Kernel
from lab.session import Lab, PreparedJob, prepare_job

_SLOWER, _LEAST_SECONDS = 6, 30
"""A boot of a mutant may take so many times the host time of the reference, or the seconds if that is less."""


class Fate(StrEnum):
    KILLED = "killed"
    SURVIVED = "survived"
    EQUIVALENT = "equivalent"
    DIED = "died"


@dataclass(frozen=True)
class ReferenceArm:
    """An arm of a kernel whose mutants are all inactive. ``reached`` are the mutants whose places its loads execute.

    ``seconds`` of host time that its boot took. ``failing`` are claims of the scenario that fail here, as the schemata
    cost instructions, which shifts ratios of CPU time. They say nothing about a mutant.
    """

    scenario: Scenario
    arm: str
    digest: str
    seconds: float
    reached: frozenset[int]
    figures: Figures
    failing: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return _name(self.scenario, self.arm)

    @property
    def compared(self) -> str:
        """Digests of the results, and of the scenario with the claims, that a mutant is judged by."""
        return f"{self.digest[:16]} {self.scenario.digest[:16]}"


@dataclass(frozen=True)
class MovedFigure:
    """A figure that a mutant changed; ``name`` is SCENARIO.ARM.LOAD.ROLE.METRIC."""

    name: str
    before: float
    after: float

    @property
    def share(self) -> float:
        """By which the larger value is above the smaller one, as ``compare`` counts single boots."""
        low, high = sorted((abs(self.before), abs(self.after)))
        return high / low - 1 if low else math.inf


@dataclass(frozen=True)
class Trial:
    """What became of a mutant. ``arms`` are SCENARIO.ARM, each with ``compared`` of its reference.

    ``reason`` is the claim that failed, or how the boot ended. ``differs``: arms that measured something else than the
    reference.
    ``most`` is how many arms, with those that their claims compare, it could be tried in. ``seconds`` of host time.
    ``changed`` are all figures that differ; None in a trial that was stored without them.
    """

    place: str
    fate: Fate
    most: int
    arms: Mapping[str, str] = field(default_factory=dict)
    differs: tuple[str, ...] = ()
    reason: str = ""
    seconds: float = 0
    changed: tuple[MovedFigure, ...] | None = None

    @property
    def lacks_figures(self) -> bool:
        """Whether it was stored without those that changed."""
        return self.fate is Fate.SURVIVED and self.changed is None

    @property
    def detected(self) -> bool:
        return self.fate in (Fate.KILLED, Fate.DIED)


@dataclass(frozen=True)
class MutantBench:
    """Makes boots of one kernel that has all mutants."""

    lab: Lab
    kernel: Kernel
    turns: Turns
    listener: Listener

    def run(
        self, store: Store, scenario: Scenario, arms: Sequence[str], number: int, limits: Mapping[str, float]
    ) -> RunFolder:
        """A run of these arms with mutant ``number``; ``limits`` are seconds of host time by arm."""
        command = ("blklab", "check", "mutants")
        request = Request(scenario, self.kernel, 1, tuple(arms), command=command)
        plan = self._selecting(plan_run(self.lab, request), number, limits)
        return measure(self.lab, plan, store, self.listener, self.turns)

    def _selecting(self, plan: PlannedRun, number: int, limits: Mapping[str, float]) -> PlannedRun:
        """The same boots, in which the mutant is active from the end of set-up to that of the last load."""
        request, jobs = plan.request, dict[tuple[str, int], PreparedJob]()
        # As many digits for each mutant: a shorter number would take the guest fewer instructions.
        digits = f"{number:0{schemata.WIDTH}}", "0" * schemata.WIDTH
        on, off = (Write(schemata.PARAMETER, text) for text in digits)
        for cell in expand(request.scenario, 1, request.arms):
            key = (cell.arm.name, cell.seed)
            if key in plan.jobs:
                job = replace(cell_job(cell), before=(on,), after=(off,))
                prepared = prepare_job(self.lab, self.kernel, cell.arm.topology, job)
                limit = limits.get(cell.arm.name, prepared.wall_limit)
                jobs[key] = replace(prepared, wall_limit=min(limit, prepared.wall_limit))
        return replace(plan, jobs=jobs)


def reference(bench: MutantBench, store: Store, scenario: Scenario, arms: Sequence[str]) -> tuple[ReferenceArm, ...]:
    """The arms with no mutant active. Raises CannotJudge when a boot does not end well."""
    run = bench.run(store, scenario, arms, schemata.NONE, {})
    verdict = judge_run(run)
    if wrong := ended_badly([cell for cell in verdict.cells if cell.arm in arms]):
        raise CannotJudge(f"{scenario.name} does not pass without a mutant: {wrong}", remedy="leave it out")
    failing = tuple(failed_claims(verdict))
    figures = {cell.arm: cell.figures for cell in verdict.cells if cell.status is Status.PASS}
    return tuple(
        ReferenceArm(
            scenario,
            cell.arm,
            record.digest or "",
            sum(record.wall.values()),
            _reached(record.files),
            figures[cell.arm],
            failing,
        )
        for cell, record in run.boots()
        if cell.arm in figures
    )


def _reached(files: Mapping[str, bytes]) -> frozenset[int]:
    return schemata.reached(files.get(KMSG, b"").decode(errors="replace"))


def failed_claims(verdict: Verdict) -> list[str]:
    return [one.that for one in verdict.claims if one.counts_as is Status.FAIL and not one.optional]


def try_mutant(
    bench: MutantBench, store: Store, number: int, begun: Trial, arms: Sequence[ReferenceArm], *, claim: str = ""
) -> Trial:
    """The fate of a mutant under at most ``begun.most`` of the arms that execute it, and those that their claims
    compare. Arms of ``begun`` are not tried again. ``claim`` (SCENARIO: WORDS) was made for the mutant.
    """
    started = time.monotonic()
    every = {(one.scenario.name, one.arm): one for one in arms}
    found = begun
    for first in in_turn(number, arms, claim)[: begun.most]:
        if first.name in found.arms:
            continue
        limits = {one.arm: max(_LEAST_SECONDS, _SLOWER * one.seconds) for one in every.values() if _beside(one, first)}
        for chosen in dict.fromkeys((frozenset({first.arm}), companions(first, every))):
            run = bench.run(store, first.scenario, sorted(chosen), number, limits)
            before, found = found, _judged(found, run, every)
            if found.detected:
                return replace(found, seconds=begun.seconds + time.monotonic() - started)
            if before.differs == found.differs:
                break
    return replace(found, seconds=begun.seconds + time.monotonic() - started)


def _judged(trial: Trial, run: RunFolder, every: Mapping[tuple[str, str], ReferenceArm]) -> Trial:
    """``trial`` with what this run adds."""
    cells = [cell for cell in results_of(run) if cell.arm in run.facts.arms]
    names = {cell.arm: _name(run.scenario, cell.arm) for cell in cells}
    others = [cell.arm for cell in cells if cell.digest != every[run.scenario.name, cell.arm].digest]
    arms = {**trial.arms, **{name: every[run.scenario.name, arm].compared for arm, name in names.items()}}
    differs = tuple(dict.fromkeys((*trial.differs, *(names[arm] for arm in others))))
    trial = replace(trial, arms=arms, differs=differs, changed=trial.changed or ())
    for cell in cells:
        before = every[run.scenario.name, cell.arm].figures
        moves = changed_figures(names[cell.arm], before, cell.figures)
        known = {one.name: one for one in (*(trial.changed or ()), *moves)}
        trial = replace(trial, changed=tuple(known.values()))
    if reason := ended_badly(cells):
        return replace(trial, fate=Fate.DIED, reason=f"{run.scenario.name}: {reason}")
    failing = every[run.scenario.name, cells[0].arm].failing
    if failed := [claim for claim in failed_claims(judge_run(run)) if claim not in failing]:
        return replace(trial, fate=Fate.KILLED, reason=f"{run.scenario.name}: {failed[0]}")
    return replace(trial, fate=Fate.SURVIVED) if others else trial


def changed_figures(arm: str, before: Figures, after: Figures) -> Iterator[MovedFigure]:
    """Those that differ; one that is on one side only counts as 0 on the other."""
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key, 0.0), after.get(key, 0.0)
        if old != new:
            yield MovedFigure(".".join((arm, *key)), old, new)


def in_turn(number: int, arms: Sequence[ReferenceArm], claim: str = "") -> list[ReferenceArm]:
    """The arms that execute a mutant, in the order in which they are tried: those of ``claim``, then the cheapest of
    each scenario, then the second ones.

    Of a scenario, those that a claim is about come before those of controls alone, in which none can fail.
    """

    every = {(one.scenario.name, one.arm): one for one in arms}
    reaching = [one for one in arms if number in one.reached]

    def cost(one: ReferenceArm) -> tuple[bool, float]:
        needed = frozenset[str]().union(*_arms_of_claims(one.scenario).values())
        seconds = sum(every[one.scenario.name, arm].seconds for arm in companions(one, every))
        return one.arm not in needed, seconds

    ranks: dict[str, int] = {}
    ranked = []
    for one in sorted(reaching, key=lambda one: (cost(one), one.scenario.name, one.arm)):
        ranks[one.scenario.name] = ranks.get(one.scenario.name, -1) + 1
        ranked.append((ranks[one.scenario.name], one))

    def turn(pair: tuple[int, ReferenceArm]) -> tuple[bool, int]:
        rank, one = pair
        return one.arm not in _arms_of_claims(one.scenario).get(claim, ()), rank

    return [one for _, one in sorted(ranked, key=turn)]


def companions(one: ReferenceArm, every: Mapping[tuple[str, str], ReferenceArm]) -> frozenset[str]:
    """The arm and those that its claims compare it with, as far as they were measured."""
    claims = _arms_of_claims(one.scenario).values()
    found = frozenset[str]().union({one.arm}, *(needed for needed in claims if one.arm in needed))
    return frozenset(arm for arm in found if (one.scenario.name, arm) in every)


def _arms_of_claims(scenario: Scenario) -> Mapping[str, frozenset[str]]:
    """By SCENARIO: WORDS."""
    return {f"{scenario.name}: {claim.that}": arms_needed((claim.ratio,)) for claim in scenario.claims if claim.decides}


def ended_badly(cells: Sequence[CellResult]) -> str:
    """How the first boot ended that did not end well; empty when all did."""
    for cell in cells:
        if cell.status not in (Status.PASS, Status.SKIP):
            return f"{cell.outcome}: {' '.join(cell.reasons)}"
    return ""


def _name(scenario: Scenario, arm: str) -> str:
    return f"{scenario.name}.{arm}"


def _beside(one: ReferenceArm, other: ReferenceArm) -> bool:
    return one.scenario.name == other.scenario.name

# SPDX-License-Identifier: GPL-2.0-only
"""What the zoo shows: on which side of a published regression a kernel is, and what differs between equals. Pure.

A null pair is one kernel under one scenario with two sets of seeds: whatever differs there is a
false alarm.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.judge.cells import CellResult
from harness.judge.claims import Judgement, judge_ratio
from harness.judge.comparison import Difference, kind_of
from harness.judge.ensemble import Ensemble
from harness.judge.operands import Evidence, Unavailable, arms_needed, ratio_value
from harness.judge.verdict import judge
from harness.record.judging import results_of
from harness.record.store import Store
from harness.run.events import Listener, nobody
from harness.run.plan import Request
from harness.run.runner import measured
from harness.scenario.model import Ratio, Scenario, Status, is_in
from harness.studies.controls import Resolve
from harness.studies.zoo.regressions import BAD, Regression
from lab.base.errors import CannotJudge
from lab.kernels.model import Kernel
from lab.session import Lab


class ZooSide(StrEnum):
    """UNKNOWN: not measured, or the seeds disagree."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Sighting:
    """One regression on one kernel; ``kernel`` names the mutant where there is one. ``value`` is the ratio's median."""

    regression: str
    kernel: str
    expected: ZooSide
    found: ZooSide
    value: float | None
    reason: str = ""
    by_mutant: bool = False


@dataclass(frozen=True)
class Publication:
    """A published bad / good and the measured one, None where it could not be measured."""

    regression: str
    published: float
    here: float | None


@dataclass(frozen=True)
class NullPair:
    """``alarms`` are claims and regressions that differ between the halves; ``marked`` figures that compare marks."""

    scenario: str
    kernel: str
    seeds: tuple[int, int]
    alarms: tuple[str, ...]
    marked: tuple[str, ...]


@dataclass(frozen=True)
class Zoo:
    sightings: tuple[Sighting, ...]
    publications: tuple[Publication, ...]
    pairs: tuple[NullPair, ...]

    @property
    def detected(self) -> tuple[Sighting, ...]:
        return tuple(one for one in self.sightings if one.expected is ZooSide.BAD and one.found is ZooSide.BAD)

    @property
    def missed(self) -> tuple[Sighting, ...]:
        return tuple(one for one in self.sightings if one.expected is ZooSide.BAD and one.found is ZooSide.GOOD)

    @property
    def false_alarms(self) -> tuple[Sighting, ...]:
        return tuple(one for one in self.sightings if one.expected is ZooSide.GOOD and one.found is ZooSide.BAD)

    @property
    def undecided(self) -> tuple[Sighting, ...]:
        return tuple(one for one in self.sightings if one.found is ZooSide.UNKNOWN)


def side_of(regression: Regression, results: Sequence[CellResult], seeds: Sequence[int]) -> tuple[ZooSide, Judgement]:
    """The side that all ``seeds`` agree on."""
    judgement = judge_ratio(regression.ratio, regression.good, _evidence(regression.scenario, results), seeds)
    sides = {Status.PASS: ZooSide.GOOD, Status.FAIL: ZooSide.BAD}
    return sides.get(judgement.status, ZooSide.UNKNOWN), judgement


def null_pair(
    scenario: Scenario, regressions: Iterable[Regression], kernel: str, results: Sequence[CellResult]
) -> Iterator[NullPair]:
    """The first half of the seeds against the second; none when nothing could be measured."""
    seeds = sorted({cell.seed for cell in results})
    halves = seeds[: len(seeds) // 2], seeds[len(seeds) // 2 :]
    if not halves[0] or all(cell.status is not Status.PASS for cell in results):
        return
    alarms = [*_claims_that_differ(scenario, results, kernel, halves)]
    for one in regressions:
        sides = {side_of(one, results, half)[0] for half in halves}
        if sides == {ZooSide.GOOD, ZooSide.BAD}:
            alarms.append(one.name)
    yield NullPair(
        scenario.name, kernel, (len(halves[0]), len(halves[1])), tuple(alarms), tuple(_marked(results, halves))
    )


def _claims_that_differ(
    scenario: Scenario, results: Sequence[CellResult], kernel: str, halves: Sequence[Sequence[int]]
) -> Iterator[str]:
    verdicts = [
        judge(scenario, [cell for cell in results if cell.seed in half], None, half, release=kernel) for half in halves
    ]
    for claims in zip(*(verdict.claims for verdict in verdicts), strict=True):
        if {claim.judgement.status for claim in claims} == {Status.PASS, Status.FAIL}:
            yield claims[0].that


def _marked(results: Sequence[CellResult], halves: Sequence[Sequence[int]]) -> Iterator[str]:
    figures: dict[str, dict[int, float]] = {}
    for cell in results:
        for (load, role, metric), value in cell.figures.items():
            if metric == "iops":
                figures.setdefault(f"{cell.arm}.{load}.{role}.{metric}", {})[cell.seed] = value
    for name, values in figures.items():
        one, other = (Ensemble({seed: values[seed] for seed in half if seed in values}) for half in halves)
        if kind_of(one, other) is Difference.MARKED:
            yield name


def sighting(
    regression: Regression, kernel: str, expected: ZooSide, results: Sequence[CellResult], *, by_mutant: bool = False
) -> Sighting:
    """By as many seeds as the scenario says, though there may be results of more."""
    seeds = sorted({cell.seed for cell in results})[: regression.scenario.seeds]
    found, judgement = side_of(regression, results, seeds)
    value = None if judgement.ensemble is None else judgement.ensemble.median
    return Sighting(regression.name, kernel, expected, found, value, judgement.reason, by_mutant)


def quotient(figure: Ratio, scenario: Scenario, bad: Sequence[CellResult], good: Sequence[CellResult]) -> float | None:
    """The median of ``figure`` on the bad side over that on the good side, None without either."""
    one, other = (_median(figure, scenario, results) for results in (bad, good))
    return None if one is None or not other else one / other


def _median(figure: Ratio, scenario: Scenario, results: Sequence[CellResult]) -> float | None:
    evidence, seeds = _evidence(scenario, results), {cell.seed for cell in results}
    if not seeds:
        return None
    try:
        return Ensemble({seed: ratio_value(figure, seed, evidence) for seed in seeds}).median
    except Unavailable:
        return None


def _evidence(scenario: Scenario, results: Sequence[CellResult]) -> Evidence:
    return Evidence(scenario, {(cell.arm, cell.seed): cell for cell in results})


NULL_PAIRS = 20


@dataclass(frozen=True)
class Visit:
    """What the zoo is measured with. ``resolve`` builds a mutant, or the source itself for an empty name."""

    lab: Lab
    store: Store
    resolve: Resolve
    listener: Listener = nobody
    at_once: int = 0


def visit(visit: Visit, regressions: Sequence[Regression], stock: Sequence[Kernel], pairs: int = NULL_PAIRS) -> Zoo:
    """Measure what is missing. Raises what boots raise."""
    sightings: list[Sighting] = []
    nulls: list[NullPair] = []
    for kernel in stock:
        for scenario, shown in _by_scenario(regressions):
            twice = len(nulls) < pairs
            # The claims of a null pair need every arm, a regression only those of its ratio.
            seeds, arms = (scenario.seeds * 2, ()) if twice else (None, arms_of(scenario, shown))
            results = _results(visit, Request(scenario, kernel, seeds, arms))
            sightings += (_on_stock(one, kernel, results) for one in shown)
            if twice:
                nulls += null_pair(scenario, shown, kernel.release, results)
    publications: list[Publication] = []
    for mutant in dict.fromkeys(one.mutant for one in regressions if one.mutant):
        found, compared = _on_mutant(visit, mutant, [one for one in regressions if one.mutant == mutant])
        sightings += found
        publications += compared
    return Zoo(tuple(sightings), tuple(publications), tuple(nulls))


def _by_scenario(regressions: Sequence[Regression]) -> Iterator[tuple[Scenario, list[Regression]]]:
    for name in dict.fromkeys(one.scenario.name for one in regressions):
        shown = [one for one in regressions if one.scenario.name == name]
        yield shown[0].scenario, shown


def arms_of(scenario: Scenario, shown: Sequence[Regression]) -> tuple[str, ...]:
    needed = arms_needed(ratio for one in shown for ratio in one.ratios)
    return tuple(arm for arm in scenario.arms if arm in needed)


def _on_stock(regression: Regression, kernel: Kernel, results: Sequence[CellResult]) -> Sighting:
    bad = bool(regression.bad_on) and is_in(kernel.release, regression.bad_on)
    return sighting(regression, kernel.release, ZooSide.BAD if bad else ZooSide.GOOD, results)


def _on_mutant(
    visit: Visit, mutant: str, regressions: Sequence[Regression]
) -> tuple[list[Sighting], list[Publication]]:
    """The mutant and the same source without it."""
    sightings, publications = [], []
    for scenario, shown in _by_scenario(regressions):
        arms = arms_of(scenario, shown)
        try:
            broken = _results(visit, Request(scenario, visit.resolve(mutant), None, arms))
            sound = _results(visit, Request(scenario, visit.resolve(""), None, arms))
        except CannotJudge as error:
            sightings += [
                Sighting(one.name, mutant, ZooSide(one.mutant_is), ZooSide.UNKNOWN, None, error.message, True)
                for one in shown
            ]
            continue
        for one in shown:
            sightings.append(sighting(one, mutant, ZooSide(one.mutant_is), broken, by_mutant=True))
            if one.figure is not None and one.published is not None:
                bad, good = (broken, sound) if one.mutant_is == BAD else (sound, broken)
                publications.append(Publication(one.name, one.published, quotient(one.figure, scenario, bad, good)))
    return sightings, publications


def _results(visit: Visit, request: Request) -> list[CellResult]:
    return results_of(measured(visit.lab, request, visit.store, visit.listener, visit.at_once))

# SPDX-License-Identifier: GPL-2.0-only
"""What the zoo shows: on which side of a published regression a kernel is, and what differs between equals. Pure.

A null pair is one kernel under one scenario with two sets of seeds: a claim that differs there, or a figure by more
than boots of one code do, is a false alarm.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType

from harness.judge.cells import CellResult
from harness.judge.claims import Judgement, judge_ratio
from harness.judge.comparison import Difference, changes_of_figures
from harness.judge.ensemble import Ensemble
from harness.judge.operands import Evidence, Unavailable, arms_needed, ratio_value
from harness.judge.thresholds import NullEvidence, evidence
from harness.judge.verdict import judge
from harness.record.judging import results_of
from harness.record.store import Store
from harness.run.events import Listener, nobody
from harness.run.plan import Request
from harness.run.runner import measured
from harness.scenario.metric_names import METRICS
from harness.scenario.model import Clock, Ratio, Scenario, Status, is_in
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
    """A published bad / good and the measured one, None where it could not be measured, and the kernels compared."""

    regression: str
    published: float
    here: float | None
    on: str = ""


@dataclass(frozen=True)
class NullPair:
    """``alarms`` are claims and regressions that differ between the halves, ``marked`` the figures that compare marks,
    of ``figures``, and ``regressions`` those that both halves decide."""

    scenario: str
    kernel: str
    seeds: tuple[int, int]
    alarms: tuple[str, ...]
    marked: tuple[str, ...]
    figures: int = 0
    regressions: tuple[str, ...] = ()


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
    def changes(self) -> tuple[tuple[Sighting, Sighting], ...]:
        """Stock kernels next to each other on different sides of a regression, as expected."""
        decided = [one for one in self.sightings if not one.by_mutant and one.found is not ZooSide.UNKNOWN]
        names = dict.fromkeys(one.regression for one in decided)
        runs = ([one for one in decided if one.regression == name] for name in names)
        pairs = (pair for run in runs for pair in pairwise(run))
        return tuple(
            (one, other)
            for one, other in pairs
            if one.found is not other.found and one.found is one.expected and other.found is other.expected
        )

    @property
    def undecided(self) -> tuple[Sighting, ...]:
        return tuple(one for one in self.sightings if one.found is ZooSide.UNKNOWN)


def side_of(regression: Regression, results: Sequence[CellResult], seeds: Sequence[int]) -> tuple[ZooSide, Judgement]:
    """The side that all ``seeds`` agree on."""
    judgement = judge_ratio(regression.ratio, regression.good, _evidence(regression.scenario, results), seeds)
    sides = {Status.PASS: ZooSide.GOOD, Status.FAIL: ZooSide.BAD}
    return sides.get(judgement.status, ZooSide.UNKNOWN), judgement


def null_pair(
    scenario: Scenario,
    regressions: Iterable[Regression],
    kernel: str,
    results: Sequence[CellResult],
    known: Mapping[str, NullEvidence],
) -> Iterator[NullPair]:
    """The first half of the seeds against the second; none when nothing could be measured."""
    seeds = sorted({cell.seed for cell in results})
    halves = seeds[: len(seeds) // 2], seeds[len(seeds) // 2 :]
    if not halves[0] or all(cell.status is not Status.PASS for cell in results):
        return
    alarms = [*_claims_that_differ(scenario, results, kernel, halves)]
    decided: list[str] = []
    for one in regressions:
        sides = {side_of(one, results, half)[0] for half in halves}
        decided += [one.name] if ZooSide.UNKNOWN not in sides else []
        alarms += [one.name] if sides == {ZooSide.GOOD, ZooSide.BAD} else []
    left, right = ([cell for cell in results if cell.seed in half] for half in halves)
    exact = scenario.clock is Clock.VIRTUAL
    found = [*changes_of_figures(left, right, tuple(METRICS), exact=exact, known=known if exact else None)]
    marked = tuple(one.figure for one in found if one.difference() is Difference.MARKED)
    counts = len(halves[0]), len(halves[1])
    yield NullPair(scenario.name, kernel, counts, tuple(alarms), marked, len(found), tuple(decided))


def _claims_that_differ(
    scenario: Scenario, results: Sequence[CellResult], kernel: str, halves: Sequence[Sequence[int]]
) -> Iterator[str]:
    verdicts = [
        judge(scenario, [cell for cell in results if cell.seed in half], None, half, release=kernel) for half in halves
    ]
    for claims in zip(*(verdict.claims for verdict in verdicts), strict=True):
        if {claim.judgement.status for claim in claims} == {Status.PASS, Status.FAIL}:
            yield claims[0].that


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


@dataclass(frozen=True)
class Visit:
    """What the zoo is measured with. ``resolve`` builds a mutant, or the source itself for an empty name."""

    lab: Lab
    store: Store
    resolve: Resolve
    listener: Listener = nobody
    at_once: int = 0


def visit(
    visit: Visit,
    regressions: Sequence[Regression],
    stock: Sequence[Kernel],
    pairs: int | None = None,
    further: Mapping[str, Kernel] = MappingProxyType({}),
) -> Zoo:
    """Measure what is missing. ``further`` are kernels, by spec, of the regressions that name them.

    Each regression gets a null pair on the first kernel that shows it, until there are ``pairs``.
    Raises what boots raise.
    """
    sightings: list[Sighting] = []
    nulls: list[NullPair] = []
    known = evidence()
    paired: set[str] = set()
    measured_on: dict[str, list[tuple[Sighting, list[CellResult]]]] = {}
    places = [(kernel, regressions) for kernel in stock]
    places += [(kernel, [one for one in regressions if spec in one.also]) for spec, kernel in further.items()]
    for kernel, there in sorted(places, key=lambda place: place[0].version):
        for scenario, shown in _by_scenario(there):
            arms = arms_of(scenario, shown)
            results = measured_cells(visit, Request(scenario, kernel, None, arms))
            found = [_on_stock(one, kernel, results) for one in shown]
            sightings += found
            for seen in found:
                measured_on.setdefault(seen.regression, []).append((seen, results))
            decided = {seen.regression for seen in found if seen.found is not ZooSide.UNKNOWN}
            if not decided <= paired and (pairs is None or len(nulls) < pairs):
                twice = measured_cells(visit, Request(scenario, kernel, scenario.seeds * 2, arms))
                nulls += null_pair(scenario, shown, kernel.release, twice, known)
                paired |= decided
    publications = [
        _of_stock(one, one.figure, one.published, measured_on[one.name])
        for one in regressions
        if one.figure is not None and one.published is not None and not one.mutant and one.name in measured_on
    ]
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
    bad = any(is_in(kernel.release, one) for one in regression.bad_on)
    return sighting(regression, kernel.release, ZooSide.BAD if bad else ZooSide.GOOD, results)


def _of_stock(
    one: Regression, figure: Ratio, published: float, measured_on: Sequence[tuple[Sighting, list[CellResult]]]
) -> Publication:
    """By the latest two kernels next to each other on different sides; a report that was declined by the latest."""
    if one.decision:
        seen, results = measured_on[-1]
        return Publication(one.name, published, _median(figure, one.scenario, results), seen.kernel)
    for earlier, later in reversed([*pairwise(measured_on)]):
        if earlier[0].expected is not later[0].expected:
            bad, good = (earlier, later) if earlier[0].expected is ZooSide.BAD else (later, earlier)
            here = quotient(figure, one.scenario, bad[1], good[1])
            return Publication(one.name, published, here, f"{bad[0].kernel} / {good[0].kernel}")
    return Publication(one.name, published, None)


def _on_mutant(
    visit: Visit, mutant: str, regressions: Sequence[Regression]
) -> tuple[list[Sighting], list[Publication]]:
    """The mutant and the same source without it."""
    sightings, publications = [], []
    for scenario, shown in _by_scenario(regressions):
        arms = arms_of(scenario, shown)
        try:
            broken = measured_cells(visit, Request(scenario, visit.resolve(mutant), None, arms))
            sound = measured_cells(visit, Request(scenario, visit.resolve(""), None, arms))
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
                here = quotient(one.figure, scenario, bad, good)
                publications.append(Publication(one.name, one.published, here, f"mutant {mutant}"))
    return sightings, publications


def measured_cells(visit: Visit, request: Request) -> list[CellResult]:
    """The cells of a stored run of the request, else of a new one. Raises what boots raise."""
    return results_of(measured(visit.lab, request, visit.store, visit.listener, visit.at_once))

# SPDX-License-Identifier: GPL-2.0-only
"""The zoo measured: published regressions on stock kernels and on mutants, and kernels against themselves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.judge.cells import CellResult
from harness.judge.operands import arms_needed
from harness.record.judging import results_of
from harness.record.store import Store
from harness.run.events import Listener, nobody
from harness.run.plan import Request
from harness.run.runner import measured
from harness.scenario.known import is_in
from harness.scenario.model import Scenario
from harness.studies.controls import Resolve
from harness.studies.zoo.regressions import BAD, Regression
from harness.studies.zoo.score import NullPair, Publication, Sighting, Zoo, ZooSide, null_pair, quotient, sighting
from lab.base.errors import CannotJudge
from lab.kernels.model import Kernel
from lab.session import Lab

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
            seeds = scenario.seeds * (2 if twice else 1)
            results = _results(visit, Request(scenario, kernel, seeds))
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


def _on_stock(regression: Regression, kernel: Kernel, results: Sequence[CellResult]) -> Sighting:
    bad = bool(regression.bad_on) and is_in(kernel.release, regression.bad_on)
    return sighting(regression, kernel.release, ZooSide.BAD if bad else ZooSide.GOOD, results)


def _on_mutant(
    visit: Visit, mutant: str, regressions: Sequence[Regression]
) -> tuple[list[Sighting], list[Publication]]:
    """The mutant and the same source without it."""
    sightings, publications = [], []
    for scenario, shown in _by_scenario(regressions):
        arms = arms_needed(ratio for one in shown for ratio in one.ratios)
        chosen = tuple(arm for arm in scenario.arms if arm in arms)
        try:
            broken = _results(visit, Request(scenario, visit.resolve(mutant), None, chosen))
            sound = _results(visit, Request(scenario, visit.resolve(""), None))
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

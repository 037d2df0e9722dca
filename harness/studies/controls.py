# SPDX-License-Identifier: GPL-2.0-only
"""Mutant kernels against the scenarios that name them: which are detected, and what fails without them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.judge.claims import ClaimVerdict, ControlVerdict, Judgement
from harness.judge.killers import killer
from harness.judge.operands import arms_needed
from harness.judge.verdict import Verdict
from harness.record.judging import judge_as
from harness.record.store import RunFolder, Store, load_run
from harness.run.events import Listener, nobody
from harness.run.plan import Request
from harness.run.runner import measured
from harness.scenario.model import Claim, Scenario, Status
from lab.base.errors import CannotJudge
from lab.kernels.model import Kernel
from lab.session import Lab

FOLDER = "controls"
"""The folder below the results for runs of mutants and of the stock kernels that they are compared with."""
Resolve = Callable[[str], Kernel]
"""From the name of a mutant (empty: stock) to its kernel. Raises CannotJudge when it is not for this source."""


@dataclass(frozen=True)
class MutantTrial:
    """One scenario on one mutant. ``reason`` says why there is no ``verdict``; it is empty when there is one."""

    scenario: str
    mutant: str
    verdict: Verdict | None
    reason: str = ""

    @property
    def controls(self) -> tuple[ControlVerdict, ...]:
        """This mutant's controls that fail on it, as they must."""
        return failing_controls(self.verdict, self.mutant) if self.verdict else ()

    @property
    def failed(self) -> tuple[str, ...]:
        """Claims whose ratio was measured on the mutant and is out of bounds, in words."""
        claims = self.verdict.claims if self.verdict else ()
        return tuple(claim.that for claim in claims if _failed(claim))

    @property
    def killed(self) -> bool:
        return bool(self.controls or self.failed)


@dataclass(frozen=True)
class Stock:
    """One scenario on the kernel without a mutant. ``judged`` has the verdict with each mutant's controls judged."""

    scenario: str
    verdict: Verdict
    judged: Mapping[str, Verdict]


@dataclass(frozen=True)
class Campaign:
    """What to try: scenarios, the mutants of their controls, and whether every pair (or only those named) is tried."""

    scenarios: tuple[Scenario, ...]
    mutants: tuple[str, ...]
    seeds: int | None = None
    every_pair: bool = False
    at_once: int = 0

    def pairs(self) -> Iterator[tuple[str, Scenario]]:
        for mutant in self.mutants:
            for scenario in self.scenarios:
                if self.every_pair or arms_against(scenario, mutant):
                    yield mutant, scenario


def arms_against(scenario: Scenario, mutant: str) -> tuple[str, ...]:
    """The arms that the mutant's controls of a scenario need, in the scenario's order; none when it has no such."""
    named = arms_needed(control.ratio for control in scenario.controls if control.mutant == mutant)
    return tuple(arm for arm in scenario.arms if arm in named)


def failing_controls(verdict: Verdict, mutant: str) -> tuple[ControlVerdict, ...]:
    judged = [control for control in verdict.controls if control.mutant == mutant and control.judgement is not None]
    return tuple(one for one in judged if one.judgement is not None and one.judgement.status is Status.PASS)


def try_stock(
    lab: Lab, campaign: Campaign, resolve: Resolve, store: Store, listener: Listener = nobody
) -> Iterator[Stock]:
    """Every scenario that a mutant is tried on, whole, on the kernel without one."""
    kernel = resolve("")
    for scenario in dict.fromkeys(scenario.name for _, scenario in campaign.pairs()):
        model = next(one for one in campaign.scenarios if one.name == scenario)
        run = measured(lab, Request(model, kernel, campaign.seeds), store, listener, campaign.at_once)
        verdict, mutants = _judged(run, ""), {control.mutant for control in model.controls if control.mutant}
        yield Stock(scenario, verdict, {mutant: _judged(run, mutant) for mutant in sorted(mutants)})


def try_mutants(
    lab: Lab, campaign: Campaign, resolve: Resolve, store: Store, listener: Listener = nobody
) -> Iterator[MutantTrial]:
    """Every pair of the campaign; a mutant that is not for this source, or does not build, has no verdict."""
    for mutant in campaign.mutants:
        scenarios = [scenario for name, scenario in campaign.pairs() if name == mutant]
        try:
            kernel = resolve(mutant)
        except CannotJudge as error:
            yield from (MutantTrial(scenario.name, mutant, None, error.message) for scenario in scenarios)
            continue
        for scenario in scenarios:
            arms = () if campaign.every_pair else arms_against(scenario, mutant)
            request = Request(scenario, kernel, campaign.seeds, arms)
            run = measured(lab, request, store, listener, campaign.at_once)
            yield MutantTrial(scenario.name, mutant, _judged(run, mutant))


def shortfalls(campaign: Campaign, stock: Sequence[Stock], trials: Sequence[MutantTrial]) -> Iterator[str]:
    """Sentences, one for each thing that a kill matrix must show and this one does not."""
    for mutant in campaign.mutants:
        tried = [trial for trial in trials if trial.mutant == mutant]
        if not any(trial.killed for trial in tried):
            reasons = "; ".join(trial.reason for trial in tried if trial.reason) or "no scenario detects it"
            yield f"mutant {mutant} is not detected: {reasons}"
    for trial in trials:
        for control in trial.verdict.controls if trial.verdict else ():
            if control.mutant == trial.mutant and control not in trial.controls:
                yield f"does not fail on the mutant {trial.mutant}, in {trial.scenario}: {control.that}"
    for scenario in campaign.scenarios:
        kills = any(trial.killed for trial in trials if trial.scenario == scenario.name)
        if not kills and all(control.mutant for control in scenario.controls):
            yield f"scenario {scenario.name} kills no mutant and has no control by an arm"
    for one in stock:
        if one.verdict.status is not Status.PASS:
            yield f"the kernel without a mutant is {one.verdict.status} under {one.scenario}"
        for mutant, verdict in one.judged.items():
            for control in failing_controls(verdict, mutant):
                yield f"fails without the mutant {mutant} too, under {one.scenario}: {control.that}"


@dataclass(frozen=True)
class Kills:
    """A claim with its figure on the kernel without a mutant, and what makes it fail, each with the figure there."""

    scenario: str
    claim: ClaimVerdict
    by: tuple[tuple[str, Judgement], ...]


def claim_kills(campaign: Campaign, stock: Sequence[Stock], trials: Sequence[MutantTrial]) -> Iterator[Kills]:
    """Every claim of the scenarios that were tried, in the order of their files."""
    models = {scenario.name: scenario for scenario in campaign.scenarios}
    for one in stock:
        model = models[one.scenario]
        for number, (claim, judged) in enumerate(zip(model.claims, one.verdict.claims, strict=True)):
            yield Kills(one.scenario, judged, (*_by_arm(model, claim, one), *_by_mutant(one.scenario, number, trials)))


def _by_arm(model: Scenario, claim: Claim, stock: Stock) -> Iterator[tuple[str, Judgement]]:
    for control, judged in zip(model.controls, stock.verdict.controls, strict=True):
        fails = judged.judgement is not None and judged.judgement.status is Status.PASS
        if judged.judgement and fails and not control.mutant and (name := killer(model, control, claim)):
            yield name, judged.judgement


def _by_mutant(scenario: str, number: int, trials: Sequence[MutantTrial]) -> Iterator[tuple[str, Judgement]]:
    for trial in trials:
        if trial.scenario == scenario and trial.verdict and _failed(trial.verdict.claims[number]):
            yield f"mutant {trial.mutant}", trial.verdict.claims[number].judgement


def _failed(claim: ClaimVerdict) -> bool:
    return claim.judgement.status is Status.FAIL and claim.judgement.ensemble is not None


def _judged(run: RunFolder, mutant: str) -> Verdict:
    return judge_as(load_run(run.path), mutant)


def mutants_named(scenarios: Iterable[Scenario]) -> tuple[str, ...]:
    """The mutants that controls of these scenarios name, in their order."""
    named = (control.mutant for scenario in scenarios for control in scenario.controls if control.mutant)
    return tuple(dict.fromkeys(named))

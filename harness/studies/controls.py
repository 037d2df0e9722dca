# SPDX-License-Identifier: GPL-2.0-only
"""Mutant kernels against the scenarios that name them: which are detected, and what fails without them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from harness.base.plain import identity
from harness.judge.claims import ClaimVerdict, ControlVerdict
from harness.judge.operands import arms_needed
from harness.judge.verdict import Verdict
from harness.record.judging import Altered, judge_as
from harness.record.store import RunFolder, Store, load_run
from harness.scenario.model import Clock, Scenario, Status
from lab.base.errors import CannotJudge, Misuse
from lab.kernels.model import Kernel

FOLDER = "controls"
"""The folder below the results for runs of mutants and of the stock kernels that they are compared with."""
Resolve = Callable[[str], Kernel]
"""From the name of a mutant (empty: stock) to its kernel. Raises CannotJudge when it is not for this source."""
Measure = Callable[[Scenario, str, tuple[str, ...]], RunFolder]
"""From a scenario, a kernel's spec and arms (none: all) to their run. Raises CannotJudge with the reason."""
NOT_STORED = "not measured"


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
        return tuple(claim.that for claim in claims if out_of_bounds(claim))

    @property
    def killed(self) -> bool:
        return bool(self.controls or self.failed)


@dataclass(frozen=True)
class Stock:
    """One scenario on a kernel without a mutant. ``judged`` has the verdict with each mutant's controls judged.

    ``kernel`` is the release of a kernel other than the source, empty for the source.
    """

    scenario: str
    verdict: Verdict
    judged: Mapping[str, Verdict]
    kernel: str = ""


@dataclass(frozen=True)
class Campaign:
    """What to try: scenarios, the mutants of their controls, and whether every pair (or only those named) is tried.

    ``source`` is the spec that the mutants are built from, ``kernels`` are those of further kernels.
    """

    scenarios: tuple[Scenario, ...]
    mutants: tuple[str, ...]
    every_pair: bool = False
    source: str = ""
    kernels: tuple[str, ...] = ()

    def pairs(self) -> Iterator[tuple[str, Scenario]]:
        for mutant in self.mutants:
            for scenario in self.scenarios:
                every = self.every_pair and scenario.clock is Clock.VIRTUAL
                if every or arms_against(scenario, mutant):
                    yield mutant, scenario


def arms_against(scenario: Scenario, mutant: str) -> tuple[str, ...]:
    """The arms that the mutant's controls of a scenario need, in the scenario's order; none when it has no such."""
    named = arms_needed(control.ratio for control in scenario.controls if control.mutant == mutant)
    return tuple(arm for arm in scenario.arms if arm in named)


def failing_controls(verdict: Verdict, mutant: str) -> tuple[ControlVerdict, ...]:
    judged = [control for control in verdict.controls if control.mutant == mutant and control.judgement is not None]
    return tuple(one for one in judged if one.judgement is not None and one.judgement.status is Status.PASS)


def try_stock(campaign: Campaign, measure: Measure) -> Iterator[Stock]:
    """Every scenario, whole, on the kernel without a mutant; those that cannot be measured are left out."""
    for scenario in campaign.scenarios:
        with suppress(CannotJudge):
            run = measure(scenario, campaign.source, ())
            mutants = sorted({control.mutant for control in scenario.controls if control.mutant})
            yield Stock(scenario.name, _judged(run, ""), {mutant: _judged(run, mutant) for mutant in mutants})


def try_further(
    campaign: Campaign, measure: Measure, lacking: Callable[[Scenario, Sequence[Stock]], tuple[str, ...]]
) -> Iterator[Stock]:
    """The arms of each scenario that still lack something, on the further kernels, until none does."""
    for scenario in campaign.scenarios:
        found: list[Stock] = []
        for spec in campaign.kernels:
            if not (arms := lacking(scenario, found)):
                break
            with suppress(CannotJudge):
                run = measure(scenario, spec, arms)
                found.append(Stock(scenario.name, _judged(run, ""), {}, run.facts.kernel.release))
        yield from found


def try_mutants(campaign: Campaign, measure: Measure) -> Iterator[MutantTrial]:
    """Every pair of the campaign; a mutant that is not for this source, or does not build, has no verdict."""
    for mutant, scenario in campaign.pairs():
        try:
            arms = () if campaign.every_pair else arms_against(scenario, mutant)
            run = measure(scenario, f"{campaign.source}+{mutant}", arms)
        except CannotJudge as error:
            yield MutantTrial(scenario.name, mutant, None, error.message)
        else:
            yield MutantTrial(scenario.name, mutant, _judged(run, mutant))


def stored(store: Store) -> Measure:
    """The newest run in a results folder of the scenario as its file is today, on the kernel of the spec."""

    def measure(scenario: Scenario, spec: str, arms: tuple[str, ...]) -> RunFolder:
        wanted = identity(scenario)
        for path in reversed(store.runs(scenario.name)):
            with suppress(Misuse, Altered):
                run = load_run(path)
                same = run.facts.kernel.spec == spec and identity(run.scenario) == wanted
                if same and {*(arms or scenario.arms)} <= {*run.facts.arms}:
                    return run
        raise CannotJudge(NOT_STORED, remedy="blklab check controls, without --stored")

    return measure


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
    passed = {one.scenario for one in stock if one.verdict.status is Status.PASS}
    for name in sorted({scenario.name for scenario in campaign.scenarios} - {one.scenario for one in stock}):
        yield f"scenario {name} is not measured on a kernel without a mutant"
    for one in stock:
        status = one.verdict.status
        if status is not Status.PASS and not (status is Status.SKIP and one.scenario in passed):
            yield f"{one.kernel or 'the kernel without a mutant'} is {status} under {one.scenario}"
        for mutant, verdict in one.judged.items():
            for control in failing_controls(verdict, mutant):
                yield f"fails without the mutant {mutant} too, under {one.scenario}: {control.that}"


def out_of_bounds(claim: ClaimVerdict) -> bool:
    """Whether the claim's ratio was measured and is out of bounds: a guest that died shows nothing of a claim."""
    return claim.judgement.status is Status.FAIL and claim.judgement.ensemble is not None


def _judged(run: RunFolder, mutant: str) -> Verdict:
    return judge_as(load_run(run.path), mutant)


def mutants_named(scenarios: Iterable[Scenario]) -> tuple[str, ...]:
    """The mutants that controls of these scenarios name, in their order."""
    named = (control.mutant for scenario in scenarios for control in scenario.controls if control.mutant)
    return tuple(dict.fromkeys(named))

# SPDX-License-Identifier: GPL-2.0-only
"""Claims and what makes each fail, as measured by ``blklab check controls``: rows, and the page."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.judge.claims import ClaimVerdict, Judgement
from harness.judge.ensemble import Ensemble
from harness.judge.killers import UNPROVEN, entries, killer, killers, unit_of
from harness.report import markdown
from harness.report.format import plural, value
from harness.scenario.model import Claim, Control, Scenario, Status
from harness.studies.controls import NOT_STORED, MutantTrial, Stock, out_of_bounds

_PREFACE = """\
Each claim of each scenario, its figure on the kernel without a mutant, and what makes it fail: a mutant, another arm,
load or role, or kernels, with the figure there, in the unit of the claim. Arms, loads and roles are measured in the run
of the claim itself. A kernel is named where it is not the source's own build: claims for other kernels are measured
there. Where no figure is measured, an entry of the file declares what makes the claim fail. A claim that nothing makes
fail is unproven. Scenarios on the wall clock need a host of their own: [agreement.md](agreement.md) has some figures.
"""
_HEAD = ("claim", "bound", "figure", "fails by")
_MUTANT, _KERNELS = "mutant ", "kernels "


@dataclass(frozen=True)
class Killer:
    """What makes a claim fail. ``expect`` is the bound that the file declares for it, empty where it declares none.

    ``judgement`` is the measured one, of the control or of the claim on the mutant; None: not measured. ``kills``: it
    was measured, and the claim does not hold there. ``kernel`` is its release where it is not the source's.
    """

    name: str
    expect: str = ""
    judgement: Judgement | None = None
    kills: bool = False
    kernel: str = ""

    def __str__(self) -> str:
        if self.judgement is None:
            return f"{self.name}: {self.expect}, {NOT_STORED}" if self.expect else self.name
        holds = self.judgement.ensemble is not None and not self.kills
        return f"{self.name}: {shown(self.judgement, self.kernel)}{', where it holds' if holds else ''}"


@dataclass(frozen=True)
class Kills:
    """A claim, its judgement on a kernel without a mutant (None: not measured), and its killers."""

    scenario: str
    claim: Claim
    judgement: Judgement | None
    by: tuple[Killer, ...]
    kernel: str = ""

    @property
    def row(self) -> tuple[str, str, str, str]:
        """Claim, bound, figure, and what makes it fail."""
        return self.claim.that, self.claim.expect.text, shown(self.judgement, self.kernel), self.fails_by

    @property
    def measured(self) -> bool:
        """Whether it was seen to fail, by a figure."""
        return any(one.kills for one in self.by)

    @property
    def unproven(self) -> bool:
        return all(one.judgement is not None and not one.kills for one in self.by)

    @property
    def fails_by(self) -> str:
        by = [one for one in self.by if one.judgement is not None] if self.measured else self.by
        return "; ".join(filter(None, (UNPROVEN if self.unproven else "", *map(str, by))))


def shown(judgement: Judgement | None, kernel: str = "") -> str:
    if judgement is None:
        return NOT_STORED
    if judgement.ensemble is None:
        return judgement.reason
    return f"{value(judgement)} on {kernel}" if kernel else value(judgement)


def claim_kills(
    scenarios: Iterable[Scenario], stock: Sequence[Stock], trials: Sequence[MutantTrial]
) -> Iterator[Kills]:
    """Every claim of the scenarios, in the order of their files."""
    for model in scenarios:
        own = [one for one in stock if one.scenario == model.name]
        tried = [one for one in trials if one.scenario == model.name and one.verdict]
        for number, claim in enumerate(model.claims):
            on = _best(own, number)
            found = {name: Killer(name) for name in killers(model, claim)}
            found |= {
                name: Killer(name, one.expect.text)
                for one in entries(model, claim)
                if (name := killer(model, one, claim))
            }
            for one in own:
                found |= {killer.name: killer for killer in _by_entry(model, claim, one, kernels=True)}
                found |= {killer.name: killer for killer in _by_known(one.verdict.claims[number], one)}
            found |= {killer.name: killer for killer in _by_entry(model, claim, on, kernels=False)} if on else {}
            found |= {killer.name: killer for killer in _by_mutant(number, tried, found)}
            judged = on.verdict.claims[number].judgement if on else None
            yield Kills(model.name, claim, judged, tuple(found.values()), on.kernel if on else "")


def lacks_a_figure(
    stock: Sequence[Stock], trials: Sequence[MutantTrial]
) -> Callable[[Scenario, Sequence[Stock]], bool]:
    """Whether a claim of a scenario was seen to fail on none of these kernels, or not measured at all."""

    def lacks(scenario: Scenario, further: Sequence[Stock]) -> bool:
        found = claim_kills([scenario], (*stock, *further), trials)
        return any(not one.measured or one.judgement is None or one.judgement.ensemble is None for one in found)

    return lacks


def _best(own: Sequence[Stock], number: int) -> Stock | None:
    """The first kernel on which the claim was measured and holds, else the first on which it was measured, or any."""
    judged = [(one, one.verdict.claims[number].judgement) for one in own]
    measured = [one for one, judgement in judged if judgement.ensemble is not None]
    held = [one for one, judgement in judged if one in measured and judgement.status is Status.PASS]
    return next(iter((*held, *measured, *own)), None)


def _entries_judged(model: Scenario, stock: Stock) -> Mapping[Claim | Control, Judgement | None]:
    judged: dict[Claim | Control, Judgement | None] = {}
    judged.update((one, said.judgement) for one, said in zip(model.claims, stock.verdict.claims, strict=True))
    judged.update((one, said.judgement) for one, said in zip(model.controls, stock.verdict.controls, strict=True))
    return judged


def _by_entry(model: Scenario, claim: Claim, stock: Stock, *, kernels: bool) -> Iterator[Killer]:
    """Entries of the file that were measured: those for other kernels, or those of other arms, loads and roles."""
    judged = _entries_judged(model, stock)
    for entry in entries(model, claim):
        judgement, name = judged[entry], killer(model, entry, claim)
        if not name or name.startswith(_MUTANT) or judgement is None or judgement.ensemble is None:
            continue
        if name.startswith(_KERNELS) is kernels:
            figure, kills = _in_unit(judgement, unit_of(model, entry, claim)), judgement.status is Status.PASS
            yield Killer(name, entry.expect.text, figure, kills, stock.kernel)


def _by_known(claim: ClaimVerdict, stock: Stock) -> Iterator[Killer]:
    if claim.known is not None:
        name = f"{_KERNELS}{claim.known.kernels}"
        yield Killer(name, "", claim.judgement, out_of_bounds(claim), stock.kernel)


def _in_unit(judgement: Judgement, unit: float) -> Judgement:
    """The figure of another entry in the unit of the claim, where the two are divided by other constants."""
    if judgement.ensemble is None or unit == 1:
        return judgement
    values = {seed: value * unit for seed, value in judgement.ensemble.values.items()}
    return replace(judgement, ensemble=Ensemble(values), interval=None)


def _by_mutant(number: int, trials: Iterable[MutantTrial], declared: Mapping[str, Killer]) -> Iterator[Killer]:
    """Mutants on which the claim was measured: those that the file declares, and others on which it fails."""
    for trial in trials:
        claim, name = trial.verdict.claims[number] if trial.verdict else None, f"{_MUTANT}{trial.mutant}"
        if claim and (out_of_bounds(claim) or name in declared):
            yield Killer(name, "", claim.judgement, out_of_bounds(claim))


def mutant_rows(stock: Sequence[Stock], trials: Sequence[MutantTrial]) -> Iterator[tuple[str, str, str, str, str]]:
    """Mutant, scenario, the figure of each control on its mutant, its bound, and the figure without the mutant."""
    clean = {
        (one.scenario, mutant, control.that): shown(control.judgement)
        for one in stock
        for mutant, verdict in one.judged.items()
        for control in verdict.controls
        if control.mutant == mutant
    }
    for trial in trials:
        if trial.verdict is None:
            yield trial.mutant, trial.scenario, trial.reason, "", ""
            continue
        for control in trial.verdict.controls:
            if control.mutant == trial.mutant:
                without = clean.get((trial.scenario, trial.mutant, control.that), "")
                yield trial.mutant, trial.scenario, shown(control.judgement), control.expect, without


def kills_page(kills: Sequence[Kills], mutants: Iterable[Sequence[str]], made_of: str, command: str) -> str:
    """The page in Markdown; ``made_of`` names source and QEMU, ``command`` generates it."""
    by_scenario: dict[str, list[Kills]] = {}
    for one in kills:
        by_scenario.setdefault(one.scenario, []).append(one)
    measured = sum(one.measured for one in kills)
    unproven = [f"- `{one.scenario}`: {one.claim.that}" for one in kills if one.unproven]
    lines = [
        *markdown.head("Claims and what makes them fail", f"Generated from results by: {command}"),
        _PREFACE,
        f"{plural(len(kills), 'claim')}: {measured} fail by a measured figure, {len(unproven)} are unproven, and"
        f" {len(kills) - measured - len(unproven)} are declared to fail, not measured here. {made_of}",
        "",
        *markdown.section("Unproven", unproven),
        *markdown.section(
            "Controls on mutants",
            markdown.table(("mutant", "scenario", "figure", "must be", "without the mutant"), mutants),
        ),
    ]
    for scenario, own in by_scenario.items():
        rows = [one.row for one in own]
        lines += markdown.section(scenario, markdown.table(_HEAD, rows))
    return "\n".join(lines).rstrip("\n") + "\n"

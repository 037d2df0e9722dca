# SPDX-License-Identifier: GPL-2.0-only
"""What makes each claim fail: the scores of its file's rows on the source, its mutants and further kernels."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.judge.cells import Ensemble, arms_needed
from harness.judge.claims import Judgement
from harness.limits.entries import UNPROVEN, entries, killer, killers, unit_of
from harness.report.claims import value
from harness.scenario.model import Claim, Control, Status, is_in
from lab.kernels.mutants import catalogue
from tools.command import NOT_MEASURED, Measure
from tools.evidence.rows import EvidenceRow, arms_of, by_scenario
from tools.evidence.scorer import RowScore, score

_MUTANT, _KERNELS = "mutant ", "kernels "


@dataclass(frozen=True)
class Killer:
    """What makes a claim fail, and the bound that an entry of the file declares for it (empty: none).

    ``judgement`` is the measured one, None without; ``kills``: the claim was measured there, and fails. ``kernel`` is
    its release where it is not the source's.
    """

    name: str
    expect: str = ""
    judgement: Judgement | None = None
    kills: bool = False
    kernel: str = ""

    def __str__(self) -> str:
        if self.judgement is None:
            return f"{self.name}: {self.expect}, {NOT_MEASURED}" if self.expect else self.name
        holds = self.judgement.ensemble is not None and not self.kills
        return f"{self.name}: {show(self.judgement, self.kernel)}{', where it holds' if holds else ''}"


@dataclass(frozen=True)
class ClaimProof:
    """A claim, its best score without a mutant (None: not measured), and what makes it fail."""

    row: EvidenceRow
    best: RowScore | None
    by: tuple[Killer, ...]
    kernel: str = ""

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Claim, bound, figure, and what makes it fail."""
        expect = self.row.expect.text if self.row.expect else ""
        return self.row.that, expect, show(self.best.judgement if self.best else None, self.kernel), self.fails_by

    @property
    def proven(self) -> bool:
        """Whether it was seen to fail, by a figure."""
        return any(cause.kills for cause in self.by)

    @property
    def against_kernel(self) -> bool:
        """Whether that was on a mutant or on another kernel: another arm or role shows that the figure can differ."""
        return any(cause.kills and cause.name.startswith((_MUTANT, _KERNELS)) for cause in self.by)

    @property
    def unproven(self) -> bool:
        return all(cause.judgement is not None and not cause.kills for cause in self.by)

    @property
    def fails_by(self) -> str:
        by = [cause for cause in self.by if cause.judgement is not None] if self.proven else self.by
        return "; ".join(filter(None, (UNPROVEN if self.unproven else "", *map(str, by))))


def show(judgement: Judgement | None, kernel: str = "") -> str:
    if judgement is None:
        return NOT_MEASURED
    if judgement.ensemble is None:
        return judgement.reason
    return f"{value(judgement)} on {kernel}" if kernel else value(judgement)


def score_claims(
    rows: Sequence[EvidenceRow], source: str, kernels: Sequence[str], measure: Measure, seeds: int | None = None
) -> list[RowScore]:
    """Claims and controls on the source, on mutants that they or a mutant's header name, and what still lacks a figure.

    That is the first of the further kernels that shows it, with the arms of such claims and of what makes them fail.
    """
    files = [(own, seeds if own[0].scenario.timing.exact else None) for own in by_scenario(rows)]
    scores = [it for own, count in files for it in score(own, source, measure, seeds=count)]
    named = failing_on()
    for mutant in dict.fromkeys((*(row.mutant for row in rows if row.mutant), *named)):
        for own, count in files:
            every = own[0].scenario.name in named.get(mutant, ())
            if arms := arms_of([row for row in own if row.mutant == mutant or (every and not row.mutant)]):
                scores += score(own, source, measure, mutant=mutant, arms=arms, seeds=count)
    for own, count in files:
        known = [it for it in scores if it.row.scenario is own[0].scenario]
        for spec in kernels:
            if not (arms := arms_without_figures(own, known, source)):
                break
            known += (further := score(own, spec, measure, arms=arms, seeds=count))
            scores += further
    return scores


def failing_on() -> dict[str, frozenset[str]]:
    """By mutant the scenarios of which its header says that claims fail."""
    return {name: frozenset(it for patch in patches for it in patch.scenarios) for name, patches in catalogue().items()}


def arms_without_figures(rows: Sequence[EvidenceRow], scores: Sequence[RowScore], source: str) -> tuple[str, ...]:
    """The arms of the claims of one scenario that no kernel made fail, and of what makes them fail."""
    scenario = rows[0].scenario
    proofs = [proof for proof in prove_claims(rows, scores, source) if isinstance(proof.row.entry, Claim)]
    open_claims = [
        proof.row.entry
        for proof in proofs
        if isinstance(proof.row.entry, Claim) and not (proof.proven and proof.best and proof.best.ensemble)
    ]
    causes = [it for claim in open_claims for it in entries(scenario, claim) if killer(scenario, it, claim)]
    needed = arms_needed(entry.ratio for entry in (*open_claims, *causes))
    return tuple(arm for arm in scenario.arms if arm in needed)


def prove_claims(rows: Iterable[EvidenceRow], scores: Sequence[RowScore], source: str) -> Iterator[ClaimProof]:
    """Every claim, in the order of its file."""
    runs: dict[str, dict[tuple[str, str], dict[Claim | Control, RowScore]]] = {}
    for it in scores:
        if it.run and it.row.entry:
            places = runs.setdefault(it.row.scenario.name, {})
            places.setdefault((it.spec, it.mutant), {})[it.row.entry] = it
    for row in rows:
        if isinstance(row.entry, Claim):
            tables = sorted(runs.get(row.scenario.name, {}).items(), key=lambda item: bool(item[0][1]))
            yield _prove(row, row.entry, [table for _, table in tables], source)


def _prove(
    row: EvidenceRow, claim: Claim, runs: Sequence[Mapping[Claim | Control, RowScore]], source: str
) -> ClaimProof:
    """``runs`` are scores by entry of the file: of kernels without a mutant, then of mutants."""
    declared = {it: name for it in entries(row.scenario, claim) if (name := killer(row.scenario, it, claim))}
    by = {name: Killer(name) for name in killers(row.scenario, claim)}
    by |= {name: Killer(name, entry.expect.text) for entry, name in declared.items()}
    scored = [run[claim] for run in runs if not run[claim].mutant]
    measured_on = [it for it in scored if it.ensemble is not None]
    best = next(
        (it for it in measured_on if it.judgement.status is Status.PASS), next(iter((*measured_on, *scored)), None)
    )
    for run in runs:
        own = run[claim]
        if own.mutant:
            name = f"{_MUTANT}{own.mutant}"
            if own.fails or name in by:
                by[name] = Killer(name, "", own.judgement, own.fails)
            continue
        for entry, name in declared.items():
            it = run[entry]
            # Other arms, loads and roles count in the run of the claim's own figure, other kernels in any.
            counts = name.startswith(_KERNELS) or (own is best and not name.startswith(_MUTANT))
            if counts and it.ensemble is not None:
                judgement = _in_unit(it.judgement, unit_of(row.scenario, entry, claim))
                kills = it.judgement.status is Status.PASS
                by[name] = Killer(name, entry.expect.text, judgement, kills, _release(it, source))
        known = next((it for it in claim.known if is_in(own.kernel, it.kernels)), None)
        if known and own.ensemble is not None:
            name = f"{_KERNELS}{known.kernels}"
            by[name] = Killer(name, "", own.judgement, own.fails, _release(own, source))
    return ClaimProof(row, best, tuple(by.values()), _release(best, source) if best else "")


def _release(it: RowScore, source: str) -> str:
    return "" if it.spec == source else it.kernel


def _in_unit(judgement: Judgement, unit: float) -> Judgement:
    """The figure of another entry in the unit of the claim, where the two are divided by other constants."""
    if judgement.ensemble is None or unit == 1:
        return judgement
    values = {seed: number * unit for seed, number in judgement.ensemble.values.items()}
    return replace(judgement, ensemble=Ensemble(values), interval=None)


def control_cells(scores: Sequence[RowScore], source: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Mutant, scenario, the figure of each control on its mutant, its bound, and the figure without the mutant."""
    clean = {it.row: show(it.judgement) for it in scores if it.run and it.spec == source and not it.mutant}
    for it in scores:
        if it.mutant and it.row.mutant == it.mutant:
            expect, without = (it.row.expect, clean.get(it.row, "")) if it.run else (None, "")
            yield it.mutant, it.row.scenario.name, show(it.judgement), expect.text if expect else "", without


def shortfalls(rows: Sequence[EvidenceRow], scores: Sequence[RowScore], source: str) -> Iterator[str]:
    """Sentences, one for each thing that scores of claims and controls must show and these do not."""
    trials = [it for it in scores if it.mutant]
    killing = [it for it in trials if _kills(it)]
    for mutant in dict.fromkeys(row.mutant for row in rows if row.mutant):
        if not any(it.mutant == mutant for it in killing):
            reasons = dict.fromkeys(it.judgement.reason for it in trials if it.mutant == mutant and not it.run)
            yield f"mutant {mutant} is not detected: {'; '.join(reasons) or 'no scenario detects it'}"
    for it in trials:
        if it.run and it.row.mutant == it.mutant and it.judgement.status is not Status.PASS:
            yield f"does not fail on the mutant {it.mutant}, in {it.row.scenario.name}: {it.row.that}"
    for mutant, scenarios in failing_on().items():
        for name in scenarios:
            there = [it for it in trials if (it.mutant, it.row.scenario.name) == (mutant, name)]
            if there and not any(it.fails for it in there):
                yield f"mutant {mutant} names {name}, and no claim of it fails there"
    detecting = {it.row.scenario.name for it in killing}
    for own in by_scenario(rows):
        name = own[0].scenario.name
        controls = [row for row in own if isinstance(row.entry, Control)]
        if name not in detecting and all(row.mutant for row in controls):
            yield f"scenario {name} kills no mutant and has no control by an arm"
        yield from _on_stock(name, [it for it in scores if it.row.scenario.name == name and not it.mutant], source)


def _kills(it: RowScore) -> bool:
    """Whether the row detects the mutant: its control fails as it must, or a claim does."""
    if isinstance(it.row.entry, Control):
        return it.row.mutant == it.mutant and it.judgement.status is Status.PASS
    return it.fails


def _on_stock(name: str, scores: Sequence[RowScore], source: str) -> Iterator[str]:
    statuses = {it.spec: (it, it.verdict.status) for it in scores if it.verdict}
    if not statuses:
        yield f"scenario {name} is not measured on a kernel without a mutant"
    passed = any(status is Status.PASS for _, status in statuses.values())
    for it, status in statuses.values():
        if status is not Status.PASS and not (status is Status.SKIP and passed):
            yield f"{_release(it, source) or 'the kernel without a mutant'} is {status} under {name}"
    for it in scores:
        if it.run and it.spec == source and it.row.mutant and it.judgement.status is Status.PASS:
            yield f"fails without the mutant {it.row.mutant} too, under {name}: {it.row.that}"

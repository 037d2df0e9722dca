# SPDX-License-Identifier: GPL-2.0-only
"""The verdict of a run: pure, so that it can be recomputed from the raw artefacts at any time.

On the wall clock a run has a verdict after each look that its rule allows.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.judge.cells import (
    CellResult,
    Ensemble,
    Evidence,
    comparable,
    ensemble_of,
    exit_code,
    missing_cell,
    roll_up,
)
from harness.judge.claims import (
    NOT_RUN,
    ClaimVerdict,
    ControlVerdict,
    Diagnosed,
    Judgement,
    ReproductionVerdict,
    judge_claim,
    judge_control,
    judge_reproduction,
)
from harness.noise import Rule, stopping_rule
from harness.scenario.model import Scenario, Status

SCHEMA = 3
"""Of verdict.json."""
SHOWN_METRIC = "iops"
_NOT_ASKED = "it was not asked for"


@dataclass(frozen=True)
class Measurement:
    """IOPS of one role over the seeds that were measured. ``base`` is the same on the BASE kernel, None without."""

    arm: str
    load: str
    role: str
    iops: Ensemble
    base: Ensemble | None = None


@dataclass(frozen=True)
class Verdict:
    """``cells`` are all that were planned, in the order of arms and seeds; ``exit_code`` is the process's.

    ``base`` has the same cells on the BASE kernel, None when there is none.
    """

    scenario: str
    scenario_digest: str
    status: Status
    exit_code: int
    seeds: tuple[int, ...]
    claims: tuple[ClaimVerdict, ...]
    controls: tuple[ControlVerdict, ...]
    measurements: tuple[Measurement, ...]
    cells: tuple[CellResult, ...]
    base: tuple[CellResult, ...] | None = None
    reproductions: tuple[ReproductionVerdict, ...] = ()

    @property
    def all_cells(self) -> tuple[CellResult, ...]:
        """Those of both kernels."""
        return (*self.cells, *(self.base or ()))

    @property
    def incidents(self) -> tuple[CellResult, ...]:
        """Cells that did not end as they should."""
        return tuple(cell for cell in self.cells if cell.status is not Status.PASS)

    @property
    def base_incidents(self) -> tuple[CellResult, ...]:
        """Cells of the BASE kernel that did not end as they should, or cannot be compared."""
        return tuple(cell for cell in self.base or () if cell.status is not Status.PASS)

    @property
    def open(self) -> bool:
        """Whether something that counts is undecided and more boots of the same run may still decide it."""
        required = [claim.judgement for claim in self.claims if not claim.optional]
        required += [control.judgement for control in self.controls if control.judgement is not None]
        return any(judgement.open for judgement in required)


def judge(
    scenario: Scenario,
    results: Sequence[CellResult],
    baseline: Sequence[CellResult] | None = None,
    seeds: Sequence[int] | None = None,
    arms: Collection[str] | None = None,
    *,
    release: str = "",
    mutant: str = "",
    rule: Rule | None = None,
) -> Verdict:
    """Judge every claim and control of ``scenario`` over its cells.

    ``seeds`` were planned (None: all that occur in ``results``) and ``arms`` asked for (None: all): a planned cell
    without a result is MISS, a cell of another arm SKIP. ``release`` and ``mutant`` are of the kernel under test,
    ``baseline`` are the same cells on the BASE kernel, ``rule`` is that of the wall clock (None: the scenario's).
    """
    planned = tuple(sorted({cell.seed for cell in results})) if seeds is None else tuple(seeds)
    cells = _complete(scenario, results, planned, scenario.arms if arms is None else arms)
    base = None if baseline is None else comparable(cells, baseline)
    if scenario.timing.by_rule and rule is None:
        rule = stopping_rule(scenario.seeds)
    evidence = Evidence(scenario, _table(cells), None if base is None else _table(base), rule)
    claims = tuple(judge_claim(claim, evidence, planned, release) for claim in scenario.claims)
    controls = tuple(judge_control(control, evidence, planned, mutant, release) for control in scenario.controls)
    required = [claim.counts_as for claim in claims if not claim.optional]
    required += [control.judgement.status for control in controls if control.judgement is not None]
    if claims and all(claim.draft or (claim.judgement.status is Status.SKIP and claim.optional) for claim in claims):
        required.append(Status.DONE)
    every = (*cells, *(base or ()))
    silent = not claims and not controls
    only_measured = (silent or scenario.is_draft) and any(cell.status is not Status.SKIP for cell in cells)
    if silent and not only_measured:
        required.append(Status.SKIP)
    status = roll_up((cell.status for cell in every), required)
    return Verdict(
        scenario=scenario.name,
        scenario_digest=scenario.digest,
        status=status,
        exit_code=exit_code(status, lab_broke=any(cell.lab_broke for cell in every), only_measured=only_measured),
        seeds=planned,
        claims=claims,
        controls=controls,
        measurements=tuple(_measurements(scenario, cells, base or ())),
        cells=cells,
        base=base,
        reproductions=tuple(judge_reproduction(entry, evidence, planned) for entry in scenario.reproduces),
    )


def _table(cells: Sequence[CellResult]) -> Mapping[tuple[str, int], CellResult]:
    return {(cell.arm, cell.seed): cell for cell in cells}


def _complete(
    scenario: Scenario, results: Sequence[CellResult], seeds: Sequence[int], arms: Collection[str]
) -> tuple[CellResult, ...]:
    known = _table(results)

    def unmeasured(arm: str, seed: int) -> CellResult:
        return missing_cell(arm, seed) if arm in arms else CellResult(arm, seed, Status.SKIP, (_NOT_ASKED,))

    return tuple(known.get((arm, seed)) or unmeasured(arm, seed) for arm in scenario.arms for seed in seeds)


def _measurements(scenario: Scenario, cells: Sequence[CellResult], base: Sequence[CellResult]) -> Iterator[Measurement]:
    for arm in scenario.arms:
        for load in scenario.loads.values():
            for role in load.roles:
                key = (load.name, role, SHOWN_METRIC)
                if (iops := ensemble_of(cells, arm, key)) is not None:
                    yield Measurement(arm, load.name, role, iops, ensemble_of(base, arm, key))


_SOUND = (Status.PASS, Status.SKIP)


def judge_in_sequence(
    rule: Rule, seeds: Sequence[int], results: Sequence[CellResult], judged: Callable[[Sequence[int]], Verdict]
) -> Verdict:
    """The verdict of the first look that leaves nothing open, else of all ``seeds``.

    A boot that went wrong decides at once. While boots are lacking for the next look, the verdict is of the seeds
    up to that look, and ``unmade`` says so. ``results`` are those of both kernels. ``judged`` judges the first of the
    seeds.
    """
    for number, seed in enumerate(seeds, start=1):
        if any(_went_wrong(cell) for cell in results if cell.seed == seed):
            return judged(seeds[:number])
    unmade_seeds = {cell.seed for cell in results if _is_unmade(cell)}
    made = next((number for number, seed in enumerate(seeds) if seed in unmade_seeds), len(seeds))
    for look in rule.looks:
        verdict = judged(seeds[: look.rounds])
        if look.rounds > made or not verdict.open:
            return verdict
    return judged(seeds)


def unmade(verdict: Verdict) -> bool:
    """Whether boots are lacking that the verdict was to rest on."""
    return any(map(_is_unmade, verdict.all_cells)) and not any(map(_went_wrong, verdict.all_cells))


def _is_unmade(cell: CellResult) -> bool:
    return cell.status is Status.MISS and cell.outcome is None


def _went_wrong(cell: CellResult) -> bool:
    return cell.status not in _SOUND and not _is_unmade(cell)


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """verdict.json. Nothing in it depends on time or place, so equal measurements give equal documents."""
    return {
        "schema": SCHEMA,
        "scenario": verdict.scenario,
        "scenario_digest": verdict.scenario_digest,
        "status": str(verdict.status),
        "exit_code": verdict.exit_code,
        "seeds": list(verdict.seeds),
        "claims": [_claim(claim) for claim in verdict.claims],
        "controls": [
            {**_fields(entry, "that", "ratio", "expect", "mutant", "sentence"), **_judgement(entry.judgement)}
            for entry in verdict.controls
        ],
        "reproductions": [
            {
                **_fields(entry, "that", "reported", "in_words", "because", "reason"),
                "ratio": entry.ratio.text,
                "value": _ensemble(entry.ensemble),
            }
            for entry in verdict.reproductions
        ],
        "measured": [
            {**_fields(row, "arm", "load", "role"), "iops": _ensemble(row.iops), "base": _ensemble(row.base)}
            for row in verdict.measurements
        ],
        "cells": [_cell(cell) for cell in verdict.cells],
        "base": None if verdict.base is None else [_cell(cell) for cell in verdict.base],
    }


def _fields(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _claim(claim: ClaimVerdict) -> dict[str, Any]:
    return {
        **_fields(claim, "that", "ratio", "expect", "optional"),
        **({"draft": True} if claim.draft else {}),
        "sentence": claim.sentence,
        **_judgement(claim.judgement),
        "word": claim.word,
        "known": None if claim.known is None else asdict(claim.known),
        "killers": list(claim.killers),
        **({"within_layout": claim.layout} if claim.layout else {}),
        "diagnosed": [_diagnosis(entry) for entry in claim.diagnosed],
    }


def _judgement(judgement: Judgement | None) -> dict[str, Any]:
    if judgement is None:
        return {"status": NOT_RUN, "reason": "", "value": None}
    interval = {} if judgement.interval is None else {"interval": asdict(judgement.interval)}
    scatter = {} if judgement.scatter is None else {"scatter": asdict(judgement.scatter)}
    value = _ensemble(judgement.ensemble)
    return {"status": str(judgement.status), "reason": judgement.reason, "value": value, **interval, **scatter}


def _diagnosis(entry: Diagnosed) -> dict[str, Any]:
    when = [{**_fields(row, "ratio", "expect", "holds"), "value": _ensemble(row.value)} for row in entry.findings]
    return {"that": entry.that, "holds": entry.holds, "when": when}


def _ensemble(ensemble: Ensemble | None) -> dict[str, Any] | None:
    if ensemble is None:
        return None
    by_seed = {str(seed): value for seed, value in ensemble.values.items()}
    return {**_fields(ensemble, "low", "median", "high"), "by_seed": by_seed}


def _cell(cell: CellResult) -> dict[str, Any]:
    return {
        **_fields(cell, "arm", "seed"),
        "status": str(cell.status),
        "outcome": None if cell.outcome is None else str(cell.outcome),
        "lab_broke": cell.lab_broke,
        "reasons": list(cell.reasons),
        "digest": cell.digest,
        "figures": {".".join(key): value for key, value in sorted(cell.figures.items())},
    }

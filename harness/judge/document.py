# SPDX-License-Identifier: GPL-2.0-only
"""A verdict as the JSON document that other programs read: verdict.json."""

from dataclasses import asdict
from typing import Any

from harness.judge.cells import CellResult
from harness.judge.claims import NOT_RUN, ClaimVerdict, Judgement
from harness.judge.diagnosis import Diagnosed
from harness.judge.ensemble import Ensemble
from harness.judge.verdict import Verdict

SCHEMA = 3


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """Plain values only. Nothing in it depends on time or place, so equal measurements give equal documents."""
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
                **_fields(entry, "that", "ratio", "reported", "in_words", "because", "reason"),
                "value": _ensemble(entry.ensemble),
            }
            for entry in verdict.reproductions
        ],
        "measured": [
            {**_fields(row, "arm", "load", "role"), "iops": _ensemble(row.iops), "base": _ensemble(row.base)}
            for row in verdict.measured
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
    by_seed = {str(seed): value for seed, value in sorted(ensemble.values.items())}
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

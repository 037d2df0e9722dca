# SPDX-License-Identifier: GPL-2.0-only
"""A verdict as the JSON document that other programs read: verdict.json."""

from dataclasses import asdict
from typing import Any

from harness.judge.cells import CellResult
from harness.judge.claims import NOT_RUN, Judgement
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
        "claims": [
            {
                "that": claim.that,
                "ratio": claim.ratio,
                "expect": claim.expect,
                **({"optional": claim.optional} | ({"draft": True} if claim.draft else {})),
                "sentence": claim.sentence,
                **_judgement(claim.judgement),
                "word": claim.word,
                "known": None if claim.known is None else asdict(claim.known),
                "killers": list(claim.killers),
                "diagnosed": [_diagnosed(one) for one in claim.diagnosed],
            }
            for claim in verdict.claims
        ],
        "controls": [
            {
                "that": control.that,
                "ratio": control.ratio,
                "expect": control.expect,
                "mutant": control.mutant,
                "sentence": control.sentence,
                **_judgement(control.judgement),
            }
            for control in verdict.controls
        ],
        "reproductions": [
            {
                "that": one.that,
                "ratio": one.ratio,
                "reported": one.reported,
                "in_words": one.in_words,
                "because": one.because,
                "reason": one.reason,
                "value": None if one.ensemble is None else _ensemble(one.ensemble),
            }
            for one in verdict.reproductions
        ],
        "measured": [
            {
                "arm": row.arm,
                "load": row.load,
                "role": row.role,
                "iops": _ensemble(row.iops),
                "base": None if row.base is None else _ensemble(row.base),
            }
            for row in verdict.measured
        ],
        "cells": [_cell(cell) for cell in verdict.cells],
        "base": None if verdict.base is None else [_cell(cell) for cell in verdict.base],
    }


def _judgement(judgement: Judgement | None) -> dict[str, Any]:
    if judgement is None:
        return {"status": NOT_RUN, "reason": "", "value": None}
    value = None if judgement.ensemble is None else _ensemble(judgement.ensemble)
    interval = {} if judgement.interval is None else {"interval": asdict(judgement.interval)}
    scatter = {} if judgement.scatter is None else {"scatter": asdict(judgement.scatter)}
    return {"status": str(judgement.status), "reason": judgement.reason, "value": value, **interval, **scatter}


def _diagnosed(one: Diagnosed) -> dict[str, Any]:
    findings = [
        {
            "ratio": finding.ratio,
            "expect": finding.expect,
            "holds": finding.holds,
            "value": None if finding.value is None else _ensemble(finding.value),
        }
        for finding in one.findings
    ]
    return {"that": one.that, "holds": one.holds, "when": findings}


def _ensemble(ensemble: Ensemble) -> dict[str, Any]:
    by_seed = {str(seed): value for seed, value in sorted(ensemble.values.items())}
    return {"low": ensemble.low, "median": ensemble.median, "high": ensemble.high, "by_seed": by_seed}


def _cell(cell: CellResult) -> dict[str, Any]:
    return {
        "arm": cell.arm,
        "seed": cell.seed,
        "status": str(cell.status),
        "outcome": None if cell.outcome is None else str(cell.outcome),
        "lab_broke": cell.lab_broke,
        "reasons": list(cell.reasons),
        "digest": cell.digest,
        "figures": {".".join(key): value for key, value in sorted(cell.figures.items())},
    }

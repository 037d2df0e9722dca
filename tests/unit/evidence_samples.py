# SPDX-License-Identifier: GPL-2.0-only
"""Rows of the sample scenario, and their scores without a run on disk."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.judge.cells import CellResult
from harness.judge.verdict import judge
from harness.record.store import RunFolder
from harness.scenario.model import Scenario
from tests.unit.analysis_samples import AT_LEAST, SHARE, claim, scenario
from tests.unit.store_samples import KERNEL, facts
from tools.evidence.rows import EvidenceRow, Topic, claim_rows
from tools.evidence.scorer import RowScore, score_verdict

SOURCE = "source:6.12"
MODEL = replace(scenario([claim()]), seeds=2)
STARVED = EvidenceRow(Topic.ZOO, "starved", "it starves", MODEL, SHARE, AT_LEAST, link="https://example.org")


def changed(row: EvidenceRow, **changes: object) -> EvidenceRow:
    return replace(row, **changes)  # type: ignore[arg-type]


def scores_of(
    rows: Sequence[EvidenceRow],
    cells: Sequence[CellResult],
    release: str = "6.12.9",
    spec: str = SOURCE,
    mutant: str = "",
) -> list[RowScore]:
    """Rows of one scenario on a kernel, judged on these cells."""
    model = rows[0].scenario
    kernel = replace(KERNEL, spec=f"{spec}+{mutant}" if mutant else spec, release=release, mutant=mutant)
    run = RunFolder(Path("run"), replace(facts(model, ()), kernel=kernel, seeds=(1,)), model)
    return score_verdict(rows, run, judge(model, cells, release=release, mutant=mutant), mutant)


def rows_of(model: Scenario) -> list[EvidenceRow]:
    return [*claim_rows(model)]

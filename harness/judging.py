# SPDX-License-Identifier: GPL-2.0-only
"""From a run's raw artefacts to its verdict, now or years later."""

from dataclasses import dataclass
from pathlib import Path

from harness.analysis.cells import CellResult, agreed, measured, not_run, skipped
from harness.analysis.document import verdict_document
from harness.analysis.verdict import Verdict, judge
from harness.files import json_bytes
from harness.store import PlannedCell, RunFolder, load_run
from lab.errors import Misuse


@dataclass(frozen=True)
class Rejudged:
    """``agrees`` says whether the stored verdict is the same; None when the run was never judged."""

    run: RunFolder
    verdict: Verdict
    agrees: bool | None


def judge_run(run: RunFolder) -> Verdict:
    """The verdict from what the boots left, computed anew. Raises Misuse when the baseline run is gone."""
    facts = run.facts
    baseline = results_of(load_run(_baseline(run))) if facts.baseline else None
    return judge(run.scenario, results_of(run), baseline, facts.seeds, facts.arms, release=facts.kernel.release)


def rejudge(path: Path) -> Rejudged:
    """Judge a run folder again and compare with its verdict.json. Raises Misuse."""
    run = load_run(path)
    verdict = judge_run(run)
    stored = run.stored_verdict()
    agrees = None if stored is None else json_bytes(stored) == json_bytes(verdict_document(verdict))
    return Rejudged(run, verdict, agrees)


def results_of(run: RunFolder) -> list[CellResult]:
    """One result for every planned cell of a run."""
    repetitions: dict[tuple[str, int], list[CellResult]] = {}
    for cell in run.facts.cells:
        repetitions.setdefault((cell.arm, cell.seed), []).append(_result(run, cell))
    return [agreed(results) for results in repetitions.values()]


def _result(run: RunFolder, cell: PlannedCell) -> CellResult:
    if cell.skip:
        return skipped(cell.arm, cell.seed, cell.skip)
    record = run.boot(cell)
    if record is None:
        return not_run(cell.arm, cell.seed)
    return measured(run.scenario.arms[cell.arm], cell.seed, record, run.scenario.loads.values())


def _baseline(run: RunFolder) -> Path:
    path = run.path.parent / run.facts.baseline
    if not path.is_dir():
        raise Misuse(f"the BASE run {path} is gone", remedy="run the scenario again with BASE=")
    return path

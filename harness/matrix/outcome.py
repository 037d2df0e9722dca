# SPDX-License-Identifier: GPL-2.0-only
"""The outcome of a cell: the verdict of its run, or why there is none."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import extract_tb

from harness.judge.verdict import Verdict
from harness.record.matrices import MatrixCell
from harness.report.format import value
from harness.scenario.model import Status
from lab.base.errors import EXIT_LAB_BROKEN, BlklabError, CannotJudge, KernelFailed


@dataclass(frozen=True)
class CellOutcome:
    """``run`` is relative to the results root, empty if nothing was judged. ``before``: an earlier run is used."""

    status: Status
    exit_code: int
    reason: str = ""
    run: str = ""
    seconds: float = 0.0
    before: bool = False

    def of(self, cell: MatrixCell) -> MatrixCell:
        """The cell, decided."""
        return replace(
            cell,
            status=self.status,
            exit_code=self.exit_code,
            reason=self.reason,
            run=self.run,
            seconds=self.seconds,
        )


def judged(root: Path, run: Path, verdict: Verdict, seconds: float, *, before: bool = False) -> CellOutcome:
    """The outcome of a judged run."""
    reason = "" if verdict.status is Status.PASS else next(_reasons(verdict), "")
    place = str(run.resolve().relative_to(root.resolve()))
    return CellOutcome(verdict.status, verdict.exit_code, reason, place, seconds, before)


def broken(error: BaseException) -> CellOutcome:
    """The outcome of a cell without a verdict; an exception that is not a BlklabError is a bug."""
    if isinstance(error, BlklabError):
        status = Status.ERROR
        if isinstance(error, CannotJudge):
            status = Status.MISS
        elif isinstance(error, KernelFailed):
            status = Status.FAIL
        return CellOutcome(status, error.exit_code, error.message)
    where = extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno}); this is a bug of blklab"
    return CellOutcome(Status.ERROR, EXIT_LAB_BROKEN, text)


def _reasons(verdict: Verdict) -> Iterator[str]:
    """Why the run has its status: boots that went wrong before the claims that lack their figures."""
    for cell in verdict.incidents:
        if cell.status is verdict.status:
            yield f"arm {cell.arm}, seed {cell.seed}: {'; '.join(cell.reasons)}"
    for claim in verdict.claims:
        if claim.counts_as is verdict.status and not claim.optional:
            measured = claim.judgement.ensemble is not None
            shown = f"{value(claim.judgement)}, expected {claim.expect}" if measured else claim.judgement.reason
            yield f"{claim.that}: {shown}"
    for control in verdict.controls:
        if control.judgement is not None and control.judgement.status is verdict.status:
            yield f"{control.that}: {control.judgement.reason}"

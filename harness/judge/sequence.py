# SPDX-License-Identifier: GPL-2.0-only
"""How far a run on the wall clock has to go: its verdict after each look that the rule allows."""

from collections.abc import Callable, Sequence

from harness.judge.cells import CellResult
from harness.judge.verdict import Verdict
from harness.noise import Rule
from harness.scenario.model import Status

_SOUND = (Status.PASS, Status.SKIP)


def judge_in_sequence(
    rule: Rule, seeds: Sequence[int], results: Sequence[CellResult], judged: Callable[[Sequence[int]], Verdict]
) -> Verdict:
    """The verdict of the first look that leaves nothing open, else of all ``seeds``.

    A boot that went wrong decides at once. While boots are lacking for the next look, the verdict is of the seeds
    up to that look, and ``unmade`` says so. ``judged`` judges the first of the seeds.
    """
    for number, seed in enumerate(seeds, start=1):
        if any(_went_wrong(cell) for cell in results if cell.seed == seed):
            return judged(seeds[:number])
    made = _rounds_made(seeds, results)
    for look in rule.looks:
        verdict = judged(seeds[: look.rounds])
        if look.rounds > made or not verdict.open:
            return verdict
    return judged(seeds)


def unmade(verdict: Verdict) -> bool:
    """Whether boots are lacking that the verdict was to rest on."""
    return any(_is_unmade(cell) for cell in verdict.cells) and not any(_went_wrong(cell) for cell in verdict.cells)


def _rounds_made(seeds: Sequence[int], results: Sequence[CellResult]) -> int:
    for number, seed in enumerate(seeds):
        if any(_is_unmade(cell) for cell in results if cell.seed == seed):
            return number
    return len(seeds)


def _is_unmade(cell: CellResult) -> bool:
    return cell.status is Status.MISS and cell.outcome is None


def _went_wrong(cell: CellResult) -> bool:
    return cell.status not in _SOUND and not _is_unmade(cell)

# SPDX-License-Identifier: GPL-2.0-only
"""Whether a series is worse than its base, by the runs of both."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.judge.cells import CellResult, Ensemble
from harness.judge.claims import Judgement
from harness.judge.difference import JUDGED, Difference
from harness.judge.verdict import Verdict
from harness.judge.visible import unseen
from harness.record.judging import compare_runs, judge_run
from harness.record.store import RunFolder
from harness.report.claims import value
from harness.report.format import figure
from harness.scenario.model import Status
from harness.scenario.registry import COUNTED, Rate, figure_of
from lab.base.record import Outcome

METRICS = ("iops", "lat.p99", *COUNTED)
_BOOTS = "boots"


class Effect(StrEnum):
    """What a series does to a claim, a load or a boot."""

    WORSE = "worse"
    BETTER = "better"
    OPEN = "cannot judge"


@dataclass(frozen=True)
class SeriesFinding:
    """``what`` names a claim, an arm or a load of the scenario, ``before`` and ``after`` its figures or words.

    ``boot_lost``: a boot fails, hangs or does not come up any more.
    """

    effect: Effect
    what: str
    before: str
    after: str
    boot_lost: bool = False


@dataclass(frozen=True)
class Outcomes:
    """A scenario on base and series. ``changes`` are the figures, ``judged`` the claims and controls with a verdict on
    both sides, ``unseen`` says what both runs cannot show."""

    scenario: str
    runs: tuple[RunFolder, RunFolder]
    findings: tuple[SeriesFinding, ...]
    changes: tuple[Difference, ...]
    judged: int
    unseen: str = ""

    @property
    def effect(self) -> Effect | None:
        """The worst effect; None where nothing differs."""
        return worst(finding.effect for finding in self.findings)

    @property
    def moved(self) -> tuple[Difference, ...]:
        """The figures that differ, those by more than the threshold first, then by size."""
        differing = (change for change in self.changes if change.size)
        return tuple(sorted(differing, key=lambda change: (not change.marked, -change.size)))


def worst(effects: Iterable[Effect | None]) -> Effect | None:
    found = set(effects)
    return next((one for one in (Effect.WORSE, Effect.OPEN, Effect.BETTER) if one in found), None)


def outcomes(base: RunFolder, series: RunFolder) -> Outcomes:
    """Compare two runs of one scenario. Raises Altered for a damaged one."""
    verdicts = judge_run(base), judge_run(series)
    found = compare_runs(base, series, METRICS)
    judged = [pair for pair in _claims(*verdicts) if {side.status for side in pair[1:]} <= JUDGED]
    findings = (*_boots(*verdicts), *_of_claims(judged), *_loads(found))
    hidden = unseen(base.scenario, [cell for verdict in verdicts for cell in verdict.cells])
    return Outcomes(base.facts.scenario, (base, series), findings, found, len(judged), hidden)


def _claims(base: Verdict, series: Verdict) -> Iterator[tuple[str, Judgement, Judgement]]:
    """Claims and controls that count, with their judgement on both sides."""
    for old, new in zip(base.claims, series.claims, strict=True):
        if not old.optional and not old.draft:
            yield old.that, old.judgement, new.judgement
    for was, now in zip(base.controls, series.controls, strict=True):
        if was.judgement is not None and now.judgement is not None:
            yield f"negative control: {was.that}", was.judgement, now.judgement


def _boots(base: Verdict, series: Verdict) -> Iterator[SeriesFinding]:
    before = {(cell.arm, cell.seed): cell for cell in base.cells}
    for after in series.cells:
        earlier = before.get((after.arm, after.seed))
        if earlier is None or earlier.status is after.status:
            continue
        what = f"arm {after.arm}, seed {after.seed}"
        if earlier.status is Status.PASS and after.status is not Status.SKIP:
            lost = _failed(after)
            effect = Effect.WORSE if lost else Effect.OPEN
            yield SeriesFinding(effect, what, _BOOTS, "; ".join(after.reasons), lost)
        elif after.status is Status.PASS and _failed(earlier):
            yield SeriesFinding(Effect.BETTER, what, "; ".join(earlier.reasons), _BOOTS)


def _failed(cell: CellResult) -> bool:
    return cell.status is Status.FAIL or cell.outcome in (Outcome.NOT_READY, Outcome.HANG, Outcome.OOPS)


def _of_claims(claims: Sequence[tuple[str, Judgement, Judgement]]) -> Iterator[SeriesFinding]:
    """Those that held on one side and fail on the other; all are judged on both."""
    for that, before, after in claims:
        if before.status is not after.status:
            effect = Effect.BETTER if after.status is Status.PASS else Effect.WORSE
            yield SeriesFinding(effect, that, f"{before.status} {value(before)}", f"{after.status} {value(after)}")


def _loads(found: Sequence[Difference]) -> Iterator[SeriesFinding]:
    """Loads in which roles get less and none more, or more and none less: anything else is a trade between them."""
    rates = [change for change in found if change.marked and figure_of(*change.figure[2:]).rate is Rate.REQUESTS]
    for arm, load in dict.fromkeys(change.figure[:2] for change in rates):
        marked = [change for change in rates if change.figure[:2] == (arm, load)]
        signs = {change.sign for change in marked}
        if len(signs) > 1:
            continue
        effect = Effect.WORSE if -1 in signs else Effect.BETTER
        names = ", ".join(change.figure.role for change in marked)
        before, after = (
            _medians(side) for side in zip(*((change.before, change.after) for change in marked), strict=True)
        )
        yield SeriesFinding(effect, f"{arm}.{load}: IOPS of {names}", before, after)


def _medians(side: Iterable[Ensemble | None]) -> str:
    return ", ".join(figure(change.median) for change in side if change)

# SPDX-License-Identifier: GPL-2.0-only
"""Rows measured: the side of each kernel and the figure, or why there is none. A null pair is a kernel against itself.

What a null pair shows is a false alarm: a claim or a row that differs, or a figure by more than boots of one code do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from harness.judge.cells import CellResult, Ensemble, Evidence, Unavailable, ratio_ensemble
from harness.judge.claims import Judgement, judge_claim, judge_control, judge_ratio
from harness.judge.difference import NullEvidence, Precision, compare_figures
from harness.judge.verdict import Verdict, judge
from harness.noise import Rule
from harness.record.judging import judge_run, results_of
from harness.record.store import RunFolder, Store, load_run
from harness.scenario.model import Claim, Control, Ratio, Scenario, Status
from harness.scenario.registry import OF_ROLES
from lab.base.errors import CannotJudge
from lab.kernels.model import by_release, series_of
from tools.command import Measure, newest_runs
from tools.evidence.rows import EvidenceRow, RowSide, Topic, arms_of, by_scenario


@dataclass(frozen=True)
class RowScore:
    """A row on the kernel ``spec``, which ``mutant`` broke. ``run`` and ``verdict`` are None where none was measured.

    ``figure`` is the row's own where it names one. ``other`` is what the row compares: that figure without the
    mutant, or on the virtual clock. Both are None without a value.
    """

    row: EvidenceRow
    spec: str
    mutant: str
    judgement: Judgement
    run: RunFolder | None = None
    verdict: Verdict | None = None
    figure: Ensemble | None = None
    other: Ensemble | None = None

    @property
    def ensemble(self) -> Ensemble | None:
        return self.judgement.ensemble

    @property
    def kernel(self) -> str:
        """The release, or the spec where nothing was measured."""
        return self.run.facts.kernel.release if self.run else self.spec

    @property
    def expected(self) -> RowSide:
        return self.row.side_of(self.kernel, self.mutant)

    @property
    def side(self) -> RowSide:
        return {Status.PASS: RowSide.GOOD, Status.FAIL: RowSide.BAD}.get(self.judgement.status, RowSide.UNKNOWN)

    @property
    def held(self) -> bool | None:
        """Whether the side is the expected one; None where it is unknown."""
        return None if self.side is RowSide.UNKNOWN else self.side is self.expected

    @property
    def fails(self) -> bool:
        """Whether a claim was measured and is out of bounds: a guest that died shows nothing of a claim."""
        return self.judgement.status is Status.FAIL and self.ensemble is not None


def score(
    rows: Sequence[EvidenceRow],
    spec: str,
    measure: Measure,
    *,
    mutant: str = "",
    arms: Sequence[str] = (),
    seeds: int | None = None,
) -> list[RowScore]:
    """Rows of one scenario on one kernel, or on its source with a mutant. Raises what boots raise, but CannotJudge."""
    try:
        run = measure(rows[0].scenario, f"{spec}+{mutant}" if mutant else spec, arms, seeds)
    except CannotJudge as error:
        return [RowScore(row, spec, mutant, Judgement(Status.MISS, None, error.message)) for row in rows]
    return score_run(rows, run, mutant)


def score_run(rows: Iterable[EvidenceRow], run: RunFolder, mutant: str = "") -> list[RowScore]:
    """Rows of the run's scenario, judged from what its boots left. Raises Altered."""
    return score_verdict(rows, run, judge_run(load_run(run.path)), mutant)


def score_verdict(rows: Iterable[EvidenceRow], run: RunFolder, verdict: Verdict, mutant: str = "") -> list[RowScore]:
    scores = []
    for row in rows:
        seeds = verdict.seeds[: row.scenario.seeds] if row.topic is Topic.ZOO else verdict.seeds
        evidence = evidence_from(row.scenario, verdict.cells, verdict.base, run.facts.rule)
        judgement = judge_row(row, evidence, seeds, run.facts.kernel.release)
        figure = None if row.figure is None or row.twin else ratio_figure(row.figure, evidence, verdict.seeds)
        scores.append(RowScore(row, run.facts.kernel.spec, mutant, judgement, run, verdict, figure))
    return scores


def judge_row(row: EvidenceRow, evidence: Evidence, seeds: Sequence[int], release: str) -> Judgement:
    """A claim or a control as in a verdict of its file, a control as on its mutant; another ratio by its range."""
    if isinstance(row.entry, Claim):
        return judge_claim(row.entry, evidence, seeds, release).judgement
    if isinstance(row.entry, Control):
        judgement = judge_control(row.entry, evidence, seeds, row.mutant, release).judgement
        return judgement or Judgement(Status.SKIP, None, f"it is made for kernels {row.entry.kernels}")
    if row.expect is not None:
        return judge_ratio(row.ratio, row.expect, evidence, seeds)
    try:
        return Judgement(Status.DONE, ratio_ensemble(row.ratio, evidence, seeds))
    except Unavailable as lacking:
        return Judgement(lacking.status, None, lacking.reason)


def evidence_from(
    scenario: Scenario,
    cells: Sequence[CellResult],
    base: Sequence[CellResult] | None = None,
    rule: Rule | None = None,
) -> Evidence:
    own, other = (None if side is None else {(cell.arm, cell.seed): cell for cell in side} for side in (cells, base))
    return Evidence(scenario, own or {}, other, rule)


def ratio_figure(ratio: Ratio, evidence: Evidence, seeds: Sequence[int]) -> Ensemble | None:
    """None without a value."""
    with suppress(Unavailable):
        return ratio_ensemble(ratio, evidence, seeds)
    return None


def score_newest(rows: Iterable[EvidenceRow], store: Store, *, built: bool = True) -> list[RowScore]:
    """Rows on the newest stored run of each kernel series: on a package, else (``built``) on a build."""
    scores = []
    for own in by_scenario(rows):
        runs = newest_runs(store, own[0].scenario, built=built)
        for series in sorted(runs, key=by_release):
            scores += score_run(own, runs[series])
    return scores


def score_clocks(rows: Iterable[EvidenceRow], store: Store) -> list[RowScore]:
    """Rows on the newest runs on the wall clock, each with the ratio of its twin on the same series."""
    scores = []
    for row in rows:
        if row.twin is None or row.figure is None:
            continue
        twins = {series: judge_run(run) for series, run in newest_runs(store, row.twin, built=False).items()}
        for newest in score_newest([row], store, built=False):
            twin = twins.get(series_of(newest.kernel))
            other = ratio_figure(row.figure, evidence_from(row.twin, twin.cells), twin.seeds) if twin else None
            scores.append(replace(newest, other=other))
    return scores


def score_zoo(rows: Sequence[EvidenceRow], kernels: Sequence[str], source: str, measure: Measure) -> list[RowScore]:
    """Rows on the kernels, on those that a row alone names, and with their mutants on the source. By release."""
    scores = []
    for spec in dict.fromkeys((*kernels, *(spec for row in rows for spec in row.also))):
        for own in by_scenario(row for row in rows if spec in (*kernels, *row.also)):
            scores += score(own, spec, measure, arms=arms_of(own))
    scores.sort(key=lambda it: (by_release(it.kernel), rows.index(it.row)))
    for mutant in dict.fromkeys(row.mutant for row in rows if row.mutant):
        for own in by_scenario(row for row in rows if row.mutant == mutant):
            arms = arms_of(own)
            without = score(own, source, measure, arms=arms)
            pairs = zip(score(own, source, measure, mutant=mutant, arms=arms), without, strict=True)
            scores += [replace(broken, other=base.figure) for broken, base in pairs]
    return scores


@dataclass(frozen=True)
class NullPair:
    """``alarms`` are claims and rows that differ between the halves, ``marked`` the figures that compare marks, of
    ``figures``, and ``decided`` the rows that both halves decide."""

    scenario: str
    kernel: str
    seeds: tuple[int, int]
    alarms: tuple[str, ...]
    marked: tuple[str, ...]
    figures: int = 0
    decided: tuple[str, ...] = ()


def null_pairs(scores: Iterable[RowScore], measure: Measure, known: Mapping[str, NullEvidence]) -> Iterator[NullPair]:
    """A pair for each row on the first kernel that decides it. Raises what boots raise."""
    places: dict[tuple[str, str], list[RowScore]] = {}
    for it in scores:
        if not it.mutant:
            places.setdefault((it.spec, it.row.scenario.name), []).append(it)
    paired: set[str] = set()
    for (spec, _), there in places.items():
        rows = [it.row for it in there]
        decided = {it.row.name for it in there if it.side is not RowSide.UNKNOWN}
        if decided <= paired:
            continue
        with suppress(CannotJudge):
            scenario = rows[0].scenario
            run = measure(scenario, spec, arms_of(rows), scenario.seeds * 2)
            paired |= decided
            yield from null_pair(rows, run.facts.kernel.release, results_of(run), known)


def null_pair(
    rows: Sequence[EvidenceRow], kernel: str, results: Sequence[CellResult], known: Mapping[str, NullEvidence]
) -> Iterator[NullPair]:
    """The first half of the seeds against the second; none when nothing could be measured."""
    scenario, seeds = rows[0].scenario, sorted({cell.seed for cell in results})
    halves = seeds[: len(seeds) // 2], seeds[len(seeds) // 2 :]
    if not halves[0] or all(cell.status is not Status.PASS for cell in results):
        return
    left, right = ([cell for cell in results if cell.seed in half] for half in halves)
    verdicts = [
        judge(scenario, side, None, half, release=kernel) for side, half in zip((left, right), halves, strict=True)
    ]
    statuses = {
        entries[0].that: {entry.judgement.status for entry in entries}
        for entries in zip(*(verdict.claims for verdict in verdicts), strict=True)
    }
    evidence = evidence_from(scenario, results)
    for row in rows:
        if row.expect is not None:
            statuses[row.name] = {judge_ratio(row.ratio, row.expect, evidence, half).status for half in halves}
    alarms = tuple(name for name, both in statuses.items() if both == {Status.PASS, Status.FAIL})
    decided = tuple(row.name for row in rows if statuses.get(row.name, {None}) <= {Status.PASS, Status.FAIL})
    precision = Precision(scenario.timing.exact, alike=True, known=known)
    changes = [*compare_figures(left, right, OF_ROLES, precision)]
    marked = tuple(".".join(change.figure) for change in changes if change.marked)
    yield NullPair(scenario.name, kernel, (len(halves[0]), len(halves[1])), alarms, marked, len(changes), decided)

# SPDX-License-Identifier: GPL-2.0-only
"""Builds base and series with one configuration, measures both, and says whether the series is worse."""

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TypeVar

from harness.base.files import read_json, write_atomic
from harness.grid.lines import Kind, Move, Trend
from harness.hunt.finds import KeptFind, try_find
from harness.judge.claims import Judgement
from harness.judge.difference import JUDGED, Difference
from harness.judge.verdict import Verdict
from harness.judge.visible import unseen, unseen_change
from harness.patch.series import Branch, Patch
from harness.patch.sources import Sources
from harness.profile.cells import ProfiledCell, chosen_cell, profiles_of_runs
from harness.profile.model import Differential, differential
from harness.record.judging import compare_runs, judge_run
from harness.record.store import RunFolder
from harness.report.claims import value
from harness.report.format import figure, plural
from harness.run.bench import Bench
from harness.run.plan import Request
from harness.scenario.model import Scenario, Status
from harness.scenario.registry import COUNTED, Rate, figure_of
from lab.base.cache import Cache
from lab.base.errors import CannotJudge
from lab.base.units import Tell
from lab.kernels import tree
from lab.kernels.model import Kernel
from lab.kernels.module import Headers, module_path, replaced
from lab.kernels.objects import changed_functions, keep_objects
from lab.kernels.tree import KernelSource
from lab.session import Lab
from lab.yaml.strict import names

METRICS = ("iops", "lat.p99", *COUNTED)
_BOOTS = "boots"


@dataclass(frozen=True)
class Outcomes:
    """A scenario on base and series, and what it moves. ``changes`` are the figures, ``judged`` the claims and controls
    with a verdict on both sides, ``unseen`` says what both runs cannot show."""

    scenario: str
    runs: tuple[RunFolder, RunFolder]
    moves: tuple[Move, ...]
    changes: tuple[Difference, ...]
    judged: int
    unseen: str = ""

    @property
    def trend(self) -> Trend | None:
        """The worst one; None where nothing differs."""
        return worst(move.trend for move in self.moves)

    @property
    def differing(self) -> tuple[Difference, ...]:
        """The figures that differ, those by more than the threshold first, then by size."""
        differing = (change for change in self.changes if change.size)
        return tuple(sorted(differing, key=lambda change: (not change.marked, -change.size)))


def worst(trends: Iterable[Trend]) -> Trend | None:
    present = set(trends)
    return next((trend for trend in (Trend.WORSE, Trend.OPEN, Trend.BETTER) if trend in present), None)


def outcomes(base: RunFolder, series: RunFolder) -> Outcomes:
    """Compare two runs of one scenario. Raises Altered for a damaged one."""
    verdicts = judge_run(base), judge_run(series)
    differences = compare_runs(base, series, METRICS)
    judged = [pair for pair in _claims(*verdicts) if {side.status for side in pair[1:]} <= JUDGED]
    name = base.facts.scenario
    moves = (*_boots(name, *verdicts), *_of_claims(name, judged), *_loads(name, differences))
    hidden = unseen(base.scenario, [cell for verdict in verdicts for cell in verdict.cells])
    return Outcomes(name, (base, series), moves, differences, len(judged), hidden)


def _claims(base: Verdict, series: Verdict) -> Iterator[tuple[str, Judgement, Judgement]]:
    """Claims and controls that count, with their judgement on both sides."""
    for old, new in zip(base.claims, series.claims, strict=True):
        if not old.optional and not old.draft:
            yield old.that, old.judgement, new.judgement
    for was, now in zip(base.controls, series.controls, strict=True):
        if was.judgement is not None and now.judgement is not None:
            yield f"negative control: {was.that}", was.judgement, now.judgement


def _boots(scenario: str, base: Verdict, series: Verdict) -> Iterator[Move]:
    before = {(cell.arm, cell.seed): cell for cell in base.cells}
    for after in series.cells:
        earlier = before.get((after.arm, after.seed))
        if earlier is None or earlier.status is after.status:
            continue
        what = f"arm {after.arm}, seed {after.seed}"
        if earlier.status is Status.PASS and after.status is not Status.SKIP:
            trend = Trend.WORSE if after.kernel_failed else Trend.OPEN
            yield Move(scenario, Kind.BOOT, what, _BOOTS, "; ".join(after.reasons), trend)
        elif after.status is Status.PASS and earlier.kernel_failed:
            yield Move(scenario, Kind.BOOT, what, "; ".join(earlier.reasons), _BOOTS, Trend.BETTER)


def _of_claims(scenario: str, claims: Sequence[tuple[str, Judgement, Judgement]]) -> Iterator[Move]:
    """Those that held on one side and fail on the other; all are judged on both."""
    for that, before, after in claims:
        if before.status is not after.status:
            trend = Trend.BETTER if after.status is Status.PASS else Trend.WORSE
            was, now = (f"{side.status} {value(side)}" for side in (before, after))
            share = Difference(before.ensemble, after.ensemble).share
            yield Move(scenario, Kind.CLAIM, that, was, now, trend, share)


def _loads(scenario: str, differences: Sequence[Difference]) -> Iterator[Move]:
    """Loads in which roles get less and none more, or more and none less: anything else is a trade between them."""
    rates = [change for change in differences if change.marked and figure_of(*change.figure[2:]).rate is Rate.REQUESTS]
    for arm, load in dict.fromkeys(change.figure[:2] for change in rates):
        marked = [change for change in rates if change.figure[:2] == (arm, load)]
        signs = {change.sign for change in marked}
        if len(signs) > 1:
            continue
        trend = Trend.WORSE if -1 in signs else Trend.BETTER
        names = ", ".join(change.figure.role for change in marked)
        before, after = (
            ", ".join(figure(each.median) for each in side if each)
            for side in zip(*((change.before, change.after) for change in marked), strict=True)
        )
        share = marked[0].share if len(marked) == 1 else None
        yield Move(scenario, Kind.LOAD, f"{arm}.{load}: IOPS of {names}", before, after, trend, share)


_T = TypeVar("_T")
_COMPILER = re.compile(r"(?P<file>[\w./-]+):(?P<line>[0-9]+):[0-9]+: ")


@dataclass(frozen=True)
class SeriesKernel:
    """A kernel of the series: the base, with the patches up to the one at ``place``. ``title`` is for people."""

    commit: str
    title: str
    kernel: Kernel
    place: str = ""


@dataclass(frozen=True)
class MeasuredSeries:
    """Two steps under every scenario, and the minutes that measuring took. ``unseen`` is what one CPU does not show,
    ``hunted`` what kept searches find in the series alone, with their names for scenarios."""

    base: SeriesKernel
    series: SeriesKernel
    outcomes: tuple[Outcomes, ...]
    minutes: float = 0.0
    unseen: str = ""
    hunted: tuple[Move, ...] = ()

    @property
    def moves(self) -> list[Move]:
        return [*(each for own in self.outcomes for each in own.moves), *self.hunted]

    @property
    def trend(self) -> Trend | None:
        """None where nothing differs. Without any claim that was judged on both sides: cannot judge."""
        undecided = [] if any(outcome.judged for outcome in self.outcomes) else [Trend.OPEN]
        return worst([*undecided, *(move.trend for move in self.moves)])


@dataclass(frozen=True)
class PackagedModules:
    """The modules of a packaged kernel that are all that a change is part of, by their paths."""

    headers: Headers
    paths: tuple[str, ...]


def modules_alone(headers: Headers, change: Sources) -> PackagedModules | str:
    """What to build of the change, or why it takes a kernel."""
    kernel, touched = headers.kernel, change.touched()
    if (series := change.series()) != kernel.version.series:
        return f"{kernel.release} is of series {kernel.version.series}, the tree of {series}"
    files = sorted({file for _, file in touched.functions} | {*touched.data.values(), *touched.others})
    paths = {file: module_path(kernel, file, change.module(file)) for file in files}
    others = [file for file, path in paths.items() if not path]
    return (
        f"{names(others)} is in no module of {kernel.release}"
        if others
        else PackagedModules(headers, tuple(sorted({*paths.values()})))
    )


@dataclass(frozen=True)
class Study:
    """Kernels of ``branch``, built once, and their runs on ``bench``: of ``arms`` if named, under ``seeds``.

    ``alone``: of a packaged kernel these modules are built, and nothing else.
    """

    branch: Branch
    base_title: str
    bench: Bench
    tell: Tell
    cache: Cache
    seeds: int | None = None
    arms: Sequence[str] = ()
    alone: PackagedModules | None = None

    def base(self) -> SeriesKernel:
        """Raises CannotJudge when the base does not build: then nothing is said of the series."""
        return SeriesKernel(self.branch.base, self.base_title, self._build(self.branch.base, self.base_title))

    def step(self, patch: Patch, commit: str) -> SeriesKernel:
        """The base with all patches up to this one. Raises CannotJudge with the compiler's line."""
        title = f"{self.base_title} with {patch.title}"
        try:
            return SeriesKernel(commit, title, self._build(commit, title), patch.place(1))
        except CannotJudge as error:
            named = _COMPILER.search(error.message)
            where = patch.place_of(named["file"], int(named["line"])) if named else ""
            raise CannotJudge(f"{where or patch.place(1)}: {error.message}", remedy=error.remedy) from error

    def compare(self, base: SeriesKernel, series: SeriesKernel, scenarios: Sequence[Scenario]) -> MeasuredSeries:
        began = monotonic()
        results = tuple(self._outcomes(scenario, base, series) for scenario in scenarios)
        minutes = (monotonic() - began) / 60
        unseen = unseen_change(self.branch.diff(base.commit, series.commit), scenarios)
        return MeasuredSeries(base, series, results, minutes, unseen)

    def _outcomes(self, scenario: Scenario, base: SeriesKernel, series: SeriesKernel) -> Outcomes:
        """Those of one scenario, which are told at once: the others may take minutes."""
        result = outcomes(*(self._measure(scenario, step.kernel) for step in (base, series)))
        for move in result.moves or ("same",):
            self.tell(f"{scenario.name}: {move}")
        return result

    def hunted(self, base: SeriesKernel, series: SeriesKernel, finds: Mapping[str, KeptFind]) -> Iterator[Move]:
        """Searches the series, and the base where that fails."""

        def fault(kept: KeptFind, step: SeriesKernel) -> str:
            tried = try_find(self.bench, step.kernel, kept, kept.planned, self.tell)
            return tried.fault or next(iter(tried.others), "")

        for name, kept in finds.items():
            what, trend, after = f"{plural(kept.seeds, 'seed')} of {kept.strategy}", Trend.WORSE, ""
            self.tell(f"hunt {name}: up to {what}")
            try:
                after = fault(kept, series)
                if not after or fault(kept, base):
                    continue
            except CannotJudge as error:
                trend, after = Trend.OPEN, error.message
            yield Move(name, Kind.HUNT, what, "nothing found", after, trend)

    def changed_functions(self, base: SeriesKernel, patch: Patch, commit: str) -> Mapping[str, str]:
        """Functions whose code differs, with their objects: those of the base are kept before ``commit`` is built."""
        known = self.branch.folder.parent / f"code-{base.kernel.digest[:12]}-{commit[:12]}.json"
        changed: Mapping[str, str] | None = read_json(known)
        if changed is None:
            with tempfile.TemporaryDirectory(dir=known.parent, prefix=".objects-") as folder:
                before = Path(folder)
                self._in_objects(base, lambda objects: keep_objects(objects, before))
                series = self.step(patch, commit)
                changed = self._in_objects(series, lambda objects: changed_functions(before, objects))
            write_atomic(known, json.dumps(changed, indent=1).encode())
        return changed

    def _in_objects(self, step: SeriesKernel, look: Callable[[Path], _T]) -> _T:
        source = self._source(step.commit, step.title)
        return tree.in_objects(step.kernel, source, self.cache, lambda objects, _: look(objects), tell=self.tell)

    def _measure(self, scenario: Scenario, kernel: Kernel) -> RunFolder:
        arms = tuple(name for name in self.arms if name in scenario.arms)
        return self.bench.measure(Request(scenario, kernel, self.seeds, arms)).folder

    def _build(self, commit: str, title: str) -> Kernel:
        if (alone := self.alone) is not None:
            repository = self.branch.folder
            return replaced(alone.headers, repository, commit, alone.paths, self.cache, title=title, tell=self.tell)
        return tree.built(self._source(commit, title), self.cache, tell=self.tell)

    def _source(self, commit: str, title: str) -> KernelSource:
        folder, debug = self.branch.folder, self.branch.debug
        return KernelSource(folder, f"tree:{folder}@{commit}", title, revision=commit, debug=debug)


def moved_cell(outcomes: Outcomes) -> ProfiledCell | None:
    """The load to profile: that whose figure moved most, else that whose cost did; None without one."""
    if outcomes.differing:
        return ProfiledCell(*outcomes.differing[0].figure[:2])
    try:
        return chosen_cell(outcomes.runs)
    except CannotJudge:
        return None


def profiled(lab: Lab, compared: MeasuredSeries, tell: Tell) -> Differential | None:
    """The differential of what moved most among the scenarios, None where nothing can be profiled."""
    ranked = sorted(compared.outcomes, key=lambda outcome: (outcome.trend is None, -len(outcome.differing)))
    for outcome in ranked:
        cell = moved_cell(outcome)
        if cell is None:
            continue
        try:
            kernels = (compared.base.kernel, compared.series.kernel)
            before, after = profiles_of_runs(lab, outcome.runs, cell, kernels, tell)
        except CannotJudge as error:
            tell(f"no profile of {outcome.scenario}: {error.message}")
            continue
        return differential(before, after)
    return None

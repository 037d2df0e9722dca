# SPDX-License-Identifier: GPL-2.0-only
"""Builds base and series with one configuration and measures both under the chosen scenarios."""

import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TypeVar

from harness.base.files import read_json, write_atomic
from harness.judge.visible import unseen_change
from harness.patch.judgement import Effect, Outcomes, outcomes, worst
from harness.patch.series import Branch, Patch
from harness.profile.cells import ProfiledCell, chosen_cell, profiles_of_runs
from harness.profile.differential import Differential, differential
from harness.record.store import RunFolder
from harness.run.bench import Bench
from harness.run.plan import Request
from harness.scenario.model import Scenario
from lab.base.cache import Cache
from lab.base.errors import CannotJudge
from lab.base.units import Tell
from lab.kernels import tree
from lab.kernels.model import Kernel
from lab.kernels.objects import changed_functions, keep_objects
from lab.kernels.tree import KernelSource
from lab.session import Lab

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
    """Two steps under every scenario, and the minutes that measuring took. ``unseen`` is what one CPU does not show."""

    base: SeriesKernel
    series: SeriesKernel
    outcomes: tuple[Outcomes, ...]
    minutes: float = 0.0
    unseen: str = ""

    @property
    def effect(self) -> Effect | None:
        """None where nothing differs. Without any claim that was judged on both sides: cannot judge."""
        undecided = [] if any(outcome.judged for outcome in self.outcomes) else [Effect.OPEN]
        return worst([*undecided, *(outcome.effect for outcome in self.outcomes)])


@dataclass(frozen=True)
class Study:
    """Kernels of ``branch``, built once, and their runs on ``bench``: of ``arms`` if named, under ``seeds``."""

    branch: Branch
    base_title: str
    bench: Bench
    tell: Tell
    cache: Cache
    seeds: int | None = None
    arms: Sequence[str] = ()

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
        pairs = [[self._measure(scenario, step.kernel) for step in (base, series)] for scenario in scenarios]
        found, minutes = tuple(outcomes(*pair) for pair in pairs), (monotonic() - began) / 60
        unseen = unseen_change(self.branch.diff(base.commit, series.commit), scenarios)
        return MeasuredSeries(base, series, found, minutes, unseen)

    def changed_functions(self, base: SeriesKernel, patch: Patch, commit: str) -> Mapping[str, str]:
        """Functions whose code differs, with their objects: those of the base are kept before ``commit`` is built."""
        known = self.branch.folder.parent / f"code-{base.kernel.digest[:12]}-{commit[:12]}.json"
        found: Mapping[str, str] | None = read_json(known)
        if found is None:
            with tempfile.TemporaryDirectory(dir=known.parent, prefix=".objects-") as folder:
                before = Path(folder)
                self._in_objects(base, lambda objects: keep_objects(objects, before))
                series = self.step(patch, commit)
                found = self._in_objects(series, lambda objects: changed_functions(before, objects))
            write_atomic(known, json.dumps(found, indent=1).encode())
        return found

    def _in_objects(self, step: SeriesKernel, look: Callable[[Path], _T]) -> _T:
        source = self._source(step.commit, step.title)
        return tree.in_objects(step.kernel, source, self.cache, lambda objects, _: look(objects), tell=self.tell)

    def _measure(self, scenario: Scenario, kernel: Kernel) -> RunFolder:
        arms = tuple(name for name in self.arms if name in scenario.arms)
        return self.bench.measure(Request(scenario, kernel, self.seeds, arms)).folder

    def _build(self, commit: str, title: str) -> Kernel:
        return tree.built(self._source(commit, title), self.cache, tell=self.tell)

    def _source(self, commit: str, title: str) -> KernelSource:
        return KernelSource(self.branch.folder, f"tree:{self.branch.folder}@{commit}", title, revision=commit)


def moved_cell(found: Outcomes) -> ProfiledCell | None:
    """The load to profile: that whose figure moved most, else that whose cost did; None without one."""
    if found.moved:
        return ProfiledCell(*found.moved[0].figure[:2])
    try:
        return chosen_cell(found.runs)
    except CannotJudge:
        return None


def profiled(lab: Lab, compared: MeasuredSeries, tell: Tell) -> Differential | None:
    """The differential of what moved most among the scenarios, None where nothing can be profiled."""
    ranked = sorted(compared.outcomes, key=lambda outcome: (outcome.effect is None, -len(outcome.moved)))
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

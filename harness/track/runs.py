# SPDX-License-Identifier: GPL-2.0-only
"""Which scenarios a night measures: those that execute what changed since their last record, then the stalest.

Each is measured on each commit of a tree once, whatever was killed in between.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic

from harness import fitted
from harness.bisect.notebook import setting_of
from harness.bisect.repository import Repository
from harness.grid.lines import Move
from harness.hunt.finds import KeptFind, try_find
from harness.judge.difference import ArmFigure
from harness.patch.choice import ScenarioChoice
from harness.profile.cells import ProfiledCell, busy_cell, profile_of, profiles_of_runs
from harness.profile.model import differential, kernel_costs
from harness.profile.report import differential_lines
from harness.record.judging import Altered
from harness.record.store import load_run
from harness.report.format import listed, plural
from harness.run.bench import Bench
from harness.run.plan import Request, run_command
from harness.scenario.load import in_another_layout, ref_of
from harness.scenario.model import Scenario
from harness.scenario.registry import FUNCTION, GUEST
from harness.track.moves import Seen
from harness.track.state import Base, Folder, Record, Track, short
from lab.base.errors import CannotJudge, Misuse
from lab.base.units import Tell
from lab.kernels import tree
from lab.kernels.model import Kernel

_MOVED = " moved"
NEVER = "never measured"


def due(
    scenarios: Iterable[Scenario],
    bases: Mapping[str, Base],
    head: str,
    reached: Mapping[str, ScenarioChoice],
    within: tuple[float, Callable[[Scenario], float]],
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The scenarios to measure, each with why, and those that the budget leaves out.

    ``reached`` is the change up to ``head`` by the commits of the ``bases``; ``within`` the budget and what a scenario
    takes, in seconds. The first one is measured in any case.
    """
    budget, seconds = within
    ranked: list[tuple[tuple[int, int, int], Scenario, str]] = []
    for place, scenario in enumerate(scenarios):
        base = bases.get(scenario.name)
        reach = reached.get(base.commit) if base else None
        if base is not None and base.commit == head:
            continue
        executing = reach.executing if reach else {}
        if base is None:
            ranked.append(((1, 0, place), scenario, NEVER))
        elif scenario.name in executing:
            why = f"executes {listed(executing[scenario.name], 3)}"
            ranked.append(((0, [*executing].index(scenario.name), place), scenario, why))
        else:
            ranked.append(((2, base.night, place), scenario, f"measured last in night {base.night}"))
    chosen: dict[str, str] = {}
    left: list[str] = []
    spent = 0.0
    for _, scenario, why in sorted(ranked, key=lambda row: row[0]):
        spent += seconds(scenario)
        if chosen and spent > budget:
            left.append(scenario.name)
        else:
            chosen[scenario.name] = why
    return chosen, tuple(left)


@dataclass
class CommitRuns:
    """Builds commits of the ``repository``; without one there are packages alone, which ``holds`` takes.

    ``finds`` are kept searches by name. ``built``, ``booted``: how many kernels and guests this process made;
    ``progress`` notes them with each record.
    """

    folder: Folder
    bench: Bench
    repository: Repository | None
    scenarios: Mapping[str, Scenario]
    tell: Tell
    seeds: int | None = None
    finds: Mapping[str, KeptFind] = field(default_factory=dict)
    built: int = 0
    booted: int = 0
    progress: Callable[[Track], Track] = lambda track: track
    _kernels: dict[str, Kernel] = field(default_factory=dict)
    _seen: dict[str, Seen] = field(default_factory=dict)

    def kernel(self, commit: str) -> Kernel:
        """Raises CannotJudge for a commit that does not build; that is known from then on."""
        if commit in self._kernels:
            return self._kernels[commit]
        track = self.folder.track
        if commit in track.unbuilt:
            raise CannotJudge(track.unbuilt[commit])
        if self.repository is None:
            raise CannotJudge(f"{commit} is not the newest package any more")
        source, began = self.repository.kernel_source(commit), monotonic()
        try:
            kernel = self._kernels[commit] = tree.built(source, self.bench.lab.cache, tell=self.tell)
        except CannotJudge as error:
            said = error.message.removeprefix(f"{source.title} ")
            self.folder.save(replace(track, unbuilt={**track.unbuilt, commit: said}))
            raise CannotJudge(said) from error
        if kernel.fresh:
            self.built += 1
            self.folder.save(self.progress(self.folder.track))
        self.tell(f"{commit[:12]}: {kernel.release}, {monotonic() - began:.0f} s")
        return kernel

    def holds(self, commit: str, kernel: Kernel) -> None:
        """Take ``kernel`` for a version of a package, which is not built."""
        self._kernels[commit] = kernel

    def builds(self, commit: str) -> str:
        """Why it does not build, empty where it does."""
        try:
            self.kernel(commit)
        except CannotJudge as error:
            return error.message
        return ""

    def seen(self, commit: str, scenario: str, *, moved: int = 0) -> Seen:
        """A scenario in the layout ``moved`` of the same code.

        Raises CannotJudge for a commit that does not build, LabBroken where a boot was the lab's fault.
        """
        own, key = self.scenarios[scenario], commit + moved * _MOVED
        for _ in range(moved):
            own = in_another_layout(own)
        setting = setting_of(self.bench.lab, own, self.seeds)
        record = self.folder.track.records.get(key, {}).get(scenario)
        if record and record.setting == setting and (known := self.read(record.run, commit)):
            return known
        kernel = self.kernel(commit)
        self.tell(f"{short(commit)}: {own.name}")
        command = () if moved else run_command(ref_of(own), kernel.spec, self.seeds)
        run = self.bench.measure(Request(own, kernel, self.seeds, command=command))
        run.demand_lab()
        self.booted += run.made
        self.folder.save(self.progress(self.folder.track.with_record(key, scenario, Record(run.path, setting))))
        return self._seen.setdefault(run.path, Seen(run.folder, partial(self._functions, commit)))

    def searched(self, commit: str, find: str, *, moved: int = 0) -> str | None:
        """The fault that a kept search is known to find on a commit, empty where it finds none; None if not known."""
        record = self.folder.track.records.get(commit + moved * _MOVED, {}).get(find)
        setting = setting_of(self.bench.lab, self._planned(find, moved), self.finds[find].seeds)
        return record.run if record and record.setting == setting else None

    def _planned(self, find: str, moved: int) -> Scenario:
        own = self.finds[find].planned
        return in_another_layout(own) if moved else own

    def hunted(self, commit: str, find: str, *, moved: int = 0) -> str:
        """``searched``, now if it was not. Raises CannotJudge where the commit cannot be built or searched."""
        if (known := self.searched(commit, find, moved=moved)) is not None:
            return known
        kept, own = self.finds[find], self._planned(find, moved)
        self.tell(f"{short(commit)}: hunt {find}, up to {plural(kept.seeds, 'seed')}")
        tried = try_find(self.bench, self.kernel(commit), kept, own, self.tell)
        self.booted += tried.seeds
        record = Record(tried.fault, setting_of(self.bench.lab, own, kept.seeds))
        self.folder.save(self.progress(self.folder.track.with_record(commit + moved * _MOVED, find, record)))
        return tried.fault

    def _functions(self, commit: str, seen: Seen) -> Mapping[ArmFigure, float]:
        """What each function of the kernel executes for each I/O in the first load whose CPU is busy; none without."""
        cell = busy_cell(seen.cells)
        if cell is None:
            return {}
        phases: list[str] = []
        self.tell(f"{short(commit)}: {seen.run.facts.scenario} {cell.arm}, profiled")
        try:
            profile = profile_of(self.bench.lab, seen.run, cell, self.kernel(commit), phase_seen=phases.append)
        except CannotJudge as error:
            self.tell(f"no profile: {error.message}")
            return {}
        self.booted += bool(phases)
        return {
            ArmFigure(cell.arm, cell.load, GUEST, FUNCTION.name.replace("NAME", name)): instructions
            for name, instructions in kernel_costs(profile).items()
        }

    def functions_between(self, before: str, after: str, move: Move) -> tuple[Sequence[str], Sequence[str]] | None:
        """The functions whose instructions for each I/O in the load of a move differ by more than layout moves, by how
        much, and a line each; None where they cannot be counted.
        """
        cell = ProfiledCell(*move.figure[:2])
        try:
            folders = [self.seen(sha, move.scenario).run for sha in (before, after)]
            kernels = [self.kernel(sha) for sha in (before, after)]
            both = differential(*profiles_of_runs(self.bench.lab, folders, cell, kernels, self.tell))
        except CannotJudge as error:
            self.tell(f"no profile of {move.title}: {error.message}")
            return None
        large = [each for each in both.changes if abs(each.delta) > fitted.OF_FUNCTION * each.before.instructions]
        least = abs(large[0].delta) / 10 if large else 0
        return [each.function.name for each in large if abs(each.delta) >= least], differential_lines(both)

    def read(self, path: str, commit: str = "") -> Seen | None:
        """A stored run; None where it is gone or damaged. Functions are known where it is told of which ``commit``."""
        if path not in self._seen:
            with suppress(Misuse, Altered):
                seen = Seen(load_run(self.bench.store.root / path))
                seen = replace(seen, profile=partial(self._functions, commit)) if commit else seen
                _ = seen.cells
                self._seen[path] = seen
        return self._seen.get(path)

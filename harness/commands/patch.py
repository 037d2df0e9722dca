# SPDX-License-Identifier: GPL-2.0-only
"""``blklab patch``: measure a series, or the change in a kernel tree, against its base."""

import io
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

from harness.base.checkout import results_root
from harness.base.files import write_atomic
from harness.commands.boots import bench_of, chosen_by, every_scenario, kernel_of, print_dry_run, store_of
from harness.commands.options import (
    ARMS,
    CONFIG,
    DRY_RUN,
    JOBS,
    NICE,
    RESULTS,
    SEEDS,
    config_words,
    number,
    tell,
    words_of,
)
from harness.commands.parser import Command, flag, operand, option
from harness.grid.lines import Trend
from harness.hunt.finds import KeptFind, finds_in
from harness.judge.visible import unseen_change
from harness.limits.entries import load_scenario
from harness.patch.choice import choice_lines
from harness.patch.report import (
    CHECKS,
    NOT_SEEN,
    QUIET,
    Outcome,
    commit_lines,
    exit_code,
    reply,
    summary,
    verdict_line,
)
from harness.patch.series import Branch, Patch, branch_folder, read_series
from harness.patch.sources import CodeChange, PatchText, Sources
from harness.patch.study import MeasuredSeries, PackagedModules, Study, modules_alone, profiled
from harness.patch.work import change_of, is_range, range_of, review_range, write_change
from harness.profile.model import Differential
from harness.profile.report import differential_lines
from harness.record.index import indexed_runs
from harness.report.format import duration, plural
from harness.report.terminal import console_of
from harness.report.terminal.grid import Compared, print_comparison
from harness.report.terminal.scenario import Estimate, total
from harness.run.plan import expand
from harness.scenario.load import find_scenarios
from harness.scenario.model import Scenario
from lab.base.cache import Cache
from lab.base.errors import EXIT_LAB_BROKEN, EXIT_PASS, BlklabError, CannotJudge, Misuse
from lab.kernels import tree
from lab.kernels.build import builds
from lab.kernels.git import kernel_tree
from lab.kernels.module import headers_of
from lab.kernels.resolve import demand
from lab.kernels.tree import DEFAULT, KernelSource, named_source
from lab.yaml.strict import names, nearest

FOLDER = "patch"
_PACKAGED = "debian:"
MOST = 3
_TRACKING = "B4_TRACKING_FILE"


class NothingExecutes(CannotJudge):
    """No scenario executes what a change touches."""


class PatchCommand(Command):
    series: Sequence[str] = operand(
        nargs="*",
        metavar="SERIES",
        help="mboxes, mails, folders of git format-patch, - (standard input), the Message-ID of a thread (fetched by"
        " b4), or a range of commits such as HEAD~2..HEAD (default: HEAD and what is not committed in the kernel tree"
        " that this folder is in)",
    )
    base: str | None = option(
        metavar="TREE@REV",
        help=f"what it applies to: a git tree at a commit, tree:DIR@REV, or a packaged source (default: {DEFAULT});"
        " inside a tree a revision (default: the merge base with the upstream branch, else HEAD)",
    )
    scenario: Sequence[str] = option(
        action="append",
        default=[],
        metavar="NAME",
        help="only this scenario; may be repeated (default: chosen by the functions that the change touches)",
    )
    each: bool = flag("measure each patch, compared with the one before it")
    every: bool = flag("every scenario of the virtual clock", "--all")
    most: int = option(type=number(1), default=MOST, metavar="N", help=f"at most N chosen scenarios (default: {MOST})")
    no_profile: bool = flag("do not count instructions of what moved")
    b4: bool = flag("check the mail on standard input for b4 review: prints its JSON")
    b4_prep: bool = flag("the same for b4 prep --check and b4 am --check: prints lines")
    nipa: bool = flag("check HEAD for NIPA: exit 250 where nothing is judged, the verdict to $DESC_FD")
    dry_run: bool = DRY_RUN
    seeds: int | None = SEEDS
    arms: Sequence[str] = ARMS
    jobs: int = JOBS
    nice: int | None = NICE
    config: Path | None = CONFIG
    results: str | None = RESULTS
    one_of = ("b4", "b4_prep", "nipa")
    epilog = (
        "Exit status: 0 same or better, 1 worse (a claim, a load or a boot), 125 cannot judge: it does not apply or"
        " build, or no scenario executes what it touches."
    )
    alone: ClassVar = {"every": ("scenario", "most"), "scenario": ("most",)}

    def __call__(self) -> int:
        check = next((name for name in CHECKS if getattr(self, name)), None)
        if check is None:
            return self._of_words(self.series).code
        # NIPA has applied the patch, b4 passes its mail.
        mailed = not self.series and not self.nipa
        work = self._of_mail if mailed else partial(self._of_words, self.series or ["HEAD~1..HEAD"])
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said) if check == QUIET else nullcontext():
            outcome = _outcome(work)
        return CHECKS[check](replace(outcome, details=said.getvalue()))

    @cached_property
    def named(self) -> Sequence[Scenario]:
        return [load_scenario(name) for name in self.scenario]

    def demand_arms(self) -> None:
        """Raises Misuse for an arm of none of them, or of no scenario at all, before a source is fetched."""
        every = self.named or map(load_scenario, find_scenarios() if self.arms else ())
        known = {arm for scenario in every for arm in scenario.arms}
        if unknown := [arm for arm in self.arms if arm not in known]:
            remedy = f"known: {names(sorted(known))}" if self.named else "blklab show SCENARIO lists its arms"
            raise Misuse(f"no scenario has an arm {unknown[0]}{nearest(unknown[0], known)}", remedy=remedy)

    def among(self, change: CodeChange, *, certain: bool = True) -> list[Scenario]:
        """Prints how scenarios are chosen; empty where none executes the change."""
        choice = chosen_by(change)
        most = len(choice.candidates) if self.every else self.most
        print("\n".join(choice_lines(choice, most, certain=certain)))
        if self.every:
            return every_scenario()
        return [candidate.scenario for candidate in choice.candidates[:most]]

    def sides(self, series: Sequence[Patch]) -> Sequence[int]:
        """How many patches each kernel beside the base has."""
        return range(1, len(series) + 1) if self.each else (len(series),)

    def estimates(self, scenarios: Sequence[Scenario], spec: str, series: Sequence[Patch]) -> list[Estimate]:
        return [
            Estimate(scenario, kernel, len(expand(scenario, self.seeds, own or None)), own)
            for scenario in scenarios
            for own in [tuple(arm for arm in self.arms if arm in scenario.arms)]
            for kernel in (spec, *(f"{spec}, patches: {number}" for number in self.sides(series)))
        ]

    @property
    def words(self) -> list[str]:
        """Those of a command line that measures in the same way."""
        words = words_of(scenario=self.scenario, each=self.each, all=self.every)
        words += config_words()
        return words + words_of(most=self.most if self.most != MOST else None, seeds=self.seeds, arm=self.arms)

    def _of_mail(self) -> Outcome:
        """The mail on standard input: the commit that has its change where the tree has one, else applied to HEAD."""
        self.demand_arms()
        mail, top, tracking = Path("-"), kernel_tree(Path.cwd()), os.environ.get(_TRACKING)
        if self.base is not None or top is None:
            return self._of_series(read_series(mail), [mail.name], self.base)
        tracked = review_range(Path(tracking)) if tracking else ""
        patches = read_series(mail, optional=bool(tracked))
        known = range_of(top, patches[0], tracked) if len(patches) == 1 else None
        if known or not patches:
            return self._of_tree(known or tracked, None)
        return self._of_series(patches, [mail.name], f"{top}@HEAD")

    def _of_words(self, series: Sequence[str]) -> Outcome:
        self.demand_arms()
        if not series or (len(series) == 1 and is_range(series[0])):
            return self._of_tree(series[0] if series else None, self.base)
        return self._of_series(None, series, self.base)

    def _of_series(self, patches: Sequence[Patch] | None, named: Sequence[str], base: str | None) -> Outcome:
        """The ``patches``, or those that are ``named``, on a base that is no revision of a tree here."""
        onto = base or DEFAULT
        spec = demand(onto if ":" in onto else f"tree:{onto}")
        patches = patches or read_series(*map(Path, named))
        command = shlex.join(
            ["blklab", "patch", *(Path(path).name for path in named), *words_of(base=base), *self.words]
        )
        return self._measure(patches, spec, onto, lambda whole, profile: reply(patches, whole, profile, command))

    def _of_tree(self, change: str | None, base: str | None) -> Outcome:
        """The change in the kernel tree that this folder is in."""
        package = base if base and base.startswith(_PACKAGED) else ""
        own = change_of(Path.cwd(), change, None if package else base)
        tell(f"{own.title}, against {own.base[:12]}, in {own.top}")
        if own.left_out:
            tell(f"not in the change, as git does not track it: {names(own.left_out)} (git add -N)")
        path = write_change(own, store_of(self.results, FOLDER).root)
        command = shlex.join(["blklab", "patch", *([change] if change else []), *words_of(base=base), *self.words])
        spec = f"tree:{own.top}@{own.base}"
        named = package or own.base[:12]
        return self._measure(read_series(path), spec, named, lambda whole, _: commit_lines(whole, command))

    def _measure(
        self,
        patches: Sequence[Patch],
        spec: str,
        base: str,
        message: Callable[[MeasuredSeries, Differential | None], str],
    ) -> Outcome:
        """Measure ``patches`` on ``spec``, which the user names ``base``, and print the ``message`` on them.

        Where ``base`` is a packaged kernel and they change its modules alone, they are measured on that.
        """
        package = base if base.startswith(_PACKAGED) else ""
        spec = _source_of(spec)
        named, cache = self.named, Cache.default()
        if self.dry_run:
            return Outcome(self._dry_run(spec, patches), "nothing was measured (--dry-run)")
        store = store_of(self.results, FOLDER)
        source = named_source(spec, cache, tell)
        if source is None:
            raise _no_source(spec)
        branch = Branch(source, branch_folder(store.root, source))
        commits = branch.with_all(patches)
        sources = Sources(branch.folder, branch.base, commits[-1])
        alone = _alone(package, sources) if package else None
        if not alone:
            tell(f"builds {_builds(source, cache, 1 + len(self.sides(patches)))}")
        certain = bool(named or self.every or alone or sources.touched().certain)
        scenarios = named or (self._demanded(sources) if certain else self.among(sources, certain=False))
        if estimates := self.estimates(scenarios, spec, patches):
            tell(f"{'' if certain else 'likely '}{total(estimates, indexed_runs(results_root(self.results)))}")
        if not certain:
            tell("headers, macros or data differ: both sides are built, and compared function by function")
        finds = finds_in(sources.touched().names)
        bench = bench_of(self.results, self.jobs, folder=FOLDER)
        title = base if alone else _title(base if not package else spec, source, branch)
        study = Study(branch, title, bench, tell, cache, self.seeds, self.arms, alone)
        steps = [study.base()]
        if not certain:
            functions = study.changed_functions(steps[0], patches[-1], commits[-1])
            scenarios = self._demanded(Sources(branch.folder, branch.base, commits[-1], built=functions))
        compared = list[MeasuredSeries]()
        applied = list(zip(patches, commits, strict=True))
        for patch, commit in applied if self.each else applied[-1:]:
            steps.append(study.step(patch, commit))
            compared.append(study.compare(steps[-2], steps[-1], scenarios))
            _print(compared[-1])
        whole = study.compare(steps[0], steps[-1], scenarios) if compared[1:] else compared[0]
        if finds:
            whole = replace(whole, hunted=tuple(study.hunted(steps[0], steps[-1], finds)))
            compared.append(whole)
            print("\n".join(summary(whole)))
        differs = whole.trend in (Trend.WORSE, Trend.BETTER)
        profile = profiled(bench.lab, whole, tell) if differs and not self.no_profile else None
        print("\n".join(["", *(differential_lines(profile) if profile else []), ""]))
        text, path = message(whole, profile), branch.folder.parent / "message.txt"
        write_atomic(path, text.encode())
        print(text, end="")
        tell(f"this text is in {path}")
        return Outcome(exit_code(compared), verdict_line(whole))

    def _demanded(self, change: CodeChange) -> list[Scenario]:
        if scenarios := self.among(change):
            return scenarios
        raise NothingExecutes(
            "no scenario executes what the series touches", remedy="--scenario NAME, or --all for all of them"
        )

    def _dry_run(self, spec: str, series: Sequence[Patch]) -> int:
        """What the series touches, what would be measured, and how long that takes; fetches and builds nothing.

        Raises CannotJudge for a series that does not apply to a source that is there.
        """
        cache = Cache.default()
        source = tree.kept_source(spec, cache)
        if source is None and not spec.startswith(("source:", "mutant:")):
            raise _no_source(spec)
        scenarios, finds = self._likely(source, series)
        if hidden := unseen_change("\n".join(patch.diff for patch in series), scenarios):
            print(f"{NOT_SEEN}: {hidden}")
        print(f"fetch  {'nothing' if source else f'{spec}, of unknown size and time'}")
        print(f"build  {_builds(source, cache, 1 + len(self.sides(series)))}")
        for name, kept in finds.items():
            print(f"hunt   {name}: up to {plural(kept.seeds, 'seed')}, on the base too where the series fails")
        if estimates := self.estimates(scenarios, spec, series):
            return print_dry_run(estimates, self.results)
        print("boots  unknown: no scenario is chosen yet")
        return EXIT_PASS

    def _likely(
        self, source: KernelSource | None, series: Sequence[Patch]
    ) -> tuple[Sequence[Scenario], Mapping[str, KeptFind]]:
        """Scenarios and kept searches by the text of the source, or where there is none yet by that of the series."""
        change: CodeChange = PatchText(tuple(patch.text for patch in series))
        if source is not None:
            branch = Branch(source, branch_folder(store_of(self.results, FOLDER).root, source))
            change = Sources(branch.folder, branch.base, branch.with_all(series)[-1])
        certain = source is None or change.touched().certain
        scenarios = self.among(change, certain=certain)
        if source is None:
            print("by the text of the series alone: what uses its data and headers is known once the source is here")
        elif not certain:
            print("by the text of the source: what really differs is known once both sides are built")
        return self.named or scenarios, finds_in(change.touched().names)


def _outcome(work: Callable[[], Outcome]) -> Outcome:
    """What ``work`` gives, or why it has none."""
    try:
        return work()
    except NothingExecutes as error:
        return Outcome(EXIT_PASS, error.message, relevant=False)
    except (BlklabError, OSError) as error:
        print(error)
        code = error.exit_code if isinstance(error, BlklabError) else EXIT_LAB_BROKEN
        return Outcome(code, str(error).partition("\n")[0])


def _source_of(spec: str) -> str:
    """The source that a packaged kernel is made of, any other spec as it is."""
    if not spec.startswith(_PACKAGED):
        return spec
    series = re.match(r"[0-9]+\.[0-9]+", spec.removeprefix(_PACKAGED))
    return f"source:{series[0] if series else kernel_of(spec).version.series}"


def _alone(package: str, sources: Sources) -> PackagedModules | None:
    """The modules to build for the packaged kernel; None, which it tells, where the change takes a kernel."""
    headers = headers_of(kernel_of(package), Cache.default(), tell)
    alone = modules_alone(headers, sources)
    if isinstance(alone, str):
        tell(f"{alone}: both kernels are built, and none is {package}")
        return None
    tell(f"only {names(Path(path).name for path in alone.paths)} of {headers.kernel.release} is built ({headers.note})")
    return alone


def _no_source(spec: str) -> Misuse:
    return Misuse(f"--base {spec} is not a source", remedy="source:6.12, or DIR@REV of a git tree")


def _title(named: str, source: KernelSource, branch: Branch) -> str:
    """The base as its user names it, and what that was."""
    content = branch.base[:12] if source.revision else source.title.rpartition(" ")[2]
    return named if named == content else f"{named} ({content})"


def _print(compared: MeasuredSeries) -> None:
    print(f"\n{compared.base.title} -> {compared.series.title}")
    tables = [
        Compared(outcome.scenario, "base", "series", outcome.changes)
        for outcome in compared.outcomes
        if outcome.changes
    ]
    if tables:
        print_comparison(console_of(), tables)
    print("\n".join(summary(compared)))


def _builds(source: KernelSource | None, cache: Cache, sides: int) -> str:
    """How many kernels are built, and the time of each, as earlier builds in this cache took."""
    known = builds(cache)
    first = known.further if source is not None and tree.has_objects(source, cache) else known.first
    times = (
        f"about {duration(seconds)}" if seconds else "unknown" for seconds in (first, *[known.further] * (sides - 1))
    )
    return f"{plural(sides, 'kernel')}, unless they are in the cache: {', '.join(times)}"


COMMANDS: dict[str, type[Command]] = {"patch": PatchCommand}

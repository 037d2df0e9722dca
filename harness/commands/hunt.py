# SPDX-License-Identifier: GPL-2.0-only
"""``blklab hunt``: search schedules of several CPUs for one under which a scenario fails, and repeat a find."""

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from harness.base.checkout import results_root
from harness.base.files import write_atomic, write_json
from harness.commands.boots import kernel_of, lab_of_host, scenario_of
from harness.commands.options import (
    ARMS,
    CONFIG,
    DASK,
    JOBS,
    KERNEL,
    RESULTS,
    SCENARIO,
    config_words,
    number,
    tell,
    words_of,
)
from harness.commands.parser import Command, flag, option
from harness.grid.cluster import elsewhere
from harness.hunt.finds import KeptFind, enough, find_file, odds, read_find, write_find
from harness.hunt.reduce import REPEATS, Reducer
from harness.hunt.search import MIXED, STRATEGIES, Find, Limits, Progress, Search, demand_cpus, folder_of, grounds_of
from harness.hunt.story import LIMITS, place_of, progress_lines, story_of
from harness.hunt.trial import Ground
from harness.report.format import plural
from harness.scenario.load import ref_of
from harness.scenario.model import Scenario
from lab.base import host
from lab.base.errors import EXIT_FAIL, EXIT_PASS, CannotJudge, Misuse
from lab.schedule import Schedule
from lab.session import run_job

_DEFAULT_SEEDS = 100
_SCHEDULE, _STORY = "schedule.yaml", "story.txt"
_OF_SEARCH = ("scenario", "first", "strategy", "arms", "functions")
"""What a kept find says itself."""


class Hunt(Command):
    scenario: str | None = SCENARIO.but(nargs="?")
    kernel: str = KERNEL
    seeds: int | None = option(type=number(1), metavar="N", help=f"schedules to try (default: {_DEFAULT_SEEDS})")
    minutes: int | None = option(type=number(1), metavar="M", help="try schedules for so long instead")
    first: int = option(type=number(1), default=1, metavar="N", help="the first seed (default: 1)")
    strategy: str = option(
        choices=STRATEGIES,
        default=MIXED,
        help="few: one to three changes; stalls: some of all places; turns: random lengths (default: mixed, most of"
        " those that find most)",
    )
    functions: Sequence[str] = option(
        "--at",
        action="append",
        default=[],
        metavar="FUNCTION",
        help="change between CPUs in this function (may be repeated; default: the scenario's hunt.at, else those that"
        " move cache lines)",
    )
    arms: Sequence[str] = ARMS
    go_on: bool = flag("do not end at the first find")
    kept: str | None = option(metavar="NAME|FILE", help="the search of a find (hunts/NAME.yaml), on any kernel")
    replay: str | None = option(metavar="NAME|FILE", help="boot the schedule of a find once, on its kernel")
    dask: str | None = DASK
    jobs: int = JOBS
    config: Path | None = CONFIG
    results: str | None = RESULTS
    json: bool = flag("print JSON")
    epilog = "Exit status: 0 nothing found, 1 found, 125 cannot judge, 128 and above: the lab is broken or misused."
    alone: ClassVar = {
        "replay": ("kept", "dask", "seeds", "minutes", "go_on", *_OF_SEARCH),
        "kept": _OF_SEARCH,
    }

    def __call__(self) -> int:
        if self.replay is not None:
            return self._replay(read_find(find_file(self.replay)))
        seeds = self.seeds or (0 if self.minutes else _DEFAULT_SEEDS)
        limits = Limits(seeds, self.minutes or math.inf, self.first, self.go_on)
        arms, strategy = self.arms, self.strategy
        if self.kept is not None:
            find = read_find(find_file(self.kept))
            chosen, arms, strategy = find.planned, [find.arm], find.strategy
            limits = replace(limits, seeds=self.seeds or find.seeds, first=find.first, kind=find.kind)
        elif self.scenario is not None:
            chosen = scenario_of(self.scenario, None, arms)
        else:
            raise Misuse("hunt needs a scenario, --kept or --replay", remedy="blklab list shows the names")
        root = folder_of(results_root(self.results), chosen, self.kernel)
        # A cluster that does not answer is told before anything boots.
        with elsewhere(self.dask, tell) as cluster:
            grounds = _grounds(chosen, self.kernel, arms, self.functions, root)
            for ground in grounds:
                if ground.clean is not None:
                    print(f"FOUND  {ground.clean}\n       arm {ground.arm.name} fails without any change of CPU")
                    return EXIT_FAIL
            at_once = cluster.lanes.at_once if cluster else self.jobs or host.usable_cores()
            make = cluster.boot if cluster else run_job
            progress = Search(grounds, strategy, root, at_once, _progress, make=make).run(limits)
        words = words_of(kernel=self.kernel, strategy=strategy, first=self.first, at=self.functions)
        command = shlex.join(["blklab", "hunt", *words, *config_words(), ref_of(chosen)])
        stories = [_reported(each, strategy, limits.first, command) for each in progress.finds]
        if self.json:
            finds = [dict(read_find(path / _SCHEDULE).__dict__, folder=str(path)) for path in stories]
            print(json.dumps({"seeds": progress.seeds, "orders": len(progress.orders), "finds": finds}, indent=1))
        else:
            print("\n".join([*([] if stories else ["nothing found"]), *progress_lines(progress, grounds, at_once)]))
            if self.kept is not None and not stories:
                text = odds(find.after, progress.seeds, elsewhere=grounds[0].functions != find.functions)
                print(f"{find.kernel} fails after {plural(find.after, 'seed')}: {text}")
            print(LIMITS)
        return EXIT_FAIL if stories else EXIT_PASS

    def _replay(self, kept: KeptFind) -> int:
        if not kept.changes:
            raise Misuse(f"the find of {kept.scenario} is kept without its schedule", remedy="blklab hunt --kept NAME")
        scenario = scenario_of(kept.scenario, None, [kept.arm])
        root = folder_of(results_root(self.results), scenario, self.kernel)
        (ground,) = _grounds(scenario, self.kernel, [kept.arm], kept.functions, root)
        folder = root / "replay"
        trial = ground.boot(Schedule(kept.on(ground)), folder)
        print(f"FOUND  {trial.fault}" if trial.fault else f"holds: {len(kept.changes)} changes of CPU")
        print(f"       {ground.job.kernel.release}, digest {trial.digest or 'none'}, {folder}")
        return EXIT_FAIL if trial.fault else EXIT_PASS


def _grounds(
    scenario: Scenario, kernel: str, arms: Sequence[str], functions: Sequence[str], root: Path
) -> list[Ground]:
    arms = arms or [*scenario.arms]
    demand_cpus(scenario, arms)
    booted, lab = kernel_of(kernel), lab_of_host()
    return [*grounds_of(lab, booted, scenario, arms, root, at=functions, tell=tell)]


def _progress(progress: Progress) -> None:
    now = progress.seeds - progress.earlier
    rate = f"{now / progress.seconds:.2f} a second" if progress.seconds else ""
    tell(f"{progress.seeds} seeds, {rate}, {len(progress.orders)} distinct orders, {len(progress.finds)} found")


def _reported(find: Find, strategy: str, first: int, command: str) -> Path:
    """Reduces a find, prints its story, and keeps both in its folder."""
    ground, fault, after = find.ground, find.trial.fault, find.seed - first + 1
    if fault is None:
        raise CannotJudge(f"seed {find.seed} did not fail")
    reducer = Reducer(ground, fault, find.trial.folder.parent / f"reduce-{find.seed}", tell)
    repeated = reducer.repeats(find.schedule)
    changes = find.schedule.changes
    try:
        reduced = reducer.reduce(find.schedule, find.trial.folder)
    except CannotJudge as error:
        print(f"FOUND  {fault}\n       seed {find.seed}, repeated {repeated} of {REPEATS} times\n       {error}")
    else:
        changes = reduced.changes
        story = story_of(find, repeated, reduced, strategy, tell)
        text = "\n".join((*story.lines(), ""))
        print(text)
        write_atomic(find.trial.folder / _STORY, text.encode())
        write_atomic(find.trial.folder / "story.html", story.page().encode())
        write_json(find.trial.folder / "story.json", story.plain())
    kept = KeptFind(
        *(ref_of(ground.scenario), ground.arm.name, ground.job.kernel.spec, str(fault), ground.functions),
        tuple((at.cpu, place_of(ground, at.address), at.nth, at.length, at.passes, at.leader) for at in changes),
        *(strategy, first, after, enough(after), f"{command}: {plural(after, 'seed')}"),
    )
    path = find.trial.folder / _SCHEDULE
    write_find(path, kept)
    tell(f"repeat it: blklab hunt --replay {path}; keep it: cp {path} hunts/NAME.yaml")
    return find.trial.folder


COMMANDS: dict[str, type[Command]] = {"hunt": Hunt}

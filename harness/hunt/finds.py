# SPDX-License-Identifier: GPL-2.0-only
"""A find as a file that people read and keep: the search that made it, and the schedule for its kernel."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.base.checkout import HUNTS
from harness.base.files import write_atomic
from harness.hunt.search import STRATEGIES, Limits, Search, demand_cpus, folder_of, grounds_of
from harness.hunt.trial import KINDS, Ground
from harness.limits.entries import load_scenario
from harness.run.bench import Bench
from harness.scenario.model import Hunt, Scenario
from lab.base.errors import CannotJudge, Misuse
from lab.base.units import Tell
from lab.kernels.model import Kernel
from lab.kernels.resolve import demand
from lab.schedule import NOBODY, Change
from lab.yaml import strict
from lab.yaml.fields import Choice, Field, Integer, ListOf, Record, Row, Text

_PLACE = r"[A-Za-z_][\w.]*\+0x[0-9a-f]+"
_FAULT = Text("a kind and what is said, such as hang: task fio", rf"(?s)({'|'.join(KINDS)}): .+")
_CHANGE = Record(
    (
        Field("cpu", Integer(0, 7), "the CPU that stops", required=True),
        Field("at", Text("a place such as rq_qos_wait+0x5c", _PLACE), "behind which block", required=True),
        Field("nth", Integer(1, 2**62), "the how manyth time it begins it", required=True),
        Field("length", Integer(1, 2**62), "for how many ns of virtual time it stands", required=True),
        Field("passes", Integer(1, 2**31), "how often", default=1),
        Field("leader", Integer(0, 7), "the CPU that executes before the others", default=NOBODY),
    )
)
_KEYS = tuple(field.name for field in _CHANGE.fields)
_COUNT = Integer(1, 10**6)
_FILE = Record(
    (
        Field("scenario", Text(), "a name from blklab list, or a path", required=True),
        Field("arm", Text(), "its arm", required=True),
        Field("kernel", Text(), "where it was found", required=True),
        Field("good", ListOf(Text()), "kernels on which as many seeds found nothing", default=()),
        Field("fault", _FAULT, "what goes wrong", required=True),
        Field("searched", Text(), "the command that found it, and after how many seeds", default=""),
        Field("strategy", Choice(STRATEGIES), "that of the search", required=True),
        Field("first", _COUNT, "its first seed", required=True),
        Field("after", _COUNT, "seeds until the find", required=True),
        Field("seeds", _COUNT, "seeds without a find after which a kernel is good", required=True),
        Field(
            "functions", ListOf(Text("a function", r"[A-Za-z_]\w*"), least=1), "where changes were made", required=True
        ),
        Field("changes", ListOf(_CHANGE), "changes of CPU on that kernel", default=()),
    )
)
_TEXTS = ("scenario", "arm", "kernel", "fault", "searched", "strategy")
_COUNTS = ("first", "after", "seeds")
_MISS = 0.01
_ELSEWHERE = ("path:", "tree:")  # folders of the machine that made the find


def odds(after: int, seeds: int, *, elsewhere: bool) -> str:
    """How many searches of ``seeds`` find nothing where one of ``after`` + 1 seeds fails: an estimate, of one find.

    Unknown where a kernel was searched ``elsewhere`` than in the functions of the find.
    """
    if elsewhere:
        return "how many searches miss it is unknown where functions of the find are missing"
    return f"{(after / (after + 1)) ** seeds:.1%} of such searches miss it, an estimate of one find"


def enough(after: int) -> int:
    """The seeds of which 1 % find nothing, by the same estimate."""
    return math.ceil(math.log(_MISS) / math.log(after / (after + 1)))


@dataclass(frozen=True)
class KeptFind:
    """``changes`` have the places as text: CPU, place, how manyth time, length, passes, leader. They hold for
    ``kernel`` alone.

    The search holds for every kernel: ``seeds`` of ``strategy`` from ``first`` on; on ``kernel`` it took ``after``.
    """

    scenario: str
    arm: str
    kernel: str
    fault: str
    functions: tuple[str, ...]
    changes: tuple[tuple[int, str, int, int, int, int], ...]
    strategy: str
    first: int
    after: int
    seeds: int
    searched: str = ""
    good: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """That of its fault, by which a find on another kernel is the same one."""
        return self.fault.partition(":")[0]

    @property
    def planned(self) -> Scenario:
        """Its scenario with the functions of this search, which a kernel that has none of them does without."""
        scenario = load_scenario(self.scenario)
        return replace(scenario, hunt=replace(scenario.hunt or Hunt(), at=self.functions))

    def on(self, ground: Ground) -> tuple[Change, ...]:
        """The changes in this kernel. Raises CannotJudge for a place that it does not have."""
        starts = {symbol.name: symbol.address for symbol in ground.symbols.functions}
        changes = []
        for cpu, place, *numbers in self.changes:
            name, _, offset = place.partition("+")
            if name not in starts:
                raise CannotJudge(f"{ground.job.kernel.release} has no function {name}", remedy=f"use {self.kernel}")
            changes.append(Change(cpu, starts[name] + int(offset, 16), *numbers))
        return tuple(changes)


@dataclass(frozen=True)
class Attempt:
    """A kept search on a kernel: the last of ``seeds`` made ``fault``, which is empty where none did.

    ``others`` are faults of another kind; ``elsewhere``: in other functions than those of the find.
    """

    seeds: int
    fault: str = ""
    others: tuple[str, ...] = ()
    elsewhere: bool = False


def try_find(
    bench: Bench, kernel: Kernel, kept: KeptFind, scenario: Scenario, tell: Tell, *, minutes: float = math.inf
) -> Attempt:
    """``scenario`` is ``kept.planned``, or another layout of it; ``minutes`` end the search, too.

    Raises what ``ready`` and boots raise.
    """
    turns = bench.cluster or bench.turns
    root = folder_of(bench.store.root, scenario, kernel.spec)
    (ground,) = grounds_of(bench.lab, kernel, scenario, [kept.arm], root, tell=tell)
    if (clean := ground.clean) is not None:
        fault = f"{clean}, without any change of CPU"
        return Attempt(1, fault) if clean.kind == kept.kind else Attempt(1, others=(fault,))
    limits = Limits(kept.seeds, minutes, kept.first, kind=kept.kind)
    progress = Search([ground], kept.strategy, root, turns.lanes.at_once, make=turns.boot).run(limits)
    faults = sorted((find.seed, str(find.trial.fault)) for find in progress.finds)
    same = [(seed - kept.first + 1, fault) for seed, fault in faults if fault.startswith(f"{kept.kind}:")]
    others = tuple(fault for _, fault in faults if not fault.startswith(f"{kept.kind}:"))
    return Attempt(*(min(same) if same else (progress.seeds, "")), others, ground.functions != kept.functions)


def write_find(path: Path, kept: KeptFind) -> None:
    changes = ([pair for pair in zip(_KEYS, each, strict=True) if pair[1] != NOBODY] for each in kept.changes)
    rows = [f"  - {{{', '.join(f'{key}: {value}' for key, value in pairs)}}}\n" for pairs in changes]
    text = [
        "# SPDX-License-Identifier: GPL-2.0-only\n",
        *(f"{key}: {_quoted(getattr(kept, key))}\n" for key in _TEXTS if getattr(kept, key)),
        *(f"{key}: {getattr(kept, key)}\n" for key in _COUNTS),
        f"functions: [{', '.join(kept.functions)}]\n",
        "changes:\n" if rows else "changes: []\n",
        *rows,
    ]
    write_atomic(path, "".join(text).encode())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def find_file(ref: str) -> Path:
    """The file of a find: its path, or its name in hunts/. Raises Misuse."""
    path = Path(ref) if ref.endswith(".yaml") else HUNTS / f"{ref}.yaml"
    if path.is_file():
        return path
    known = sorted(each.stem for each in HUNTS.glob("*.yaml"))
    raise Misuse(
        f"there is no find {ref}{strict.nearest(ref, known)}", remedy=f"known: {strict.names(known)}; or a FILE"
    )


def read_find(path: Path) -> KeptFind:
    """Raises InputErrors with all mistakes of the file, Misuse where there is none."""
    problems = strict.Problems()
    node = strict.parse(strict.read_bytes(path, "find"), strict.shown_path(path), problems)
    row = None if isinstance(node, strict.Broken) else _FILE.read(problems, "find", node)
    if row is not None:
        _check(row)
    problems.raise_if_any()
    if row is None:
        raise Misuse(f"{path} cannot be read", remedy="report this as a bug of blklab")
    changes = tuple(tuple(map(each.get, _KEYS)) for each in row.get("changes"))
    given = {key: row.get(key) for key in (*_TEXTS, *_COUNTS)}
    return KeptFind(**given, functions=tuple(row.get("functions")), good=tuple(row.get("good")), changes=changes)


def _check(row: Row) -> None:
    """What the file names exists."""
    for key, kernels in (("kernel", [row.get("kernel", "")]), ("good", row.get("good"))):
        for spec in (spec for spec in kernels if spec and not spec.startswith(_ELSEWHERE)):
            try:
                demand(spec)
            except Misuse as error:
                row.add(key, f"{key}: {error.message}", "as --kernel takes it, such as source:6.12")
    if not (name := row.get("scenario")) or not (arm := row.get("arm")):
        return
    try:
        scenario = load_scenario(name)
        if arm in scenario.arms:
            demand_cpus(scenario, [arm])
            _check_cpus(row.get("changes"), scenario.arms[arm].topology.processors.cpus)
        else:
            known = f"known: {strict.names(scenario.arms)}"
            row.add("arm", f"arm: {name} has no arm {arm}{strict.nearest(arm, scenario.arms)}", known)
    except Misuse as error:
        row.add("scenario", f"scenario: {error.message}", error.remedy)


def _check_cpus(changes: Iterable[Row], cpus: int) -> None:
    for change in changes:
        for key in ("cpu", "leader"):
            if change.get(key, NOBODY) >= cpus:
                change.add(key, f"{key}: its guest has CPUs 0 to {cpus - 1}")
        if change.get("leader") == change.get("cpu"):
            change.add("leader", "leader: it is the CPU that stops", "name another CPU, or none")


def every_find() -> Mapping[str, KeptFind]:
    """The finds in hunts/ by their paths in the checkout: hunts/NAME.yaml."""
    return {f"{HUNTS.name}/{path.name}": read_find(path) for path in sorted(HUNTS.glob("*.yaml"))}


def finds_in(functions: Collection[str]) -> Mapping[str, KeptFind]:
    """The finds in hunts/ that make changes in one of these functions, by name."""
    return {Path(name).stem: kept for name, kept in every_find().items() if not {*functions}.isdisjoint(kept.functions)}

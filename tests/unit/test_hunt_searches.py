# SPDX-License-Identifier: GPL-2.0-only
"""Searches of schedules: which strategy a seed has, finds as files, and kept searches on other kernels."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.base.checkout import HUNTS
from harness.hunt.finds import Attempt, KeptFind, enough, find_file, odds, read_find, try_find, write_find
from harness.hunt.matrix import hunt_matrix, keep_hunts, kept_hunts
from harness.hunt.search import MIXED, Limits, Mix, Search
from harness.hunt.trial import Fault, Ground, Trial
from harness.limits.entries import load_scenario
from harness.run.bench import Lanes, Turns
from harness.scenario.load import ref_of
from lab.base.errors import CannotJudge, InputErrors, Misuse
from lab.schedule import FEW, NOBODY, STALLS, TURNS, Change, Course, Schedule
from lab.symbols import Symbol, Symbols
from tests.unit.test_hunt import PLACES

KEPT = KeptFind(
    *("hunt/planted-list", "null-blk", "debian:6.12", "warning: it's CPU 1", ("f", "g")),
    ((1, "f+0x1f", 3, 500, 1, NOBODY), (0, "g+0x0", 1, 100, 2, 1)),
    *(FEW, 1, 4, 17, "blklab hunt x: 4 seeds"),
)


def test_a_find_is_a_file_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "schedule.yaml"
    write_find(path, KEPT)
    assert read_find(path) == KEPT
    write_find(path, replace(KEPT, kernel="path:/not/here"))
    assert read_find(path).kernel == "path:/not/here"
    rows = (Symbol(0x100, "f"), Symbol(0x200, "g"))
    ground = cast(
        Ground, SimpleNamespace(symbols=Symbols(rows), job=SimpleNamespace(kernel=SimpleNamespace(release="6")))
    )
    assert KEPT.on(ground) == (Change(1, 0x11F, 3, 500, 1), Change(0, 0x200, 1, 100, 2, 1))
    lacking = cast(Ground, SimpleNamespace(symbols=Symbols(rows[:1]), job=ground.job))
    with pytest.raises(CannotJudge, match="6 has no function g"):
        KEPT.on(lacking)


def test_mistakes_of_a_find_are_told_at_once_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "schedule.yaml"
    write_find(path, KEPT)
    text = (
        path.read_text().replace("nth: 3", "nth: 0").replace("g+0x0", "g").replace("strategy: 'few'", "strategy: all")
    )
    text = text.replace("kernel: 'debian:6.12'", "kernel: '6.12'\ngood: ['debian:6.1', 'debain:6.1']")
    path.write_text(text.replace("null-blk", "null-bkl").replace("warning: it", "alarm: it"))
    with pytest.raises(InputErrors) as caught:
        read_find(path)
    assert [(problem.line, problem.message.split(":")[0]) for problem in caught.value.problems] == [
        *((3, "arm"), (4, "kernel"), (5, "good"), (6, "fault"), (8, "strategy"), (14, "nth"), (15, "at")),
    ]
    assert "did you mean null-blk" in caught.value.problems[0].message
    write_find(path, replace(KEPT, changes=((3, "f+0x1f", 3, 500, 1, 3), (0, "g+0x0", 1, 100, 2, 0))))
    path.write_text(f"{path.read_text()}  - 3\n")
    with pytest.raises(InputErrors) as caught:
        read_find(path)
    assert [(problem.line, problem.message.split(",")[0]) for problem in caught.value.problems] == [
        *((13, "cpu: its guest has CPUs 0 to 2"), (13, "leader: it is the CPU that stops")),
        *((13, "leader: its guest has CPUs 0 to 2"), (14, "leader: it is the CPU that stops")),
        (15, "changes: expected a mapping"),
    ]
    path.write_text(text.replace("hunt/planted-list", "hunt/planted-lits"))
    with pytest.raises(InputErrors, match="scenario hunt/planted-lits does not exist"):
        read_find(path)


def test_a_find_has_a_name_or_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.hunt.finds.HUNTS", tmp_path)
    path = tmp_path / "planted-list.yaml"
    write_find(path, KEPT)
    assert find_file(str(path)) == find_file("planted-list") == path
    with pytest.raises(Misuse, match="there is no find planted-lits, did you mean planted-list"):
        find_file("planted-lits")


@pytest.mark.parametrize("path", sorted(HUNTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_finds_load(path: Path) -> None:
    kept = read_find(find_file(path.stem))
    assert kept.planned.arms[kept.arm].topology.processors.several
    assert kept.planned.hunt
    assert kept.planned.hunt.at == kept.functions
    assert kept.seeds >= enough(kept.after)


def test_the_two_planted_races_that_were_found_are_shipped() -> None:
    assert {path.stem for path in HUNTS.glob("*.yaml")} >= {"planted-list", "planted-sleep"}


@pytest.mark.parametrize(("after", "seeds"), [(1, 7), (3, 17), (35, 164), (999, 4603)])
def test_a_kept_search_is_so_long_that_one_in_a_hundred_misses(after: int, seeds: int) -> None:
    """One of after + 1 seeds finds it: 0.75^17 = 0.75 %, 0.75^16 = 1.002 %; after a find of the first seed 0.5^7."""
    assert enough(after) == seeds
    assert (after / (after + 1)) ** seeds <= 0.01 < (after / (after + 1)) ** (seeds - 1)
    assert odds(after, seeds, elsewhere=False).startswith(("0.7%", "0.8%", "1.0%"))


class _Boots:
    """A ground whose seeds fail as ``faults`` says; a schedule names its seed."""

    course, identity = Course(places=PLACES), "0" * 40
    clean: Fault | None = None
    functions: tuple[str, ...] = ("f", "g")
    arm = SimpleNamespace(name="null-blk")

    def __init__(self, faults: dict[int, Fault]) -> None:
        self.faults, self.seeds, self.makers = faults, list[int](), set[object]()

    def boot(self, schedule: Schedule, folder: Path, abort: Any = None, make: object = None) -> Trial:
        folder.mkdir(exist_ok=True)
        self.seeds.append(schedule.seed)
        self.makers.add(make)
        course = Course(pairs=frozenset({(1, 2), (2, 1), (3, schedule.seed)}))
        return Trial(folder, self.faults.get(schedule.seed), course, str(schedule.seed), {})


@pytest.mark.parametrize(
    ("faults", "tried", "last"),
    [
        ({}, Attempt(17), 26),
        ({12: Fault("warning", "a"), 14: Fault("warning", "b")}, Attempt(3, "warning: a"), 12),
        ({11: Fault("hang", "x"), 15: Fault("warning", "a")}, Attempt(6, "warning: a", ("hang: x",)), 15),
        ({11: Fault("hang", "x")}, Attempt(17, others=("hang: x",)), 26),
    ],
    ids=["nothing", "found", "another kind first", "another kind alone"],
)
def test_a_kept_search_ends_at_a_fault_of_its_kind(
    faults: dict[int, Fault], tried: Attempt, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """17 seeds of stalls from 10 on; the boots are made up."""
    boots = _Boots(faults)
    monkeypatch.setattr("harness.hunt.finds.grounds_of", lambda *_, **__: [boots])
    kernel: Any = SimpleNamespace(spec="debian:6.12")
    kept = replace(KEPT, strategy=STALLS, first=10)
    turns = Turns(Lanes(1, 1 << 30), boot=cast(Any, "here"))
    bench: Any = SimpleNamespace(lab=None, store=SimpleNamespace(root=tmp_path), turns=turns, cluster=None)
    assert try_find(bench, kernel, kept, kept.planned, lambda _: None) == tried
    assert boots.seeds == [*range(10, last + 1)]
    boots.functions = ("f",)
    again = try_find(bench, kernel, kept, kept.planned, lambda _: None)
    assert again.elsewhere and boots.makers == {"here"}
    bench.cluster = replace(turns, boot=cast(Any, "on a worker"))
    shutil.rmtree(tmp_path / "hunts")
    try_find(bench, kernel, kept, kept.planned, lambda _: None)
    assert boots.makers == {"here", "on a worker"}
    boots.clean = Fault("warning", "a")
    failed = "warning: a, without any change of CPU"
    assert try_find(bench, kernel, kept, kept.planned, lambda _: None) == Attempt(1, failed)
    boots.clean = Fault("hang", "b")
    other = Attempt(1, others=("hang: b, without any change of CPU",))
    assert try_find(bench, kernel, kept, kept.planned, lambda _: None) == other


def test_a_search_on_a_cluster_makes_its_boots_there(tmp_path: Path) -> None:
    boots: Any = _Boots({})
    elsewhere: Any = object()
    assert Search([boots], STALLS, tmp_path, 2, make=elsewhere).run(Limits(5)).seeds == 5
    assert boots.makers == {elsewhere}


def test_the_changes_of_a_guest_that_hung_are_those_of_its_log(tmp_path: Path) -> None:
    """Its course is written at the end of its loads. One seed that ends makes 4 changes."""

    class Hung(_Boots):
        def boot(self, schedule: Schedule, folder: Path, abort: Any = None, make: object = None) -> Trial:
            folder.mkdir(exist_ok=True)
            if schedule.seed == 1:
                return Trial(folder, None, Course(changes=4), "", {})
            (folder / "schedule.log").write_text("change 0 a0 1 9 1 -1 10\nchange 1 b0 1 9 1 -1 20\n")
            return Trial(folder, Fault("hang", "x"), None, "", {})

    ground: Any = Hung({})
    assert Search([ground], STALLS, tmp_path, 1).run(Limits(2)).changes == 6


def test_a_find_names_its_scenario_so_that_it_loads_again() -> None:
    scenario = load_scenario("hunt/planted-list")
    assert ref_of(scenario) == "hunt/planted-list"
    assert load_scenario(ref_of(scenario)).digest == scenario.digest
    assert ref_of(replace(scenario, path=Path("mine/x.yaml"))) == "mine/x.yaml"


def test_pairs_of_accesses_are_counted_by_their_orders_also_in_a_search_that_goes_on(tmp_path: Path) -> None:
    """Seeds 1 to 3: 1 and 2 in both orders, 3 before 1, 3 before 2, and 3 twice, which is both."""
    boots: Any = _Boots({})
    assert Search([boots], STALLS, tmp_path, 1).run(Limits(2)).either == 3
    searched = Search([boots], STALLS, tmp_path, 1).run(Limits(3))
    assert (searched.earlier, searched.either, searched.both) == (2, 4, 2)


def test_kept_searches_on_kernels_share_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A find on a kernel that its file calls good fails; a kernel that is not there is skipped."""
    boots = _Boots({11: Fault("warning", "a")})
    monkeypatch.setattr("harness.hunt.finds.grounds_of", lambda *_, **__: [boots])
    kept = replace(KEPT, strategy=STALLS, first=10, good=("debian:7.2",))
    monkeypatch.setattr("harness.hunt.matrix.every_find", lambda: {"hunts/a.yaml": kept})
    turns = Turns(Lanes(1, 1 << 30), boot=cast(Any, "here"))
    bench: Any = SimpleNamespace(lab=None, store=SimpleNamespace(root=tmp_path), turns=turns, cluster=None)
    kernels: Any = {spec: SimpleNamespace(spec=spec) for spec in ("debian:6.12", "debian:7.2")}
    kernels["debian:9"] = CannotJudge("no such kernel")
    cells = [*hunt_matrix(bench, kernels, 1.0, (1, 1), lambda _: None)]
    assert [(each.kernel, each.status, each.seeds) for each in cells] == [
        ("debian:6.12", "found", 2),
        ("debian:7.2", "FAIL", 2),
        ("debian:9", "SKIP", 0),
    ]
    keep_hunts(tmp_path, cells)
    assert [*kept_hunts(tmp_path)] == cells
    assert [*kept_hunts(tmp_path / "none")] == []
    parts = [[*hunt_matrix(bench, kernels, 1.0, (part, 2), lambda _: None)] for part in (1, 2)]
    assert [[each.kernel for each in part] for part in parts] == [["debian:6.12", "debian:9"], ["debian:7.2"]]
    boots.faults[11] = Fault("hang", "b")
    shutil.rmtree(tmp_path / "hunts")
    other, *_ = hunt_matrix(bench, {"debian:7.2": kernels["debian:7.2"]}, 1.0, (1, 1), lambda _: None)
    assert (other.status, other.failed, other.says) == ("other", False, "17 of 17 seeds; hang: b")
    boots.functions = ("elsewhere",)
    boots.faults.clear()
    shutil.rmtree(tmp_path / "hunts")
    none, *_ = hunt_matrix(bench, {"debian:7.2": kernels["debian:7.2"]}, 1.0, (1, 1), lambda _: None)
    assert (none.status, none.says) == ("none", "17 of 17 seeds, not in the functions of the find")
    boots.functions = kept.functions
    told: list[str] = []
    (ended,) = hunt_matrix(bench, {"debian:6.12": kernels["debian:6.12"]}, 0.0, (1, 1), told.append)
    assert told == [], "nothing is begun"
    assert (ended.status, ended.says) == ("SKIP", "0 of 17 seeds, ended by the budget")
    assert replace(ended, seeds=3).status == "none"


def test_the_strategy_that_finds_most_gets_half_of_the_seeds() -> None:
    """Turns find 9 pairs, stalls 2, few none: known from the third block of eight on, whichever seeds end first."""
    gains = {FEW: 0, STALLS: 2, TURNS: 9}
    mix = Mix(101)
    kinds = [mix.kind(seed) for seed in range(101, 117)]
    assert kinds == [FEW, STALLS, FEW, STALLS, FEW, STALLS, FEW, TURNS] * 2
    for seed in range(116, 101, -1):
        mix.note(seed, kinds[seed - 101], gains[kinds[seed - 101]])
    assert mix.ready(116) and not mix.ready(117)
    mix.note(101, kinds[0], 0)
    assert mix.ready(132) and not mix.ready(133)
    assert [mix.kind(seed) for seed in range(117, 125)] == [TURNS, STALLS] * 3 + [TURNS, FEW]


def test_a_mixed_search_is_the_same_with_any_number_at_once_and_resumed(tmp_path: Path) -> None:
    searches = []
    for folder, at_once, ends in (("one", 1, [40]), ("four", 4, [40]), ("resumed", 3, [19, 40])):
        (tmp_path / folder).mkdir()
        for end in ends:
            boots: Any = _Boots({})
            Search([boots], MIXED, tmp_path / folder, at_once).run(Limits(end))
        (lines,) = (tmp_path / folder).glob("mixed-1-*/seeds.jsonl")
        rows = [json.loads(line) for line in lines.read_text().splitlines()]
        searches.append(sorted((row["seed"], row["strategy"]) for row in rows))
    assert searches[0] == searches[1] == searches[2]
    assert {kind for _, kind in searches[0][-8:]} == {FEW, STALLS, TURNS}

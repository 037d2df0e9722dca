# SPDX-License-Identifier: GPL-2.0-only
"""Schedules by seed, what is wrong with a boot, the fewest changes, and a schedule as a file."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.base.checkout import HUNTS
from harness.cli import main
from harness.hunt.kept import KeptFind, Tried, enough, find_file, read_find, try_find, write_find
from harness.hunt.reduce import MOST_BOOTS, Reduced, Reducer, fewest
from harness.hunt.search import MIXED, Find, Limits, Search, schedule_of
from harness.hunt.story import Story, stacks, story_of
from harness.hunt.trial import Fault, Ground, Trial, accesses_of, fault_of, job_of
from harness.limits.entries import load_scenario
from harness.run.boots import Lanes, Turns
from harness.scenario.load import ref_of
from lab.base.errors import CannotJudge, InputErrors, LabBroken, Misuse
from lab.base.record import BootRecord, Outcome
from lab.kernels.objects import SourceLine, Wanted
from lab.schedule import FEW, STALLS, TURNS, Change, Course, Made, Schedule, Stay, drawn, read_course, read_log
from lab.symbols import Symbol, Symbols, read_kallsyms
from tests.unit.test_sharing_report import KALLSYMS, WINDOW

PLACES = {(0, 0x100): 1, (0, 0x140): 400, (1, 0x100): 2, (2, 0x200): 30}
CHANGES = tuple(Change(0, 0x100 + number, 1, 1000) for number in range(300))


def test_a_seed_draws_the_same_schedule_again_and_another_seed_another_one() -> None:
    texts = [drawn(FEW, seed, PLACES).text for seed in range(50)]
    assert texts == [drawn(FEW, seed, PLACES).text for seed in range(50)]
    assert len({*texts}) == 50
    for seed, text in enumerate(texts):
        rows = [line.split() for line in text.splitlines()]
        assert 1 <= len(rows) <= 1 + seed % 3
        for _, cpu, address, nth, length, passes in rows:
            assert 1 <= int(nth) <= PLACES[int(cpu), int(address, 16)]
            assert 100 <= int(length) <= 100_000
            assert int(passes) in {1, 2, 8}


def test_half_of_the_changes_are_at_places_whatever_their_count() -> None:
    """By count alone the first place has 1 of 433; by place 1 of 4, so 1/8 of all: 250 of 2,000, sigma 15."""
    changes = [change for seed in range(0, 6000, 3) for change in drawn(FEW, seed, PLACES).changes]
    assert 190 < sum((change.cpu, change.address) == (0, 0x100) for change in changes) < 310


def test_what_the_plugin_reads_of_a_schedule() -> None:
    change = Change(2, 0xFFFFFFFF81000010, 3, 4000, 2)
    assert Schedule((change,), turn=1000).text == "turn 1000\nat 2 ffffffff81000010 3 4000 2\n"
    assert Schedule(strategy=TURNS, seed=7, turn=1000).text == "turns 7\n"
    assert Schedule(strategy=STALLS, seed=3).text == "stalls 3 80 0\n"
    assert Schedule(strategy=STALLS, seed=7).text == "stalls 7 80 1\n"


def test_strategies_take_turns() -> None:
    ground = cast(Ground, SimpleNamespace(course=Course(places=PLACES)))
    kinds = [schedule_of(ground, MIXED, seed).strategy for seed in range(8)]
    assert kinds == ["", "", "", STALLS] * 2


def test_what_a_boot_did_with_a_schedule(tmp_path: Path) -> None:
    course = read_course("hits 9 order ab12 changes 2\nplace 0 ffff8 4\nplace 1 ffff8 5\n")
    assert course == Course(9, "ab12", 2, {(0, 0xFFFF8): 4, (1, 0xFFFF8): 5})
    with pytest.raises(LabBroken, match="schedule cannot be read"):
        read_course("hits 9 order\n")
    assert [*read_log(tmp_path)] == []
    rows = ("change 1 a0 3 500 1 10", "run 0 b0 12", "back 1 a8 90", "change 0 b0 1 100 1 200", "run 1 a0 210")
    (tmp_path / "schedule.log").write_text("\n".join(rows))
    assert [*read_log(tmp_path)] == [
        Made(Change(1, 0xA0, 3, 500, 1), 10, (Stay(0, 0xB0, 12),), Stay(1, 0xA8, 90)),
        Made(Change(0, 0xB0, 1, 100, 1), 200, (Stay(1, 0xA0, 210),), None),
    ]


def test_changes_are_behind_instructions_that_use_what_cpus_share() -> None:
    course = Course(9, "ab12", 0, PLACES)
    assert course.among({0x140, 0x200}).places == {(0, 0x140): 400, (2, 0x200): 30}
    assert course.among({0x999}) == course


@pytest.mark.parametrize("needed", [(17,), (3, 251), (0, 149, 299)], ids=str)
def test_the_fewest_changes_are_those_that_are_needed(needed: tuple[int, ...]) -> None:
    """At most 2 d log2(n) + 2 d + 2 boots (Junker 2004), here 20 d + 2 of 300 changes."""
    wanted, boots = {CHANGES[number] for number in needed}, []

    def fails(changes: Sequence[Change]) -> bool:
        boots.append(len(changes))
        return wanted <= {*changes}

    assert fewest(CHANGES, fails) == sorted(wanted)
    assert len(boots) <= 20 * len(needed) + 2


def test_a_fault_that_needs_no_change_has_none() -> None:
    assert fewest(CHANGES, lambda _: True) == []


def test_a_reduction_ends_where_nothing_can_be_left_out(tmp_path: Path) -> None:
    """All 300 changes are needed. The story shows the last six of what is left, and says that fewer may do."""
    fault = Fault("claim", "a waits")
    (tmp_path / "schedule.log").write_text("".join(f"change 0 {at:x} 1 9 1 {at}\n" for at in range(1, 301)))

    def boot(schedule: Schedule, folder: Path) -> Trial:
        return Trial(folder, fault if len(schedule.changes) >= 300 else None, None, "", {})

    ground: Any = SimpleNamespace(boot=boot)
    reduced = Reducer(ground, fault, tmp_path / "reduce", lambda _: None).reduce(Schedule(), tmp_path)
    assert (len(reduced.changes), reduced.before, reduced.boots) == (300, 300, MOST_BOOTS + 1)
    step = told_story(tmp_path).steps[0]
    lines = [*replace(told_story(tmp_path), steps=(step,) * 8, boots=reduced.boots).lines()]
    assert lines[4:6] == [
        f"8 changes of CPU (2 before reduction, {reduced.boots} boots; fewer may do)",
        "  the first 2 are in story.json",
    ]
    assert lines[6].startswith("  3. CPU 0 in submit_one")


def test_changes_that_prevent_the_fault_do_not_mislead() -> None:
    """Two changes are needed, and a third one between them, unless a fourth is there too, hides the fault."""
    first, last, hides, reveals = (CHANGES[number] for number in (10, 290, 200, 40))

    def fails(changes: Sequence[Change]) -> bool:
        return {first, last} <= {*changes} and (hides not in changes or reveals in changes)

    left = fewest(CHANGES, fails)
    assert fails(left)
    assert not any(fails([each for each in left if each != item]) for item in left)


def _record(outcome: Outcome, **others: Any) -> BootRecord:
    empty: dict[str, Any] = {"detail": "", "warnings": (), "files": {}, "digest": None, "unfit": ()}
    empty |= {"fingerprint": {}, "wall": {}, "virtual": {}}
    return BootRecord(folder=Path("boot"), outcome=outcome, **{**empty, **others})


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (_record(Outcome.HANG, detail="hung_task: blocked tasks"), "hang"),
        (_record(Outcome.OOPS, detail="BUG: unable to handle"), "oops"),
        (_record(Outcome.UNFIT, detail="verify: bad", unfit=("ended", "fio", "84", "verify")), "data"),
        (_record(Outcome.BYE, warnings=("WARNING: CPU: 1",)), "warning"),
        (_record(Outcome.BYE, files={"inventory": b"idle.d0\tinflight=0 inflight=0 wbt.inflight=-1 \n"}), "counter"),
        (_record(Outcome.BYE, files={"inventory": b"idle.d0\tinflight=0 inflight=0 tags.busy=0 \n"}), ""),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_boot(record: BootRecord, kind: str) -> None:
    scenario = load_scenario("hunt/planted-list")
    fault = fault_of(record, scenario, scenario.arms["null-blk"])
    assert (fault.kind if fault else "") == kind


def test_a_scenario_chooses_behind_what_a_cpu_stops() -> None:
    scenarios = [load_scenario(f"hunt/{name}") for name in ("planted-list", "sbitmap-cleared")]
    assert [job_of(each, each.arms["null-blk"]).single for each in scenarios] == [False, True]


def test_a_boot_that_the_host_ended_is_no_find() -> None:
    scenario = load_scenario("hunt/planted-list")
    with pytest.raises(LabBroken, match="lost"):
        fault_of(_record(Outcome.LOST, detail="killed"), scenario, scenario.arms["null-blk"])


def test_faults_are_alike_apart_from_times_and_numbers() -> None:
    one, other = (
        Fault("warning", "[    2.67] WARNING: CPU: 1 PID: 159 at f+0xae/0xc0"),
        Fault("warning", "[ 3.1] WARNING:"),
    )
    assert one.like(Fault("warning", "[    3.11] WARNING: CPU: 2 PID: 7 at f+0xae/0xc0"))
    assert not one.like(other)
    assert not one.like(None)
    assert Fault("hang", "task a blocked").like(Fault("hang", "task b blocked"))


def test_stacks_of_tasks_that_sleep_and_of_faults() -> None:
    log = """[  14.1] task:fio             state:D stack:0     pid:159   tgid:140   ppid:138    flags:0x00000006
[  14.1] Call Trace:
[  14.1]  <TASK>
[  14.1]  __schedule+0x3f7/0xbd0
[  14.1]  io_schedule+0x46/0x70
[  14.1]  ? srso_return_thunk+0x5/0x5f
[  14.1]  blk_mq_get_tag+0x119/0x290
[  14.1] task:kworker/0:1     state:I stack:0     pid:9     tgid:9     ppid:2      flags:0x00004000
[  14.1]  worker_thread+0x1/0x2
[  15.0] RIP: 0010:null_take_cell+0xae/0xc0 [null_blk]
[  15.0]  null_queue_rq+0x5d/0x120 [null_blk]
"""
    assert stacks(log.splitlines()) == {
        "fio (D)": ("io_schedule", "blk_mq_get_tag"),
        "fault at null_take_cell+0xae": ("null_queue_rq",),
    }


MADE = """\
change 0 ffffffff81000000 1 500 1 10
run 1 ffffffff81000100 20
run 1 ffffffff81000108 22
run 1 ffffffff81000200 25
run 1 56071e622a7a 26
back 0 ffffffff81000018 40
"""
"""By the symbols and lines of test_sharing_report.py; ``reader`` is not among the functions of the hunt."""


def told_story(tmp_path: Path, made: str = MADE) -> Story:
    (tmp_path / "schedule.log").write_text(made)
    (tmp_path / "console.txt").write_text("")
    scenario: Any = SimpleNamespace(name="pair", loads=("two",))
    record = _record(Outcome.BYE, files={"two.lines": WINDOW.encode()})
    names = read_kallsyms(KALLSYMS)
    places = {(0, 0xFFFFFFFF81000000): 3, (0, 0xFFFFFFFF81000018): 3, (1, 0xFFFFFFFF81000100): 2}
    places[1, 0xFFFFFFFF81000108] = 2
    version = SimpleNamespace(series="6.1")
    job: Any = SimpleNamespace(kernel=SimpleNamespace(release="6.1.0", spec="debian:6.1", version=version))
    lab: Any = SimpleNamespace(cache=None)
    arm: Any = SimpleNamespace(name="a")
    accesses = tuple(accesses_of(record, scenario, names))
    ground = Ground(lab, scenario, arm, job, names, ("submit_one",), Course(places=places), accesses=accesses)
    trial = Trial(tmp_path, Fault("hang", "task a"), None, "", {})
    return story_of(Find(3, ground, Schedule(), trial), 3, Reduced((), 2, 5, trial), FEW, lambda _: None)


def test_another_kernel_with_the_same_places_is_another_hunt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its seeds are in a folder by the first digits; a tree that is changed and built again keeps its spec."""
    same = SimpleNamespace(fingerprint={"schedule": "5" * 64})
    monkeypatch.setattr(Ground, "_scheduled", lambda *_: same)
    jobs: list[Any] = [SimpleNamespace(fingerprint={"kernel": digest, "turns": "1000"}) for digest in ("a", "b")]
    nothing: Any = None
    first, second = (Ground(nothing, nothing, nothing, job, nothing, ()).identity[:12] for job in jobs)
    assert first != second


def test_a_place_says_which_shared_lines_its_block_uses(tmp_path: Path) -> None:
    """Packaged: lines of symbols by these, of the heap by the functions that move them; no source. Block 0x0 ends where
    0x18 begins, and complete_one uses the counter in its second block; ``reader`` is no place."""
    lines = [line.strip() for line in told_story(tmp_path).lines()]
    assert lines[5:10] == [
        "1. CPU 0 in submit_one+0x0 [writes counter], time 1, stops behind this block",
        "-> CPU 1 in complete_one.isra.0+0x0 [writes counter]",
        "-> CPU 1 in reader+0x0",
        "-> CPU 1 in user space",
        "-> CPU 0 in submit_one+0x18 [writes heap of reader, submit_one; writes per-CPU runqueues of CPU 0] goes on, "
        "after 30 instructions",
    ]


def test_the_page_has_a_column_for_each_cpu_and_a_row_for_each_place(tmp_path: Path) -> None:
    """CPU 0 stands in its first column while CPU 1 executes; what the guest wrote stays text."""
    story = replace(told_story(tmp_path), fault="hang: <b>task</b>")
    text = story.page()
    assert "<script" not in text
    assert "hang: &lt;b&gt;task&lt;/b&gt;" in text
    rows = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
    assert [re.findall(r"<td class=\"(?:wide )?(\w+)\"", row) for row in rows[1:]] == [
        *(["miss"], ["skip", "done"], ["skip", "done"], ["skip", "done"], ["miss"]),
    ]
    assert re.findall(r'scope="col">(.*?)<', rows[0]) == ["change", "CPU 0", "CPU 1"]
    assert [re.findall("<code>(.*?)</code>", row) for row in rows[1:]] == [
        *(["submit_one+0x0"], ["complete_one.isra.0+0x0"], ["reader+0x0"], ["user space"], ["submit_one+0x18"]),
    ]
    assert "[writes counter]" in rows[1]
    assert "after 30 instructions" in rows[5]


def test_where_a_block_uses_no_shared_line_its_function_does(tmp_path: Path) -> None:
    """The CPU stops behind the first block of complete_one, whose second block writes the counter."""
    made = MADE.replace("change 0 ffffffff81000000", "change 1 ffffffff81000100").replace("back 0", "back 1")
    step = told_story(tmp_path, made).steps[0]
    assert str(step.at) == "CPU 1 in complete_one.isra.0+0x0 [its function writes counter]"


def test_built_kernels_have_lines_of_source_and_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The debug information is made up: a line of source for each instruction, a field for the one at +0x20."""
    monkeypatch.setattr("harness.hunt.story.source_of", lambda *_: None)

    def lines_of(kernel: Any, source: Any, wanted: Sequence[Wanted], cache: Any, **how: Any) -> list[Any]:
        assert how["fields"]
        return [
            {at: SourceLine("block/a.c", at, each.function, "", "queue.head" * (at == 0x20)) for at in each.offsets}
            for each in wanted
        ]

    monkeypatch.setattr("harness.hunt.story.source_lines", lines_of)
    story = told_story(tmp_path)
    assert str(story.steps[0].at) == "CPU 0 in submit_one+0x0 (block/a.c:0) [writes counter]"
    assert str(story.steps[0].back) == (
        "CPU 0 in submit_one+0x18 (block/a.c:24) [writes queue.head; writes per-CPU runqueues of CPU 0]"
    )


KEPT = KeptFind(
    *("hunt/planted-list", "null-blk", "debian:6.12", "warning: it's CPU 1", ("f", "g")),
    ((1, "f+0x1f", 3, 500, 1), (0, "g+0x0", 1, 100, 2)),
    *(FEW, 1, 4, enough(4), "blklab hunt x: 4 seeds"),
)


def test_a_find_is_a_file_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "schedule.yaml"
    write_find(path, KEPT)
    assert read_find(path) == KEPT
    write_find(path, replace(KEPT, kernel="path:/not/here"))
    assert read_find(path).kernel == "path:/not/here"
    rows = (Symbol(0x100, "f"), Symbol(0x200, "g"))
    ground = cast(
        Ground, SimpleNamespace(symbols=Symbols(rows, rows), job=SimpleNamespace(kernel=SimpleNamespace(release="6")))
    )
    assert KEPT.on(ground) == (Change(1, 0x11F, 3, 500, 1), Change(0, 0x200, 1, 100, 2))
    lacking = cast(Ground, SimpleNamespace(symbols=Symbols(rows[:1], rows[:1]), job=ground.job))
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
    path.write_text(text.replace("hunt/planted-list", "hunt/planted-lits"))
    with pytest.raises(InputErrors, match="scenario hunt/planted-lits does not exist"):
        read_find(path)


def test_a_find_has_a_name_or_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.hunt.kept.HUNTS", tmp_path)
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


@pytest.mark.parametrize(("after", "seeds"), [(1, 1), (4, 17), (36, 164), (1000, 4603)])
def test_a_kept_search_is_so_long_that_one_in_a_hundred_misses(after: int, seeds: int) -> None:
    """(1 - 1/after)^seeds <= 1 % and one seed fewer is more: 0.75^17 = 0.75 %, 0.75^16 = 1.002 %."""
    assert enough(after) == seeds
    assert (1 - 1 / after) ** seeds <= 0.01 < (1 - 1 / after) ** (seeds - 1) or after == 1


class _Boots:
    """A ground whose seeds fail as ``faults`` says; a schedule names its seed."""

    course, identity, clean = Course(places=PLACES), "0" * 40, None
    functions: tuple[str, ...] = ("f", "g")
    arm = SimpleNamespace(name="null-blk")

    def __init__(self, faults: dict[int, Fault]) -> None:
        self.faults, self.seeds, self.makers = faults, list[int](), set[object]()

    def boot(self, schedule: Schedule, folder: Path, abort: Any = None, make: object = None) -> Trial:
        folder.mkdir(exist_ok=True)
        self.seeds.append(schedule.seed)
        self.makers.add(make)
        return Trial(folder, self.faults.get(schedule.seed), None, str(schedule.seed), {})


@pytest.mark.parametrize(
    ("faults", "tried", "last"),
    [
        ({}, Tried(17), 26),
        ({12: Fault("warning", "a"), 14: Fault("warning", "b")}, Tried(3, "warning: a"), 12),
        ({11: Fault("hang", "x"), 15: Fault("warning", "a")}, Tried(6, "warning: a", ("hang: x",)), 15),
        ({11: Fault("hang", "x")}, Tried(17, others=("hang: x",)), 26),
    ],
    ids=["nothing", "found", "another kind first", "another kind alone"],
)
def test_a_kept_search_ends_at_a_fault_of_its_kind(
    faults: dict[int, Fault], tried: Tried, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """17 seeds of stalls from 10 on; the boots are made up."""
    boots = _Boots(faults)
    monkeypatch.setattr("harness.hunt.kept.grounds_of", lambda *_, **__: [boots])
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


def test_a_search_on_a_cluster_makes_its_boots_there(tmp_path: Path) -> None:
    boots: Any = _Boots({})
    elsewhere: Any = object()
    assert Search([boots], STALLS, tmp_path, 2, make=elsewhere).run(Limits(5)).seeds == 5
    assert boots.makers == {elsewhere}


def test_words_of_hunt_that_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["--kept", "planted-sleep", "--first", "3"],
        ["x", "--kept", "planted-sleep"],
        ["--replay", "a", "x"],
    ):
        assert main(["hunt", *words]) == 129
        assert "does not go with" in capsys.readouterr().err


def test_a_find_without_a_schedule_is_searched_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert not read_find(HUNTS / "qos-sleepers.yaml").changes
    assert main(["hunt", "--replay", "qos-sleepers"]) == 129
    assert "blklab hunt --kept" in capsys.readouterr().err


def test_a_find_names_its_scenario_so_that_it_loads_again() -> None:
    scenario = load_scenario("hunt/planted-list")
    assert ref_of(scenario) == "hunt/planted-list"
    assert load_scenario(ref_of(scenario)).digest == scenario.digest
    assert ref_of(replace(scenario, path=Path("mine/x.yaml"))) == "mine/x.yaml"

# SPDX-License-Identifier: GPL-2.0-only
"""Schedules by seed, what is wrong with a boot, what it uses, the fewest changes, and the story of a find."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.hunt.reduce import MOST_BOOTS, Reducer, Reduction, fewest
from harness.hunt.search import Find
from harness.hunt.story import Story, stacks, story_of, uses_of
from harness.hunt.trial import Access, Fault, Ground, Trial, accesses_of, fault_of, job_of
from harness.limits.entries import load_scenario
from lab.base.errors import LabBroken
from lab.base.record import BootRecord, Outcome
from lab.kernels.objects import SourceLine, Wanted
from lab.schedule import (
    FEW,
    STALLS,
    TURNS,
    Change,
    Course,
    LoggedChange,
    Position,
    Schedule,
    drawn,
    read_course,
    read_log,
)
from lab.symbols import read_kallsyms
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
        for _, cpu, address, nth, length, passes, leader in rows:
            assert int(leader) in {0, 1, 2} - {int(cpu)}
            assert 1 <= int(nth) <= PLACES[int(cpu), int(address, 16)]
            assert 100 <= int(length) <= 100_000
            assert int(passes) in {1, 2, 8}


def test_half_of_the_changes_are_at_places_whatever_their_count() -> None:
    """By count alone the first place has 1 of 433; by place 1 of 4, so 1/8 of all: 250 of 2,000, sigma 15."""
    changes = [change for seed in range(0, 6000, 3) for change in drawn(FEW, seed, PLACES).changes]
    assert 190 < sum((change.cpu, change.address) == (0, 0x100) for change in changes) < 310


def test_what_the_plugin_reads_of_a_schedule() -> None:
    change = Change(2, 0xFFFFFFFF81000010, 3, 4000, 2)
    assert Schedule((change,), turn=1000).text == "turn 1000\nat 2 ffffffff81000010 3 4000 2 -1\n"
    assert Schedule(strategy=TURNS, seed=7, turn=1000).text == "turns 7\n"
    assert Schedule(strategy=STALLS, seed=3).text == "stalls 3 80 0\n"
    assert Schedule(strategy=STALLS, seed=7).text == "stalls 7 80 1\n"


def test_what_a_boot_did_with_a_schedule(tmp_path: Path) -> None:
    course = read_course("hits 9 order ab12 changes 2\nplace 0 ffff8 4\nplace 1 ffff8 5\npair ffff8 a0\n")
    assert course == Course(9, "ab12", 2, {(0, 0xFFFF8): 4, (1, 0xFFFF8): 5}, frozenset({(0xFFFF8, 0xA0)}))
    with pytest.raises(LabBroken, match="schedule cannot be read"):
        read_course("hits 9 order\n")
    assert [*read_log(tmp_path)] == []
    rows = ["change 1 a0 3 500 3 -1 10", "run 0 b0 12", "stop 1 a4 13 2", "stop 0 a4 13 7", "value 1 a5 r 1"]
    rows += ["stop 1 a6 14 0", "back 1 a8 90", "change 0 b0 1 100 1 2 200", "run 1 a0 210"]
    (tmp_path / "schedule.log").write_text("\n".join(rows))
    assert [*read_log(tmp_path)] == [
        LoggedChange(
            *(Change(1, 0xA0, 3, 500, 3), 10, (Position(0, 0xB0, 12),), Position(1, 0xA8, 90)),
            stops=(Change(1, 0xA4, 2, 500),),
        ),
        LoggedChange(Change(0, 0xB0, 1, 100, 1, 2), 200, (Position(1, 0xA0, 210),), None),
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
    """All 300 changes are needed, the last two are behind the fault. The story shows the last six of what is left, and
    says that fewer may do."""
    fault = Fault("claim", "a waits")
    (tmp_path / "schedule.log").write_text("".join(f"change 0 {at:x} 1 9 1 -1 {at}\n" for at in range(1, 301)))
    (tmp_path / "reduce").mkdir()
    (tmp_path / "reduce/schedule.log").write_text("".join(f"change 0 {at:x} 1 9 1 -1 {at}\n" for at in range(1, 299)))

    def boot(schedule: Schedule, folder: Path) -> Trial:
        return Trial(folder, fault if len(schedule.changes) >= 300 else None, None, "", {})

    ground: Any = SimpleNamespace(boot=boot)
    reduced = Reducer(ground, fault, tmp_path / "reduce", lambda _: None).reduce(Schedule(), tmp_path)
    assert (len(reduced.changes), reduced.before, reduced.boots) == (298, 300, MOST_BOOTS + 1)
    step = told_story(tmp_path).steps[0]
    lines = [*replace(told_story(tmp_path), steps=(step,) * 8, boots=reduced.boots).lines()]
    assert lines[4:6] == [
        f"8 changes of CPU (2 before reduction, {reduced.boots} boots; fewer may do)",
        "  the first 2 are in story.json",
    ]
    assert lines[6].startswith("  3. CPU 0 in submit_one")


@pytest.mark.parametrize(("earlier", "later"), [(1, 0), (300, 2)])
def test_changes_that_only_move_a_late_one_are_left_out(tmp_path: Path, earlier: int, later: int) -> None:
    """With those before it the CPUs meet at the 400th time of its place, without them at the 403rd, and only while the
    CPU stands for 20 us."""
    decides = Change(1, 0x140, 400, 9000, 2)
    changes = (*CHANGES[:earlier], decides, *CHANGES[earlier : earlier + later])
    again = replace(decides, nth=403, length=20_000)
    wanted = {changes, (again,), (replace(again, passes=1),)}
    fault = Fault("oops", "BUG")

    def boot(schedule: Schedule, folder: Path) -> Trial:
        folder.mkdir(exist_ok=True)
        (folder / "schedule.log").write_text("".join(f"change {str(each)[3:]} 10\n" for each in schedule.changes))
        return Trial(folder, fault if schedule.changes in wanted else None, None, "", {})

    ground: Any = SimpleNamespace(boot=boot)
    boot(Schedule(changes), tmp_path)
    reduced = Reducer(ground, fault, tmp_path / "reduce", lambda _: None).reduce(Schedule(), tmp_path)
    assert (reduced.changes, reduced.before) == ((Change(1, 0x140, 403, 20_000),), len(changes))


def test_of_several_blocks_behind_which_a_cpu_stops_the_one_that_decides_is_left(tmp_path: Path) -> None:
    """It stops behind 0x140, 0x150 and 0x160, the last of which is no place; what decides is the stop behind 0x150."""
    change, decides, fault = Change(1, 0x140, 400, 30_000, 3), Change(1, 0x150, 7, 30_000), Fault("oops", "BUG")
    log = "change 1 140 400 30000 3 -1 10\nstop 1 150 12 7\nstop 1 160 13 0\nback 1 170 14\n"

    def boot(schedule: Schedule, folder: Path) -> Trial:
        (tried,) = schedule.changes or (None,)
        folder.mkdir(exist_ok=True)
        (folder / "schedule.log").write_text(log if tried == change else f"change {str(tried)[3:]} 10\n")
        return Trial(folder, fault if tried in (change, decides) else None, None, "", {})

    ground: Any = SimpleNamespace(boot=boot)
    boot(Schedule((change,)), tmp_path)
    reduced = Reducer(ground, fault, tmp_path / "reduce", lambda _: None).reduce(Schedule(), tmp_path)
    assert reduced.changes == (decides,)
    step = replace(told_story(tmp_path, MADE.replace("1 500 1 1 10", "1 500 3 1 10")).steps[0])
    assert step.stop == "time 1, stops behind this block and the next 2, CPU 1 executes first"


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


def test_lines_are_not_counted_in_a_hunt() -> None:
    """All claims of null-lines on one arm alone are on lines; of a boot without any file nothing is wrong then."""
    scenario = load_scenario("null-lines")
    assert fault_of(_record(Outcome.BYE), scenario, scenario.arms["one-queue"]) is None
    planted = load_scenario("hunt/qos-sleepers")
    fault = fault_of(_record(Outcome.BYE), planted, planted.arms["null-blk"])
    assert fault is not None and fault.kind == "data"


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
change 0 ffffffff81000000 1 500 1 1 10
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
    return story_of(Find(3, ground, Schedule(), trial, FEW), 3, Reduction((), 2, 5, trial), FEW, lambda _: None)


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
        "1. CPU 0 in submit_one+0x0 [writes counter], time 1, stops behind this block, CPU 1 executes first",
        "-> CPU 1 in complete_one.isra.0+0x0 [writes counter]",
        "-> CPU 1 in reader+0x0",
        "-> CPU 1 in user space",
        "-> CPU 0 in submit_one+0x18 [writes heap of reader, submit_one; writes per-CPU runqueues of CPU 0] goes on, "
        "after 30 instructions",
    ]


def test_values_are_those_of_the_block_whose_line_is_before_them(tmp_path: Path) -> None:
    """The last one of a line. Of an instruction that uses two lines none is told: which of both it was is unknown."""
    record = _record(Outcome.BYE, files={"two.lines": WINDOW.encode()})
    scenario: Any = SimpleNamespace(loads=("two",))
    accesses = [each for each in accesses_of(record, scenario, read_kallsyms(KALLSYMS)) if each.line == "counter"]
    rows = MADE.splitlines()
    for place, cpu in ((1, 0), (4, 1)):
        at = next(each.address for each in accesses if each.address - (0xFFFFFFFF81000000 + 0x100 * cpu) in range(0x80))
        rows.insert(place, f"value {cpu} {at:x} r 2")
        rows.insert(place + 1, f"value {cpu} {at:x} w {3 + cpu:x}")
    lines = [line.strip() for line in told_story(tmp_path, "\n".join(rows)).lines()]
    assert lines[5].startswith("1. CPU 0 in submit_one+0x0 [writes counter (0x3)], time 1, stops behind this block, ")
    assert lines[6] == "-> CPU 1 in complete_one.isra.0+0x0 [writes counter (0x4)]"
    both = (Access(4, "a", 0, 1, 1), Access(4, "b", 0, 1, 0), Access(8, "c", 0, 1, 5))
    assert [*uses_of(both, {}, {4: 1, 8: 2})] == ["writes c (0x2)", "writes a"]


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


def test_the_plugin_gets_what_instructions_do_to_lines() -> None:
    lines = Schedule(uses=((0x10, 0, False), (0x10, 1, True))).text.splitlines()
    assert lines == ["uses 10 0 r", "uses 10 1 w"]
    accesses = (Access(0x204, "other", 0, 5, 0), Access(0x4, "counter", 3, 0, 0), Access(0x204, "counter", 5, 0, 0))
    nothing: Any = None
    ground = Ground(nothing, nothing, nothing, nothing, nothing, ("f0",), accesses=2 * accesses)
    assert ground._numbered == ((0x4, 0, False), (0x204, 0, False), (0x204, 1, True))

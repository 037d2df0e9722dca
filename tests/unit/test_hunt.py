# SPDX-License-Identifier: GPL-2.0-only
"""Schedules by seed, what is wrong with a boot, the fewest changes, and a schedule as a file."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.hunt.kept import KeptSchedule, read_schedule, write_schedule
from harness.hunt.reduce import fewest
from harness.hunt.search import MIXED, schedule_of
from harness.hunt.story import stacks
from harness.hunt.trial import Fault, Ground, fault_of
from harness.limits.entries import load_scenario
from harness.scenario.load import ref_of
from lab.base.errors import CannotJudge, InputErrors, LabBroken, Misuse
from lab.base.record import BootRecord, Outcome
from lab.schedule import FEW, STALLS, TURNS, Change, Course, Made, Schedule, Stay, drawn, read_course, read_log
from lab.symbols import Symbol, Symbols

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
    assert Schedule(strategy=STALLS, seed=7).text == "stalls 7 80\n"


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
        (_record(Outcome.BYE, files={"inventory": b"idle.d0\t0        1\n"}), "counter"),
        (_record(Outcome.BYE, files={"inventory": b"idle.d0\t0        0\n"}), ""),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_boot(record: BootRecord, kind: str) -> None:
    scenario = load_scenario("hunt/planted-list")
    fault = fault_of(record, scenario, scenario.arms["null-blk"])
    assert (fault.kind if fault else "") == kind


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


KEPT = KeptSchedule(
    *("hunt/planted-list", "null-blk", "debian:6.12", "warning: it's CPU 1", ("f", "g")),
    ((1, "f+0x1f", 3, 500, 1), (0, "g+0x0", 1, 100, 2)),
    "blklab hunt x: 4 seeds",
)


def test_a_schedule_is_a_file_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "schedule.yaml"
    write_schedule(path, KEPT)
    assert read_schedule(path) == KEPT
    rows = (Symbol(0x100, "f"), Symbol(0x200, "g"))
    ground = cast(
        Ground, SimpleNamespace(symbols=Symbols(rows, rows), job=SimpleNamespace(kernel=SimpleNamespace(release="6")))
    )
    assert KEPT.on(ground) == (Change(1, 0x11F, 3, 500, 1), Change(0, 0x200, 1, 100, 2))
    lacking = cast(Ground, SimpleNamespace(symbols=Symbols(rows[:1], rows[:1]), job=ground.job))
    with pytest.raises(CannotJudge, match="6 has no function g"):
        KEPT.on(lacking)


def test_mistakes_of_a_schedule_file_are_told_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "schedule.yaml"
    write_schedule(path, KEPT)
    path.write_text(path.read_text().replace("nth: 3", "nth: 0").replace("g+0x0", "g"))
    with pytest.raises(InputErrors) as caught:
        read_schedule(path)
    assert [problem.message.split(":")[0] for problem in caught.value.problems] == ["nth", "at"]
    with pytest.raises(Misuse, match="there is no schedule"):
        read_schedule(tmp_path / "other.yaml")


def test_a_find_names_its_scenario_so_that_it_loads_again() -> None:
    scenario = load_scenario("hunt/planted-list")
    assert load_scenario(ref_of(scenario)).digest == scenario.digest

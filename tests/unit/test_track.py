# SPDX-License-Identifier: GPL-2.0-only
"""``blklab track``: one night at a time, on made-up kernels."""

import argparse
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.base.files import write_json
from harness.cli import main
from harness.commands import track as command
from harness.commands.track import budget, exit_code
from harness.grid.lines import Kind, Trend
from harness.hunt.finds import KeptFind
from harness.track.night import Tracker
from harness.track.runs import due
from harness.track.site import commands
from harness.track.state import Alarm, Base, Folder, Night
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_LAB_BROKEN, EXIT_MISUSE, EXIT_PASS, LabBroken, Misuse
from tests.unit.track_samples import SCENARIOS, Effect, History, MadeUpTracker, made_up, patched_lab, reach

FINDS = {
    "hunts/lost.yaml": KeptFind("hunt/planted-list", "null-blk", "k", "warning: x", ("queue_rq",), (), "few", 1, 3, 20)
}
EFFECTS = {"starves": Effect(together=0.5), "slower": Effect(together=0.98), "jumps": Effect(together=1.02)}


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "linux")


@pytest.fixture
def tracked(tmp_path: Path, history: History, monkeypatch: pytest.MonkeyPatch) -> MadeUpTracker:
    made = made_up(tmp_path, history, EFFECTS)
    patched_lab(monkeypatch, made)
    made.tracker().night(history.git("rev-parse", "HEAD"))
    return made


def harmless(history: History, name: str, folder: str = "block/alpha") -> str:
    return history.commit(f"harmless {name}", {f"{folder}/{name}.c": f"layout {name}"})


def alarms_of(tracked: MadeUpTracker, head: str) -> tuple[Tracker, Night, tuple[Alarm, ...]]:
    tracker = tracked.tracker()
    night = tracker.night(head)
    return tracker, night, tracker.runs.folder.track.of_night(night)


def test_a_regression_is_named_with_its_parent_and_all_checks(tracked: MadeUpTracker, history: History) -> None:
    parent = [harmless(history, name) for name in "abc"][-1]
    culprit = history.commit("block: starve", {"block/alpha/starve.c": "effect starves"})
    tracker, night, (alarm,) = alarms_of(tracked, harmless(history, "d"))
    assert (alarm.culprit, alarm.parent, alarm.trend) == (culprit, parent, Trend.WORSE)
    assert alarm.verified and alarm.moves[0].kind is Kind.CLAIM and alarm.functions == ("alpha_fn",)
    assert alarm.checks == {"parent": "good", "culprit": "bad", "another layout": "the same", "revert": "good"}
    assert exit_code(tracker.runs.folder.track, night) == EXIT_FAIL
    # Next night nothing is new: the alarm stays open, and there is no second one.
    tracker, night, alarms = alarms_of(tracked, harmless(history, "e"))
    assert alarms == () and [open_.culprit for open_ in tracker.runs.folder.track.open] == [culprit]
    assert exit_code(tracker.runs.folder.track, night) == EXIT_PASS


def test_one_per_cent_more_in_one_function_is_an_alarm_with_its_name(tracked: MadeUpTracker, history: History) -> None:
    """1,000 instructions become 1,010: 1.0 % +- 0.1 % by layout, above 0.7 %. No other figure shows them."""
    tracked.bench.effects = {**EFFECTS, "one more": Effect(function=1.01), "less": Effect(function=1.003)}
    parent = harmless(history, "a")
    culprit = history.commit("one more", {"block/alpha/more.c": "effect one more"})
    _, _, (alarm,) = alarms_of(tracked, harmless(history, "b", "block/beta"))
    assert (alarm.culprit, alarm.parent, alarm.trend, alarm.verified) == (culprit, parent, Trend.WORSE, True)
    (move,) = alarm.moves
    assert move.name == "none.solo.guest.function.alpha_fn" and move.share == pytest.approx(0.01, abs=0.001)
    # A scenario that executes nothing of what changed is not profiled: a boot for each would cost as much as measuring.
    assert {name for _, name in tracked.bench.profiled} == {"alpha", "beta", "alpha.word", "alpha.word.word"}
    history.commit("less", {"block/alpha/less.c": "effect less"})
    assert alarms_of(tracked, harmless(history, "c"))[2] == (), "0.3 % is what layout moves"


def test_builds_are_counted_by_what_the_kernel_says_of_itself(tracked: MadeUpTracker, history: History) -> None:
    head = harmless(history, "a")
    assert alarms_of(tracked, head)[1].builds == 1
    history.commit("comment", {"block/alpha/a.c": "layout a", "block/alpha/b.c": "words"})
    assert alarms_of(tracked, history.git("rev-parse", "HEAD"))[1].builds == 0, "the same kernel is in the cache"


def test_a_kept_search_of_what_a_night_touches_is_made_and_what_it_finds_is_bisected(
    tracked: MadeUpTracker, history: History
) -> None:
    tracked.finds = FINDS
    harmless(history, "a")
    assert alarms_of(tracked, harmless(history, "b"))[2] == () and "planted-list" not in str(tracked.bench.made)
    parent = harmless(history, "c")
    culprit = history.commit("block: no lock", {"block/gamma/queue_rq.c": "race"})
    _, _, (alarm,) = alarms_of(tracked, harmless(history, "d"))
    assert (alarm.culprit, alarm.parent, alarm.trend, alarm.verified) == (culprit, parent, Trend.WORSE, True)
    (move,) = alarm.moves
    assert (move.kind, move.before, move.after) == (Kind.HUNT, "nothing in 20 seeds", "warning: list corruption")
    assert alarm.checks == {"parent": "good", "culprit": "bad", "another layout": "the same", "revert": "good"}
    assert list(commands(alarm, "linux"))[1] == f"blklab hunt --kept lost --kernel tree:linux@{culprit[:12]}"
    # What does not touch it is not searched, and its end is found to be better.
    made = dict(tracked.bench.made)
    assert alarms_of(tracked, harmless(history, "e"))[2] == ()
    assert {key for key in tracked.bench.made if "planted-list" in key[1]} <= made.keys()
    mended = history.commit("block: a lock", {"block/gamma/queue_rq.c": "nothing"})
    tracker, _, (alarm,) = alarms_of(tracked, mended)
    assert (alarm.culprit, alarm.trend, alarm.moves[0].after) == (mended, Trend.BETTER, "nothing in 20 seeds")
    assert not tracker.runs.folder.track.open


def test_a_search_that_the_budget_leaves_out_is_made_in_the_next_night(
    tracked: MadeUpTracker, history: History
) -> None:
    tracked.finds = FINDS
    before = history.commit("one", {"block/gamma/queue_rq.c": "nothing"})
    assert alarms_of(tracked, before)[2] == ()
    culprit = history.commit("two", {"block/gamma/queue_rq.c": "race"})
    night = tracked.tracker(budget=-1).night(culprit)
    assert night.notes == ("hunts/lost.yaml is left out by the budget",)
    (alarm,) = alarms_of(tracked, harmless(history, "a"))[2]
    assert alarm.culprit == culprit


def test_a_killed_night_counts_what_it_had_built_and_booted(tracked: MadeUpTracker, history: History) -> None:
    history.commit("slow", {"block/beta/slow.c": "effect starves"})
    head = harmless(history, "a")
    first, built = sum(tracked.bench.made.values()), len(tracked.bench.built_commits)
    for runs in (2, 3):
        tracked.bench.dies = runs
        with pytest.raises(KeyboardInterrupt):
            tracked.tracker().night(head)
        tracked.bench.dies = -1
    _, night, _ = alarms_of(tracked, head)
    # A run has two arms under two seeds.
    runs = sum(tracked.bench.made.values()) - first
    assert (night.boots, night.builds) == (4 * runs, len(tracked.bench.built_commits) - built)


def test_the_state_keeps_what_later_nights_need(tracked: MadeUpTracker, history: History) -> None:
    """Of a night of ten commits only the head, the culprit and its parent: a search measured others between them."""
    first = history.git("rev-parse", "HEAD")
    for name in "abcd":
        parent = harmless(history, name)
    culprit = history.commit("block: starve", {"block/alpha/starve.c": "effect starves"})
    for name in "efghi":
        head = harmless(history, name)
    tracker, _, (alarm,) = alarms_of(tracked, head)
    assert len({commit for commit, _ in tracked.bench.made}) > 4
    assert tracker.runs.folder.track.records.keys() == {first, parent, culprit, head}
    many = tuple(replace(tracker.runs.folder.track.nights[0], number=number) for number in range(1, 1001))
    old = replace(alarm, number=9, night=2, closed="undone by another")
    track = replace(tracker.runs.folder.track, nights=many, alarms=(replace(alarm, night=2), old)).pruned()
    assert [night.number for night in track.nights] == [*range(635, 1001)]
    assert [each.number for each in track.alarms] == [alarm.number], "an alarm that is open stays"


def test_what_the_commit_does_not_execute_is_not_its_doing(tracked: MadeUpTracker, history: History) -> None:
    """A figure that moves with a commit to another driver moved with the layout of the kernel."""
    history.commit("beta moves alpha", {"block/beta/1.c": "effect slower"})
    real = tracked.bench._effect
    tracked.bench._effect = lambda lines, name: real(lines, "beta" if name == "alpha" else name)  # type: ignore[method-assign]
    _, night, alarms = alarms_of(tracked, harmless(history, "x"))
    assert [alarm.scenarios for alarm in alarms] == [("beta",)]
    assert len(night.calm) == 1 and "alpha: none.together.fast.iops" in night.calm[0]
    assert "the scenario executes nothing of what it changes" in night.calm[0]


def test_a_figure_that_any_layout_moves_accuses_nobody(tracked: MadeUpTracker, history: History) -> None:
    """Layouts move the slow role by up to 60 %, above the 33 % of its kind; it executes every second commit."""
    tracked.bench.effects = {**EFFECTS, "chaos": Effect(chaos=1.2)}
    alarms_of(tracked, history.commit("chaos", {"block/alpha/chaos.c": "effect chaos"}))
    calm: list[str] = []
    for number in range(16):
        head = harmless(history, str(number), "block/alpha" if number % 2 else "drivers")
        _, night, alarms = alarms_of(tracked, head)
        assert [alarm.name for alarm in alarms if alarm.verified] == []
        calm += night.calm
    assert calm and all("alpha: none.together.slow" in line or "alpha: red.together.slow" in line for line in calm)


def test_two_steps_of_one_figure_in_one_night_are_two_culprits(tracked: MadeUpTracker, history: History) -> None:
    first = history.commit("2 % less", {"block/alpha/one.c": "effect slower"})
    harmless(history, "a")
    second = history.commit("half", {"block/alpha/two.c": "effect starves"})
    _, _, alarms = alarms_of(tracked, harmless(history, "b"))
    assert {alarm.culprit for alarm in alarms} == {first, second} and all(alarm.verified for alarm in alarms)


def test_a_commit_that_does_not_build_is_told_once(tracked: MadeUpTracker, history: History) -> None:
    """Not once for each figure that is searched."""
    slow = history.commit("slow", {"block/beta/slow.c": "effect starves"})
    broken = history.commit("break", {"block/alpha/broken.c": "broken"})
    history.commit("mend", {"block/alpha/broken.c": None})
    _, _, alarms = alarms_of(tracked, harmless(history, "a"))
    assert [alarm.culprit for alarm in alarms] == [slow] and len(alarms[0].moves) > 1
    assert len([line for line in tracked.told if line.startswith(f"{broken[:12]}: skipped")]) == 1


def test_a_head_that_does_not_build_is_an_alarm_and_its_parent_is_measured(
    tracked: MadeUpTracker, history: History
) -> None:
    slow = history.commit("slow", {"block/beta/slow.c": "effect slower"})
    culprit = history.commit("break", {"block/alpha/broken.c": "broken"})
    tracker, night, alarms = alarms_of(tracked, harmless(history, "a"))
    named = {alarm.culprit: alarm for alarm in alarms}
    assert named.keys() == {slow, culprit}
    build = named[culprit].moves[0]
    assert (build.kind, build.after) == (Kind.BUILD, "does not build: block/a.c:1: error")
    assert named[culprit].verified and named[culprit].checks["revert"] == "good"
    assert {base.commit for base in tracker.runs.folder.track.bases["main"].values()} == {slow}
    assert any("does not build; measured is" in note for note in night.notes)
    # The next head is still broken: no second alarm. Then it is mended.
    _, _, alarms = alarms_of(tracked, harmless(history, "b"))
    assert alarms == ()
    tracker, night, alarms = alarms_of(tracked, history.commit("mend", {"block/alpha/broken.c": None}))
    assert alarms == () and named[culprit].number not in {alarm.number for alarm in tracker.runs.folder.track.open}


def test_an_arm_that_hangs_does_not_hide_what_moved_before_it(
    tracked: MadeUpTracker, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked.bench.effects = {**EFFECTS, "hangs": Effect(hangs="none")}
    slow = history.commit("slow", {"block/alpha/slow.c": "effect slower"})
    harmless(history, "a")
    hang = history.commit("hang", {"block/alpha/hang.c": "effect hangs"})
    _, _, alarms = alarms_of(tracked, harmless(history, "b"))
    assert {alarm.culprit: alarm.moves[0].kind for alarm in alarms} == {slow: Kind.FIGURE, hang: Kind.BOOT}


def test_a_branch_that_was_rewritten_is_searched_from_the_merge_base(tracked: MadeUpTracker, history: History) -> None:
    fork = harmless(history, "a")
    lost = history.commit("faster", {"block/beta/fast.c": "effect jumps"})
    alarms_of(tracked, lost)
    history.git("reset", "-q", "--hard", fork)
    culprit = history.commit("slower", {"block/alpha/slow.c": "effect slower"})
    _, night, alarms = alarms_of(tracked, harmless(history, "b"))
    assert night.gone == (lost,)
    assert [alarm.culprit for alarm in alarms] == [culprit]
    assert any("of beta moved with what disappeared" in note for note in night.notes)


def test_a_head_of_before_that_the_tree_lacks_is_told(tracked: MadeUpTracker, history: History) -> None:
    folder = Folder(tracked.root)
    folder.load()
    gone = "1" * 40
    bases = {name: replace(base, commit=gone) for name, base in folder.track.bases["main"].items()}
    (night,) = folder.track.nights
    folder.save(replace(folder.track, bases={"main": bases}, nights=(replace(night, head=gone),)))
    history.commit("slower", {"block/alpha/slow.c": "effect slower"})
    tracker, night, (alarm,) = alarms_of(tracked, history.git("rev-parse", "HEAD"))
    assert (alarm.culprit, alarm.why) == ("", "no commit of its range is known")
    assert "the tree lacks 111111111111" in night.notes[0]
    assert exit_code(tracker.runs.folder.track, night) == EXIT_CANNOT_JUDGE


def test_an_accepted_change_is_the_new_base_line(tracked: MadeUpTracker, history: History) -> None:
    culprit = history.commit("slower", {"block/alpha/slow.c": "effect slower"})
    tracker, night, (alarm,) = alarms_of(tracked, harmless(history, "a"))
    with pytest.raises(Misuse, match=r"no alarm says that .* changes beta"):
        tracker.runs.folder.accept("beta", culprit, "meant")
    closed = tracker.runs.folder.accept("alpha", culprit, "correctness costs 2 %")
    assert [alarm.closed for alarm in closed] == ["accepted: correctness costs 2 %"]
    folder = Folder(tracked.root)
    folder.load()
    assert folder.track.open == () and folder.track.accepts(alarm.moves[0], culprit)
    assert exit_code(folder.track, night) == EXIT_PASS


def test_a_record_of_another_setting_or_one_that_is_gone_is_made_again(
    tracked: MadeUpTracker, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = history.git("rev-parse", "HEAD")
    folder = Folder(tracked.root)
    folder.load()
    path = tracked.root / "runs" / folder.track.records[first]["alpha"].run
    (path / "run.json").unlink()
    tracked.tracker().night(harmless(history, "a"))
    assert tracked.bench.made[first, "alpha"] == 2 and tracked.bench.made[first, "beta"] == 1
    monkeypatch.setattr("harness.track.runs.setting_of", lambda *_: "another")
    second = history.git("rev-parse", "HEAD")
    tracked.tracker().night(harmless(history, "b"))
    assert {tracked.bench.made[second, name] for name in SCENARIOS} == {2}


def test_two_trackers_and_a_damaged_state_are_refused(tracked: MadeUpTracker) -> None:
    folder = Folder(tracked.root)
    with folder.held(), pytest.raises(Misuse, match="is in use by another process"), Folder(tracked.root).held():
        pass
    (tracked.root / "track.json").write_text('{"schema": 1, "nights": 7}')
    with pytest.raises(LabBroken, match=r"track\.json is damaged") as damaged:
        folder.load()
    assert "a new tracker begins with the next commit" in damaged.value.remedy


def test_what_executes_the_change_comes_first_then_what_was_never_measured_then_the_stalest() -> None:
    bases = {"alpha": Base("old", "", 1), "beta": Base("new", "", 4)}
    reached = {"old": reach({}), "new": reach({"beta": ["f", "g", "h", "i"]})}
    chosen, left = due(SCENARIOS.values(), bases, "head", reached, (1e9, lambda _: 1.0))
    assert chosen == {
        "beta": "executes f, g, h and 1 more",
        "gamma": "never measured",
        "alpha": "measured last in night 1",
    }
    assert left == ()
    # 2.5 s have room for two of 1 s each; the first one is measured in any case.
    assert due(SCENARIOS.values(), bases, "head", reached, (2.5, lambda _: 1.0))[1] == ("alpha",)
    assert list(due(SCENARIOS.values(), bases, "head", reached, (0.1, lambda _: 1.0))[0]) == ["beta"]
    assert "beta" not in due(SCENARIOS.values(), bases, "new", reached, (1e9, lambda _: 1.0))[0]


def test_a_scenario_is_spared_only_where_its_reach_is_known() -> None:
    known = reach({"beta": ["f"]})
    assert known.spares("alpha") and not known.spares("beta")
    assert reach({"beta": ["f"]}, others=["Documentation/block/a.rst"]).spares("alpha")
    assert not reach({"beta": ["f"]}, others=["block/Kconfig"]).spares("alpha")
    assert not replace(known, outdated=("alpha",)).spares("alpha")


def test_a_budget_is_a_time() -> None:
    assert [budget(text) for text in ("3h", "90min", "600s")] == [10800.0, 5400.0, 600.0]
    for wrong in ("3", "0h", "h", "-1h", "1.5h"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected a time such as 3h"):
            budget(wrong)


def test_the_command_refuses_what_it_cannot_track(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = ["--results", str(tmp_path / "results")]
    assert main(["track", *results]) == EXIT_MISUSE
    assert "track needs a tree" in capsys.readouterr().err
    assert main(["track", "--tree", str(tmp_path), *results]) == EXIT_MISUSE
    assert "is no git repository" in capsys.readouterr().err
    assert main(["track", "--tree", str(history.folder), "--ref", "gone", *results]) == EXIT_MISUSE
    assert "has no commit gone" in capsys.readouterr().err
    assert main(["track", "hunts/planted-list.yaml", "--kernels", "debian:6.1", *results]) == EXIT_MISUSE
    assert "hunts/planted-list.yaml is for a tree" in capsys.readouterr().err
    assert main(["track", "wall-fair-tags", "--tree", str(history.folder), *results]) == EXIT_MISUSE
    (tmp_path / "results/track/track.json").write_text("{")
    assert main(["track", "--tree", str(history.folder), *results]) == EXIT_LAB_BROKEN
    assert "track.json is damaged" in capsys.readouterr().err


def test_the_command_writes_pages_and_accepts_a_change(
    tracked: MadeUpTracker, history: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole command with made-up kernels: exit 1 and a page, then the change is accepted, then exit 0."""
    choice = reach({name: ["blk_fn"] for name in SCENARIOS})
    tracked.bench.turns = SimpleNamespace(lanes=SimpleNamespace(at_once=2))
    monkeypatch.setattr(command, "bench_of", lambda *_, **__: tracked.bench)
    monkeypatch.setattr(command, "distinct", lambda _: {name: (name, each) for name, each in SCENARIOS.items()})
    monkeypatch.setattr(command, "chosen_by", lambda _: choice)
    culprit = history.commit("slower", {"block/alpha/slow.c": "effect slower"})
    words = ["track", "--tree", str(history.folder), "--ref", "main", "--results", str(tracked.root.parent)]
    assert main(words) == EXIT_FAIL
    said = capsys.readouterr().out
    assert said.startswith(f"night 2, main at {culprit[:12]}: 1 worse\n")
    assert f'WORSE  {culprit[:12]} ("slower")\n  alpha: none.together.fast.iops: 7,8' in said
    assert "functions: blk_fn" in said and (tracked.root / "site/index.html").is_file()
    assert main([*words, "--accept", "alpha", "--commit", culprit, "--reason", "meant"]) == EXIT_PASS
    assert "alarm 1 is closed: accepted: meant" in capsys.readouterr().out
    assert main(words) == EXIT_PASS
    assert f"nothing changed since {culprit[:12]}" in capsys.readouterr().out


def test_a_full_disk_ends_the_night_and_the_next_call_goes_on(
    tracked: MadeUpTracker, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    culprit = history.commit("slower", {"block/alpha/slow.c": "effect slower"})
    head = harmless(history, "a")
    written = 0

    def full(path: Path, value: object) -> None:
        nonlocal written
        written += 1
        if written > 3:
            raise LabBroken(f"cannot write {path}: No space left on device", remedy="free some space")
        write_json(path, value)

    with monkeypatch.context() as patch:
        patch.setattr("harness.track.state.write_json", full)
        with pytest.raises(LabBroken, match="No space left"):
            tracked.tracker().night(head)
    made = dict(tracked.bench.made)
    tracker, night, (alarm,) = alarms_of(tracked, head)
    assert (night.number, alarm.culprit) == (2, culprit)
    # Of the runs before the disk was full only the one whose record could not be written is made again.
    again = {key: tracked.bench.made[key] for key in made if tracked.bench.made[key] > made[key]}
    assert len(again) == 1 and len(tracker.runs.folder.track.nights) == 2


def test_a_clock_that_jumps_back_changes_neither_the_order_nor_the_choice(
    tracked: MadeUpTracker, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.track.night.now", lambda: "1970-01-01T00:00:00+00:00")
    culprit = history.commit("slower", {"block/alpha/slow.c": "effect slower"})
    tracker, night, (alarm,) = alarms_of(tracked, culprit)
    assert (night.number, night.last, alarm.culprit) == (2, history.git("rev-parse", f"{culprit}^"), culprit)
    assert night.seconds >= 0 and tracker.runs.folder.track.last_night("main") == night

# SPDX-License-Identifier: GPL-2.0-only
"""Runs on disk: atomic, resumable, judged again from what they left."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.base.files import write_atomic, writing
from harness.base.plain import from_plain, identity, to_plain
from harness.noise import stopping_rule
from harness.record.judging import Altered, judge_run, rejudge
from harness.record.store import Damaged, RunFolder, Store, load_run, new_run_id, planned, read_boot, save_boot
from harness.scenario.load import read_scenario
from harness.scenario.model import Scenario, Status
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS, LabBroken, Misuse
from lab.base.record import Outcome
from tests.unit.analysis_samples import claim, control, ratio, scenario
from tests.unit.store_samples import boot_all, facts, files, new_run, record
from tools.command import newest_runs

SCENARIOS = Path(__file__).parents[2] / "scenarios"
MODEL = scenario([claim()], [control()], ["none", "red"])
GREEN = {"none": 94.0, "red": 5.0}


def finished(root: Path, together: Mapping[str, float], more: Mapping[str, bytes] = {}) -> RunFolder:
    run = new_run(root, MODEL)
    boot_all(run, together, more)
    run.finish(judge_run(run), elapsed=1.0)
    return run


def test_a_run_is_judged_from_its_folder_alone_and_agrees(tmp_path: Path) -> None:
    run = new_run(tmp_path, MODEL)
    boot_all(run, GREEN)
    verdict = judge_run(run)
    run.finish(verdict, elapsed=12.5)
    assert verdict.status is Status.PASS
    again = rejudge(tmp_path / "sample" / "latest")
    assert (again.before, again.differences, again.exit_code) == (True, (), 0)
    assert again.verdict == verdict
    assert again.run.elapsed() == 12.5


def test_a_run_counts_under_other_words_and_gets_them_but_not_under_another_bound(tmp_path: Path) -> None:
    model = replace(MODEL, digest=identity(MODEL))
    run = new_run(tmp_path, model)
    boot_all(run, {"none": 90.0, "red": 10.0})
    run.finish(judge_run(run), elapsed=1.0)
    renamed = replace(model, title="Other words")
    (found,) = newest_runs(Store(tmp_path), renamed, built=False).values()
    assert (found.path, found.scenario.title) == (run.path, "Other words")
    other = replace(model, claims=(replace(model.claims[0], optional=True),))
    assert not newest_runs(Store(tmp_path), replace(other, digest=identity(other)), built=False)


def test_a_kernel_that_was_built_counts_where_no_package_of_its_series_was_measured(tmp_path: Path) -> None:
    packaged = finished(tmp_path, {"none": 90.0, "red": 10.0})
    built = finished(tmp_path, {"none": 90.0, "red": 10.0})
    path = built.path / "run.json"
    path.write_text(path.read_text().replace('"spec": "', '"spec": "source:'))
    store = Store(tmp_path)
    for also in (True, False):
        assert [run.path for run in newest_runs(store, MODEL, built=also).values()] == [packaged.path]
    shutil.rmtree(packaged.path)
    assert [run.path for run in newest_runs(store, MODEL, built=True).values()] == [built.path]
    assert not newest_runs(store, MODEL, built=False)


def test_a_verdict_that_was_tampered_with_does_not_agree(tmp_path: Path) -> None:
    run = finished(tmp_path, {"none": 5.0, "red": 5.0})
    path = run.path / "verdict.json"
    path.write_text(path.read_text().replace('"FAIL"', '"PASS"'))
    again = rejudge(run.path)
    assert (again.verdict.status, again.exit_code) == (Status.FAIL, EXIT_CANNOT_JUDGE)
    assert any(one.startswith('status: stored "PASS", judged "FAIL"') for one in again.differences)
    judged_by_another_version(run)
    assert rejudge(run.path).exit_code == EXIT_FAIL


def judged_by_another_version(run: RunFolder) -> None:
    (run.path / "effort.json").write_text('{"code": "other", "elapsed": 1.0}')


def test_a_pass_that_is_not_the_stored_verdict_cannot_be_judged(tmp_path: Path) -> None:
    run = finished(tmp_path, GREEN)
    path = run.path / "verdict.json"
    path.write_text(path.read_text().replace('"low": 0.95', '"low": 0.96'))
    again = rejudge(run.path)
    assert (again.verdict.status, again.exit_code) == (Status.PASS, EXIT_CANNOT_JUDGE)
    assert [one.split(":")[0] for one in again.differences] == ["claims[0].value.low"]


@pytest.mark.parametrize(("together", "words"), [(GREEN, "it keeps it"), ({"none": 5.0, "red": 5.0}, "it starves")])
def test_sentences_are_compared_where_this_version_wrote_them(
    tmp_path: Path, together: Mapping[str, float], words: str
) -> None:
    run = finished(tmp_path, together)
    path = run.path / "verdict.json"
    path.write_text(path.read_text().replace(words, "other words"))
    again = rejudge(run.path)
    assert (again.exit_code, again.worded) == (EXIT_CANNOT_JUDGE, True)
    assert again.differences == (f'claims[0].sentence: stored "other words", judged "{words}"',)
    judged_by_another_version(run)
    again = rejudge(run.path)
    assert (again.exit_code, again.differences, again.worded) == (again.verdict.exit_code, (), False)


def boot(run: RunFolder, arm: str, seed: int) -> Path:
    (cell,) = (cell for cell in run.facts.cells if (cell.arm, cell.seed) == (arm, seed))
    return run.boot_folder(cell)


@pytest.mark.parametrize("key", ["scenario", "kernel", "arm"])
def test_a_boot_of_something_else_is_not_the_cell_s(tmp_path: Path, key: str) -> None:
    run = new_run(tmp_path, MODEL)
    boot_all(run, GREEN)
    record = read_boot(boot(run, "none", 1))
    save_boot(replace(record, fingerprint={**record.fingerprint, key: "other"}))
    with pytest.raises(Altered, match=f"boots/000/boot.json: fingerprint has {key} other, the cell has"):
        judge_run(run)


def test_a_killed_run_is_not_counted_and_can_be_taken_up(tmp_path: Path) -> None:
    run = new_run(tmp_path, MODEL)
    first, second, *_ = run.missing()
    save_boot(record(run.fresh_boot_folder(first), files()))
    (run.fresh_boot_folder(second) / "console.txt").write_text("half")
    store = Store(tmp_path)
    assert store.runs("sample") == ()
    assert not (store.root / "sample" / "latest").exists()
    (left,) = store.unfinished("sample")
    taken_up = load_run(left)
    assert taken_up.missing() == run.facts.cells[1:]
    assert not rejudge(left).before
    assert rejudge(left).verdict.status is Status.MISS
    boot_all(taken_up, GREEN)
    assert not (run.boot_folder(second) / "console.txt").exists()
    taken_up.finish(judge_run(taken_up), elapsed=1.0)
    assert store.runs("sample") == (left,)
    assert (store.root / "sample" / "latest").resolve() == left.resolve()


def alter(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: write_atomic(folder / name, change((folder / name).read_bytes()))


def forge(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """A change of boot.json with a checksum that fits."""

    def damage(folder: Path) -> None:
        body = json.loads((folder / "boot.json").read_bytes())
        del body["checksum"]
        change(body)
        write_atomic(folder / "boot.json", json.dumps({**body, "checksum": digest_bytes(canonical(body))}).encode())

    return damage


def replace_by_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "damage",
    [
        alter("boot.json", lambda data: data.replace(b'"bye"', b'"oops"')),
        alter("boot.json", lambda data: data[:-20]),
        alter("out/solo.json", lambda data: data.replace(b"victim", b"hog")),
        alter("boot.json", lambda data: b"[" * 10**6),
        lambda folder: (folder / "boot.json").unlink(),
        lambda folder: replace_by_device(folder / "boot.json"),
        lambda folder: replace_by_fifo(folder / "boot.json"),
        lambda folder: replace_by_device(folder / "out/solo.json"),
        lambda folder: replace_by_fifo(folder / "out/solo.json"),
        forge(lambda body: body.pop("files")),
        forge(lambda body: body.update(files={"../boot.json": "0" * 64})),
        forge(lambda body: body.update(files=["solo.json"])),
        forge(lambda body: body.update(outcome="unknown")),
        forge(lambda body: body.update(wall={"boot": 10**400})),
        lambda folder: (folder / "out" / "together.after").unlink(),
    ],
)
def test_a_boot_that_is_damaged_or_incomplete_does_not_count(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    measured = {**files(), "solo.json": b"victim"}
    save_boot(record(tmp_path, measured))
    assert read_boot(tmp_path) == record(tmp_path, measured)
    damage(tmp_path)
    with pytest.raises(Damaged):
        read_boot(tmp_path)


def test_a_file_name_from_the_guest_cannot_leave_the_folder(tmp_path: Path) -> None:
    with pytest.raises(LabBroken, match="the guest named a file"):
        save_boot(record(tmp_path / "boot", {"../escape": b"x"}))
    assert not (tmp_path / "boot" / "escape").exists()
    assert not (tmp_path / "escape").exists()


def test_warnings_and_missing_requirements_reach_the_verdict(tmp_path: Path) -> None:
    plan = planned([("none", 1, ()), ("red", 1, ("CONFIG_A is not set", "no module b"))])
    run = Store(tmp_path).new_run(MODEL, facts(MODEL, plan))
    (cell,) = run.missing()
    save_boot(record(run.fresh_boot_folder(cell), files(), warnings=("I/O error, dev sda",)))
    verdict = judge_run(run)
    assert verdict.status is Status.ERROR
    assert "I/O error, dev sda" in verdict.cells[0].reasons[0]
    assert verdict.controls[0].sentence == "arm red: CONFIG_A is not set; no module b"


def test_a_result_that_cannot_be_read_is_an_error_of_that_cell(tmp_path: Path) -> None:
    run = new_run(tmp_path, MODEL, seeds=1)
    boot_all(run, GREEN)
    save_boot(record(run.boot_folder(run.facts.cells[0]), {**files(), "solo.json": b"{"}))
    verdict = judge_run(run)
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 125)
    assert verdict.cells[0].reasons[0].startswith("solo.json: is not complete JSON")


@pytest.mark.parametrize(("outcome", "code"), [(Outcome.OOPS, 1), (Outcome.LOST, 128), (Outcome.NOT_READY, 125)])
def test_how_a_boot_ended_decides_the_exit_code(tmp_path: Path, outcome: Outcome, code: int) -> None:
    run = new_run(tmp_path, MODEL, seeds=1)
    boot_all(run, GREEN)
    save_boot(record(run.boot_folder(run.facts.cells[0]), {}, outcome))
    assert judge_run(run).exit_code == code


def test_repeated_boots_must_agree(tmp_path: Path) -> None:
    run = new_run(tmp_path, MODEL, seeds=1, repeats=2)
    boot_all(run, GREEN)
    assert judge_run(run).status is Status.PASS
    save_boot(record(run.boot_folder(run.facts.cells[1]), files(together=50)))
    verdict = judge_run(run)
    assert "not repeatable" in verdict.cells[0].reasons[0] and verdict.exit_code == 128


def test_a_baseline_is_found_beside_its_run(tmp_path: Path) -> None:
    against = scenario([claim(of=ratio("none.together.fast.iops", "baseline.none.together.fast.iops"))])
    base = new_run(tmp_path, against)
    boot_all(base, {"none": 100.0})
    plan = planned([("none", seed, ()) for seed in (1, 2, 3)])
    run = Store(tmp_path).new_run(against, replace(facts(against, plan), baseline=base.path.name))
    boot_all(run, {"none": 95.0})
    assert judge_run(run).status is Status.PASS
    base.path.rename(tmp_path / "gone")
    with pytest.raises(Misuse, match=r"BASE run .* is gone"):
        judge_run(run)


def test_a_boot_of_base_that_died_decides_before_the_next_look(tmp_path: Path) -> None:
    against = scenario([claim(of=ratio("none.together.fast.iops", "baseline.none.together.fast.iops"))])
    base = new_run(tmp_path, against, seeds=6)
    save_boot(record(base.fresh_boot_folder(base.facts.cells[1]), {}, Outcome.OOPS))
    boot_all(base, {"none": 100.0})
    wanted = replace(base.facts, baseline=base.path.name, rule=stopping_rule(6))
    run = Store(tmp_path).new_run(against, wanted)
    boot_all(run, {"none": 95.0})
    verdict = judge_run(run)
    assert (verdict.status, verdict.seeds) == (Status.ERROR, (1, 2))


def test_run_ids_sort_by_time_and_never_clash() -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    ids = [new_run_id(start + timedelta(milliseconds=step), "6.1/odd name") for step in range(50)]
    assert ids == sorted(ids)
    assert len({new_run_id(start, "6.1") for _ in range(50)}) == 50
    assert "/" not in ids[0] and " " not in ids[0]


def test_runs_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    def one(_: int) -> Path:
        run = new_run(tmp_path, MODEL, seeds=1)
        boot_all(run, GREEN)
        run.finish(judge_run(run), elapsed=1.0)
        return run.path

    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(one, range(16)))
    assert sorted(paths) == list(Store(tmp_path).runs("sample"))
    assert all(rejudge(path).exit_code == EXIT_PASS for path in paths)
    assert (tmp_path / "sample" / "latest").resolve() in {path.resolve() for path in paths}
    assert not list(tmp_path.rglob(".*"))


def test_a_run_is_worked_on_by_one_at_a_time(tmp_path: Path) -> None:
    run = new_run(tmp_path, MODEL)
    with run.held(), pytest.raises(Misuse, match="is in use by another process"), load_run(run.path).held():
        pass
    with run.held():
        pass


def test_a_fifo_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(LabBroken, match="No such device"):
        write_atomic(fifo, b"x")
    assert fifo.is_fifo()
    assert list(tmp_path.iterdir()) == [fifo]


def test_a_writer_that_is_killed_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "verdict.json"
    write_atomic(target, b"old")
    script = (
        "import os, sys; from pathlib import Path; import harness.base.files as files\n"
        "files.os.fsync = lambda handle: os.kill(os.getpid(), 9)\n"
        "files.write_atomic(Path(sys.argv[1]), b'new' * 10000)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(target)], cwd=SCENARIOS.parent, check=False)
    assert killed.returncode == -9
    assert target.read_bytes() == b"old"


def test_a_folder_that_cannot_be_made_is_the_lab_with_a_remedy_and_a_good_one_is_left_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LabBroken, match="cannot write") as caught:
        Store(tmp_path / "file" / "results").check()
    assert "RESULTS=" in caught.value.remedy and "--results" in caught.value.remedy
    assert caught.value.exit_code == 128
    Store(tmp_path / "deep" / "results").check()
    assert list((tmp_path / "deep" / "results").iterdir()) == []


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="needs sysfs")
def test_a_read_only_folder_is_refused_before_anything_boots() -> None:
    # sysfs refuses new files even to root, as a read-only file system does.
    with pytest.raises(LabBroken, match="cannot write"):
        Store(Path("/sys/kernel")).check()


def test_a_full_disk_is_the_lab_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabBroken, match="No space left") as caught, writing(tmp_path / "verdict.json"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.remedy.startswith("free some space")
    monkeypatch.setattr("harness.record.store.LEAST_SPACE", 1 << 62)
    with pytest.raises(LabBroken, match="MiB free; a run may need"):
        Store(tmp_path).check()


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="does not contain a run"):
        load_run(tmp_path)
    run = new_run(tmp_path, MODEL)
    path = run.path / "run.json"
    good = json.loads(path.read_text())
    path.write_text(json.dumps({**good, "schema": 99}))
    with pytest.raises(Misuse, match="run schema 99"):
        load_run(run.path)
    path.write_text(json.dumps({**good, "seeds": "many"}))
    with pytest.raises(Misuse, match="is damaged"):
        load_run(run.path)


@pytest.mark.parametrize("name", ["shared-queue", "null-shared-tags"])
def test_a_scenario_survives_the_store(tmp_path: Path, name: str) -> None:
    loaded = read_scenario(name)
    assert from_plain(Scenario, json.loads(json.dumps(to_plain(loaded)))) == loaded
    run = new_run(tmp_path, loaded, seeds=1)
    stored = load_run(run.path).scenario
    assert stored == loaded
    assert list(stored.arms) == list(loaded.arms)
    assert (run.path / "scenario.yaml").read_bytes() == loaded.path.read_bytes()
    assert list((run.path / "topologies").iterdir())


def test_plain_values_of_another_shape_are_refused() -> None:
    plain = to_plain(MODEL)
    changes: list[dict[str, object]] = [{"arms": []}, {"seeds": "3"}, {"clock": "sundial"}, {"more": 1}]
    for change in changes:
        with pytest.raises(ValueError, match=r"not a Scenario|not a valid"):
            from_plain(Scenario, {**plain, **change})
    with pytest.raises(TypeError):
        to_plain({1: 2})
    assert os.fspath(from_plain(Scenario, plain).path) == "sample.yaml"

# SPDX-License-Identifier: GPL-2.0-only
"""Whole matrices in seconds: each cell is measured once, whatever else fails or is killed."""

import json
import os
import re
import signal

import pytest

from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_INTERRUPTED, EXIT_LAB_BROKEN, EXIT_MISUSE, EXIT_PASS
from tests.process.fake_lab import CELLS, FakeLab
from tests.process.matrix_lab import WHOLE, assert_whole, kernels, lay_out, matrix, record, runs, statuses, words


@pytest.fixture(autouse=True)
def _two_of_each(lab: FakeLab) -> None:
    lay_out(lab)


def test_every_cell_is_measured_and_reported_once(lab: FakeLab) -> None:
    done = matrix(lab)
    assert (done.returncode, len(lab.boots())) == (EXIT_PASS, WHOLE), done.stderr
    assert_whole(lab)
    assert "4 cells: 4 PASS; PASS, exit 0" in done.stdout
    assert re.search(r"^t +PASS 1 of 1 +PASS 1 of 1 *$", done.stdout, re.MULTILINE), done.stdout
    assert "4 of 4 cells" in done.stderr
    # What a run says to repeat it names the file, for "u" is no name of a shipped scenario.
    (again,) = {
        tuple(json.loads((path.parent / "run.json").read_text())["command"][:3])
        for path in runs(lab)
        if "/u/" in str(path)
    }
    assert again == ("blklab", "run", str(lab.folder / "u.yaml"))


def test_begun_again_it_takes_what_was_measured(lab: FakeLab) -> None:
    matrix(lab)
    first = record(lab)
    done = matrix(lab)
    assert (done.returncode, len(lab.boots())) == (EXIT_PASS, WHOLE)
    assert done.stderr.count("as measured before") == 4
    assert [cell["run"] for cell in record(lab)["cells"]] == [cell["run"] for cell in first["cells"]]
    assert record(lab)["matrix_id"] != first["matrix_id"]


def test_what_a_run_measured_is_not_measured_again(lab: FakeLab) -> None:
    lab.run()
    assert matrix(lab).returncode == EXIT_PASS
    assert len(lab.boots()) == WHOLE
    assert_whole(lab)


def test_more_seeds_boot_only_what_is_new(lab: FakeLab) -> None:
    matrix(lab, "--seeds", "1")
    before = len(lab.boots())
    done = matrix(lab)
    assert (done.returncode, len(lab.boots())) == (EXIT_PASS, WHOLE), done.stderr
    assert before == WHOLE // 2
    assert_whole(lab, of=8)
    for verdict in runs(lab):
        assert lab.call("judge", str(verdict.parent)).returncode == EXIT_PASS


def test_a_boot_is_adopted_only_whole_and_of_the_same(lab: FakeLab) -> None:
    matrix(lab, "--seeds", "1")
    damaged, *_ = sorted(lab.results.glob("t/[0-9]*/boots/000/out/solo.json"))
    damaged.write_text("{}")
    matrix(lab)
    assert len(lab.boots()) == WHOLE + 1
    program = lab.folder / "fake-qemu"
    program.write_text(program.read_text() + "# another build\n")
    matrix(lab, "--seeds", "3")
    assert len(lab.boots()) == WHOLE + 1 + 3 * CELLS * 4 // 2


def test_boots_of_different_runs_go_side_by_side(lab: FakeLab) -> None:
    """With one seed and one arm fewer boots than lanes in a run: only another run can fill them."""
    process = lab.hold(*words(lab, "--seeds", "1", "--jobs", "3"), boot=1)
    lab.await_boots(8)
    assert process.poll() is None
    lab.stop()


def test_a_failed_cell_stops_no_other(lab: FakeLab) -> None:
    (lab.folder / "u.yaml").write_text((lab.folder / "u.yaml").read_text().replace('">= 0.9"', '">= 2"'))
    done = matrix(lab)
    assert (done.returncode, len(lab.boots())) == (EXIT_FAIL, WHOLE)
    assert statuses(lab) == {
        ("t", "kernel"): "PASS",
        ("t", "other"): "PASS",
        ("u", "kernel"): "FAIL",
        ("u", "other"): "FAIL",
    }
    assert "the cure works: 1.000, expected >= 2" in done.stdout
    assert_whole(lab)


def test_a_kernel_that_cannot_be_had_is_missing_in_its_column(lab: FakeLab) -> None:
    done = matrix(lab, "--kernels", "debian:6.1")
    assert done.returncode in (EXIT_CANNOT_JUDGE, EXIT_LAB_BROKEN), done.stderr
    assert len(lab.boots()) == WHOLE
    assert statuses(lab)["t", "kernel"] == statuses(lab)["u", "other"] == "PASS"
    assert statuses(lab)["t", "debian:6.1"] in ("MISS", "ERROR")


def test_a_qemu_that_is_killed_breaks_its_cell_alone_and_is_measured_anew(lab: FakeLab) -> None:
    process = lab.hold(*words(lab, "--jobs", "1"), boot=3)
    (machine,) = lab.machines()
    os.kill(machine, signal.SIGKILL)
    out, _ = process.communicate(timeout=lab.patience)
    assert process.returncode == EXIT_LAB_BROKEN, out
    assert sorted(status or "" for status in statuses(lab).values()) == ["ERROR", "PASS", "PASS", "PASS"]
    assert "killed by signal 9" in out
    assert matrix(lab).returncode == EXIT_PASS
    assert len(lab.boots()) == WHOLE + 1, "the broken boot alone is made again"


@pytest.mark.parametrize("boot", [1, 6, 16])
def test_killed_it_goes_on_without_losing_or_repeating(lab: FakeLab, boot: int) -> None:
    lab.kill(*words(lab, "--jobs", "1"), boot=boot)
    first = record(lab)
    assert not first["ended"]
    done = matrix(lab)
    assert (done.returncode, len(lab.boots())) == (EXIT_PASS, WHOLE + 1), done.stderr
    assert record(lab)["matrix_id"] == first["matrix_id"], "the same matrix goes on"
    assert_whole(lab)


def test_interrupted_leaves_no_machine_behind(lab: FakeLab) -> None:
    process = lab.hold(*words(lab, "--jobs", "2"), boot=5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == EXIT_INTERRUPTED, err
    assert "Traceback" not in err
    assert not lab.machines()
    assert matrix(lab).returncode == EXIT_PASS
    assert_whole(lab)


def test_two_at_once_on_one_store_measure_each_cell_once(lab: FakeLab) -> None:
    both = [lab.start(*words(lab, "--jobs", "2"), **lab.plan(linger=0.02)) for _ in range(2)]
    for process in both:
        _, err = process.communicate(timeout=120)
        assert process.returncode == EXIT_PASS, err
    assert len(lab.boots()) == len(set(lab.boots())) == WHOLE
    assert len(list(lab.results.glob("matrix/[0-9]*"))) == 2
    assert_whole(lab)


def test_the_lock_of_a_killed_matrix_is_released(lab: FakeLab) -> None:
    first = lab.hold(*words(lab, "--jobs", "1"), boot=2)
    # The first one has two cells in hand: one that boots, and one that is ready to.
    second = lab.start(*words(lab, "--jobs", "1"))
    lab.await_boots(2 + 2 * CELLS)
    first.kill()
    _, err = second.communicate(timeout=lab.patience)
    assert second.returncode == EXIT_PASS, err
    assert len(lab.boots()) == WHOLE + 1
    assert_whole(lab)


def test_shards_share_the_cells(lab: FakeLab) -> None:
    for number in (1, 2):
        before = len(lab.boots())
        assert matrix(lab, "--shard", f"{number}/2").returncode == EXIT_PASS
        assert len(lab.boots()) - before == WHOLE // 2
    assert len(runs(lab)) == 4
    assert sorted(str(cell["status"]) for cell in record(lab)["cells"]) == ["None", "None", "PASS", "PASS"]


@pytest.mark.parametrize(
    "options, says",
    [
        (("--shard", "3/2"), "--shard 3/2"),
        (("--shard", "a"), "--shard a"),
        (("--seeds", "0"), "argument --seeds: expected an integer, from 1 to 64"),
        (("--kernels", "nosuch:1"), "not a kernel that blklab knows"),
        (("nosuch",), "no scenario"),
    ],
)
def test_misuse_boots_nothing(lab: FakeLab, options: tuple[str, ...], says: str) -> None:
    done = lab.call(
        "matrix",
        *options,
        "--results",
        str(lab.results),
        *(() if "--kernels" in options else ("--kernels", kernels(lab))),
    )
    assert (done.returncode, lab.boots()) == (EXIT_MISUSE, []), done.stderr
    assert says in done.stderr

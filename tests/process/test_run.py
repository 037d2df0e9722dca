# SPDX-License-Identifier: GPL-2.0-only
"""Whole runs of the console script, in milliseconds: what they boot, and what they exit with."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from harness.cli import TERMINATED
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_INTERRUPTED, EXIT_LAB_BROKEN, EXIT_MISUSE, EXIT_PASS
from tests.process.fake_lab import CELLS, CHECKOUT, RELEASE, FakeLab

STARVED = {"lopsided.victim": 10.0}


def test_a_run_boots_every_cell_once_and_passes(lab: FakeLab) -> None:
    done = lab.run()
    assert (done.returncode, len(lab.boots())) == (EXIT_PASS, CELLS), done.stderr
    assert "exit 0" in done.stdout
    (verdict,) = lab.verdicts()
    assert verdict.parent.parent.joinpath("latest").resolve() == verdict.parent
    boots = sorted(path.name for path in (verdict.parent / "boots").iterdir())
    assert boots == ["000", "001", "002", "003"]
    kept = {path.name for path in (verdict.parent / "boots" / "000").iterdir()}
    assert {"boot.json", "console.txt", "job.cpio", "out", "qemu.log", "results.txt"} <= kept


def test_a_claim_that_does_not_hold_fails(lab: FakeLab) -> None:
    done = lab.run(**lab.plan(iops=STARVED))
    assert (done.returncode, len(lab.boots())) == (EXIT_FAIL, CELLS)
    assert "FAIL" in done.stdout


def test_a_kernel_that_counts_one_io_less_fails_and_the_other_boots_go_on(lab: FakeLab) -> None:
    """fio has whole blocks of 4 KiB, /proc/diskstats one less: nobody altered a file, and every boot is made."""
    done = lab.run("--jobs", "1", **lab.plan(uncounted=2))
    assert (done.returncode, len(lab.boots())) == (EXIT_FAIL, CELLS), done.stderr
    (verdict,) = lab.verdicts()
    cells = json.loads(verdict.read_bytes())["cells"]
    assert sorted(cell["status"] for cell in cells) == ["FAIL", "PASS", "PASS", "PASS"]
    (reason, *_) = next(cell["reasons"] for cell in cells if cell["status"] == "FAIL")
    counts = re.search(
        r"fio counted (\d+) bytes of LUN \S+ in the window, the kernel's /proc/diskstats has (\d+) ", reason
    )
    assert counts and int(counts[1]) - int(counts[2]) == 4096
    assert counts[0] in " ".join(done.stdout.split())
    assert "restore" not in done.stdout + done.stderr
    again = lab.call("judge", str(verdict.parent))
    assert (again.returncode, "restore" in again.stderr) == (EXIT_FAIL, False), again.stderr


@pytest.mark.parametrize(
    "moment, code",
    [
        ("start", EXIT_CANNOT_JUDGE),
        ("greeting", EXIT_LAB_BROKEN),
        ("ready", EXIT_LAB_BROKEN),
        ("load", EXIT_LAB_BROKEN),
        ("file", EXIT_LAB_BROKEN),
        ("end", EXIT_LAB_BROKEN),
        ("bye", EXIT_PASS),
    ],
)
def test_a_guest_that_leaves_early_gives_no_verdict(lab: FakeLab, moment: str, code: int) -> None:
    done = lab.run(**lab.plan(garble=[2, moment]))
    assert (done.returncode, len(lab.boots())) == (code, CELLS), done.stdout


def test_a_run_that_was_judged_is_not_taken_up_again(lab: FakeLab) -> None:
    assert lab.run().returncode == lab.run().returncode == EXIT_PASS
    assert len(lab.boots()) == 2 * CELLS
    assert len(lab.verdicts()) == 2


def test_verify_boots_each_cell_twice(lab: FakeLab) -> None:
    assert lab.run("--verify").returncode == EXIT_PASS
    assert len(lab.boots()) == 2 * CELLS


def test_arms_and_seeds_choose_cells(lab: FakeLab) -> None:
    lab.run("--arm", "shared", "--seeds", "3", "--jobs", "1")
    assert len(lab.boots()) == 3
    assert lab.run("--arm", "nosuch").returncode == EXIT_MISUSE
    assert lab.run("--seeds", "0").returncode == lab.run("--seeds", "65").returncode == EXIT_MISUSE
    assert lab.run("--jobs", "-1").returncode == EXIT_MISUSE
    assert len(lab.boots()) == 3


def test_boots_go_side_by_side_up_to_a_limit(lab: FakeLab) -> None:
    assert (
        "4 boots of a guest, each an arm (a setting) under a seed; up to 3 at once" in lab.run(BLKLAB_JOBS="3").stderr
    )
    assert (
        "4 boots of a guest, each an arm (a setting) under a seed; up to 1 at once"
        in lab.run("--jobs", "1", BLKLAB_JOBS="3").stderr
    )
    done = lab.run(BLKLAB_JOBS="many")
    assert done.returncode == EXIT_MISUSE
    assert "BLKLAB_JOBS=many: expected a number from 1" in done.stderr


def test_a_base_kernel_is_measured_first(lab: FakeLab) -> None:
    text = lab.scenario.read_text().replace(
        "ratio: limited.lopsided.victim.iops / limited.solo.victim.iops",
        "ratio: limited.lopsided.victim.iops / baseline.limited.lopsided.victim.iops",
    )
    lab.scenario.write_text(text)
    done = lab.run("--base", f"path:{lab.folder / 'kernel'}")
    assert (done.returncode, len(lab.boots())) == (EXIT_PASS, 2 * CELLS), done.stderr


def test_both_kernels_are_there_before_anything_boots(lab: FakeLab) -> None:
    done = lab.run("--base", "path:/nonexistent")
    assert (done.returncode, lab.boots()) == (EXIT_MISUSE, [])
    done = lab.run("--base", f"path:{lab.folder / 'kernel'}", "--kernel", "path:/nonexistent")
    assert (done.returncode, lab.boots()) == (EXIT_MISUSE, [])


def test_a_kernel_that_lacks_things_is_skipped_with_all_reasons(lab: FakeLab) -> None:
    modules = lab.folder / "kernel" / "lib" / "modules" / RELEASE
    (modules / "modules.builtin").write_text("kernel/configfs.ko\n")
    (modules / "kernel" / "tcm_loop.ko").unlink()
    config = lab.folder / "kernel" / "boot" / f"config-{RELEASE}"
    config.write_text(config.read_text().replace("CONFIG_HPET_TIMER=y\n", ""))
    done = lab.run()
    assert (done.returncode, lab.boots()) == (EXIT_CANNOT_JUDGE, [])
    for reason in ("HPET_TIMER", "target_core_iblock", "sd_mod", "tcm_loop"):
        assert reason in done.stdout


def test_judge_recomputes_the_verdict_and_notices_a_change(lab: FakeLab) -> None:
    lab.run()
    (verdict,) = lab.verdicts()
    done = lab.call("judge", str(verdict.parent))
    assert done.returncode == EXIT_PASS
    assert "the stored verdict is identical" in done.stderr
    document = json.loads(verdict.read_text())
    verdict.write_text(json.dumps({**document, "status": "FAIL"}))
    done = lab.call("judge", str(verdict.parent))
    assert done.returncode == EXIT_CANNOT_JUDGE
    assert 'verdict.json: status: stored "FAIL", judged "PASS"' in done.stderr
    assert len(lab.boots()) == CELLS


@pytest.mark.parametrize("damage", ["boot.json", "out/solo.json", "out/readback", "cut", "folder"])
def test_only_damaged_records_are_made_again(lab: FakeLab, damage: str) -> None:
    lab.run()
    (verdict,) = lab.verdicts()
    boot = verdict.parent / "boots" / "001"
    if damage == "folder":
        shutil.rmtree(boot)
    elif damage == "cut":
        (boot / "boot.json").write_bytes((boot / "boot.json").read_bytes()[:-20])
    else:
        (boot / damage).unlink()
    verdict.unlink()
    done = lab.run()
    assert (done.returncode, len(lab.boots())) == (EXIT_PASS, CELLS + 1), done.stderr
    assert "3 boots taken over" in done.stderr
    assert lab.boots()[-1] == str(boot)
    assert lab.verdicts() == [verdict]


def test_another_request_takes_no_boots_over(lab: FakeLab) -> None:
    lab.run()
    lab.verdicts()[0].unlink()
    lab.run("--arm", "shared")
    assert len(lab.boots()) == CELLS + 2
    lab.verdicts()[0].unlink()
    text = lab.scenario.read_text()
    deeper = text.replace("iodepth: 256", "iodepth: 255")
    assert deeper != text
    lab.scenario.write_text(deeper)
    lab.run()
    assert len(lab.boots()) == 2 * CELLS + 2


def test_a_file_with_other_words_takes_its_boots_over(lab: FakeLab) -> None:
    lab.run()
    lab.verdicts()[0].unlink()
    lab.scenario.write_text(lab.scenario.read_text() + "# changed\n")
    lab.run()
    assert len(lab.boots()) == CELLS


def test_boots_of_another_qemu_are_not_taken_over(lab: FakeLab) -> None:
    lab.run()
    lab.verdicts()[0].unlink()
    program = lab.folder / "fake-qemu"
    program.write_text(program.read_text() + "# another build of the same version\n")
    lab.run()
    assert len(lab.boots()) == 2 * CELLS


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, EXIT_INTERRUPTED, "interrupted"), (signal.SIGTERM, TERMINATED, "terminated")],
)
def test_a_stopped_run_leaves_nothing_behind_and_is_resumed(
    lab: FakeLab, number: signal.Signals, code: int, word: str
) -> None:
    process = lab.hold(*lab.words("--jobs", "1"), boot=3)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    assert err.endswith(f"blklab: {word}\n")
    assert "Traceback" not in err
    assert not lab.machines()
    assert not lab.verdicts()
    assert lab.run().returncode == EXIT_PASS
    assert len(lab.boots()) == CELLS + 1


def test_a_terminated_run_shows_the_cursor_again(lab: FakeLab) -> None:
    leader, follower = os.openpty()
    words = [sys.executable, "-m", "harness", *lab.words("--jobs", "1")]
    environment = lab.environment(TERM="xterm", **lab.plan(hold=[1, "load"]))
    process = subprocess.Popen(
        words, cwd=CHECKOUT, env=environment, stdout=subprocess.DEVNULL, stderr=follower, text=True
    )
    lab.started.append(process)
    os.close(follower)
    lab.await_boots(1, "held-load")
    process.terminate()
    shown = b""
    with suppress(OSError):
        while block := os.read(leader, 1 << 16):
            shown += block
    os.close(leader)
    assert process.wait(30) == TERMINATED
    assert b"\x1b[?25l" in shown
    assert shown.rfind(b"\x1b[?25h") > shown.rfind(b"\x1b[?25l")
    assert shown.rstrip().endswith(b"blklab: terminated")


def test_a_qemu_that_somebody_kills_is_the_lab_s_trouble(lab: FakeLab) -> None:
    process = lab.hold(*lab.words("--jobs", "1"), boot=2)
    (machine,) = lab.machines()
    os.kill(machine, signal.SIGKILL)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == EXIT_LAB_BROKEN
    assert "killed by signal 9" in out


def test_kernel_words_of_an_arm_are_on_its_command_line(lab: FakeLab) -> None:
    text = lab.scenario.read_text()
    lab.scenario.write_text(text.replace("cmd_per_lun: 16}", "cmd_per_lun: 16, kernel_words: tcm_loop.can_queue=64}"))
    assert lab.run().returncode == EXIT_PASS
    (verdict,) = lab.verdicts()
    seen = []
    for boot in sorted((verdict.parent / "boots").iterdir()):
        made = json.loads((boot / "boot.json").read_text())["fingerprint"]
        worded = made["arm"] == "limited"
        line = made["cmdline"]
        assert line.endswith(" tcm_loop.can_queue=64") is (line in made["argv"] and worded)
        assert (f"kernel command line\t/proc/cmdline\t{line}".encode() in (boot / "job.cpio").read_bytes()) is worded
        seen.append(made["arm"])
    assert seen.count("limited") == CELLS // 2

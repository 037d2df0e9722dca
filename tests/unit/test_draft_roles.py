# SPDX-License-Identifier: GPL-2.0-only
"""Drafts of fio jobs on filesystems, with sizes in shares, that poll, and with what happens before a job."""

from pathlib import Path

import pytest

from harness.scenario.fio import job_file
from tests.unit.test_draft import draft, refused, written

FILESYSTEM = (
    "topology: t\nmemory: 1G\ndisks: {d: {size: 512M, service: 1ms}}\nhbas: {h: {driver: null_blk, can_queue: 9}}\n"
    "luns: {l0: {hba: h, disks: [d]}}\nstacks: {fs: {kind: filesystem, type: ext4, over: [l0]}}\n"
)


def test_a_job_on_a_filesystem_only_measures_and_keeps_its_written_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "fs.yaml"
    place.write_text(FILESYSTEM)
    job = "[j]\nfilename=/mnt/f\nrw=randwrite\ndirect=1\nioengine=io_uring\nregisterfiles\nnorandommap\noverwrite=1\n"
    on_files = ("--topology", str(place), "--map", "/mnt=fs")
    without = refused(job, tmp_path, capsys, *on_files)
    assert "job.fio:2:1: disk: a role on the filesystem fs needs a size (write size: 64M)" in without
    large = refused(job + "size=1g\n", tmp_path, capsys, *on_files)
    assert "job.fio:2:1: disk: fs of 512M is too small for this role" in large
    scenario = draft(written(job + "size=8m\n", tmp_path), tmp_path, *on_files)
    assert (scenario.claims, set(scenario.arms)) == ((), {"base"})
    options = scenario.loads["solo-j"].roles["j"].options
    assert {options[name] for name in ("overwrite", "registerfiles", "norandommap")} == {"1"}
    said = capsys.readouterr().err
    assert "no first claim where filesystem fs makes" in said and "no such option" not in said
    on_disk = draft(written(job + "size=8m\n", tmp_path), tmp_path)
    assert "overwrite" not in on_disk.loads["solo-j"].roles["j"].options


def test_sizes_with_shares_carry_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """60 % of 4 KiB and 40 % of 64 KiB are 28 KiB in the mean."""
    job = "[j]\ndirect=1\nrw=randread\nioengine=libaio\niodepth=4\nbs=8k\nbssplit=4k/60:64k/40\n"
    scenario = draft(written(job, tmp_path), tmp_path)
    role = scenario.loads["solo-j"].roles["j"]
    assert (role.bs, role.sizes, role.options["norandommap"]) == (28672, {4096: 60, 65536: 40}, "1")
    assert scenario.claims
    sides = refused(job.replace("randread", "randrw").replace("64k/40", "64k/40,8k/100"), tmp_path, capsys)
    assert "job.fio:7:1: bssplit: reads and writes differ" in sides


def test_polling_jobs_need_poll_queues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = "[j]\ndirect=1\nrw=randread\nioengine=io_uring\niodepth=4\nhipri\n"
    assert "hipri: d0 has no poll queues" in refused(job, tmp_path, capsys)
    place = tmp_path / "polled.yaml"
    place.write_text(FILESYSTEM.partition("stacks")[0].replace("can_queue: 9", "can_queue: 9, poll_queues: 1"))
    scenario = draft(written(job, tmp_path), tmp_path, "--topology", str(place))
    assert scenario.loads["solo-j"].roles["j"].polls
    assert (scenario.claims, set(scenario.arms)) == ((), {"base"})
    assert "no first claim where null_blk completes what is polled" in capsys.readouterr().err


def test_jobs_of_one_file_on_a_filesystem_share_it(tmp_path: Path) -> None:
    """fio gives the clones of a job one file where it names the file, else each its own."""
    place = tmp_path / "fs.yaml"
    place.write_text(FILESYSTEM)
    common = "[global]\nrw=randwrite\ndirect=1\nsize=8m\ndirectory=/mnt\n"
    job = f"{common}[a]\nfilename=f\nnumjobs=2\n[b]\nfilename=f\nsize=4m\n[c]\nfilename=g\n[d]\nnumjobs=2\n"
    scenario = draft(written(job, tmp_path), tmp_path, "--topology", str(place), "--map", "/mnt=fs")
    roles = scenario.loads["together"].roles
    files = {name: role.options.get("files") for name, role in roles.items()}
    assert files == dict.fromkeys(("a", "b"), "shared-f") | dict.fromkeys(("c", "d"))
    assert [role.numjobs for role in roles.values()] == [2, 1, 1, 2]
    assert [role.options["size"] for role in roles.values()] == ["8388608", "4194304", "8388608", "8388608"]
    written_files = job_file(scenario.loads["together"], scenario.arms["base"].topology, 1).split()
    assert [line for line in written_files if line.startswith("filename")] == [
        *("filename=shared-f.0", "filename_format=shared-f.$filenum"),
        *("filename_format=c.$filenum", "filename_format=d-$jobnum.$filenum"),
    ]


def test_a_file_that_is_read_first_is_read_by_a_step_and_stays_in_the_cache(tmp_path: Path) -> None:
    place = tmp_path / "fs.yaml"
    place.write_text(FILESYSTEM)
    on_files = ("--topology", str(place), "--map", "/mnt=fs")
    job = "[j]\ndirectory=/mnt\nrw=randwrite\nioengine=psync\nnumjobs=2\nsize=8m\npre_read=1\n"
    load = draft(written(job, tmp_path), tmp_path, *on_files).loads["solo-j"]
    assert [(step.rw, step.direct, step.options["files"], step.options["size"]) for step in load.warm] == [
        ("read", False, name, "8388608") for name in ("j-0", "j-1")
    ]
    assert {role.options["invalidate"] for role in load.roles.values()} == {"0"}
    kept = draft(written(job.replace("pre_read=1", "invalidate=0"), tmp_path), tmp_path, *on_files).loads["solo-j"]
    assert (kept.warm, kept.roles["j"].options["invalidate"]) == ((), "0")
    direct = draft(written(job + "direct=1\n", tmp_path), tmp_path, *on_files).loads["solo-j"]
    assert (direct.warm, direct.roles["j"].options.get("invalidate")) == ((), None)


def test_a_device_is_not_read_first_as_a_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused("[j]\nrw=randread\npre_read=1\n", tmp_path, capsys)
    assert "job.fio:3:1: pre_read: the page cache does not take a whole device" in said

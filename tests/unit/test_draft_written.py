# SPDX-License-Identifier: GPL-2.0-only
"""Drafts of jobs as people write them: several devices, scripts, filesystems, output of every mode, places."""

import json
from pathlib import Path

import pytest

from harness.intake.documents import keys_at, node_at
from harness.intake.jobfile import read_jobs, reported_iops
from harness.intake.jobs import draft_jobs
from harness.scenario.fio import job_file
from lab.base.errors import InputErrors
from lab.yaml.strict import Map, Mark, Problems, parse
from tests.unit.test_draft import draft, refused, written

TWELVE = "[global]\nioengine=libaio\ndirect=1\nbs=4k\nrw=randread\niodepth=128\n[drives]\n" + "".join(
    f"filename=/dev/nvme{number}n1\n" for number in range(12)
)


def test_each_filename_of_a_section_is_a_disk_of_its_role(tmp_path: Path) -> None:
    """128 in flight on 12 drives in turn are 10 on each; a size, a rate and a pause are parts of the whole, too."""
    job = TWELVE + "size=12g\nrate_iops=1200\nthinktime=10\n"
    scenario = draft(written(job, tmp_path), tmp_path)
    role = scenario.loads["solo-drives"].roles["drives"]
    assert (role.disks, role.iodepth) == (tuple(f"d{number}" for number in range(12)), 10)
    assert (role.options["size"], role.options["rate_iops"], role.options["thinktime"]) == (str(1 << 30), "100", "120")
    comment = " ".join((tmp_path / "job.yaml").read_text().replace("\n#", "").split())
    assert "job.fio:19: iodepth=128: 10 on each file" in comment
    assert scenario.claims


def test_a_filename_of_a_global_section_is_opened_as_well(tmp_path: Path) -> None:
    """fio 3.39 opens a, b and c of ``[global] filename=a [j] filename=b filename=c`` (fio --debug=file)."""
    text = "[global]\nfilename=/dev/a\nrw=read\niodepth=8\ndirect=1\nioengine=libaio\n"
    j, k = draft_jobs(read_jobs(written(text + "[j]\nfilename=/dev/b\nfilename=/dev/c\n[k]\n", tmp_path)))
    assert (j.keys, k.keys) == (("/dev/a", "/dev/b", "/dev/c"), ("/dev/a",))


def test_a_colon_of_a_device_name_is_no_separator(tmp_path: Path) -> None:
    path = r"/dev/disk/by-path/pci-0000\:00\:1f.2-ata-1"
    (job,) = draft_jobs(read_jobs(written(f"[j]\nfilename={path}\n", tmp_path)))
    assert job.keys == ("/dev/disk/by-path/pci-0000:00:1f.2-ata-1",)


@pytest.mark.parametrize(
    ("sides", "iops"),
    [
        ({"mixed": {"iops": 1808.0}}, 1808),
        ({"mixed": {"iops": 100.0}, "read": {"iops": 70.0}, "write": {"iops": 30.0}, "trim": {"iops": 0}}, 100),
        ({"read": {"iops": 0}, "write": {"iops": 0}, "trim": {"iops": 50.0}}, 50),
    ],
    ids=["mixed", "both", "trim"],
)
def test_reported_figures_are_read_however_fio_sums_them(sides: dict[str, object], iops: float, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text(json.dumps({"jobs": [{"jobname": "w", **sides}]}))
    assert reported_iops(path) == {"w": iops}


def test_options_of_fios_output_are_no_reason_to_refuse(tmp_path: Path) -> None:
    text = (
        "[w]\nfilename=/dev/sdb\nioengine=io_uring\nrw=randwrite\niodepth=64\ndirect=1\nbuffered=0\nforce_async=4\n"
        "disk_util=0\nthread\nunified_rw_reporting=mixed\nbwavgtime=500\nlog_unix_epoch=1\nstats=1\n"
    )
    role = draft(written(text, tmp_path), tmp_path).loads["solo-w"].roles["w"]
    assert (role.options["force_async"], role.direct) == ("4", True)


SCRIPT = """\
#!/bin/bash
DEV=/dev/nvme0n1
export SIZE="4G"
# fio --name=no
echo "at $(date)"
fio --filename=$DEV --direct=1 --ioengine=libaio --rw=randread --bs=4k \\
    --iodepth=32 --size=${SIZE} --group_reporting \\
    --name=iops --runtime=60 --time_based --output=out.json --output-format=json 2>&1 | tee log
sudo /usr/bin/fio -filename=/dev/sdb -direct=1 -iodepth 4 -thread -rw=randwrite -ioengine=io_uring -name=a --name=b
"""


def test_the_fio_commands_of_a_shell_script_are_its_jobs(tmp_path: Path) -> None:
    """Options before the first --name are those of all jobs of a command; commands run one after another."""
    jobs = draft_jobs(read_jobs(written(SCRIPT, tmp_path), {}))
    assert [(job.label, job.keys, job.rw, job.iodepth, job.stage) for job in jobs] == [
        ("iops", ("/dev/nvme0n1",), "randread", 32, 0),
        ("a", ("/dev/sdb",), "randwrite", 4, 1),
        ("b", ("/dev/sdb",), "randwrite", 4, 1),
    ]
    assert (jobs[0].size, jobs[0].runtime, jobs[0].line) == (4 << 30, 60 * 10**9, f"{tmp_path}/job.fio:8")


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("#!/bin/sh\nls\n", "job.fio:1:1: a shell script without a fio command that names a job"),
        ("for d in a b; do\nfio --name=x --filename=/dev/$d\ndone\n", "job.fio:2:1: a fio command in a loop"),
        ("#!/bin/sh\nfor d in a b; do fio --name=x; done\n", "job.fio:2:1: a fio command in a loop"),
        ("if true; then\n  fio --name=x --rw=read\nfi\n", "job.fio:2:1: a fio command in a loop, in a condition"),
        ("fio --name=x --filename=$DEV\n", "job.fio:1:1: filename: ${DEV} is not set"),
        ("fio --name=x --filename=$(lsblk)\n", "job.fio:1:1: filename: the shell makes its value"),
        ("fio --name=x --filename=/dev/sd*\n", "job.fio:1:1: filename: the shell makes its value"),
        ("fio --name=x --rw=read &\n", "job.fio:1:1: & is no option of fio"),
        ("fio --name=x job.fio other.fio\n", "job.fio:1:1: job.fio is no option of fio"),
        ('fio --name=x "--rw=read\n', "job.fio:1:1: No closing quotation in this line"),
    ],
)
def test_what_a_shell_would_have_to_execute_is_refused_with_its_line(script: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        draft_jobs(read_jobs(written(script, tmp_path), {}))
    assert says in str(caught.value).replace(f"{tmp_path}/", "")


def test_a_delayed_start_is_within_the_ramp_of_what_runs_together(tmp_path: Path) -> None:
    """A ramp of 2 s at least follows the delay of 3 s; alone nothing is late."""
    text = "[global]\ndirect=1\nrw=randread\n[a]\nfilename=/dev/a\n[b]\nfilename=/dev/b\nstartdelay=3\n"
    scenario = draft(written(text, tmp_path), tmp_path)
    together = scenario.loads["together"]
    assert [role.startdelay for role in together.roles.values()] == [0, 3 * 10**9]
    assert together.ramp == scenario.loads["solo-b"].ramp + 3 * 10**9
    assert scenario.loads["solo-b"].roles["b"].startdelay == 0


def test_paces_and_places_of_requests_carry_over(tmp_path: Path) -> None:
    text = (
        "[a]\ndirect=1\nrw=randread\nioengine=libaio\niodepth=8\nrate_iops=90\nrate_process=poisson\nthinktime=100\n"
        "thinktime_spin=20\nrandom_distribution=zoned:60/10:30/20:8/30:2/40\n"
    )
    options = draft(written(text, tmp_path), tmp_path).loads["solo-a"].roles["a"].options
    assert {name: options[name] for name in ("rate_process", "thinktime", "thinktime_spin", "random_distribution")} == {
        "rate_process": "poisson",
        "thinktime": "100",
        "thinktime_spin": "20",
        "random_distribution": "zoned:60/10:30/20:8/30:2/40",
    }


def test_posixaio_has_one_request_of_a_file_in_flight(tmp_path: Path) -> None:
    text = "[a]\ndirect=1\nrw=randread\nioengine=posixaio\niodepth=16\n"
    role = draft(written(text, tmp_path), tmp_path).loads["solo-a"].roles["a"]
    assert (role.ioengine, role.iodepth) == ("posixaio", 1)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("bssplit=4k/50:8k/40", "job.fio:6:1: bssplit: the shares add up to 90 %, not to 100"),
        ("bssplit=4k/50:8000/50", "job.fio:6:1: bssplit: 8000 is not a multiple of 512"),
        ("bssplit=4k:8k", "job.fio:6:1: bssplit: expected sizes with shares"),
        ("rw=randtrim", "job.fio:6:1: rw: expected one of read, write"),
        ("bs=1000", "job.fio:6:1: bs: 1000 is not a multiple of 512"),
        ("bsrange=4k-64k", "job.fio:6:1: bsrange: a role has one size"),
        ("iodepth=many", 'job.fio:6:1: iodepth: "many" is not a whole number'),
        ("numjobs=257", "job.fio:6:1: numjobs: expected an integer from 1 to 256"),
        ("filename=/dev/sda:/dev/sdb", "job.fio:6:1: filename: 2 files in turn share 1 in flight"),
        ("kb_base=1000", "job.fio:6:1: kb_base: sizes in powers of 1000"),
        ("startdelay=1-4", 'job.fio:6:1: startdelay: "1-4" is not a time'),
        ("wait_for=nobody", "job.fio:6:1: wait_for: no job nobody above it"),
        ("filename=a:b", "job.fio:6:1: filename: several files of one job share its iodepth"),
        ("nrfiles=2", "job.fio:6:1: nrfiles: several files of one job share its iodepth"),
        ("ioengine=cpuio", "job.fio:6:1: ioengine: cpuio does no I/O to a block device (leave this job out: "),
        ("ioengine=falloc", "job.fio:6:1: ioengine: falloc does no I/O to a block device (leave this job out: "),
        ("ioengine=pvsync2", "job.fio:6:1: ioengine: pvsync2 is none of a role's (write ioengine=psync)"),
        ("force_async=4", "job.fio:6:1: force_async: libaio does not have it (write ioengine: io_uring)"),
        (
            "random_distribution=zoned:60/10:30/20",
            "job.fio:6:1: random_distribution: its zones have 90 % of the requests",
        ),
        (
            "random_distribution=zoned_abs:60/1g:40/2g",
            "job.fio:6:1: random_distribution: expected a distribution such as",
        ),
        (
            "thinktime_spin=5",
            "job.fio:6:1: thinktime_spin: it is a part of thinktime, which is 0 us (lengthen thinktime)",
        ),
        ("rate_process=poisson", "job.fio:6:1: rate_process: the role has no rate (write rate or rate_iops)"),
    ],
)
def test_what_a_role_does_not_have_is_refused_with_its_line_and_left_out_on_request(
    option: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"[a]\ndirect=1\nrw=randread\nioengine=libaio\n\n{option}\nsize=64m\n"
    assert says in refused(text, tmp_path, capsys)
    scenario = draft(written(text, tmp_path), tmp_path, "--without", option.partition("=")[0])
    comment = " ".join((tmp_path / "job.yaml").read_text().replace("\n#", "").split())
    assert f"job.fio:6: {option} is left out" in comment
    assert scenario.loads


def test_mistakes_have_the_places_of_the_authors_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The draft is a document that nobody has seen: what is wrong in it came from a line of a job or a topology."""
    said = refused(
        "[a]\nioengine=io_uring\nrw=randread\nbs=1000\n[b]\niodepth=9999\nioengine=io_uring\nprio=9\n", tmp_path, capsys
    )
    for line in ("4:1: bs: 1000 is not", "6:1: iodepth: expected an integer", "8:1: prio: expected an integer"):
        assert f"job.fio:{line}" in said
    assert said.count("bs: 1000 is not") == 1
    large = "[a]\ndirect=1\nrw=randread\n[b]\ndirect=1\nbs=256m\nioengine=libaio\niodepth=4\nrw=read\n"
    assert "job.fio:4:1: load solo-b: arm base has memory 512M" in refused(large, tmp_path, capsys)
    draft(written("[a]\ndirect=1\nrw=randread\nsize=99999999g\n", tmp_path), tmp_path)
    assert "job.fio:1: its size exceeds d0: it uses all of d0" in capsys.readouterr().err


def test_what_stands_at_a_place_of_a_document_is_found_in_another_one() -> None:
    theirs = parse(b"disks:\n  d: {size: 1G,\n    seek: 20us}\n", "theirs.yaml", Problems())
    ours = parse(b"a: 1\ntopology: {disks: {d: {size: 1G, seek: 160us}}}\n", "ours.yaml", Problems())
    assert isinstance(ours, Map)
    assert keys_at(ours, 2, 41) == ("topology", "disks", "d", "seek")
    assert keys_at(ours, 1, 4) == ("a",)
    assert node_at(theirs, ("disks", "d", "seek")).mark == Mark("theirs.yaml", 3, 11)
    assert node_at(theirs, ("disks", "d", "rpm")).mark == Mark("theirs.yaml", 2, 6)


FILESYSTEM = (
    "topology: t\nmemory: 1G\ndisks: {d: {size: 512M, service: 1ms}}\nhbas: {h: {driver: null_blk, can_queue: 9}}\n"
    "luns: {l0: {hba: h, disks: [d]}}\nstacks: {fs: {kind: filesystem, type: ext4, over: [l0]}}\n"
)


@pytest.fixture
def on_files(tmp_path: Path) -> tuple[str, ...]:
    """Options that put the files below /mnt on a filesystem."""
    (tmp_path / "fs.yaml").write_text(FILESYSTEM)
    return ("--topology", str(tmp_path / "fs.yaml"), "--map", "/mnt=fs")


def test_a_job_on_a_filesystem_only_measures_and_keeps_its_written_files(
    on_files: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = "[j]\nfilename=/mnt/f\nrw=randwrite\ndirect=1\nioengine=io_uring\nregisterfiles\nnorandommap\noverwrite=1\n"
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


def test_jobs_of_one_file_on_a_filesystem_share_it(on_files: tuple[str, ...], tmp_path: Path) -> None:
    """fio gives the clones of a job one file where it names the file, else each its own."""
    common = "[global]\nrw=randwrite\ndirect=1\nsize=8m\ndirectory=/mnt\n"
    job = f"{common}[a]\nfilename=f\nnumjobs=2\n[b]\nfilename=f\nsize=4m\n[c]\nfilename=g\n[d]\nnumjobs=2\n"
    scenario = draft(written(job, tmp_path), tmp_path, *on_files)
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


def test_a_file_that_is_read_first_is_read_by_a_step_and_stays_in_the_cache(
    on_files: tuple[str, ...], tmp_path: Path
) -> None:
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

# SPDX-License-Identifier: GPL-2.0-only
"""``blklab draft``: fio's rules, roles and loads, first claims, scale, and what is refused with its line."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.plain import identity
from harness.cli import main
from harness.intake.jobfile import fio_integer, fio_size, fio_time, read_jobs
from harness.intake.jobs import draft_jobs
from harness.intake.scaling import demands, factor
from harness.judge.cells import CellResult
from harness.judge.verdict import judge
from harness.limits.entries import load_scenario
from harness.limits.limits import arm_bound
from harness.report.claims import conclusion
from harness.scenario.model import Scenario, Status, Unseen
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_MISUSE, InputErrors
from lab.topology.load import catalogue
from tests.unit.machine_samples import MachineTree, megaraid, mpt3sas, nvme_four_paths

EXAMPLES = Path(__file__).parent / "fixtures" / "fio"
WITHOUT = {
    "aio-read": (),
    "basic-verify": (),
    "fio-rand-read": (),
    "fio-seq-read": (),
    "ssd-steadystate": (),
    "ssd-test": (),
    "tiobench-example": (),
    "waitfor": (),
    "flow": ("flow", "flow_sleep"),
    "disk-zone-profile": ("zonemode", "zonesize", "zoneskip"),
    "latency-profile": ("latency_target", "latency_window", "latency_percentile"),
    "numa": (),
    "fixed-rate-submission": ("io_submit_mode",),
}
"""fio's examples that become drafts, and the options of each that have no counterpart."""


def draft(job: Path, tmp_path: Path, *more: str) -> Scenario:
    output = tmp_path / f"{job.stem}.yaml"
    assert main(["draft", "--fio", str(job), "--output", str(output), *more]) == 0
    return load_scenario(str(output), search=tmp_path)


def written(text: str, tmp_path: Path) -> Path:
    path = tmp_path / "job.fio"
    path.write_text(text)
    return path


def refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    capsys.readouterr()
    assert main(["draft", "--fio", str(written(text, tmp_path)), *more]) == EXIT_MISUSE
    return capsys.readouterr().err.replace(f"{tmp_path}/", "")


@pytest.mark.parametrize("name", WITHOUT)
def test_public_jobs_become_scenarios_that_load(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = EXAMPLES / f"{name}.fio"
    if WITHOUT[name]:
        assert main(["draft", "--fio", str(job)]) == EXIT_MISUSE
        said = capsys.readouterr().err
        assert all(f": {option}: the draft has nothing that does the same" in said for option in WITHOUT[name])
    scenario = draft(job, tmp_path, *(word for option in WITHOUT[name] for word in ("--without", option)))
    assert scenario.claims and all(claim.draft for claim in scenario.claims)
    jobs = draft_jobs(read_jobs(job), WITHOUT[name])
    assert [scenario.loads[f"solo-{each.role}"].jobs for each in jobs] == [each.numjobs for each in jobs]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("surface-scan", "surface-scan.fio:8:1: verify: it reads back what another job wrote"),
        ("null", "null.fio:6:1: ioengine: null does no I/O to a block device (leave this job out: "),
    ],
)
def test_public_jobs_that_cannot_become_scenarios(name: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draft", "--fio", str(EXAMPLES / f"{name}.fio")]) == EXIT_MISUSE
    assert says in capsys.readouterr().err


def test_examples_of_fio_keep_their_files_stages_and_notes(tmp_path: Path) -> None:
    scenario = draft(EXAMPLES / "aio-read.fio", tmp_path)
    roles = scenario.loads["together"].roles
    assert {role.disks for role in roles.values()} == {("d0",)}
    assert [int(role.options.get("offset", "0")) >> 20 for role in roles.values()] == [0, 512, 1024, 1536]
    assert [role.iodepth for role in roles.values()] == [4, 32, 8, 16]
    assert "together" not in draft(EXAMPLES / "ssd-test.fio", tmp_path).loads
    assert [one.stage for one in draft_jobs(read_jobs(EXAMPLES / "waitfor.fio"))] == [0, 1, 2, 3]
    draft(EXAMPLES / "numa.fio", tmp_path)
    # Where a line of the comment ends depends on the path of the checkout.
    text = " ".join(line.lstrip("# ") for line in (tmp_path / "numa.yaml").read_text().splitlines())
    assert "numa.fio:14: numa_cpu_nodes has no effect: the guest has one CPU" in text


# fio's rules


def test_sections_inheritance_variables_and_comments(tmp_path: Path) -> None:
    text = """\
# comment
[global]
  ioengine = libaio   ; a comment behind
direct=1
size=${SIZE}
[one]
iodepth=7
; a comment
bs=8k
[global]
rw=randread
[two]
bs=$pagesize
filename=/dev/sda#1
"""
    jobs = read_jobs(written(text, tmp_path), {"SIZE": "64m"})
    values = [{name: option.value for name, option in job.options.items()} for job in jobs]
    common = {"ioengine": "libaio", "direct": "1", "size": "64m"}
    assert values[0] == {**common, "iodepth": "7", "bs": "8k"}
    assert values[1] == {**common, "rw": "randread", "bs": "4096", "filename": "/dev/sda"}
    assert jobs[0].options["bs"].line == 9


def test_mistakes_of_job_files_come_all_at_once_with_their_lines(tmp_path: Path) -> None:
    text = "rw=read\n[a]\nsize=${NONE}\nbs=$ncpus\ninclude more.fio\n"
    with pytest.raises(InputErrors) as caught:
        read_jobs(written(text, tmp_path), {})
    said = str(caught.value).replace(f"{tmp_path}/", "")
    for line in (
        "job.fio:1:1: rw: outside of a section",
        "job.fio:3:1: size: ${NONE} is not set",
        "job.fio:4:1: bs: $ncpus is of the machine that runs fio",
        "job.fio:5:1: include more.fio: included files are not read",
    ):
        assert line in said


def test_sizes_are_those_of_fio() -> None:
    assert {fio_size(text) for text in ("4k", "4K", "4kb", "4096", "0x1000")} == {4096}
    assert [fio_size(text) for text in ("4ki", "1m", "2TiB")] == [4000, 1 << 20, 2 * 10**12]


def test_times_are_those_of_fio() -> None:
    assert (fio_time("10m"), fio_time("4"), fio_time("2000", "us")) == (600 * 10**9, 4 * 10**9, 2 * 10**6)
    for text in ("", "-1", "1.5s", "9" * 30):
        with pytest.raises(ValueError, match="is not"):
            fio_time(text)
    with pytest.raises(ValueError, match="whole"):
        fio_integer("1e3")


def test_registered_buffers_and_a_polling_thread_carry_over_to_io_uring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "[a]\ndirect=1\nrw=randread\nioengine=io_uring\niodepth=4\nfixedbufs\nsqthread_poll=1\nzero_buffers\n"
    (role,) = draft(written(text, tmp_path), tmp_path).loads["solo-a"].roles.values()
    assert (role.options["fixedbufs"], role.options["sqthread_poll"]) == ("1", "1")
    assert "zero_buffers" not in role.options, "it writes nothing"
    off = text.replace("sqthread_poll=1", "sqthread_poll=0")
    assert "sqthread_poll" not in draft(written(off, tmp_path), tmp_path).loads["solo-a"].roles["a"].options
    said = refused(text.replace("io_uring", "libaio"), tmp_path, capsys)
    assert "job.fio:6:1: fixedbufs: the draft has nothing that does the same" in said


def test_job_files_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no job" in refused("[global]\nrw=read\n", tmp_path, capsys)
    assert main(["draft", "--fio", str(tmp_path)]) == EXIT_MISUSE
    assert main(["draft", "--fio", "/dev/zero"]) == EXIT_MISUSE
    (tmp_path / "large.fio").write_bytes(b"[a]\n" + b"x=1\n" * (1 << 19))
    assert main(["draft", "--fio", str(tmp_path / "large.fio")]) == EXIT_MISUSE
    assert "larger than 1 MiB" in capsys.readouterr().err


MIX = "[mix]\nfilename=/dev/sdb\ndirect=1\nrw={rw}\nioengine=libaio\niodepth=4\n{rate}\n"


def test_a_draft_expects_the_rate_of_each_direction_from_a_mix(tmp_path: Path) -> None:
    """4 in flight of 1 ms are 4,000 IOPS; 1,500 reads and 1,500 writes are less, and 3,010 are 1.003 of that."""
    fio = tmp_path / "fio.json"
    sides = {"read": {"iops": 1505.0}, "write": {"iops": 1505.0}}
    fio.write_text(json.dumps({"jobs": [{"jobname": "mix", **sides}]}))
    job = written(MIX.format(rw="randrw", rate="rate_iops=1500"), tmp_path)
    scenario = draft(job, tmp_path, "--from-output", str(fio))
    assert scenario.loads["solo-mix"].roles["mix"].options["rate_iops"] == "1500"
    (row,) = scenario.reproduces
    assert (row.ratio.text, row.reported) == ("base.solo-mix.mix.iops / 3000", 1.003)


@pytest.mark.parametrize(
    ("rw", "rate", "taken"),
    [
        ("randread", "rate_iops=90,20,7", "90"),
        ("randwrite", "rate_iops=90,20,7", "20"),
        ("trim", "rate_iops=90,20,7", "7"),
        ("trim", "rate_iops=90,20", "20"),
        ("randread", "rate_iops=,20", None),
        ("randwrite", "rate_iops=,20", "20"),
        ("randwrite", "rate_iops=90,", None),
        ("randrw", "rate_iops=90,90", "90"),
    ],
)
def test_a_rate_is_that_of_the_direction_of_the_job(rw: str, rate: str, taken: str | None, tmp_path: Path) -> None:
    """HOWTO of fio, rate: values for reads, writes and trims; an empty one sets no limit."""
    (job,) = draft_jobs(read_jobs(written(MIX.format(rw=rw, rate=rate), tmp_path)))
    assert job.rate_iops == (None if taken is None else int(taken))


def test_a_mix_whose_directions_have_different_rates_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rate in ("rate_iops=90,20", "rate_iops=,20", "rate=1m,"):
        said = refused(MIX.format(rw="randrw", rate=rate), tmp_path, capsys)
        assert f"job.fio:7:1: {rate.partition('=')[0]}: reads and writes differ (write two jobs" in said


# Topologies

PAIR = """\
[global]
direct=1
ioengine=libaio
rw=randread
[deep]
filename=/dev/p0
iodepth=64
[shallow]
filename=/dev/other
thinktime=500
rate_iops=90
"""


def test_jobs_are_put_on_disks_by_name_and_by_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology = ("--topology", "neighbours")
    scenario = draft(written(PAIR, tmp_path), tmp_path, *topology)
    assert scenario.arms["base"].topology.name == "neighbours"
    assert [role.disk for role in scenario.loads["together"].roles.values()] == ["p0", "p1"]
    swapped = draft(written(PAIR, tmp_path), tmp_path, *topology, "--map", "/dev/p0=p1", "--map", "/dev/other=p0")
    assert [role.disk for role in swapped.loads["together"].roles.values()] == ["p1", "p0"]
    assert "no p9" in refused(PAIR, tmp_path, capsys, *topology, "--map", "/dev/p0=p9")
    assert "no job uses /dev/q" in refused(PAIR, tmp_path, capsys, *topology, "--map", "/dev/q=p0")
    third = PAIR + "[third]\nfilename=/dev/x\n"
    assert "job.fio:12: no disk is left for /dev/x" in refused(third, tmp_path, capsys, *topology)


def test_a_mistake_in_the_topology_names_its_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = tmp_path / "two.yaml"
    lab.write_text(
        "topology: two\ntitle: Two scsi_debug\nmemory: 512M\n"
        "disks: {a: {size: 1G, service: 1ms}, b: {size: 1G, service: 1ms}}\n"
        "hbas:\n  x: {driver: scsi_debug, can_queue: 64}\n  y: {driver: scsi_debug, can_queue: 64}\n"
        "luns: {a: {hba: x, disks: [a]}, b: {hba: y, disks: [b]}}\n"
    )
    said = refused("[j]\nfilename=/dev/sda\nrw=randread\n", tmp_path, capsys, "--topology", str(lab))
    assert "two.yaml:7:" in said
    assert "scsi_debug allows only one HBA (put all LUNs on x, or use driver tcm_loop for all)" in said
    lab.write_text("[]\n")
    assert "two.yaml:1:1: " in refused("[j]\nfilename=/dev/sda\nrw=read\n", tmp_path, capsys, "--topology", str(lab))


@pytest.mark.parametrize("name", [one.name for one in catalogue() if not one.emulated])
def test_every_topology_of_the_catalogue_takes_a_job(name: str, tmp_path: Path) -> None:
    text = "[a]\nfilename=/dev/nowhere\ndirect=1\nrw=randread\nioengine=libaio\niodepth=4\n"
    scenario = draft(written(text, tmp_path), tmp_path, "--topology", name)
    assert set(scenario.arms) == {"base", "slower"}


@pytest.mark.parametrize(
    ("machine", "disk"), [(megaraid, "md127"), (mpt3sas, "dm-4"), (nvme_four_paths, "nvme0n1"), (megaraid, "sde")]
)
def test_a_captured_machine_takes_a_job(machine: Callable[[Path], MachineTree], disk: str, tmp_path: Path) -> None:
    topology = tmp_path / "machine.yaml"
    root = machine(tmp_path / "machine").root
    assert main(["capture", "--root", str(root), "--output", str(topology)]) == 0
    text = f"[a]\nfilename=/dev/{disk}\ndirect=1\nrw=randread\nioengine=libaio\niodepth=8\n"
    scenario = draft(written(text, tmp_path), tmp_path, "--topology", str(topology))
    arm = scenario.arms["base"]
    assert scenario.loads["solo-a"].roles["a"].disks == (disk,)
    assert arm.queue["scheduler"] == arm.topology.queue["scheduler"]


FAST = """\
topology: fast
memory: 512M
disks:
  d: {size: 1G, rate: 3000 MB/s, seek: 20us}
hbas:
  h: {driver: tcmu, can_queue: 256}
luns:
  d: {hba: h, disks: [d]}
"""


def test_a_machine_that_is_too_fast_is_scaled_and_says_what_that_hides(tmp_path: Path) -> None:
    (tmp_path / "fast.yaml").write_text(
        FAST.replace("{driver: tcmu", "{model: NVMe, original_driver: nvme, driver: tcmu")
    )
    text = "[a]\nfilename=/dev/d\ndirect=1\nrw=randread\nioengine=libaio\niodepth=256\nrate_iops=100000\nthinktime=2\n"
    job = written(text, tmp_path)
    scenario = draft(job, tmp_path, "--topology", str(tmp_path / "fast.yaml"))
    topology = scenario.arms["base"].topology
    assert topology.scale > 1
    role = scenario.loads["solo-a"].roles["a"]
    assert role.options["rate_iops"] == str(100_000 // topology.scale)
    assert role.options["thinktime"] == str(2 * topology.scale)
    assert f"rates are {topology.scale} times lower" in scenario.teaches
    assert "meant: names it: the machine's driver nvme: tcmu with 256 tags plays it, which is" in scenario.teaches
    # No timer lies between 21 us and its multiple; 256 queued requests take 5.5 ms on the machine.
    assert "Not to be concluded: whether BFQ no longer waits" in scenario.teaches
    assert {factor(busy) for busy, _, _ in demands(scenario.arms["base"], scenario.loads.values())} == {1}


def test_what_windows_on_one_cpu_hide_of_parallel_and_long_jobs_is_said(tmp_path: Path) -> None:
    text = "[a]\nfilename=/dev/d\ndirect=1\nrw=randwrite\nrefill_buffers\n{}time_based\n"
    scenario = draft(written(text.format("numjobs=3\nruntime=300\n"), tmp_path), tmp_path)
    assert "what 3 jobs wait for while they run in parallel, for the guest has one CPU" in scenario.teaches
    # 3 jobs at a service of 1 ms, 39.8 us of the CPU for each I/O among others: it works for 0.119 of a second, which
    # takes 0.119 x 15 + 0.881 x 0.1 = 1.88 s of the host. 12 s have room for 6 s.
    hidden = "unless meant: names it: what a test of 300 s shows later than 6 s (solo-a)."
    assert hidden in scenario.teaches and scenario.loads["solo-a"].published == 300 * 10**9
    (claim,), (control,) = scenario.claims, scenario.controls
    assert claim.ratio.text == "base.solo-a.a.iops / bound.base.solo-a.a.iops"
    assert control.ratio.text == "slower.solo-a.a.iops / bound.base.solo-a.a.iops"
    (job,) = draft_jobs(read_jobs(written(text.format("runtime=2\n"), tmp_path)))
    assert [note for note in job.notes if note.endswith(": refill_buffers is left out: a role has no such option")]
    assert "Not to be concluded" not in draft(written(text.format("runtime=2\n"), tmp_path), tmp_path).teaches


def test_what_the_machine_cannot_serve_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "slow.yaml").write_text(FAST.replace("3000 MB/s", "1 MB/s").replace("20us", "200ms"))
    text = "[a]\nfilename=/dev/d\ndirect=1\nrw=randread\nioengine=libaio\niodepth=256\n"
    said = refused(text, tmp_path, capsys, "--topology", str(tmp_path / "slow.yaml"))
    assert "job.fio:6:1: iodepth: disk d serves 256 requests in 52.2" in said
    assert "the command timeout is 30 s (reduce iodepth" in said


def test_reported_figures_become_ratios_and_those_of_other_jobs_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fio = tmp_path / "fio.json"
    sides = {"read": {"iops": 320.0}, "write": {"iops": 0}}
    fio.write_text(json.dumps({"jobs": [{"jobname": "deep", **sides}, {"jobname": "unknown", **sides}]}))
    scenario = draft(written(PAIR, tmp_path), tmp_path, "--topology", "neighbours", "--from-output", str(fio))
    (row,) = scenario.reproduces
    # 1 MB/s in token buckets of 20 ms are 250 reads of 4 KiB.
    assert (row.reported, row.ratio.text) == (1.28, "base.together.deep.iops / bound.base.together.deep.iops")
    fio = tmp_path / "fio.json"
    fio.write_text(json.dumps({"jobs": [{"jobname": "x", "read": {"iops": 1}}]}))
    assert "has no job of" in refused(PAIR, tmp_path, capsys, "--from-output", str(fio))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            (EXAMPLES / "exitwhat.fio").read_text(),
            "slow1, fast1, slow2, fast2, runsnever: no first claim, for the page",
        ),
        ("[a]\nrw=write\nfilename=/dev/d\n", "a: no first claim, for the page cache or read-ahead decides"),
        ("[a]\nrw=randread\ndirect=1\nrate_iops=1\nfilename=/dev/d\n", "no job waits for a disk in such a way"),
    ],
)
def test_jobs_that_allow_no_claim_become_a_scenario_that_only_measures(text: str, why: str, tmp_path: Path) -> None:
    fio = tmp_path / "fio.json"
    labels = [job.label for job in draft_jobs(read_jobs(written(text, tmp_path)))]
    fio.write_text(json.dumps({"jobs": [{"jobname": label, "write": {"iops": 1}} for label in labels]}))
    scenario = draft(written(text, tmp_path), tmp_path, "--from-output", str(fio))
    assert not scenario.claims and not scenario.controls and not scenario.reproduces
    assert list(scenario.arms) == ["base"]
    assert scenario.teaches.startswith("A draft without claims: a run only measures.")
    comment = " ".join((tmp_path / "job.yaml").read_text().replace("\n#", "").split())
    assert why in comment and "the reported figures are left out" in comment
    # What does not wait for a disk makes no window longer.
    assert {load.runtime for load in scenario.loads.values()} == {(200 if "direct=1" in text else 2) * 10**9}
    assert judge(scenario, _cells(scenario, 1.0)).status is Status.DONE


# Drafts in reports


def _cells(scenario: Scenario, value: float) -> list[CellResult]:
    """``value`` IOPS of each role, a ninth of them on slower disks."""
    names = [(load.name, role, "iops") for load in scenario.loads.values() for role in load.roles]
    idle = {(load, "guest", "cpu.idle"): 0.9 for load in scenario.loads}
    values = {arm: value / 9 if arm == "slower" else value for arm in scenario.arms}
    return [CellResult(arm, 1, Status.PASS, figures=dict.fromkeys(names, iops) | idle) for arm, iops in values.items()]


def test_drafts_decide_nothing_until_their_bounds_are_set(tmp_path: Path) -> None:
    scenario = draft(EXAMPLES / "fio-seq-read.fio", tmp_path)
    (claim,) = scenario.claims
    (load,) = scenario.loads.values()
    allowed = arm_bound(scenario.arms["base"], load, "file1", "iops")
    for value, code in ((1e9, EXIT_CANNOT_JUDGE), (1.0, 0), (allowed, 0)):
        verdict = judge(scenario, _cells(scenario, value))
        assert verdict.claims[0].text.endswith("(draft)")
        assert (verdict.status is Status.DONE, verdict.exit_code) == (code == 0, code)
    # 12 s of 900: a caveat, and the figure stays a figure.
    assert "what the test of 900 s shows later than" in verdict.claims[0].judgement.reason
    assert [each.word for each in (*verdict.claims, *verdict.controls)] == [Status.PASS, Status.PASS]
    assert "1 claim is a draft: set bounds" in conclusion(judge(scenario, _cells(scenario, allowed)))
    decided = replace(scenario, claims=(replace(claim, draft=False),))
    decided = replace(decided, digest=identity(decided))
    assert judge(decided, _cells(decided, allowed)).status is Status.DONE, "a part of a test of 900 s"
    decided = replace(decided, meant=(Unseen.SHORT,))
    assert judge(decided, _cells(decided, allowed)).status is Status.PASS
    assert judge(decided, _cells(decided, 1.0)).status is Status.FAIL

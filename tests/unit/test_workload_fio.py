# SPDX-License-Identifier: GPL-2.0-only
import configparser
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.limits.limits import arm_bound
from harness.report.terminal.scenario import describe_scenario
from harness.run.plan import guest_job
from harness.scenario import schema
from harness.scenario.fio import CGROUP_FILES, FIO_SEEDS, cgroups, job_file, of_processes, start_phase, step_file
from harness.scenario.model import Load, Role, Scenario
from lab.base.errors import InputErrors, Misuse
from lab.base.units import parse_size
from lab.guest.steps.load import Phase, RunLoad
from lab.topology.model import Disk, Driver, Hba, Lun, Stack, StackKind, Topology
from tests.unit.scenario_text import GOOD, RIG, load

GIB = 1 << 30
TOPOLOGY = Topology(
    name="t",
    title="",
    memory=GIB,
    hbas={"h": Hba("h", Driver.TCM_LOOP, 64, 64)},
    disks={name: Disk(name, GIB, service=1000) for name in ("a", "b", "c")},
    luns={"all": Lun("all", "h", ("a", "b")), "c": Lun("c", "h", ("c",))},
)
VICTIM = Role("victim", ("b",), "randread", 4096, 1, "libaio", direct=True)
HOG = Role("hog", ("c",), "write", 65536, 256, "io_uring", direct=False, options={"rwmixread": "70", "fsync": "1"})


def window(*roles: Role, ramp: int = 10**9) -> Load:
    return Load("lopsided", {role.name: role for role in roles}, runtime=8 * 10**9, ramp=ramp)


def sections(text: str) -> dict[str, dict[str, str]]:
    """As fio's own parser sees them: name, then key=value up to the end of the line."""
    parser = configparser.RawConfigParser(
        delimiters=("=",), comment_prefixes=("#", ";"), strict=True, empty_lines_in_values=False
    )
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


def test_golden() -> None:
    assert job_file(window(VICTIM, HOG), TOPOLOGY, seed=2) == (
        "[global]\n"
        "time_based=1\n"
        "runtime=8000000us\n"
        "ramp_time=1000000us\n"
        "randseed=15838\n"
        "thread=1\n"
        "clocksource=clock_gettime\n"
        "lat_percentiles=1\n"
        "clat_percentiles=1\n"
        "percentile_list=50:90:99:99.9\n"
        "group_reporting=0\n"
        "exitall=1\n"
        "exit_what=all\n"
        "\n"
        "[victim]\n"
        "filename=/lab/all\n"
        "offset=1073741824\n"
        "size=1073741824\n"
        "rw=randread\n"
        "bs=4096\n"
        "iodepth=1\n"
        "ioengine=libaio\n"
        "direct=1\n"
        "\n"
        "[hog]\n"
        "filename=/lab/c\n"
        "offset=0\n"
        "size=1073741824\n"
        "rw=write\n"
        "bs=65536\n"
        "iodepth=256\n"
        "ioengine=io_uring\n"
        "direct=0\n"
        "fsync=1\n"
        "rwmixread=70\n"
    )


AGED = """\
scenario: t
title: A test
schema: 1
topology:
  topology: aged
  memory: 512M
  disks: {d0: {size: 128M, service: 1ms}}
  hbas: {h: {driver: null_blk, can_queue: 64}}
  luns: {d0: {hba: h, disks: [d0]}}
  stacks: {fs: {kind: filesystem, type: ext4, over: [d0]}}
queue: {scheduler: none}
window: {ramp: 0s, runtime: 1s}
arms: {one: {}}
loads:
  write:
    prepare: [{disk: fs, rw: write, bs: 32k, iodepth: 1, size: 1M, nrfiles: 32, files: old, age: true}]
    writer: {disk: fs, rw: write, bs: 4k, iodepth: 1, size: 1M}
"""


def test_a_step_that_ages_a_filesystem_deletes_every_second_file_after_all_are_written(tmp_path: Path) -> None:
    scenario = load(AGED, tmp_path)
    (step,) = scenario.loads["write"].prepare
    job = sections(step_file(step, scenario.arms["one"].topology, 1))["prepare1"]
    assert job["filename_format"] == "old.$filenum"
    assert (job["openfiles"], job["file_service_type"], job["nrfiles"]) == ("1", "sequential", "32")
    assert job["exec_postrun"] == "rm /lab/fs/old.*[13579]"
    assert "age" not in job


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        ("iodepth: 1, size: 1M}", "iodepth: 1, size: 1M, age: true}", "age: only a step deletes files"),
        ("[{disk: fs, rw: write", "[{disk: fs, rw: read", "age: rw: read does not write"),
        ("[{disk: fs", "[{disk: d0", "age: d0 is not a filesystem"),
    ],
)
def test_only_a_step_that_writes_files_ages_a_filesystem(was: str, now: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match=says):
        load(AGED.replace(was, now), tmp_path)


def test_windows_end_together_and_one_without_ramp_names_none() -> None:
    assert "exitall" in sections(job_file(window(VICTIM, HOG), TOPOLOGY, 1))["global"]
    assert "exitall" not in sections(job_file(window(VICTIM), TOPOLOGY, 1))["global"]
    assert "ramp_time" not in job_file(window(VICTIM, ramp=0), TOPOLOGY, 1)


def test_a_role_on_several_disks_is_one_group_of_fio_s() -> None:
    text = job_file(window(VICTIM, replace(HOG, disks=("a", "c"))), TOPOLOGY, 1)
    _, _, victim, first, second = text.split("[")
    assert "group" not in victim
    head, rest = first.split("\n", 1), second.split("\n", 1)
    assert head[0] == rest[0] == "hog]"
    assert head[1].startswith("new_group=1\ngroup_reporting=1\nfilename=/lab/all\n")
    assert rest[1].startswith("group_reporting=1\nfilename=/lab/c\n")
    assert head[1].split("size=")[1].strip() == rest[1].split("size=")[1].strip()


def test_a_stagger_delays_the_starts_and_not_the_windows() -> None:
    late = window(replace(HOG, disks=("a", "b", "c"), stagger=2_500_000))
    first, second, third = job_file(late, TOPOLOGY, 1).split("[hog]")[1:]
    assert "startdelay" not in first
    assert "startdelay=2500us\nramp_time=997500us\n" in second
    assert "startdelay=5000us\nramp_time=995000us\n" in third


def test_writers_of_checksums_do_not_read_and_readers_go_on_after_a_bad_block() -> None:
    checked = [replace(role, options={"verify": "crc32c"}) for role in (VICTIM, HOG)]
    jobs = sections(job_file(window(*checked), TOPOLOGY, 1))
    names = ("verify", "do_verify", "continue_on_error")
    assert [jobs["victim"].get(name) for name in names] == ["crc32c", None, "verify"]
    assert [jobs["hog"].get(name) for name in names] == ["crc32c", "0", None]


@pytest.mark.parametrize(
    "options, region",
    [
        ({}, (GIB, GIB)),
        ({"offset": "1m"}, (GIB + (1 << 20), GIB - (1 << 20))),
        ({"size": "1m"}, (GIB, 1 << 20)),
        ({"offset": "1m", "size": "2m"}, (GIB + (1 << 20), 2 << 20)),
        ({"offset": "1023m", "size": "1g"}, (2 * GIB - (1 << 20), 1 << 20)),
    ],
)
def test_a_role_stays_on_its_disk(options: dict[str, str], region: tuple[int, int]) -> None:
    job = sections(job_file(window(replace(VICTIM, options=options)), TOPOLOGY, 1))["victim"]
    assert (int(job["offset"]), int(job["size"])) == region


def test_a_cell_s_job_has_every_load_in_order_and_seeds_differ_in_random_numbers_and_phase_alone(
    tmp_path: Path,
) -> None:
    scenario = load(GOOD, tmp_path)
    arm = scenario.arms["shared"]
    first, second = (guest_job(scenario, arm, seed) for seed in (1, 2))
    assert first == guest_job(scenario, arm, 1)
    assert first.phase != second.phase
    assert first.labels != second.labels
    for one, other in zip(first.loads, second.loads, strict=True):
        differing = [
            pair for pair in zip(one.fio.split("\n"), other.fio.split("\n"), strict=True) if pair[0] != pair[1]
        ]
        assert [pair[0].partition("=")[0] for pair in differing] == ["randseed"]
    scenario = load(GOOD, tmp_path)
    job = guest_job(scenario, scenario.arms["limited"], 1)
    assert [load.name for load in job.loads] == ["solo", "lopsided"]
    assert {load.time for load in job.loads} == {9 * 10**9}
    assert (job.queue, job.pause) == ({"scheduler": "none"}, scenario.pause)
    assert job.labels["arm"] == "limited"


@given(st.text(), st.integers(1, 64))
def test_the_phase_is_below_a_tick_of_the_disk_model(name: str, seed: int) -> None:
    phase = start_phase(name, seed)
    assert 0 <= phase < 20_000_000
    assert phase % 1000 == 0
    assert phase == start_phase(name, seed)


def test_sixty_four_seeds_are_sixty_four_phases_and_random_seeds() -> None:
    assert len({start_phase("shared-queue", seed) for seed in range(1, 65)}) == 64
    texts = [job_file(window(VICTIM), TOPOLOGY, seed) for seed in range(1, 65)]
    randoms = {int(sections(text)["global"]["randseed"]) for text in texts}
    assert len(randoms) == 64
    assert all(0 < random < FIO_SEEDS for random in randoms)


SAMPLES = {
    "rwmixread": st.integers(0, 100),
    "rate_iops": st.integers(1, 10**7),
    "rate": st.integers(1, 9).map(lambda number: f"{number} MB/s"),
    "thinktime": st.integers(1, 10**6).map(lambda number: f"{number}us"),
    "fsync": st.integers(0, 10**6),
    "fdatasync": st.integers(0, 10**6),
    "verify": st.sampled_from(("crc32c", "md5")),
    "size": st.integers(1, 1000).map(lambda number: f"{number}M"),
    "offset": st.integers(0, 20).map(lambda number: f"{number}M"),
    "fadvise_hint": st.sampled_from(("true", "false")),
    "zero_buffers": st.sampled_from(("true", "false")),
    "sync": st.sampled_from(("sync", "dsync")),
    "iodepth_batch": st.just(1),
    "io_max": st.sampled_from(("riops=5", "rbps=1048576 wiops=100")),
    "io_latency": st.integers(1, 1000).map(lambda number: f"{number}ms"),
    "prioclass": st.integers(1, 3),
    "prio": st.integers(0, 7),
    "norandommap": st.sampled_from(("true", "false")),
    "cpus": st.just("0"),
    "random_distribution": st.sampled_from(("random", "zipf:1.2", "pareto:0.9", "normal:50", "zoned:90/10:10/90")),
}
ROLES = st.fixed_dictionaries(
    {
        "rw": st.just("randrw"),
        "bs": st.sampled_from(("512", "4k", "8k", "16k")),
        "iodepth": st.integers(1, 64),
        "ioengine": st.sampled_from(("libaio", "io_uring")),
        "direct": st.just("true"),
    },
    optional=SAMPLES,
)


WEIGHTS = {"io_weight": "300", "bfq_weight": "300"}
"""These need an arm with iocost, or with bfq."""


def test_every_allowed_option_has_a_sample() -> None:
    of_files = {"age", "create", "files", "invalidate", "nrfiles", "overwrite"}
    others = {"bssplit", "rate_process", "thinktime_blocks", "thinktime_spin", "zonemode", "zonesize", "max_open_zones"}
    assert {*SAMPLES, *of_files, *others, *schema.ONLY_IO_URING, *WEIGHTS} == schema.OPTIONS.keys()


def test_a_role_with_limits_is_a_process_in_a_cgroup_of_its_own() -> None:
    one = replace(VICTIM, disks=("b", "c"), options={"io_max": "riops=5"})
    load = window(one, HOG)
    jobs = sections(job_file(load, TOPOLOGY, 1).replace("[victim]", "[second]", 1))
    for name in ("second", "victim"):
        assert jobs[name]["thread"] == "0"
        assert jobs[name]["exec_prerun"] == "echo $PPID | tee /sys/fs/cgroup/lopsided.victim/cgroup.procs"
        assert not {"io_max", "io_weight"} & jobs[name].keys()
    assert "thread" not in jobs["hog"]
    assert [step.fields() for step in cgroups(load, TOPOLOGY)] == [
        ("cgroup/limit", "lopsided.victim", device, "io.max riops=5") for device in ("all", "c")
    ]


WORDS = {"io_weight": "io.weight 7000", "bfq_weight": "io.bfq.weight 7000", "io_latency": "io.latency target=7"}


@pytest.mark.parametrize(("key", "words"), WORDS.items())
def test_a_role_with_a_weight_or_a_target_is_a_process_too(key: str, words: str) -> None:
    one = replace(VICTIM, options={key: schema.to_fio(key, 7000)})
    (step,) = cgroups(window(one), TOPOLOGY)
    assert step.fields() == ("cgroup/limit", "lopsided.victim", "all", words)
    assert sections(job_file(window(one), TOPOLOGY, 1))["victim"]["thread"] == "0"
    assert of_processes(window(one))
    assert not of_processes(window(one, HOG))


def test_options_of_io_uring() -> None:
    one = replace(VICTIM, ioengine="io_uring", options={"fixedbufs": "1", "sqthread_poll": "1", "iodepth_batch": "8"})
    job = sections(job_file(window(one), TOPOLOGY, 1))["victim"]
    assert (job["fixedbufs"], job["sqthread_poll"], job["iodepth_batch"]) == ("1", "1", "8")
    assert job["iodepth_low"] == "1"
    deep = replace(one, iodepth=32)
    assert sections(job_file(window(deep), TOPOLOGY, 1))["victim"]["iodepth_low"] == "24"


def test_a_role_of_several_sizes_has_their_mean_as_its_bs(tmp_path: Path) -> None:
    """60 % of 4 KiB and 40 % of 64 KiB are 28 KiB in the mean."""
    split: dict[str, object] = {"rw": "randread", "bs": "28k", "iodepth": 4, "bssplit": "4k/60:64k/40"}
    split["norandommap"] = "true"
    scenario = with_role(split, tmp_path)
    job = sections(job_file(scenario.loads["lopsided"], scenario.arms["shared"].topology, 1))["hog"]
    assert (job["bs"], job["bssplit"]) == ("28672", "4k/60:64k/40")
    for change, says in {
        ("bs", "4k"): r"bs: the mean of bssplit is 28672 bytes \(write bs: 28672\)",
        ("bssplit", "4k/60:64k/50"): "bssplit: the shares add up to 110 %, not to 100",
        ("bssplit", "1000/60:64k/40"): "bssplit: 1000 is not a multiple of 512",
        ("bssplit", "4k/100"): "bssplit: expected sizes with shares",
        ("norandommap", "false"): "bssplit: fio cuts requests that reach a block which it did before",
        ("verify", "md5"): "bssplit: checksums are of blocks of one size",
        ("size", "32k"): "disk: p1 of 1G is too small",
        ("disk", "p0"): "bssplit: disk p0 serves whole requests of one size in a tick",
    }.items():
        with pytest.raises(InputErrors, match=says):
            with_role({**split, change[0]: change[1]}, tmp_path)


def test_a_polling_role_needs_poll_queues_and_the_company_of_others_that_poll(tmp_path: Path) -> None:
    polled: dict[str, object] = {"rw": "randread", "bs": "4k", "iodepth": 4, "ioengine": "io_uring", "hipri": "true"}
    with pytest.raises(InputErrors, match="hipri: p1 has no poll queues"):
        with_role(polled, tmp_path)
    changes = (("direct", "false", "the page cache is not polled"), ("ioengine", "libaio", "libaio does"))
    for key, value, says in changes:
        with pytest.raises(InputErrors, match=f"hipri: {says}"):
            with_role({**polled, key: value}, tmp_path)
    assert not with_role({**polled, "hipri": "false"}, tmp_path).loads["lopsided"].roles["hog"].polls
    row = "{disk: p0, rw: randread, bs: 4k, iodepth: 4, ioengine: io_uring, hipri: true}"
    text = GOOD.replace("topology: neighbours", "topology: ./polled.yaml")
    text = text.replace("hba.cmd_per_lun", "queue.nr_requests").replace(
        "{disk: p0, rw: randread, bs: 4k, iodepth: 256}", row
    )
    rig = RIG.replace("driver: tcm_loop", "driver: null_blk, poll_queues: 2").replace("rate: 1 MB/s", "service: 1ms")
    (tmp_path / "polled.yaml").write_text(rig)
    with pytest.raises(InputErrors, match="hipri: roles of this load that do not poll have other tags"):
        load(text, tmp_path)
    scenario = load(text.replace("{disk: p1, rw: randread, bs: 4k, iodepth: 1}", row.replace("p0", "p1")), tmp_path)
    assert sections(job_file(scenario.loads["lopsided"], scenario.arms["shared"].topology, 1))["hog"]["hipri"] == "1"
    with pytest.raises(Misuse, match="nothing bounds hog: null_blk completes what is polled"):
        arm_bound(scenario.arms["shared"], scenario.loads["lopsided"], "hog", "iops")


def test_a_role_on_a_filesystem_has_files_there() -> None:
    stacks = {"fs": Stack("fs", StackKind.FILESYSTEM, ("c",), type="xfs")}
    topology = replace(TOPOLOGY, stacks=stacks)
    writer = Role("writer", ("fs",), "write", 4096, 1, "psync", False, {"size": "4m", "nrfiles": "16", "sync": "dsync"})
    reader = Role("reader", ("fs",), "read", 4096, 1, "psync", False, {"size": "4m", "files": "writer"})
    jobs = sections(job_file(window(writer, reader), topology, 1))
    assert jobs["writer"]["directory"] == jobs["reader"]["directory"] == "/lab/fs"
    assert jobs["writer"]["filename_format"] == jobs["reader"]["filename_format"] == "writer.$filenum"
    assert (jobs["writer"]["size"], jobs["writer"]["nrfiles"], jobs["writer"]["sync"]) == ("4194304", "16", "dsync")
    assert not {"filename", "offset", "files"} & {*jobs["writer"], *jobs["reader"]}


PREPARED = GOOD.replace("topology: neighbours", "topology: ./rig.yaml").replace(
    "  lopsided:\n",
    "  lopsided:\n    prepare: [{disk: p1, rw: write, bs: 1M, iodepth: 4, size: 64M}]\n"
    "    warm: [{disk: p1, rw: read, bs: 64k, iodepth: 1, direct: false, size: 1M}]\n",
)


def test_steps_before_a_load_run_once_over_their_size(tmp_path: Path) -> None:
    """64 requests of 1 ms for the first, 16 for the other, four times and a minute more."""
    (tmp_path / "rig.yaml").write_text(RIG.replace("rate: 1 MB/s", "service: 1ms"))
    scenario = load(PREPARED, tmp_path)
    arm, (solo, lopsided) = scenario.arms["shared"], guest_job(scenario, scenario.arms["shared"], 2).loads
    assert (solo.prepare, solo.warm) == ((), ())
    (rest, first), (again, second) = lopsided.prepare, lopsided.warm
    assert rest == again == Phase("rest")
    assert isinstance(first, RunLoad) and isinstance(second, RunLoad)
    assert (first.name, second.name) == ("lopsided.prepare1", "lopsided.warm1")
    assert (solo.patience, lopsided.patience) == (0, 120 * 10**9 + 320 * 10**6)
    assert lopsided.fio == job_file(scenario.loads["lopsided"], arm.topology, 2)
    jobs = sections(first.fio)
    assert jobs["global"].items() >= {"randseed": "15838", "thread": "1", "end_fsync": "1"}.items()
    assert not {"time_based", "runtime", "ramp_time", "exitall"} & jobs["global"].keys()
    assert jobs["prepare1"].items() >= {"rw": "write", "size": str(64 << 20), "direct": "1"}.items()
    assert "end_fsync" not in sections(second.fio)["global"]
    says = "; before: prepare1 write 1M QD4 on p1, 64M; before: warm1 read 64k QD1 libaio buffered on p1, 1M"
    assert says in " ".join(describe_scenario(scenario).split())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (", size: 64M", "", "prepare: size is missing"),
        ("size: 1M", "size: 2G", "disk: p1 of 1G is too small"),
        ("disk: p1, rw: read", "disk: p7, rw: read", "disk: no disk p7"),
        ("size: 1M", 'size: 1M, io_max: "riops=5"', "io_max: a step has no cgroup"),
        ("iodepth: 4, size", "iodepth: 4, ioengine: psync, size", "iodepth: psync has one request in flight"),
    ],
)
def test_mistakes_of_steps(old: str, new: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "rig.yaml").write_text(RIG.replace("rate: 1 MB/s", "service: 1ms"))
    assert old in PREPARED
    with pytest.raises(InputErrors, match=says):
        load(PREPARED.replace(old, new), tmp_path)


def with_role(role: dict[str, object], folder: Path) -> Scenario:
    """The sample scenario whose hog on a disk without rate limits is ``role``."""
    (folder / "rig.yaml").write_text(RIG)
    text = GOOD.replace("topology: neighbours", "topology: ./rig.yaml")
    rows = ", ".join(f"{key}: {value}" for key, value in {"disk": "p1", **role}.items())
    return load(text.replace("hog: {disk: p0, rw: randread, bs: 4k, iodepth: 256}", f"hog: {{{rows}}}"), folder)


@given(ROLES)
def test_any_allowed_role_comes_back_from_its_job_file(
    tmp_path_factory: pytest.TempPathFactory, role: dict[str, object]
) -> None:
    scenario = with_role(role, tmp_path_factory.mktemp("s"))
    load = scenario.loads["lopsided"]
    topology = scenario.arms["shared"].topology
    text = job_file(load, topology, 1)
    jobs = sections(text)
    assert list(jobs) == ["global", *load.roles]
    hog, job = load.roles["hog"], jobs["hog"]
    assert all(line.isprintable() for line in text.splitlines())
    assert (job["rw"], job["bs"], job["iodepth"]) == (hog.rw, str(hog.bs), str(hog.iodepth))
    assert (job["ioengine"], job["direct"]) == (hog.ioengine, "1")
    moved = {"size", "offset", *CGROUP_FILES}
    renamed = {"cpus": "cpus_allowed"}
    kept = {renamed.get(key, key): value for key, value in hog.options.items() if key not in moved}
    assert {key: job[key] for key in kept} == kept
    # Checksums are written now and checked by a load that reads.
    assert len(job) == 8 + len(kept) + ("verify" in kept) + ("iodepth_batch" in kept) + 2 * bool(
        CGROUP_FILES.keys() & hog.options.keys()
    )
    region = topology.region("p1")
    start, size = int(job["offset"]), int(job["size"])
    assert region.offset <= start < start + size <= region.offset + region.size
    assert start == region.offset + parse_size(hog.options.get("offset", "0"))

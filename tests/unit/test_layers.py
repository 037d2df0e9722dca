# SPDX-License-Identifier: GPL-2.0-only
"""Snapshots, dm-crypt, loop devices and filesystems as layers: their keys, steps, programs, sizes and roles."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.run.plan import OPTIONS_NEEDED
from harness.scenario.fio import CGROUP_FILES, job_file
from harness.scenario.loads import refused
from harness.scenario.model import Arm, Load, Role
from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.guest import payload
from lab.guest.steps import job_files
from lab.guest.steps.device import Array, Filesystem, LocklessArray, Module, Write
from lab.guest.steps.load import LayFiles, RunLoad
from lab.guest.steps.setting import Cgroup, Confirm
from lab.realise.capability import missing
from lab.realise.recipe import devices, queue_settings
from lab.session import GuestLoad, Job, guest_steps
from lab.topology.limits import refusals
from lab.topology.model import Driver, Topology, superblocks
from lab.topology.parameters import apply_setting
from tests.unit.analysis_samples import bound
from tests.unit.payload_samples import kernel, lay_out, lay_out_makers
from tests.unit.test_topology_load import load, mistakes

LAYERS = """\
topology: t
memory: 512M
disks:
  d0..5: {size: 512M, service: 100us}
hbas:
  h0: {driver: null_blk, can_queue: 64}
luns:
  l0..5: {hba: h0, disks: [d0..5]}
stacks:
  secret: {kind: crypt, over: [l0]}
  copy: {kind: snapshot, chunk: 16k, over: [l1, l2]}
  fs: {kind: filesystem, type: ext4, over: [l3]}
  image: {kind: loop, size: 64M, direct_io: true, over: [fs]}
  whole: {kind: loop, over: [l4]}
"""


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    return load(LAYERS, tmp_path)


PARAMETERS = {"null_blk": ("nr_devices", "shared_tags", "hw_queue_depth", "submit_queues")}


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> payload.Payload:
    """A payload without the programs of layers, which come from a folder of their own."""
    lay_out(tmp_path / "root")
    lay_out_makers(tmp_path / "made")
    monkeypatch.setattr(payload, "_tree_of_maker", lambda cache, name: tmp_path / "made")
    return payload.assemble(tmp_path / "root", {})


def script(topology: Topology) -> list[str]:
    return job_files(devices(topology), deadline=1)["script"].decode().splitlines()


def test_tables_of_a_snapshot_and_of_its_origin(topology: Topology) -> None:
    files = job_files(devices(topology), deadline=1)
    assert files["copy.table"] == b"0 1048576 snapshot /lab/l1 /lab/l2 P 32\n"
    origin = apply_setting(topology, "stack.copy.side", "origin")
    files = job_files(devices(origin), deadline=1)
    assert files["copy-snapshot.table"] == b"0 1048576 snapshot /lab/l1 /lab/l2 P 32\n"
    assert files["copy.table"] == b"0 1048576 snapshot-origin /lab/l1\n"
    lines = script(origin)
    assert lines.index("dm/table\tcopy-snapshot\tcopy-snapshot.table") < lines.index("dm/table\tcopy\tcopy.table")


def test_the_halves_of_the_key_differ(topology: Topology) -> None:
    words = job_files(devices(topology), deadline=1)["secret.table"].decode().split()
    assert words[:4] == ["0", "1048576", "crypt", "aes-xts-plain64"]
    assert (len(words[4]), words[5:]) == (128, ["0", "/lab/l0", "0"])
    assert words[4][:64] != words[4][64:]


def test_loop_devices_are_numbered_and_their_mode_is_read_back(topology: Topology) -> None:
    lines = script(topology)
    assert f"loop/attach\timage\t1\t/lab/fs/image.loop {64 << 20} --direct-io=on" in lines
    assert "loop/attach\twhole\t0\t/lab/l4 0 --direct-io=off" in lines
    assert "confirm\tstack.direct_io[image]\t/lab/image.sys/loop/dio\t1" in lines
    assert topology.stack_size("image") == 64 << 20
    assert topology.stack_size("whole") == 512 << 20


def test_disks_below_keep_what_is_written(topology: Topology) -> None:
    assert topology.keeping() == {f"l{number}" for number in range(5)}


@pytest.mark.parametrize(
    ("disk", "says"), [("copy", "snapshot copy"), ("image", "loop image"), ("whole", "loop whole")]
)
def test_nothing_bounds_what_makes_requests_of_its_own(disk: str, says: str, topology: Topology) -> None:
    one = Role("reader", (disk,), "randread", 4096, 1, "libaio", direct=True, options={})
    with pytest.raises(Misuse, match=f"nothing bounds reader: {says} makes requests of its own"):
        bound(topology, Load("l", {"reader": one}, runtime=10**9, ramp=0), one, "iops")
    direct = replace(one, disks=("secret",))
    assert bound(topology, Load("l", {"reader": direct}, runtime=10**9, ramp=0), direct, "iops") == 10_000


@pytest.mark.parametrize("absent", ["dm-crypt", "aesni-intel", "dm-snapshot", "loop"])
def test_a_kernel_without_a_layer_is_named(absent: str, topology: Topology, tmp_path: Path) -> None:
    wanted = {step.name: "" for step in devices(topology) if isinstance(step, Module)}
    assert not missing(kernel(tmp_path / "whole", wanted, parameters=PARAMETERS), topology, {})
    del wanted[absent]
    (reason,) = missing(kernel(tmp_path / "a", wanted, parameters=PARAMETERS), topology, {})
    assert absent in reason


QOS, MODEL = "enable=1 ctrl=user min=100.00", "ctrl=user model=linear rrandiops=2000"


def test_iocost_is_set_on_every_lun_with_its_model_first(topology: Topology, tmp_path: Path) -> None:
    queue = {"scheduler": "none", "iocost/qos": QOS, "iocost/model": MODEL}
    steps = [step for step in queue_settings(topology, queue) if isinstance(step, Cgroup)]
    assert [step.fields() for step in steps[5:7]] == [
        ("cgroup/limit", ".", "l5", f"io.cost.model {MODEL}"),
        ("cgroup/limit", ".", "l0", f"io.cost.qos {QOS}"),
    ]
    assert len(steps) == 12
    wanted = {step.name: "" for step in devices(topology) if isinstance(step, Module)}
    one = kernel(tmp_path / "a", wanted, parameters=PARAMETERS)
    weights = [OPTIONS_NEEDED[key] for key in ("io_weight", "bfq_weight", "io_latency")]
    assert missing(one, topology, queue, options=weights) == (
        "CONFIG_BLK_CGROUP_IOCOST is not set",
        "CONFIG_BFQ_GROUP_IOSCHED is not set",
        "CONFIG_BLK_CGROUP_IOLATENCY is not set",
    )
    assert CGROUP_FILES.keys() <= OPTIONS_NEEDED.keys()


@pytest.mark.parametrize(
    ("queue", "options", "keys"),
    [
        ({"scheduler": "bfq"}, {"bfq_weight": "300"}, []),
        ({"scheduler": "none"}, {"bfq_weight": "300"}, ["bfq_weight"]),
        ({"scheduler": "none", "iocost/qos": QOS}, {"io_weight": "300"}, []),
        ({"scheduler": "none", "iocost/qos": "enable=0"}, {"io_weight": "300"}, ["io_weight"]),
        ({"scheduler": "none", "throttle/read_iops": "5"}, {"io_max": "riops=5"}, ["disk"]),
    ],
)
def test_a_weight_needs_who_reads_it(
    queue: dict[str, str], options: dict[str, str], keys: list[str], topology: Topology
) -> None:
    one = Role("reader", ("d5",), "randread", 4096, 1, "libaio", direct=True, options=options)
    assert [found[0] for found in refused(one, [one], Arm("a", topology, queue, {}))] == keys


@pytest.mark.parametrize("key", ["bfq_weight", "io_latency"])
@pytest.mark.parametrize(("disk", "refuses"), [("secret", True), ("fs", False), ("l5", False)])
def test_a_weight_is_one_of_a_disk(key: str, disk: str, refuses: bool, topology: Topology) -> None:
    one = Role("reader", (disk,), "randread", 4096, 1, "libaio", direct=True, options={key: "3", "size": "1M"})
    arm = Arm("a", topology, {"scheduler": "bfq"}, {})
    assert [found[0] for found in refused(one, [one], arm)] == [key] * refuses


@pytest.mark.parametrize(("disk", "keys"), [("l5", []), ("secret", ["rw"]), ("copy", ["rw"]), ("whole", ["rw"])])
def test_discards_do_not_pass_every_layer(disk: str, keys: list[str], topology: Topology) -> None:
    disks = {name: replace(each, discard=True) for name, each in topology.disks.items()}
    one = Role("trimmer", (disk,), "trim", 4096, 1, "libaio", direct=True, options={})
    arm = Arm("a", replace(topology, disks=disks), {"scheduler": "none"}, {})
    assert [found[0] for found in refused(one, [one], arm)] == keys


def test_guests_with_a_loop_device_alone_have_losetup(plain: payload.Payload, cache: Cache) -> None:
    assert payload.with_makers(cache, plain, ()).entries == plain.entries
    assert payload.with_makers(cache, plain, ("loop",)).entries.keys() - plain.entries.keys() == {"bin/losetup"}


MIRROR = """\
topology: t
memory: 512M
disks:
  d0..2: {size: 512M, service: 100us}
hbas:
  h0: {driver: null_blk, can_queue: 64}
luns:
  l0..2: {hba: h0, disks: [d0..2]}
stacks:
  m0: {kind: md, level: raid1, over: [l0, l1]}
  fs: {kind: filesystem, type: xfs, mkfs: -d su=64k, mount: "noatime,nodiratime", over: [m0]}
"""


@pytest.fixture
def mirrored(tmp_path: Path) -> Topology:
    return load(MIRROR, tmp_path)


def test_an_arm_may_set_the_type_and_the_options(mirrored: Topology) -> None:
    other = apply_setting(apply_setting(mirrored, "stack.fs.type", "ext4"), "stack.fs.mkfs", "-b 1024")
    (step,) = (step for step in devices(other) if isinstance(step, Filesystem))
    assert step.words.startswith("ext4 noatime,nodiratime ")
    assert step.words.endswith(" -b 1024")
    assert not list(refusals(other))


def test_it_is_made_after_the_device_below_and_its_disks_keep_data(mirrored: Topology) -> None:
    lines = job_files(devices(mirrored), deadline=1)["script"].decode().splitlines()
    made = next(line for line in lines if line.startswith("filesystem"))
    assert made.startswith("filesystem/make\tfs\tm0\txfs noatime,nodiratime -q -f -m uuid=")
    assert made.endswith(" -d su=64k")
    assert lines.index("module\txfs") < lines.index(made)
    assert [line.split("\t")[0] for line in lines].index("md/array") < lines.index(made)
    bare = replace(mirrored, stacks={"fs": replace(mirrored.stacks["fs"], over=("l2",))})
    kept = [step for step in devices(bare) if "memory_backed" in str(step)]
    assert kept == [Write("/sys/kernel/config/nullb/nullb2/memory_backed", "1")]


def test_files_are_laid_before_the_rest_of_each_load(mirrored: Topology) -> None:
    job = Job({}, (GuestLoad("one", "", 1000), GuestLoad("two", "", 1000)), pause=0, phase=0, labels={})
    verbs = [step.fields()[0] for step in guest_steps(mirrored, job)][-8:]
    assert verbs == ["filesystem/layout", "phase", "pause", "load"] * 2
    none = guest_steps(replace(mirrored, stacks={}), job)
    assert not [step for step in none if isinstance(step, LayFiles)]


def test_steps_run_before_and_after_the_files_of_a_load_are_laid(mirrored: Topology) -> None:
    first = GuestLoad("one", "", 1000, prepare=(RunLoad("a", ""),), warm=(RunLoad("b", ""), RunLoad("c", "")))
    job = Job({}, (first, GuestLoad("two", "", 1000)), pause=0, phase=0, labels={})
    lines = [" ".join(step.fields()[:2]) for step in guest_steps(mirrored, job)]
    assert lines[lines.index("load a") :] == [
        *("load a", "filesystem/layout one", "load b", "load c", "phase rest", "pause 0.000000", "load one"),
        *("filesystem/layout two", "phase rest", "pause 0.000000", "load two"),
    ]


def test_files_of_several_roles_are_laid_by_a_job_that_does_not_end_at_the_first(mirrored: Topology) -> None:
    one = Role("one", ("fs",), "write", 4096, 1, "psync", True, {"size": "4m"})
    loads = [(one,), (one, replace(one, name="b"))]
    jobs = [job_file(Load("l", {role.name: role for role in roles}, 10**6, 0), mirrored, 1) for roles in loads]
    alone, several = (LayFiles("l", job) for job in jobs)
    assert (alone.fields(), dict(alone.files())) == (("filesystem/layout", "l"), {})
    assert several.fields() == ("filesystem/layout", "l.files")
    assert "exitall" in several.fio
    laid = several.files()["l.files.fio"]
    assert "exit" not in laid and laid.count("filename_format") == 2


def test_a_kernel_without_the_filesystem_is_named(mirrored: Topology, tmp_path: Path) -> None:
    has = dict.fromkeys(("configfs", "null_blk", "md-mod", "raid1"), "")
    (reason,) = missing(kernel(tmp_path / "a", has, parameters=PARAMETERS), mirrored, {})
    assert "xfs" in reason
    assert not missing(kernel(tmp_path / "b", {**has, "xfs": ""}, parameters=PARAMETERS), mirrored, {})


def role(**options: str) -> Role:
    return Role("writer", ("fs",), "write", 4096, 1, "psync", direct=False, options=options)


@pytest.mark.parametrize(
    ("one", "key"),
    [
        (role(), "disk"),
        (role(size="64m", offset="1m"), "offset"),
        (role(size="1g"), "disk"),
        (replace(role(nrfiles="2"), disks=("d2",)), "nrfiles"),
        (replace(role(files="a"), disks=("d2",)), "files"),
        (replace(role(create="1"), disks=("d2",)), "create"),
    ],
)
def test_what_a_role_on_it_needs(one: Role, key: str, mirrored: Topology) -> None:
    arm = Arm("a", mirrored, {"scheduler": "none"}, {})
    assert [found[0] for found in refused(one, [one], arm)] == [key]
    fit = role(size="64m", files="a", nrfiles="4")
    assert not list(refused(fit, [fit], arm))


def test_nothing_bounds_it(mirrored: Topology) -> None:
    one = role(size="64m")
    with pytest.raises(Misuse, match="nothing bounds writer"):
        bound(mirrored, Load("l", {"writer": one}, runtime=10**9, ramp=0), one, "iops")


def test_its_guests_alone_have_mkfs(plain: payload.Payload, cache: Cache) -> None:
    more = payload.with_makers(cache, plain, {"xfs"})
    assert more.entries.keys() - plain.entries.keys() == {"bin/mkfs.xfs"}


def test_limits_of_both_kinds_of_cgroups_exclude_each_other(mirrored: Topology) -> None:
    arm = Arm("a", mirrored, {"scheduler": "none", "throttle/read_iops": "5"}, {})
    one = replace(role(io_max="riops=5"), disks=("d2",))
    assert [found[0] for found in refused(one, [one], arm)] == ["disk"]


def test_programs_that_cannot_be_fetched_are_an_error_of_the_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanished(*arguments: object, **options: object) -> None:
        raise CannotJudge("trixie has no xfsprogs", remedy="name an archive")

    root = tmp_path / "root"
    lay_out(root)
    monkeypatch.setattr("lab.packages.lock.unpacked", vanished)
    with pytest.raises(LabBroken, match=r"mkfs\.xfs cannot be fetched: trixie has no xfsprogs"):
        payload.with_makers(Cache(tmp_path), payload.assemble(root, {}), {"xfs"})


def test_the_driver_of_its_disks_is_found_through_the_stack(mirrored: Topology) -> None:
    assert mirrored.driver("fs") is Driver.NULL_BLK
    assert mirrored.keeping() == {"l0", "l1"}


@pytest.mark.parametrize(
    ("text", "old", "new", "wanted"),
    [
        (LAYERS, "chunk: 16k, ", "", "stack copy: chunk is missing"),
        (LAYERS, "[l1, l2]", "[l1]", "kind snapshot is over two devices: the origin and the store of its snapshot"),
        (LAYERS, "over: [l0]", "over: [l0, l5]", "kind crypt is over one device"),
        (LAYERS, "size: 64M, ", "", "size is missing: its file on the filesystem fs needs one"),
        (LAYERS, "size: 64M", "size: 1G", "size 1G exceeds its smallest member"),
        (
            LAYERS,
            "{kind: loop, over: [l4]}",
            "{kind: loop, size: 64M, over: [l4]}",
            "size is that of a file, and l4 is a device",
        ),
        (LAYERS, "driver: null_blk", "driver: tcm_loop", "kind crypt needs driver null_blk or tcmu"),
        (MIRROR, "type: xfs, ", "", "stack fs: type is missing"),
        (MIRROR, "type: xfs", "type: zfs", "expected one of ext4, xfs, btrfs"),
        (MIRROR, "over: [m0]", "over: [m0, l2]", "stack fs: a stack of kind filesystem is over one device"),
        (MIRROR, "mount: ", "chunk: 64k, mount: ", "kind filesystem has no chunk"),
        (MIRROR, '"noatime,nodiratime"', '"no atime"', "mount options"),
        (
            MIRROR,
            "\n  fs:",
            "\n  up: {kind: linear, over: [fs]}\n  fs:",
            "only a loop device can be over the filesystem fs",
        ),
        (MIRROR, "driver: null_blk", "driver: tcm_loop", "kind filesystem needs driver null_blk or tcmu"),
        (MIRROR, "driver: null_blk", "driver: scsi_debug", "stack m0: kind md needs disks that keep its superblocks"),
        (MIRROR, "level: raid1,", "level: raid1, queue: {scheduler: bfq},", "m0: queue.scheduler: it has no queue of"),
        (LAYERS, "kind: crypt,", "kind: crypt, queue: {nr_requests: 8},", "secret: queue.nr_requests: it has no queue"),
        (
            LAYERS,
            "kind: loop, over",
            "kind: loop, queue: {io_timeout: 900}, over",
            "whole: queue.io_timeout: it has no",
        ),
        (
            MIRROR,
            "level: raid1,",
            "level: raid1, queue: {max_sectors_kb: 128},",
            "max_sectors_kb 128 exceeds 127, what null",
        ),
        (MIRROR, "{size: 512M,", "{size: 300M,", "xfs needs 300M or more, m0 has 299M"),
        (LAYERS.replace("ext4", "btrfs"), "{size: 512M,", "{size: 64M,", "btrfs needs 109M or more, l3 has 64M"),
        (MIRROR, "{size: 512M,", "{size: 1M,", "stack m0: l0 has no room besides its superblock"),
        (MIRROR, "level: raid1,", "level: raid1, size: 512M,", "stack m0: size 512M exceeds its smallest member"),
    ],
)
def test_mistakes(text: str, old: str, new: str, wanted: str, tmp_path: Path) -> None:
    assert old in text
    assert wanted in mistakes(text.replace(old, new), tmp_path)


@pytest.mark.parametrize(
    ("size", "chunk", "kept"),
    [(64 << 20, 0, 1 << 20), (512 << 20, 64 << 10, 1 << 20), (512 << 20, 1 << 20, 2 << 20), (1 << 40, 0, 129 << 20)],
)
def test_an_array_keeps_a_part_of_its_members(size: int, chunk: int, kept: int) -> None:
    """As mdadm 4.4 shows it: a Data Offset of 2048 sectors on small members, 264192 on one of 1 TiB."""
    assert superblocks(size, chunk) == kept


def test_each_filesystem_of_a_kind_has_a_uuid_of_its_own(mirrored: Topology) -> None:
    second = replace(mirrored.stacks["fs"], name="two", over=("l2",))
    both = replace(mirrored, stacks={**mirrored.stacks, "two": second})
    words = [step.words.split("uuid=")[1].split()[0] for step in devices(both) if isinstance(step, Filesystem)]
    assert words == ["11111111-2222-4333-8444-555555555555", "11111111-2222-4333-8444-555555555556"]


def test_a_lockless_bitmap_is_made_of_an_internal_one_and_confirmed(mirrored: Topology) -> None:
    lockless = apply_setting(mirrored, "stack.m0.bitmap", "lockless")
    made, confirmed = (step for step in devices(lockless) if isinstance(step, LocklessArray | Confirm))
    internal = apply_setting(mirrored, "stack.m0.bitmap", "internal")
    (usual,) = (step for step in devices(internal) if isinstance(step, Array))
    assert made.fields() == ("md/lockless", *usual.fields()[1:])
    assert confirmed.fields() == ("confirm", "stack.bitmap[m0]", "/lab/m0.sys/md/bitmap_type", "llbitmap")


def test_a_kernel_without_lockless_bitmaps_is_named(mirrored: Topology, tmp_path: Path) -> None:
    lockless = apply_setting(mirrored, "stack.m0.bitmap", "lockless")
    wanted = {step.name: "" for step in devices(lockless) if isinstance(step, Module)}
    made = kernel(tmp_path / "a", wanted, parameters=PARAMETERS)
    assert not missing(made, mirrored, {})
    (reason,) = missing(made, lockless, {})
    assert reason.startswith("CONFIG_MD_LLBITMAP is not set: ")
    assert not missing(replace(made, config={**made.config, "CONFIG_MD_LLBITMAP": "y"}), lockless, {})


def test_an_array_that_an_arm_turns_into_one_with_stripes_needs_a_chunk(mirrored: Topology) -> None:
    striped = apply_setting(mirrored, "stack.m0.level", "raid0")
    assert [str(reason) for reason in refusals(striped)] == ["stack m0: chunk is missing, which raid0 needs"]
    assert not list(refusals(apply_setting(striped, "stack.m0.chunk", 1 << 16)))

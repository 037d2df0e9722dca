# SPDX-License-Identifier: GPL-2.0-only
"""Snapshots, dm-crypt and loop devices as layers of a topology: their keys, steps, programs and sizes."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.limits.bounds import bound
from harness.run.plan import OPTIONS_NEEDED
from harness.scenario.carry import refused
from harness.scenario.fio import CGROUP_FILES
from harness.scenario.model import Arm, Load, Role
from lab.base.cache import Cache
from lab.base.contents import note
from lab.base.errors import Misuse
from lab.guest import filesystems, payload
from lab.guest.steps import job_files
from lab.guest.steps.device import Module
from lab.guest.steps.setting import Cgroup
from lab.realise.capability import missing
from lab.realise.recipe import devices, queue_settings
from lab.topology.load import load_topology
from lab.topology.model import Topology
from lab.topology.settings import apply_setting
from tests.unit.payload_samples import SMALL_PROGRAM, kernel, lay_out
from tests.unit.test_topology_load import mistakes

TEXT = """\
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
    (tmp_path / "t.yaml").write_text(TEXT)
    return load_topology("./t.yaml", near=tmp_path)


def script(topology: Topology) -> list[str]:
    return job_files(devices(topology), deadline=1)["script"].decode().splitlines()


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("chunk: 16k, ", "", "stack copy: chunk is missing"),
        ("[l1, l2]", "[l1]", "kind snapshot is over two devices: the origin and the store of its snapshot"),
        ("over: [l0]", "over: [l0, l5]", "kind crypt is over one device"),
        ("size: 64M, ", "", "size is missing: its file on the filesystem fs needs one"),
        ("size: 64M", "size: 1G", "size 1G exceeds its smallest member"),
        (
            "{kind: loop, over: [l4]}",
            "{kind: loop, size: 64M, over: [l4]}",
            "size is that of a file, and l4 is a device",
        ),
        ("driver: null_blk", "driver: tcm_loop", "kind crypt needs driver null_blk or tcmu"),
    ],
)
def test_mistakes(old: str, new: str, wanted: str, tmp_path: Path) -> None:
    assert old in TEXT
    assert wanted in mistakes(TEXT.replace(old, new), tmp_path)


def test_tables_of_a_snapshot_and_of_its_origin(topology: Topology) -> None:
    files = job_files(devices(topology), deadline=1)
    assert files["copy.table"] == b"0 1048576 snapshot /lab/l1 /lab/l2 P 32\n"
    origin = apply_setting(topology, "stack.copy.side", "origin")
    files = job_files(devices(origin), deadline=1)
    assert files["copy-snapshot.table"] == b"0 1048576 snapshot /lab/l1 /lab/l2 P 32\n"
    assert files["copy.table"] == b"0 1048576 snapshot-origin /lab/l1\n"
    lines = script(origin)
    assert lines.index("table\tcopy-snapshot\tcopy-snapshot.table") < lines.index("table\tcopy\tcopy.table")


def test_the_halves_of_the_key_differ(topology: Topology) -> None:
    words = job_files(devices(topology), deadline=1)["secret.table"].decode().split()
    assert words[:4] == ["0", "1048576", "crypt", "aes-xts-plain64"]
    assert (len(words[4]), words[5:]) == (128, ["0", "/lab/l0", "0"])
    assert words[4][:64] != words[4][64:]


def test_loop_devices_are_numbered_and_their_mode_is_read_back(topology: Topology) -> None:
    lines = script(topology)
    assert f"loop\timage\t1\t/lab/fs/image.loop {64 << 20} --direct-io=on" in lines
    assert "loop\twhole\t0\t/lab/l4 0 --direct-io=off" in lines
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
    parameters = {"null_blk": ("nr_devices", "shared_tags", "hw_queue_depth", "submit_queues")}
    assert not missing(kernel(tmp_path / "whole", wanted, parameters=parameters), topology, {})
    del wanted[absent]
    (reason,) = missing(kernel(tmp_path / "a", wanted, parameters=parameters), topology, {})
    assert absent in reason


QOS, MODEL = "enable=1 ctrl=user min=100.00", "ctrl=user model=linear rrandiops=2000"


def test_iocost_is_set_on_every_lun_with_its_model_first(topology: Topology, tmp_path: Path) -> None:
    queue = {"scheduler": "none", "iocost/qos": QOS, "iocost/model": MODEL}
    steps = [step for step in queue_settings(topology, queue) if isinstance(step, Cgroup)]
    assert [step.fields() for step in steps[5:7]] == [
        ("cgroup", ".", "l5", f"io.cost.model {MODEL}"),
        ("cgroup", ".", "l0", f"io.cost.qos {QOS}"),
    ]
    assert len(steps) == 12
    wanted = {step.name: "" for step in devices(topology) if isinstance(step, Module)}
    parameters = {"null_blk": ("nr_devices", "shared_tags", "hw_queue_depth", "submit_queues")}
    one = kernel(tmp_path / "a", wanted, parameters=parameters)
    weights = [OPTIONS_NEEDED[key] for key in ("io_weight", "bfq_weight")]
    assert missing(one, topology, queue, options=weights) == (
        "CONFIG_BLK_CGROUP_IOCOST is not set",
        "CONFIG_BFQ_GROUP_IOSCHED is not set",
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


def test_guests_with_a_loop_device_alone_have_losetup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    lay_out(root)
    plain = payload.assemble(root, {})
    made = tmp_path / "made" / "usr/sbin/losetup"
    made.parent.mkdir(parents=True)
    made.write_bytes(SMALL_PROGRAM.read_bytes())
    note(tmp_path / "made")
    monkeypatch.setattr(filesystems, "_tree", lambda cache, name: tmp_path / "made")
    none, more = (filesystems.added(Cache(tmp_path / "cache"), plain, layers) for layers in ((), ("loop",)))
    assert more.entries.keys() - none.entries.keys() == {"bin/losetup", "loop.sh"}
    assert b"even_further" not in none.entries["further.sh"].data
    assert b'. /loop.sh; even_further "$@"' in more.entries["further.sh"].data
    assert b"loop) make_loop" in more.entries["loop.sh"].data

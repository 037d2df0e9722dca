# SPDX-License-Identifier: GPL-2.0-only
"""Filesystems as a layer of a topology: their keys, steps, programs, and the roles that use them."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.limits.bounds import bound
from harness.scenario.carry import refused
from harness.scenario.model import Arm, Load, Role
from lab.base.cache import Cache
from lab.base.contents import note
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.guest import filesystems, payload
from lab.guest.steps import job_files
from lab.guest.steps.device import Filesystem, Write
from lab.guest.steps.load import LayFiles
from lab.realise.capability import missing
from lab.realise.recipe import devices
from lab.session import GuestLoad, Job, guest_steps
from lab.topology.limits import refusals
from lab.topology.load import load_topology
from lab.topology.model import Driver, Topology
from lab.topology.settings import apply_setting
from tests.unit.payload_samples import SMALL_PROGRAM, kernel, lay_out
from tests.unit.test_topology_load import mistakes

TEXT = """\
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
def topology(tmp_path: Path) -> Topology:
    (tmp_path / "t.yaml").write_text(TEXT)
    return load_topology("./t.yaml", near=tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("type: xfs, ", "", "stack fs: type is missing"),
        ("type: xfs", "type: zfs", "expected one of ext4, xfs, btrfs"),
        ("over: [m0]", "over: [m0, l2]", "stack fs: a stack of kind filesystem is over one device"),
        ("mount: ", "chunk: 64k, mount: ", "kind filesystem has no chunk"),
        ('"noatime,nodiratime"', '"no atime"', "mount options"),
        ("\n  fs:", "\n  up: {kind: linear, over: [fs]}\n  fs:", "only a loop device can be over the filesystem fs"),
        ("driver: null_blk", "driver: tcm_loop", "kind filesystem needs driver null_blk or tcmu"),
    ],
)
def test_mistakes(old: str, new: str, wanted: str, tmp_path: Path) -> None:
    assert old in TEXT
    assert wanted in mistakes(TEXT.replace(old, new), tmp_path)


def test_an_arm_may_set_the_type_and_the_options(topology: Topology) -> None:
    other = apply_setting(apply_setting(topology, "stack.fs.type", "ext4"), "stack.fs.mkfs", "-b 1024")
    (step,) = (step for step in devices(other) if isinstance(step, Filesystem))
    assert step.words.startswith("ext4 noatime,nodiratime ")
    assert step.words.endswith(" -b 1024")
    assert not list(refusals(other))


def test_it_is_made_after_the_device_below_and_its_disks_keep_data(topology: Topology) -> None:
    lines = job_files(devices(topology), deadline=1)["script"].decode().splitlines()
    made = next(line for line in lines if line.startswith("filesystem"))
    assert made.startswith("filesystem\tfs\tm0\txfs noatime,nodiratime -q -f -m uuid=")
    assert made.endswith(" -d su=64k")
    assert lines.index("module\txfs") < lines.index(made)
    assert [line.split("\t")[0] for line in lines].index("array") < lines.index(made)
    bare = replace(topology, stacks={"fs": replace(topology.stacks["fs"], over=("l2",))})
    kept = [step for step in devices(bare) if "memory_backed" in str(step)]
    assert kept == [Write("/sys/kernel/config/nullb/nullb2/memory_backed", "1")]


def test_files_are_laid_before_the_rest_of_each_load(topology: Topology) -> None:
    job = Job({}, (GuestLoad("one", "", 1000), GuestLoad("two", "", 1000)), pause=0, phase=0, labels={})
    verbs = [step.fields()[0] for step in guest_steps(topology, job)][-8:]
    assert verbs == ["layout", "phase", "pause", "load"] * 2
    none = guest_steps(replace(topology, stacks={}), job)
    assert not [step for step in none if isinstance(step, LayFiles)]


def test_a_kernel_without_the_filesystem_is_named(topology: Topology, tmp_path: Path) -> None:
    has = dict.fromkeys(("configfs", "null_blk", "md-mod", "raid1"), "")
    parameters = {"null_blk": ("nr_devices", "shared_tags", "hw_queue_depth", "submit_queues")}
    (reason,) = missing(kernel(tmp_path / "a", has, parameters=parameters), topology, {})
    assert "xfs" in reason
    assert not missing(kernel(tmp_path / "b", {**has, "xfs": ""}, parameters=parameters), topology, {})


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
def test_what_a_role_on_it_needs(one: Role, key: str, topology: Topology) -> None:
    arm = Arm("a", topology, {"scheduler": "none"}, {})
    assert [found[0] for found in refused(one, [one], arm)] == [key]
    fit = role(size="64m", files="a", nrfiles="4")
    assert not list(refused(fit, [fit], arm))


def test_nothing_bounds_it(topology: Topology) -> None:
    one = role(size="64m")
    with pytest.raises(Misuse, match="nothing bounds writer"):
        bound(topology, Load("l", {"writer": one}, runtime=10**9, ramp=0), one, "iops")


def test_its_guests_alone_have_mkfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    lay_out(root)
    plain = payload.assemble(root, {})
    made = tmp_path / "made" / "usr/sbin/mkfs.xfs"
    made.parent.mkdir(parents=True)
    made.write_bytes(SMALL_PROGRAM.read_bytes())
    note(tmp_path / "made")
    monkeypatch.setattr(filesystems, "_tree", lambda cache, name: tmp_path / "made")
    more = filesystems.added(Cache(tmp_path / "cache"), plain, {"xfs"})
    assert more.entries.keys() - plain.entries.keys() == {
        "bin/mkfs.xfs",
        "bin/readlink",
        "bin/sync",
        "bin/tee",
        "further.sh",
    }
    assert b". /further.sh" in more.entries["runner.sh"].data
    assert b"filesystem)" in more.entries["further.sh"].data
    assert b"further.sh" not in plain.entries["runner.sh"].data


def test_limits_of_both_kinds_of_cgroups_exclude_each_other(topology: Topology) -> None:
    arm = Arm("a", topology, {"scheduler": "none", "throttle/read_iops": "5"}, {})
    one = replace(role(io_max="riops=5"), disks=("d2",))
    assert [found[0] for found in refused(one, [one], arm)] == ["disk"]


def test_programs_that_cannot_be_fetched_are_an_error_of_the_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanished(*arguments: object, **options: object) -> None:
        raise CannotJudge("trixie has no xfsprogs", remedy="name an archive")

    root = tmp_path / "root"
    lay_out(root)
    monkeypatch.setattr(payload, "unpacked", vanished)
    with pytest.raises(LabBroken, match=r"mkfs\.xfs cannot be fetched: trixie has no xfsprogs"):
        filesystems.added(Cache(tmp_path), payload.assemble(root, {}), {"xfs"})


def test_the_driver_of_its_disks_is_found_through_the_stack(topology: Topology) -> None:
    assert topology.driver("fs") is Driver.NULL_BLK
    assert topology.keeping() == {"l0", "l1"}

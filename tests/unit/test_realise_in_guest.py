# SPDX-License-Identifier: GPL-2.0-only
"""Golden steps: what each driver's topology becomes inside the guest, line by line."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.guest.steps import Step, job_files
from lab.guest.steps.device import BareQueue, Module, TableStep
from lab.realise import recipe
from lab.realise.recipe import devices, queue_settings, watches
from lab.topology.load import CATALOGUE, load_topology
from lab.topology.model import EMULATED, Disk, Driver, Hba, Link, Lun, Processors, Stack, StackKind, Topology, Zone

GIB = 1 << 30
CONFIG = "/sys/kernel/config"
LOOP = "/sys/devices/tcm_loop_0/tcm_loop_adapter_0/host*"
DEBUG = "/sys/devices/pseudo*/adapter0/host*"


def catalogue(name: str) -> Topology:
    return load_topology(name, near=Path())


def script(steps: tuple[Step, ...]) -> list[str]:
    return [line.replace("\t", " ") for line in job_files(steps, deadline=1)["script"].decode().splitlines()]


def disk_lines(index: int, *model: str) -> list[str]:
    folder = f"{CONFIG}/nullb/nullb{index}"
    writes = ["size 1024", "hw_queue_depth 1024", "irqmode 2", *model, "power 1"]
    queue = f"sysfs/bare below[p{index}] /sys/block/nullb{index}/queue"
    return [f"mkdir {folder}", *(f"write {folder}/{write}" for write in writes), queue]


HOST_LINES = [
    "module target_core_iblock",
    "module sd_mod",
    "module tcm_loop can_queue=64 cmd_per_lun=16 nr_hw_queues=1",
    f"mkdir {CONFIG}/target/core/iblock_0",
]
PORT = f"{CONFIG}/target/loopback/naa.5001405000000001/tpgt_1"
PORT_LINES = [
    f"mkdir {CONFIG}/target/loopback",
    f"mkdir {CONFIG}/target/loopback/naa.5001405000000001",
    f"mkdir {PORT}",
    f"write {PORT}/nexus naa.5001405000000002",
]
OPENING = ["module configfs", f"mount configfs {CONFIG}"]


def backstore_lines(lun: str, node: str) -> list[str]:
    folder = f"{CONFIG}/target/core/iblock_0/{lun}"
    return [f"mkdir {folder}", f"write {folder}/control udev_path={node}", f"write {folder}/enable 1"]


def lun_lines(number: int, lun: str, *, can_queue: int, cmd_per_lun: int) -> list[str]:
    return [
        f"mkdir {PORT}/lun/lun_{number}",
        f"link {CONFIG}/target/core/iblock_0/{lun} {PORT}/lun/lun_{number}/{lun}",
        f"block {lun} {LOOP}/target*/*:0:1:{number}/block/*",
        f"tune hba.cmd_per_lun[{lun}] /lab/{lun}.sys/device/queue_depth {cmd_per_lun}",
        f"confirm hba.can_queue[{lun}] {LOOP}/scsi_host/host*/can_queue {can_queue}",
    ]


def rig(luns: dict[str, tuple[str, ...]], *, can_queue: int, cmd_per_lun: int) -> Topology:
    """A serial disk p0 and a parallel disk p1 behind one tcm_loop."""
    return Topology(
        name="rig",
        title="",
        memory=GIB,
        hbas={"twa0": Hba("twa0", Driver.TCM_LOOP, can_queue, cmd_per_lun)},
        disks={"p0": Disk("p0", GIB, rate=10**6), "p1": Disk("p1", GIB, service=2_000_000)},
        luns={name: Lun(name, "twa0", disks) for name, disks in luns.items()},
    )


def test_tcm_loop() -> None:
    assert script(devices(rig({"p0": ("p0",), "p1": ("p1",)}, can_queue=64, cmd_per_lun=16))) == [
        *OPENING,
        "module null_blk nr_devices=0",
        *disk_lines(0, "completion_nsec 0", "mbps 1"),
        *disk_lines(1, "completion_nsec 2000000"),
        *HOST_LINES,
        *backstore_lines("p0", "/dev/nullb0"),
        *backstore_lines("p1", "/dev/nullb1"),
        *PORT_LINES,
        *lun_lines(0, "p0", can_queue=64, cmd_per_lun=16),
        *lun_lines(1, "p1", can_queue=64, cmd_per_lun=16),
    ]


def test_one_queue_for_several_disks() -> None:
    steps = devices(rig({"all": ("p0", "p1")}, can_queue=1024, cmd_per_lun=64))
    assert script(steps) == [
        *OPENING,
        "module null_blk nr_devices=0",
        *disk_lines(0, "completion_nsec 0", "mbps 1"),
        *disk_lines(1, "completion_nsec 2000000"),
        "module target_core_iblock",
        "module sd_mod",
        # 1024 is what tcm_loop has where it cannot be told, so it is not told.
        "module tcm_loop",
        f"mkdir {CONFIG}/target/core/iblock_0",
        "module dm-mod",
        "dm/table all.backing all.backing.table",
        *backstore_lines("all", "/lab/all.backing"),
        *PORT_LINES,
        *lun_lines(0, "all", can_queue=1024, cmd_per_lun=64),
    ]
    (table,) = (step for step in steps if isinstance(step, TableStep))
    assert table.rows == ("0 2097152 linear /dev/nullb0 0", "2097152 2097152 linear /dev/nullb1 0")


def test_modelled_disks() -> None:
    topology = rig({"p0": ("p0",), "p1": ("p1",)}, can_queue=64, cmd_per_lun=16)
    disks = {
        "p0": Disk("p0", GIB, rate=10**6, seek=8_000_000, links=("wire",)),
        "p1": Disk(
            "p1",
            GIB,
            rate=2 * 10**6,
            rotation=8_333_333,
            ncq=32,
            look_ahead=1 << 21,
            coalesce=16,
            zones=(Zone(1 << 29, 10**6),),
        ),
    }
    topology = replace(
        topology,
        hbas={"twa0": replace(topology.hbas["twa0"], driver=Driver.TCMU)},
        disks=disks,
        links={"wire": Link("wire", 12 * 10**6, 5000)},
    )
    lines = [*OPENING, "module target_core_user", *HOST_LINES[1:3], f"mkdir {CONFIG}/target/core/user_0"]
    for lun in disks:
        folder = f"{CONFIG}/target/core/user_0/{lun}"
        control = f"dev_config=lab/{lun},dev_size={GIB},hw_block_size=512,nl_reply_supported=-1"
        lines += [f"mkdir {folder}", f"write {folder}/control {control}", f"write {folder}/enable 1"]
    lines += ["diskd/start diskd.conf", *PORT_LINES]
    for number, lun in enumerate(disks):
        shown = lun_lines(number, lun, can_queue=64, cmd_per_lun=16)
        lines += [line.replace("iblock_0", "user_0") for line in shown]
    steps = devices(topology)
    assert script(steps) == lines
    assert job_files(steps, deadline=1)["diskd.conf"].decode().splitlines() == [
        f"memory {GIB // 2}",
        "link wire 12000000 5000",
        f"disk p0 {GIB} 1000000 8000000",
        f"disk p1 {GIB} 2000000 0 rotation=8333333 ncq=32 look_ahead=2097152 coalesce=16 zone=536870912:1000000",
        "backstore p0 p0 lab00000 5001405100000000 wire",
        "backstore p1 p1 lab00001 5001405100000001",
    ]


def test_what_is_sampled_of_each_driver() -> None:
    topology = rig({"p0": ("p0",), "p1": ("p1",)}, can_queue=64, cmd_per_lun=16)
    assert watches(topology) == {
        "inflight[p0]": "/lab/p0.sys/inflight",
        "inflight[p1]": "/lab/p1.sys/inflight",
        "device_busy[p0]": "/lab/p0.sys/device/device_busy",
        "device_busy[p1]": "/lab/p1.sys/device/device_busy",
        "host_busy[twa0]": "/lab/p1.sys/device/../../scsi_host/host*/host_busy",
    }
    null = replace(topology, hbas={"twa0": replace(topology.hbas["twa0"], driver=Driver.NULL_BLK)})
    assert list(watches(null)) == ["inflight[p0]", "inflight[p1]"]


def test_one_queue_for_several_modelled_disks() -> None:
    topology = rig({"all": ("p0", "p1")}, can_queue=64, cmd_per_lun=16)
    topology = replace(
        topology,
        hbas={"twa0": replace(topology.hbas["twa0"], driver=Driver.TCMU, links=("slot",))},
        disks={"p0": Disk("p0", GIB, rate=10**6), "p1": Disk("p1", GIB, rate=2 * 10**6, links=("wire",))},
        links={"wire": Link("wire", 12 * 10**6), "slot": Link("slot", 10**8)},
    )
    steps = devices(topology)
    folder = f"{CONFIG}/target/core/user_0/all"
    control = f"dev_config=lab/all,dev_size={2 * GIB},hw_block_size=512,nl_reply_supported=-1"
    assert f"write {folder}/control {control}" in script(steps)
    assert job_files(steps, deadline=1)["diskd.conf"].decode().splitlines()[-2:] == [
        "backstore all p0 lab00000 5001405100000000 slot",
        "more p1 slot wire",
    ]


def test_null_blk_with_shared_tags() -> None:
    lines = [*OPENING, "module null_blk nr_devices=0 shared_tags=1 hw_queue_depth=64 submit_queues=1"]
    for index, (name, service) in enumerate((("fast", 4_000_000), ("slow", 400_000_000))):
        folder = f"{CONFIG}/nullb/nullb{index}"
        writes = ["size 1024", "irqmode 2", f"completion_nsec {service}", "power 1"]
        lines += [f"mkdir {folder}", *(f"write {folder}/{write}" for write in writes)]
        lines.append(f"block {name} /sys/block/nullb{index}")
    assert script(devices(catalogue("null-shared-tags"))) == lines


def test_null_blk_keeps_what_md_must_read_back_and_takes_discards_where_it_keeps_data() -> None:
    kept = [line for line in script(devices(catalogue("io-cost-md-raid1"))) if "memory_backed" in line]
    assert kept == [f"write {CONFIG}/nullb/nullb{index}/memory_backed 1" for index in range(2)]
    assert not any("memory_backed" in line for line in script(devices(catalogue("io-cost-dm-stripe"))))
    bare = made(Driver.NULL_BLK, cmd_per_lun=32)
    topology = replace(bare, disks={name: replace(disk, discard=True) for name, disk in bare.disks.items()})
    lines = [line.rpartition("/")[2] for line in script(devices(topology)) if "nullb0/" in line]
    assert lines[-3:] == ["memory_backed 1", "discard 1", "power 1"]


def test_the_last_members_of_a_mirror_are_write_mostly() -> None:
    stack = Stack("m", StackKind.MD, ("d0", "d1"), level="raid1", write_mostly=1)
    (line,) = (
        line
        for line in script(devices(replace(made(Driver.NULL_BLK, cmd_per_lun=32), stacks={"m": stack})))
        if line.startswith("md/array")
    )
    assert line.endswith(" /lab/d0 --write-mostly /lab/d1")


def made(driver: Driver, *, luns: int = 2, cmd_per_lun: int = 8, hw_queues: int = 1) -> Topology:
    disks = {f"d{number}": Disk(f"d{number}", GIB, service=100_000) for number in range(luns)}
    return Topology(
        name="t",
        title="",
        memory=GIB,
        hbas={"h": Hba("h", driver, 32, cmd_per_lun, hw_queues)},
        disks=disks,
        luns={name: Lun(name, "h", (name,)) for name in disks},
    )


def test_a_host_of_scsi_debug_has_no_target_with_its_own_number() -> None:
    lines = script(devices(made(Driver.SCSI_DEBUG, luns=8)))
    assert [line.split(":")[2] for line in lines if line.startswith("block ")] == [*"01234568"]


def test_scsi_debug() -> None:
    parameters = "num_tgts=2 max_luns=1 dev_size_mb=1024 ndelay=100000 submit_queues=2 max_queue=32 host_max_queue=32"
    lines = [*OPENING, "module sd_mod", f"module scsi_debug {parameters} fake_rw=1"]
    lines.append("confirm disk.service /sys/bus/pseudo/drivers/scsi_debug/ndelay 100000")
    for number, lun in enumerate(("d0", "d1")):
        lines += [
            f"block {lun} {DEBUG}/target*/*:0:{number}:0/block/*",
            f"tune hba.cmd_per_lun[{lun}] /lab/{lun}.sys/device/queue_depth 8",
            f"confirm hba.can_queue[{lun}] {DEBUG}/scsi_host/host*/can_queue 32",
        ]
    assert script(devices(made(Driver.SCSI_DEBUG, hw_queues=2))) == lines


# Native NVMe multipath makes one block device of all paths, which is a stack's and not a LUN's.
@pytest.mark.parametrize("driver", sorted(set(Driver) - EMULATED - {Driver.NVMET_TCP}))
def test_each_lun_gets_its_name_once(driver: Driver) -> None:
    lines = script(devices(made(driver, luns=5, cmd_per_lun=32)))
    assert [line.split()[1] for line in lines if line.startswith("block ")] == [f"d{number}" for number in range(5)]


def test_several_mapped_devices_are_known_by_their_names() -> None:
    topology = made(Driver.TCM_LOOP, luns=5)
    luns = {"a": Lun("a", "h", ("d0",)), "b": Lun("b", "h", ("d1", "d2")), "c": Lun("c", "h", ("d3", "d4"))}
    lines = script(devices(replace(topology, luns=luns)))
    paths = [line.rpartition("=")[2] for line in lines if "udev_path" in line]
    assert paths == ["/dev/nullb0", "/lab/b.backing", "/lab/c.backing"]
    tables = [line for line in lines if line.startswith("dm/table")]
    assert tables == ["dm/table b.backing b.backing.table", "dm/table c.backing c.backing.table"]


def test_every_topology_of_the_catalogue_can_be_built() -> None:
    for path in CATALOGUE.glob("*.yaml"):
        assert recipe.devices(catalogue(path.stem))


@pytest.mark.parametrize(
    "scheduler, module", [("bfq", "bfq"), ("kyber", "kyber-iosched"), ("mq-deadline", "mq-deadline"), ("none", None)]
)
def test_the_scheduler_comes_first_with_its_module(scheduler: str, module: str | None) -> None:
    steps = queue_settings(made(Driver.NULL_BLK), {"nr_requests": "32", "iosched/x": "1", "scheduler": scheduler})
    assert [step.name for step in steps if isinstance(step, Module)] == ([module] if module else [])
    assert script(tuple(step for step in steps if not isinstance(step, Module))) == [
        f"tune queue.{key}[{lun}] /lab/{lun}.sys/queue/{key} {value}"
        for lun in ("d0", "d1")
        for key, value in (("scheduler", scheduler), ("nr_requests", "32"), ("iosched/x", "1"))
    ]


def test_each_of_several_null_blk_has_tags_and_memory_of_its_own() -> None:
    one = made(Driver.NULL_BLK)
    hbas = {name: replace(one.hbas["h"], name=name, can_queue=tags) for name, tags in (("h0", 4), ("h1", 8))}
    hbas["h1"] = replace(hbas["h1"], node=1)
    luns = {name: replace(lun, hba=hba) for (name, lun), hba in zip(one.luns.items(), hbas, strict=True)}
    two = replace(one, hbas=hbas, luns=luns, processors=Processors(cpus=2, nodes=2))
    assert "module null_blk nr_devices=0" in script(devices(two))
    folder = "/sys/kernel/config/nullb/nullb"
    for number, tags in enumerate((4, 8)):
        own = {"hw_queue_depth": tags, "submit_queues": 1, "home_node": number}
        lines = [f"write {folder}{number}/{name} {value}" for name, value in own.items()]
        assert [line for line in script(devices(two)) if line in lines] == lines
    shared = [line for line in script(devices(one)) if "home_node" in line or "hw_queue_depth" in line]
    assert len(shared) == 1 and shared[0].startswith("module null_blk nr_devices=0 shared_tags=1")


def test_limits_are_those_of_the_root_group_on_every_lun() -> None:
    queue = {"scheduler": "none", "throttle/read_iops": "100", "throttle/write_bps": "4096"}
    assert script(queue_settings(made(Driver.NULL_BLK), queue)) == [
        "tune queue.scheduler[d0] /lab/d0.sys/queue/scheduler none",
        "tune queue.scheduler[d1] /lab/d1.sys/queue/scheduler none",
        "cgroup/throttle queue.throttle/read_iops[d0] d0 blkio.throttle.read_iops_device 100",
        "cgroup/throttle queue.throttle/read_iops[d1] d1 blkio.throttle.read_iops_device 100",
        "cgroup/throttle queue.throttle/write_bps[d0] d0 blkio.throttle.write_bps_device 4096",
        "cgroup/throttle queue.throttle/write_bps[d1] d1 blkio.throttle.write_bps_device 4096",
    ]


@pytest.mark.parametrize("name", ["neighbours", "neighbours-one-queue", "nvme-two-paths", "calibration-tcm-loop"])
def test_no_queue_of_the_lab_below_a_driver_schedules_merges_or_throttles(name: str) -> None:
    topology = catalogue(name)
    steps = list(devices(topology))
    assert {step.path for step in steps if isinstance(step, BareQueue)} == {
        f"/sys/block/nullb{index}/queue" for index in range(len(topology.disks))
    }
    # LIO and the NVMe target open a disk after its queue is set.
    last = max(number for number, step in enumerate(steps) if isinstance(step, BareQueue))
    assert not any("/dev/nullb" in "".join(step.fields()) for step in steps[:last])


def test_the_queue_of_a_device_under_test_is_the_topology_s() -> None:
    assert not any(isinstance(step, BareQueue) for step in devices(catalogue("null-shared-tags")))

# SPDX-License-Identifier: GPL-2.0-only
"""What limits loads whose requests pass one at a time or do not get tags that are free, and what a change alters."""

from dataclasses import replace

import pytest

from harness.figures.samples import Held, LoadUse
from harness.limits.bottleneck import NOTHING, Bottleneck, bottleneck, by_role, changes
from harness.limits.queues import ElementKind
from harness.scenario.load import read_scenario
from harness.scenario.model import Arm, Load, Role
from lab.topology.model import Driver, Stack, StackKind
from tests.unit.bottleneck_samples import disks, each, held, scenario, use
from tests.unit.test_bottleneck import TWO, bucket_load

LOW = Held(0.98, {0: 0.02, 1: 0.98})


def arm_over(*stacks: Stack) -> Arm:
    """Two parallel disks of 20 ms without a limit in front of them."""
    arm = scenario("queues").arms["own"]
    return replace(arm, topology=replace(arm.topology, stacks={stack.name: stack for stack in stacks}))


def load_of(*roles: Role) -> Load:
    return replace(scenario("queues").loads["random"], roles={role.name: role for role in roles})


def role(disk: str, rw: str = "randread", iodepth: int = 1, name: str = "job", **options: str) -> Role:
    return Role(name, (disk,), rw, 4096, iodepth, "libaio", direct=True, options=options)


def named_with(arm: Arm, load: Load, seen: LoadUse, iops: float = 50) -> Bottleneck:
    return bottleneck(arm, load, [seen], dict.fromkeys(load.roles, iops * 4096))


def test_a_single_request_is_limited_by_the_latency_of_what_it_waits_for() -> None:
    """50 a second take 20 ms each, of which they are at the LUN for 98 %; the CPU works in 10 % of the window."""
    synced = replace(role("d0", "write", fdatasync="1"), ioengine="psync", direct=False)
    seen = replace(use({"d0": 1}), luns={"d0": LOW})
    for job in (role("d0"), synced):
        load = load_of(job)
        limit = named_with(arm_over(), load, seen)
        assert limit.label == "role.job.latency"
        assert limit.figure == "0.98 of 1 requests at the devices, 20 ms each: lun.d0 98 %, cpu 10 %"
        # More in flight proves it, where the engine can have more.
        first, *others = changes(arm_over(), load, limit)
        several = job.ioengine == "libaio"
        assert (first.label, first.says) == ("role.job.latency", "1 -> 2" if several else "1 -> 1")
        assert first.refused == ("" if several else "its roles have one request in flight each")
        assert all("role" not in other.label for other in others)
    # Of a modelled disk its own time counts; a write that nothing waits for has no latency, nor has a pause.
    modelled = replace(seen, disks=disks(1, 0.9, 0.1))
    assert named_with(arm_over(), load_of(synced), modelled).figure.endswith("lun.d0 98 %, disk.d0 80 %, cpu 10 %")
    assert named_with(arm_over(), load_of(replace(synced, options={})), seen).label == NOTHING
    paced = replace(seen, luns={"d0": Held(0.2, {1: 0.2})})
    assert named_with(arm_over(), load_of(role("d0", thinktime="1000000")), paced, 0.2).label == NOTHING
    assert "ms each" not in named_with(arm_over(), load_of(role("d0")), seen, 0).figure


def test_requests_of_an_array_are_counted_where_it_hands_them_on() -> None:
    """Reads within a chunk are the load's own; a mirrored write is at both members until the slower one has it."""
    mirror = Stack("md", StackKind.MD, ("d0", "d1"), level="raid1")
    striped = Stack("md", StackKind.MD, ("d0", "d1"), level="raid0", chunk=4096)
    four = use(each(2, 4))
    # 8 in flight of 20 ms are 400 a second.
    assert named_with(arm_over(mirror), load_of(role("md", iodepth=8)), four, 400).figure.startswith("8 of 8 requests")
    assert named_with(arm_over(striped), load_of(role("md", iodepth=8)), four, 400).label == "role.job.iodepth"
    cut = replace(role("md", iodepth=8), bs=8192)
    assert named_with(arm_over(striped), load_of(cut), four).label == NOTHING
    assert named_with(arm_over(mirror), load_of(role("md", "randwrite", 8)), four).label == NOTHING
    eight = named_with(arm_over(mirror), load_of(role("md", "randwrite", 8)), use(each(2, 8)), 400)
    assert eight.figure.startswith("8 of 8 requests at the devices")
    assert named_with(arm_over(striped), load_of(role("md", "randwrite", 8)), use(each(2, 8))).label == NOTHING
    read = replace(use({"d0": 1, "d1": 0}), luns={"d0": LOW, "d1": held(0)})
    single = named_with(arm_over(mirror), load_of(role("md")), read)
    assert single.figure == "0.98 of 1 requests at the devices, 20 ms each: lun.d0 98 %, cpu 10 %"
    write = replace(use(each(2, 1)), luns={"d0": Held(0.5, {1: 0.5}), "d1": held(1)})
    both = named_with(arm_over(mirror), load_of(role("md", "randwrite")), write)
    assert both.figure == "1 of 1 requests at the devices, 20 ms each: lun.d1 100 %, lun.d0 50 %, cpu 10 %"


def test_a_lock_that_lets_one_writer_pass_shows_in_requests_in_flight() -> None:
    """Debian's 6.1, ext4, two synchronous writers that append to one file: 0.812 of 2 requests at the device."""
    files = Stack("fs", StackKind.FILESYSTEM, ("d0",), type="ext4")
    writers = [replace(role("fs", "write", name=name), ioengine="psync") for name in ("w1", "w2")]
    seen = replace(use({"d0": 1}, idle=0.79), luns={"d0": Held(0.812, {1: 0.812})})
    limit = named_with(arm_over(files), load_of(*writers), seen, 402)
    assert limit.label == "role.w1..2.latency"
    assert limit.figure == "0.812 of 2 requests at the devices, one at a time, 2.488 ms each: lun.d0 81 %, cpu 21 %"
    deep = load_of(role("fs", "write", 4))
    locked = named_with(arm_over(files), deep, seen)
    assert locked.figure.startswith("0.812 of 4 requests at the devices, one at a time")
    first, *others = changes(arm_over(files), deep, locked)
    assert (first.label, first.refused) == ("role.job.latency", "it is no limit that can be raised")
    assert "role.job.iodepth" in [other.label for other in others]
    together = replace(seen, luns={"d0": held(4)})
    assert named_with(arm_over(files), deep, together).label == "role.job.iodepth"
    assert named_with(arm_over(files), deep, replace(seen, luns={"d0": held(2)})).label == NOTHING


def test_one_request_at_a_time_is_best_on_the_fastest_path() -> None:
    of = scenario("selector")
    arm, load = of.arms["round-robin"], of.loads["stream"]

    def label(depth: int, fast: float, slow: float) -> str:
        reader = replace(load.roles["reader"], iodepth=depth)
        seen = use({"f0": 1, "s0": 1}, disks=disks(1, 0.25), links={"fast": fast, "slow": slow})
        return bottleneck(arm, replace(load, roles={"reader": reader}), [seen], {"reader": 11e6}).label

    assert label(1, 0.98, 0.0) == "link.fast"
    assert label(1, 0.0, 0.98) == "stack.m0.selector"
    assert label(2, 0.98, 0.0) == "stack.m0.selector"


def test_roles_of_depth_one_have_a_row_each() -> None:
    """Of 50 a second that 20 ms allow, one role does 49 and the other, held up elsewhere, 30."""
    load = load_of(role("d0", name="a"), role("d1", name="b"))
    seen = replace(use(each(2, 1)), luns={"d0": LOW, "d1": Held(0.6, {1: 0.6})})
    limit = bottleneck(arm_over(), load, [seen], {"a": 49 * 4096, "b": 30 * 4096})
    assert [(part.label, part.figure.partition(",")[0]) for part in by_role([limit])] == [
        ("role.a.latency", "0.98 of 1 requests at the devices"),
        ("role.b.latency", "0.6 of 1 requests at the devices"),
    ]
    even = bottleneck(arm_over(), load, [replace(seen, luns={"d0": LOW, "d1": LOW})], dict.fromkeys("ab", 49 * 4096))
    assert (even.label, even.roles) == ("role.a, b.latency", ())


WAITING = "fast holds 3.17 of its 8 tags, 28.8 of its requests wait while 7.64 of 24 are free"


@pytest.mark.parametrize(
    ("fast", "label", "figure"),
    [(3.17, "hba.nullb.free_tags", WAITING), (6.49, "hba.nullb.can_queue", "fast's part of 24: 6.49 of 8 held")],
)
def test_free_tags_that_a_waiting_lun_does_not_get_are_named(fast: float, label: str, figure: str) -> None:
    """Debian's 6.1 and 6.12. From 80 % of its share on the LUN's queue counts as full (fitted.FULL)."""
    of = read_scenario("null-three-users")
    seen = LoadUse(0.9, luns={"fast": Held(fast, {}), "middle": Held(5.26, {}), "slow": Held(7.93, {})})
    moved = {"fast": fast * 1000 * 4096, "middle": 1308 * 4096, "slow": 496 * 4096}
    limit = bottleneck(of.arms["none"], of.loads["deep"], [seen], moved)
    (row,) = (part for part in by_role([limit]) if part.load == "deep.fast")
    assert (row.label, row.figure[: len(figure)]) == (label, figure)
    # SCSI counts commands, and a request that waits for its LUN holds a tag.
    was = of.arms["none"].topology
    hbas = {name: replace(hba, driver=Driver.SCSI_DEBUG) for name, hba in was.hbas.items()}
    scsi = replace(of.arms["none"], topology=replace(was, hbas=hbas))
    limit = bottleneck(scsi, of.loads["deep"], [replace(seen, hosts={"nullb": Held(16.4, {})})], moved)
    assert all(part.label != "hba.nullb.free_tags" for part in by_role([limit]))


def test_a_depth_that_nothing_waits_for_does_not_bind() -> None:
    arm, of = bucket_load()
    host = replace(arm.topology.hbas["loop"], can_queue=16, cmd_per_lun=16)
    arm = replace(arm, topology=replace(arm.topology, hbas={"loop": host}))
    full = replace(TWO, luns={"serial-1": held(14), "serial-8": held(2)}, hosts={"loop": held(16)})
    found = bottleneck(arm, of, [full], {"hog": 4096, "victim": 4096})
    assert [one.binds for one in found.elements if one.kind is ElementKind.LUN_DEPTH] == [False]
    arm, of = bucket_load()
    host = replace(arm.topology.hbas["loop"], can_queue=128, cmd_per_lun=128)
    full = replace(TWO, luns={"serial-1": held(64), "serial-8": held(64)}, hosts={"loop": held(128)})
    arm = replace(arm, topology=replace(arm.topology, hbas={"loop": host}))
    # Their token buckets give 250 and 2,000 I/Os a second.
    moved = {"hog": 150 * 4096, "victim": 1200 * 4096}
    assert bottleneck(arm, of, [full], moved).label == "role.hog, victim.iodepth"


def test_a_faster_processor_makes_times_of_links_and_disks_longer() -> None:
    model = scenario("devices")
    arm, of = model.arms["link"], model.loads["stream"]
    links = {name: replace(link, cost=1000) for name, link in arm.topology.links.items()}
    times = {"rate": 1000, "seek": 1000, "rotation": 1000, "service": 1000}
    slow = {name: replace(disk, **times) for name, disk in arm.topology.disks.items()}  # type: ignore[arg-type]
    arm = replace(arm, topology=replace(arm.topology, links=links, disks=slow))
    seen = use(each(2, 1), idle=0.0, disks=disks(2, 0.5), links={"wire": 0.5})
    found = bottleneck(arm, of, [seen], dict.fromkeys(of.roles, 1e6))
    (slower,) = [one for one in changes(arm, of, found) if one.named]
    assert (slower.label, slower.arm.topology.links["wire"].cost) == ("cpu", 1250)
    (faster,) = (one for one in changes(arm, of, found) if one.label == "link.wire")
    assert faster.arm.topology.links["wire"].cost == 800
    quick = next(one for one in changes(arm, of, found) if one.says == "a quarter faster" and "disk.d0" in one.label)
    for change, rate, time in ((slower, 800, 1250), (quick, 1250, 800)):
        disk = change.arm.topology.disks["d0"]
        assert (disk.rate, disk.seek, disk.rotation, disk.service) == (rate, time, time, time)

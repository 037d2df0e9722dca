# SPDX-License-Identifier: GPL-2.0-only
"""What limits roles that share disks, tags and elevators: queues of their own, limits of cgroups, turns of bfq."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.checkout import SCENARIOS
from harness.figures.samples import DiskTime, Held, LoadUse
from harness.limits.bottleneck import NOTHING, UNCOUNTED, Bottleneck, _adaptive, bottleneck, by_role, changes
from harness.limits.limits import arm_bound
from harness.limits.queues import Element, ElementKind
from harness.report.terminal.run import folded_lines, sentences
from harness.scenario.load import read_scenario
from harness.scenario.model import Role
from lab.topology.model import Link
from tests.unit.bottleneck_samples import disks, each, held, named, scenario, use
from tests.unit.test_bottleneck import IDLE, TWO, bucket_load

MIXED = """\
scenario: mixed
title: A mix
schema: 1
queue: {scheduler: none}
topology:
  memory: 512M
  hbas: {h: {driver: tcm_loop, can_queue: 64}}
  disks: {d0: {size: 1G, service: 2ms}}
  luns: {d0: {hba: h, disks: [d0]}}
window: {ramp: 500ms, runtime: 2s}
arms: {plain: {}}
loads:
  mix: {a: {disk: d0, rw: randrw, rwmixread: 70, bs: 4k, iodepth: 16}}
"""


@pytest.mark.parametrize(("held_each", "label", "reached"), [(32, NOTHING, 0.5), (63, "hba.port0.can_queue", 63 / 64)])
def test_each_lun_of_nvme_over_tcp_fills_a_queue_of_its_own(held_each: int, label: str, reached: float) -> None:
    """Two LUNs that hold 32 of 64 each fill no queue of 64, and a deeper queue is deeper for each of them."""
    of = read_scenario("nvme-multipath-iopolicy")
    was = of.arms["numa"].topology
    hbas = {name: replace(hba, can_queue=65, cmd_per_lun=65, links=()) for name, hba in was.hbas.items()}
    disks = {name: replace(disk, service=4_000_000) for name, disk in was.disks.items()}
    luns = {name: replace(lun, hba="port0") for name, lun in was.luns.items()}
    arm = replace(of.arms["numa"], topology=replace(was, hbas=hbas, disks=disks, luns=luns))
    roles = {name: Role(name, (name,), "randread", 4096, 256, "libaio", direct=True) for name in ("fast", "slow")}
    load = replace(of.loads["both"], roles=roles)
    seen = LoadUse(0.9, luns={lun: held(held_each) for lun in ("fast-one", "slow-one")})
    found = bottleneck(arm, load, [seen], dict.fromkeys(roles, held_each * 250 * 4096))
    assert found.label == label
    assert found.reached == pytest.approx(reached)
    # One of the 65 entries stays free.
    (lun,) = (element for element in found.elements if element.kind is ElementKind.LUN_DEPTH)
    assert lun.figure.startswith("64 of 64 held")
    if found.binding:
        named_first = changes(arm, load, found)[0]
        now = named_first.arm.topology.hbas["port0"]
        assert (named_first.label, named_first.refused, now.can_queue, now.cmd_per_lun) == ("hba.can_queue", "", 82, 82)


def test_a_disk_behind_one_command_that_bfq_dispatches_is_named_and_not_the_depth() -> None:
    """Four weights on one disk, as a boot of 6.1 recorded them: twice the depth gave 18.5 %, a faster disk 26.4 %."""
    of = read_scenario("bfq-weights")
    arm, load = of.arms["plain"], of.loads["weighted"]
    seen = LoadUse(0.91, {"d0": DiskTime(0.90)}, luns={"l0": Held(0.957, {})}, hosts={"h0": Held(0.957, {})})
    found = bottleneck(arm, load, [seen], {"light": 4.5e6, "heavy": 13.5e6})
    assert (found.label, found.roles) == ("disk.d0", ())
    # The disk counts once, although either role could use all of it.
    assert found.reached == pytest.approx(0.9)
    # The same where the host, and not the LUN, has the one command.
    hosts = {name: replace(hba, can_queue=1) for name, hba in arm.topology.hbas.items()}
    single = replace(arm, topology=replace(arm.topology, hbas=hosts))
    assert bottleneck(single, load, [seen], {"light": 4.5e6, "heavy": 13.5e6}).label == "disk.d0"
    slow = replace(seen, disks={"d0": DiskTime(0.79)})
    assert bottleneck(single, load, [slow], {"light": 4e6, "heavy": 12e6}).label == "hba.h0.can_queue"
    idling = replace(seen, disks={"d0": DiskTime(0.4)}, luns={"l0": Held(0.4, {})}, hosts={"h0": Held(0.4, {})})
    found = bottleneck(arm, load, [idling], {"light": 2e6, "heavy": 6e6})
    assert (found.label, found.figure) == (UNCOUNTED, "queue.scheduler bfq not modelled")
    alone = replace(load, roles={"heavy": load.roles["heavy"]})
    assert bottleneck(arm, alone, [idling], {"heavy": 8e6}).label == NOTHING
    latency = replace(load.roles["heavy"], options={"io_latency": "target=2000"})
    found = bottleneck(arm, replace(load, roles={"heavy": latency}), [idling], {"heavy": 8e6})
    assert (found.label, found.figure) == (UNCOUNTED, "role.heavy.io_latency not modelled")


ONE = LoadUse(0.9, luns={"l0": held(1)}, hosts={"h0": held(1)})


@pytest.mark.parametrize(
    ("iops", "label", "figure"),
    [
        (100, "queue.throttle.read_iops", "100 of 100 riops"),
        (95, "queue.throttle.read_iops", "95 of 100 riops"),
        (94.5, UNCOUNTED, "queue.throttle.read_iops 94.5 of 100 riops, not modelled"),
        (50, UNCOUNTED, "queue.throttle.read_iops 50 of 100 riops, not modelled"),
        (49, NOTHING, "fullest: queue.throttle.read_iops 49 %"),
    ],
)
def test_a_limit_of_blk_throttle_is_named_with_both_figures(iops: float, label: str, figure: str) -> None:
    of = read_scenario("low-iops-limit")
    arm, load = of.arms["hundred"], of.loads["read"]
    found = bottleneck(arm, load, [ONE], {"reader": iops * 4096})
    assert (found.label, found.figure[: len(figure)]) == (label, figure)
    assert ("not modelled" in found.figure) is (label == UNCOUNTED)
    if label.startswith("queue"):
        change = changes(arm, load, found)[0]
        assert (change.named, change.arm.queue["throttle/read_iops"], change.load) == (True, "125", load)
        (cpu,) = [change for change in changes(arm, load, found) if change.label == "cpu"]
        assert cpu.refused == "a limit in requests or bytes a second does not become slower with the devices"


@pytest.mark.parametrize(
    ("limit", "iops", "names"), [("885", 885, 2), ("1000000", 885, 2), ("1000000", 895, 0), ("895", 895, 2)]
)
def test_roles_that_reach_nine_tenths_of_the_best_share_are_one_load(limit: str, iops: int, names: int) -> None:
    """Of their bound of 1,000 the other role reaches 990: nine tenths of that are 891.

    A limit of its own that a role reaches is named all the same: it was not where both reached as much.
    """
    of = read_scenario("cgroup-limits")
    arm, load = of.arms["plain"], of.loads["limited"]
    one = replace(load.roles["one"], options={"io_max": f"riops={limit}"})
    load = replace(load, roles={**load.roles, "one": one})
    found = bottleneck(arm, load, [ONE], {"one": iops * 4096, "other": 990 * 4096})
    assert len(found.roles) == names
    if int(limit) == iops:
        assert [part.label for part in found.roles] == ["role.one.io_max", "role.other.latency"]


@pytest.mark.parametrize(("rw", "iops"), [("randread", 100), ("randwrite", 5), ("randrw", 10)])
def test_io_max_limits_its_role_and_the_other_one_has_a_name_of_its_own(rw: str, iops: float) -> None:
    """Reads count against riops and writes against wiops; half of a mix are writes."""
    of = read_scenario("cgroup-limits")
    arm, load = of.arms["plain"], of.loads["limited"]
    one = replace(load.roles["one"], rw=rw, options={"io_max": "riops=100 wiops=5"})
    load = replace(load, roles={**load.roles, "one": one})
    found = bottleneck(arm, load, [ONE], {"one": iops * 4096, "other": 990 * 4096})
    assert [(part.load, part.label) for part in by_role([found])] == [
        ("limited.one", "role.one.io_max"),
        ("limited.other", "role.other.latency"),
    ]
    assert [part.reached for part in found.roles] == [pytest.approx(iops / 1000), pytest.approx(0.99)]
    latency = "one request at a time, with 1 of 2 of all at the devices, 1.01 ms each: lun.l0 100 %, cpu 10 %"
    assert found.roles[1].figure == latency
    assert {element.kind for element in found.roles[1].elements} >= {ElementKind.CPU, ElementKind.HOST_QUEUE}
    # 63,000 of the 64,000 that the tags allow; but requests of the page cache are not fio's.
    load = replace(load, roles={**load.roles, "other": replace(load.roles["other"], direct=False)})
    found = bottleneck(arm, load, [ONE], {"one": iops * 4096, "other": 63_000 * 4096})
    assert found.roles[1].label == NOTHING
    options = changes(arm, load, found)[0].load.roles["one"].options
    assert options == {"io_max": "riops=125 wiops=7"}


def test_a_role_that_starves_is_not_given_the_name_of_the_one_that_does_not() -> None:
    """Stock 5.10: the slow device holds its half of the tags, the fast one gets few although half of all are free."""
    of = read_scenario("null-shared-tags")
    load = of.loads["together"]

    def answer(arm: str, fast: int, iops: int) -> Bottleneck:
        seen = LoadUse(0.9, luns={"fast": held(fast), "slow": held(32)})
        return bottleneck(of.arms[arm], load, [seen], {"fast": iops * 4096, "slow": 80 * 4096})

    (starved,) = [part for part in by_role([answer("none", 2, 364)]) if part.load == "together.fast"]
    assert starved.label == "hba.nullb.free_tags"
    figure = "fast holds 2 of its 32 tags, 62 of its requests wait while 30 of 64 are free; slow holds 32"
    assert starved.figure.startswith(f"{figure}; ")
    assert changes(of.arms["none"], load, starved)[0].refused == "it is no limit that can be raised"
    assert starved.reached == pytest.approx(364 / 8000)
    sharing = answer("mq-deadline", 32, 7976)
    assert (sharing.label, sharing.roles) == ("hba.nullb.can_queue", ())
    idle = bottleneck(
        of.arms["none"], load, [LoadUse(0.9, luns={"fast": held(0), "slow": held(32)})], {"fast": 0, "slow": 80 * 4096}
    )
    assert [part.reached for part in idle.roles] == [0, pytest.approx(1)]
    folded = folded_lines([answer("none", 2, 364)], {("none", "together")})
    assert folded is not None
    assert [str(cell) for cell in folded.columns[0].cells] == ["together.fast", "together.slow"]
    assert folded_lines([answer("none", 2, 364)], {("half", "together")}) is None
    # Of two arms one starves a role: its limits are of that arm alone, and the line says so.
    folded = folded_lines([sharing, answer("none", 2, 364)], {("none", "together")})
    assert folded is not None
    fast, slow = (str(cell) for cell in folded.columns[1].cells)
    assert fast.startswith(f"hba.nullb.free_tags in none ({figure}")
    assert slow.startswith("hba.nullb.can_queue in none (slow's part of 64: 32 of 32 held")
    said = list(sentences([answer("none", 2, 364), sharing]))
    assert said[0].startswith(f"hba.nullb.free_tags limits none.together.fast: {figure}")
    assert said[1].startswith("hba.nullb.can_queue limits none.together.slow, mq-deadline.together: ")


def test_a_full_lun_is_not_the_limit_of_a_role_on_another_one() -> None:
    of = scenario("queues")
    arm, reader = of.arms["lun"], of.loads["random"].roles["reader"]
    roles = {name: replace(reader, name=name, disks=(disk,)) for name, disk in {"hog": "d0", "victim": "d1"}.items()}
    load = replace(of.loads["random"], roles=roles)
    found = bottleneck(arm, load, [use({"d0": 8, "d1": 1})], {"hog": 400 * 4096, "victim": 50 * 4096})
    assert [part.label for part in found.roles] == ["lun.d0.cmd_per_lun", NOTHING]
    assert [part.reached for part in found.roles] == [pytest.approx(1), pytest.approx(1 / 8)]


def test_a_role_moves_on_each_of_its_disks_what_it_can_there() -> None:
    """Token buckets of 1 and 8 MB/s: 9 MB/s fill both, and 4.5 MB/s half of each."""
    of = read_scenario("tcm-loop", search=SCENARIOS / "calibration")
    role = Role("both", ("serial-1", "serial-8"), "randread", 4096, 64, "libaio", direct=True)
    load = replace(of.loads["one"], roles={"both": role})
    seen = LoadUse(0.9, luns={"serial-1": held(8), "serial-8": held(8)}, hosts={"loop": held(16)})
    arm = of.arms["depth-8"]
    most = arm_bound(arm, load, "both", "bw")
    assert most == pytest.approx(9 << 20, rel=0.1)
    for share in (1.0, 0.5):
        assert bottleneck(arm, load, [seen], {"both": share * most}).reached == pytest.approx(share)


def test_a_disk_waits_for_links_on_its_own_way() -> None:
    """The narrow link of the one disk is busy for longer, but the wide one holds up the other disk."""
    of = scenario("devices")
    arm, load = of.arms["disk"], of.loads["stream"]
    links = {name: Link(name, rate) for name, rate in (("spare", 10**9), ("wide", 24_000_000), ("narrow", 12_000_000))}
    ways = {"d0": ("spare", "wide"), "d1": ("narrow",)}
    luns = {name: replace(lun, links=ways[name]) for name, lun in arm.topology.luns.items()}
    plain = {name: replace(disk, links=()) for name, disk in arm.topology.disks.items()}
    split = replace(arm.topology, luns=luns, disks=plain, links=links)
    times = {"d0": DiskTime(1.0, 0.8), "d1": DiskTime(0.3)}
    seen = use(each(2, 1), disks=times, links={"spare": 0.1, "wide": 0.7, "narrow": 0.9})
    found = bottleneck(replace(arm, topology=split), load, [seen], dict.fromkeys(load.roles, 1e6))
    assert found.label == "link.wide"


def test_a_load_without_a_bound_has_a_bottleneck_and_no_share() -> None:
    of = read_scenario("fs-requests")
    arm, load = next(iter(of.arms.values())), next(iter(of.loads.values()))
    luns = [lun for role in load.roles.values() for disk in role.disks for lun in arm.topology.leaves(disk)]
    hosts = {arm.topology.luns[lun].hba: held(0) for lun in luns}
    found = bottleneck(
        arm, load, [LoadUse(0.0, {}, {}, dict.fromkeys(luns, held(0)), hosts)], dict.fromkeys(load.roles, 1e6)
    )
    assert (found.label, found.load, found.reached) == ("cpu", load.name, None)


@pytest.mark.parametrize(
    ("options", "pace"),
    [
        ({"rate_iops": "100"}, 200),
        ({"rate": "409600"}, 200),
        ({"rate_iops": "100", "rwmixread": "70"}, 200),
        ({"rate_iops": "100", "rwmixread": "100"}, 100),
        ({"rate_iops": "100", "rwmixread": "0"}, 100),
        ({"thinktime": "10000"}, 100),
        # fio takes rate_iops for requests of the smallest size (__setup_rate in its backend.c): 204,800 bytes a second
        # each way, in requests of 8 KiB in the mean.
        ({"rate_iops": "50", "bssplit": "4k/50:12k/50"}, 50),
    ],
)
def test_a_mix_that_paces_itself_has_the_rate_of_each_direction(options: dict[str, str], pace: int) -> None:
    """HOWTO of fio, rate_iops: reads and writes are limited apart, a thinktime stops both."""
    arm, load = bucket_load(**options)
    bs = 8192 if "bssplit" in options else 4096
    load = replace(load, roles={name: replace(role, rw="randrw", bs=bs) for name, role in load.roles.items()})
    assert {role.pace for role in load.roles.values()} == {pace}
    found = bottleneck(arm, load, [IDLE], dict.fromkeys(load.roles, pace * bs))
    assert found.binding is not None and found.label == "role.hog, victim.pace"
    assert found.figure.startswith("100 % of the pace that rate, rate_iops or thinktime set")


@pytest.mark.parametrize(
    ("iops", "label"), [(1808, UNCOUNTED), (3999, UNCOUNTED), (4001, "role.a.iodepth"), (7200, "role.a.iodepth")]
)
def test_requests_that_wait_behind_the_queues_are_not_at_the_devices(iops: float, label: str, tmp_path: Path) -> None:
    """16 in flight of 2 ms are 8,000 I/Os a second. 1,808 of them are 3.6 at the disk, whatever the queue of the LUN
    holds: so it was on 6.1 while a null_blk below tcm_loop throttled writes. From half of the bound on LIO may be why.
    """
    path = tmp_path / "mixed.yaml"
    path.write_text(MIXED)
    of = read_scenario(str(path), search=tmp_path)
    arm, load = of.arms["plain"], of.loads["mix"]
    seen = LoadUse(0.5, luns={"d0": held(16)}, hosts={"h": held(16)})
    found = bottleneck(arm, load, [seen], {"a": iops * 4096})
    assert found.label == label
    assert ("at the devices" in found.figure) is (iops == 7200)
    if label == UNCOUNTED:
        share = f"{100 * iops / 8000:.0f} %"
        says = f"100 % of it in the queues, {share} of the bound"
        assert [*sentences([found])] == [f"What limits plain.mix is not known: role.a.iodepth {says}."]
    # What a flush takes at the disk is in no bound.
    synced = replace(load, roles={"a": replace(load.roles["a"], options={"fsync": "1"})})
    assert bottleneck(arm, synced, [seen], {"a": iops * 4096}).label == "role.a.iodepth"


def test_no_element_is_fuller_than_full() -> None:
    """Buckets of 250 and 2,000 I/Os a second, a pace of 100, and 70 requests at LUNs of 8 for jobs of 64."""
    arm, load = bucket_load(rate_iops="100")
    many = replace(TWO, luns={name: held(70) for name in TWO.luns}, hosts={"loop": held(140)})
    found = bottleneck(arm, load, [many], {"hog": 300 * 4096, "victim": 2400 * 4096})
    kinds = (ElementKind.DISK, ElementKind.LUN_DEPTH, ElementKind.PACE, ElementKind.IODEPTH)
    assert [element.share for kind in kinds for element in found.elements if element.kind is kind] == [1.0] * 4
    of = read_scenario("low-iops-limit")
    over = bottleneck(of.arms["hundred"], of.loads["read"], [ONE], {"reader": 110 * 4096})
    assert over.binding is not None and (over.binding.share, over.binding.figure) == (1.0, "110 of 100 riops")


def test_many_names_are_one_and_a_number_and_what_is_idle_is_not_listed() -> None:
    names = ("a" * 8, "b" * 6), ("a" * 8, "b" * 7), ("c" * 17,)
    full, long, one = (Element(ElementKind.DISK, each, 0.5, False, "") for each in names)
    assert [each.short for each in (full, long, one)] == [
        f"disk.{'a' * 8}, {'b' * 6}",
        f"disk.{'a' * 8} +1",
        f"disk.{'c' * 17}",
    ]
    idle = Element(ElementKind.CPU, (), 0.0, False, "")
    assert Bottleneck("arm", "load", None, (one, idle)).figure == f"fullest: disk.{'c' * 17} 50 %"


def test_a_path_of_a_thousandth_of_the_rate_has_the_least_weight() -> None:
    topology = scenario("selector").arms["round-robin"].topology
    links = {**topology.links, "slow": replace(topology.links["slow"], rate=topology.links["fast"].rate // 1000)}
    assert _adaptive(replace(topology, links=links), topology.stacks["m0"]).throughput == (100, 1)


def test_a_role_that_holds_its_fair_share_waits_although_tags_are_free() -> None:
    """Of 16 tags each of two LUNs may hold 8; the hog wants 12, the victim 2."""
    of = scenario("queues")
    arm, reader = of.arms["host"], of.loads["random"].roles["reader"]
    wanted = {"hog": ("d0", 12), "victim": ("d1", 2)}
    roles = {name: replace(reader, name=name, disks=(disk,), iodepth=depth) for name, (disk, depth) in wanted.items()}
    load = replace(of.loads["random"], roles=roles)
    found = bottleneck(arm, load, [use({"d0": 8, "d1": 2})], {"hog": 400 * 4096, "victim": 100 * 4096})
    assert found.label == "hba.host.can_queue"
    assert found.figure.startswith("d0's part of 16: 8 of 8 held")
    # Who wants no more than that waits for nobody, and where all tags are held they have the figure.
    for depth, label, figure in (
        (8, "role.hog, victim.iodepth", "16 of 16 requests"),
        (32, found.label, "16 of 16 held"),
    ):
        even = replace(load, roles={name: replace(role, iodepth=depth) for name, role in roles.items()})
        full = bottleneck(arm, even, [use({"d0": 8, "d1": 8})], {"hog": 400 * 4096, "victim": 400 * 4096})
        assert (full.label, full.figure[: len(figure)]) == (label, figure)


def test_a_link_that_carried_more_than_its_rate_is_busy_throughout() -> None:
    of = read_scenario("nvme-multipath-iopolicy")
    arm, load = of.arms["numa"], of.loads["slow"]
    leaves = arm.topology.leaves(load.roles["reader"].disk)
    seen = LoadUse(0.9, luns={lun: held(32 // len(leaves)) for lun in leaves})
    found = bottleneck(arm, load, [seen], {"reader": 8.8e6})
    assert (found.label, found.figure.partition(";")[0]) == ("link.slow", "busy 100 % of the window")


def test_of_several_parts_the_fullest_has_the_figure() -> None:
    of = scenario("selector")
    arm, load = of.arms["round-robin"], of.loads["stream"]
    was = arm.topology
    links = {**was.links, "slower": replace(was.links["slow"], name="slower"), "easy": Link("easy", 10**9)}
    ways = {"f0": ("fast", "easy"), "s0": ("slow", "slower")}
    luns = {name: replace(lun, links=ways[name]) for name, lun in was.luns.items()}
    split = replace(arm, topology=replace(was, links=links, luns=luns))
    busy = {"fast": 0.5, "easy": 0.3, "slow": 0.96, "slower": 1.0}
    seen = use({"f0": 1, "s0": 15}, disks={"d0": DiskTime(0.2)}, links=busy)
    found = bottleneck(split, load, [seen], dict.fromkeys(load.roles, 1e6))
    assert found.figure.startswith("link.slower busy 100 % of the window while link.easy is at 30 %")
    assert [each.share for each in found.elements if each.kind is ElementKind.LINK] == [1.0, 0.5]
    tags = bottleneck(
        scenario("queues").arms["lun"], scenario("queues").loads["random"], [use({"d0": 5, "d1": 6})], {"reader": 1e6}
    )
    assert [each.share for each in tags.elements if each.kind is ElementKind.LUN_DEPTH] == [6 / 8]
    arm, load = bucket_load()
    bucket = bottleneck(arm, load, [TWO], {"hog": 230 * 4096, "victim": 900 * 4096})
    assert [each.share for each in bucket.elements if each.kind is ElementKind.DISK] == [pytest.approx(230 / 250)]
    of = read_scenario("cgroup-limits")
    arm, load = of.arms["plain"], of.loads["limited"]
    roles = {
        name: replace(role, options={"io_max": f"riops={most}"})
        for (name, role), most in zip(load.roles.items(), (1000, 2000), strict=True)
    }
    limited = bottleneck(arm, replace(load, roles=roles), [ONE], dict.fromkeys(roles, 600 * 4096))
    (limit,) = (each for each in limited.elements if each.kind is ElementKind.LIMIT)
    assert (limit.share, limit.figure) == (0.6, "600 of 1,000 riops, not modelled")


@pytest.mark.parametrize(
    ("options", "iops", "label"),
    [
        ({"thinktime": "10000"}, 100, "role.hog.pace"),
        ({"thinktime": "10000"}, 98, NOTHING),
        ({"rate_iops": "100"}, 196, "role.hog.pace"),
        ({"rate_iops": "100"}, 100, NOTHING),
    ],
)
def test_each_job_of_a_role_keeps_the_pace_by_itself(options: dict[str, str], iops: int, label: str) -> None:
    """Two jobs that do 50 I/Os a second each, with 10 ms after each of them, pause for half of the window."""
    arm, load = bucket_load(**options)
    both = replace(load.roles["hog"], disks=("serial-1", "serial-8"))
    assert bottleneck(arm, replace(load, roles={"hog": both}), [IDLE], {"hog": iops * 4096}).label == label


@pytest.mark.parametrize(("key", "rw", "share"), [("write_iops", "randwrite", 1.0), ("read_bps", "randread", 1.0)])
def test_each_word_of_blk_throttle_is_of_its_direction_and_unit(key: str, rw: str, share: float) -> None:
    of = read_scenario("low-iops-limit")
    limit = 100 * (4096 if key.endswith("bps") else 1)
    arm = replace(of.arms["hundred"], queue={f"throttle/{key}": str(limit)})
    load = of.loads["read"]
    load = replace(load, roles={"reader": replace(load.roles["reader"], rw=rw)})
    found = bottleneck(arm, load, [ONE], {"reader": 100 * 4096})
    assert found.binding and (found.label, found.binding.share) == (f"queue.throttle.{key}", share)


def test_the_limit_that_binds_is_raised_alone() -> None:
    of = read_scenario("low-iops-limit")
    limits = {"throttle/read_iops": "100", "throttle/read_bps": "409600"}
    arm, load = replace(of.arms["hundred"], queue=limits), of.loads["read"]
    found = bottleneck(arm, load, [ONE], {"reader": 100 * 4096})
    (named,) = [change for change in changes(arm, load, found) if change.named]
    assert named.arm.queue == {"throttle/read_iops": "125", "throttle/read_bps": "512000"}
    slower = replace(arm, queue={**limits, "throttle/read_bps": "819200"})
    (named,) = [
        change
        for change in changes(slower, load, bottleneck(slower, load, [ONE], {"reader": 100 * 4096}))
        if change.named
    ]
    assert named.arm.queue == {"throttle/read_iops": "125", "throttle/read_bps": "819200"}


def test_a_role_has_its_io_max_on_each_of_its_luns() -> None:
    of = read_scenario("cgroup-limits")
    arm, load = of.arms["plain"], of.loads["limited"]
    (disk,) = load.roles["one"].disks
    lun = replace(arm.topology.luns["l0"], name="l1", disks=("d1",))
    more = replace(arm.topology, luns={**arm.topology.luns, "l1": lun})
    more = replace(more, disks={**more.disks, "d1": replace(more.disks[disk], name="d1")})
    both = replace(load.roles["one"], disks=(disk, "d1"), options={"io_max": "riops=100"})
    load = replace(load, roles={"one": both})
    seen = replace(ONE, luns={"l0": held(1), "l1": held(1)})
    found = bottleneck(replace(arm, topology=more), load, [seen], {"one": 200 * 4096})
    assert (found.label, found.figure[:16]) == ("role.one.io_max", "100 of 100 riops")


def test_paths_that_all_have_room_are_no_fault_of_the_selector() -> None:
    idle = use({"f0": 1, "s0": 1}, disks=disks(1, 0.2), links={"fast": 0.2, "slow": 0.2})
    assert named("selector", "round-robin.stream", idle).label == NOTHING


def test_equal_links_that_are_nearly_as_busy_are_one_bottleneck() -> None:
    of = scenario("selector")
    arm, load = of.arms["round-robin"], of.loads["stream"]
    links = {name: replace(link, rate=10**7) for name, link in arm.topology.links.items()}
    arm = replace(arm, topology=replace(arm.topology, links=links))
    for fast, label in ((0.8, "link.fast, slow"), (0.79, "stack.m0.selector")):
        seen = use({"f0": 8, "s0": 8}, disks=disks(1, 0.33), links={"fast": fast, "slow": 1.0})
        assert bottleneck(arm, load, [seen], dict.fromkeys(load.roles, 1e6)).label == label

# SPDX-License-Identifier: GPL-2.0-only
"""Bounds against closed forms."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.limits.filling import Flow, FlowChoice, FlowElement, FlowKind, fill
from harness.limits.limits import active_luns, allowed, arm_bound, fair_share
from harness.scenario.model import Arm, Role
from lab.base.errors import Misuse
from lab.topology.model import Disk, Driver, Hba, Link, Lun, Topology
from tests.unit.analysis_samples import GIB, MS, SOLO, TOGETHER, bound, load, null_topology, role


def test_shared_tags_have_closed_forms() -> None:
    topology = null_topology()
    assert bound(topology, SOLO, SOLO.roles["fast"], "iops") == pytest.approx(16_000)
    assert bound(topology, TOGETHER, TOGETHER.roles["fast"], "iops") == pytest.approx(8_000)
    assert bound(topology, TOGETHER, TOGETHER.roles["slow"], "iops") == pytest.approx(80)
    topology, fast = null_topology(), SOLO.roles["fast"]
    assert bound(topology, SOLO, fast, "bw") == pytest.approx(16_000 * 4096)
    assert bound(topology, SOLO, fast, "lat.mean") == pytest.approx(4 * MS)
    with pytest.raises(Misuse, match=r"no bound on lat\.p99"):
        bound(topology, SOLO, fast, "lat.p99")
    topology = null_topology()
    narrow = replace(topology, hbas={"nullb": replace(topology.hbas["nullb"], cmd_per_lun=16)})
    assert bound(narrow, SOLO, SOLO.roles["fast"], "iops") == pytest.approx(4_000)
    arm = Arm("few", topology, {"nr_requests": "8"}, {})
    assert arm_bound(arm, SOLO, "fast", "iops") == pytest.approx(2_000)
    # 8 in flight on a LUN that finishes 8 / 4 ms.
    assert arm_bound(arm, SOLO, "fast", "lat.mean") == pytest.approx(4 * MS)
    # 64 tags for two: 32 of each by Little's law.
    found = allowed(topology, TOGETHER)
    assert dict(found.rates) == pytest.approx({"fast": 32 / 0.004 * 4096, "slow": 32 / 0.4 * 4096})
    assert [limit.use for limit in found.limits] == pytest.approx([1, 1, 1, 0.5, 0.5])


def test_each_controller_of_nvme_over_tcp_has_its_own_queue() -> None:
    """65 entries hold 64 requests of 4 ms on each of two LUNs: 16,000 a second each."""
    disks = {name: Disk(name, GIB, service=4 * MS) for name in ("fast", "slow")}
    luns = {name: Lun(name, "port", (name,)) for name in disks}
    topology = Topology("t", "", 1, {"port": Hba("port", Driver.NVMET_TCP, 65, 65)}, disks, luns)
    both = load("both", role("fast", "fast", 256), role("slow", "slow", 256))
    assert bound(topology, both, both.roles["fast"], "iops") == pytest.approx(16_000)
    assert active_luns(topology, tuple(both.roles.values()), "port") == 1
    shared = replace(topology, hbas={"port": Hba("port", Driver.NVME, 65, 65)})
    assert bound(shared, both, both.roles["fast"], "iops") == pytest.approx(8_000)


@pytest.mark.parametrize(("rw", "mix", "rate"), [("randread", "", 8), ("randrw", "50", 16), ("randrw", "80", 10)])
def test_a_link_of_tcp_carries_reads_and_writes_at_once(rw: str, mix: str, rate: float) -> None:
    """8 MB/s each way: half of each is 16 MB/s, of four reads and a write 8 / 0.8. Debian's 6.1: 915 of 976 IOPS."""
    wire = {"wire": Link("wire", 8 * 10**6)}
    port = {"port": Hba("port", Driver.NVMET_TCP, 65, 65, links=("wire",))}
    topology = Topology(
        "t", "", 1, port, {"d": Disk("d", GIB, service=MS)}, {"d": Lun("d", "port", ("d",))}, links=wire
    )
    mixed = replace(role("job", "d", 16, 16 << 10), rw=rw, options={"rwmixread": mix} if mix else {})
    together = load("mixed", mixed)
    assert bound(topology, together, mixed, "bw") == pytest.approx(rate * 10**6)
    modelled = replace(topology, hbas={"port": Hba("port", Driver.TCMU, 64, 64, links=("wire",))})
    disk = {"d": Disk("d", GIB, rate=10**9)}
    assert bound(replace(modelled, disks=disk), together, mixed, "bw") == pytest.approx(8 * 10**6)


@pytest.mark.parametrize(("iodepth", "iops"), [(1, 250), (8, 2_000), (32, 8_000), (256, 8_000)])
def test_a_shallow_victim_is_bound_by_its_own_depth(iodepth: int, iops: float) -> None:
    together = load("together", role("victim", "fast", iodepth), role("slow", "slow"))
    assert bound(null_topology(), together, together.roles["victim"], "iops") == pytest.approx(iops)


def one_queue() -> Topology:
    disks = {"p0": Disk("p0", GIB, rate=10**6), "p1": Disk("p1", GIB, service=MS)}
    return Topology(
        "one", "", 1, {"h": Hba("h", Driver.TCM_LOOP, 64, 64)}, disks, {"all": Lun("all", "h", ("p0", "p1"))}
    )


def test_behind_one_queue_each_role_is_allowed_what_its_own_disk_allows() -> None:
    lopsided = load("lopsided", role("hog", "p0", 256), role("victim", "p1", 1))
    topology = one_queue()
    assert active_luns(topology, tuple(lopsided.roles.values()), "h") == 1
    assert bound(topology, lopsided, lopsided.roles["victim"], "iops") == pytest.approx(1_000)
    # null_blk at 1 MB/s serves 20,971 bytes in each of 50 ticks a second: five requests of 4 KiB.
    assert bound(topology, lopsided, lopsided.roles["hog"], "iops") == pytest.approx(250)


def modelled() -> Topology:
    disks = {
        "left": Disk("left", GIB, rate=8 * 10**6, links=("wire",)),
        "right": Disk("right", GIB, rate=8 * 10**6, links=("wire",)),
        "slow": Disk("slow", GIB, rate=2 * 10**6, links=("wire",)),
        "alone": Disk("alone", GIB, rate=8 * 10**6),
    }
    luns = {name: Lun(name, "h", (name,)) for name in disks}
    hba = Hba("h", Driver.TCMU, 64, 64)
    return Topology("m", "", 1, {"h": hba}, disks, luns, links={"wire": Link("wire", 12 * 10**6)})


def stream(name: str, disk: str) -> Role:
    return replace(role(name, disk, 4), rw="read", bs=64 << 10)


def test_disks_on_a_link_share_it_and_what_one_leaves_the_others_get() -> None:
    topology = modelled()
    pair = load("pair", stream("l", "left"), stream("r", "right"), stream("a", "alone"))
    assert bound(topology, pair, pair.roles["l"], "bw") == pytest.approx(6e6)
    assert bound(topology, pair, pair.roles["a"], "bw") == pytest.approx(8e6)
    three = load("three", stream("l", "left"), stream("r", "right"), stream("s", "slow"))
    assert bound(topology, three, three.roles["s"], "bw") == pytest.approx(2e6)
    assert bound(topology, three, three.roles["l"], "bw") == pytest.approx(5e6)
    costly = replace(topology, links={"wire": Link("wire", 12 * 10**6, cost=10 * MS)})
    assert bound(costly, pair, pair.roles["l"], "iops") == pytest.approx(0.5 / (0.010 + 65536 / 12e6))


def test_a_role_on_several_disks_is_allowed_what_they_are_together() -> None:
    topology = modelled()
    all_three = load("all", replace(stream("s", "left"), disks=("left", "right", "alone")))
    assert bound(topology, all_three, all_three.roles["s"], "bw") == pytest.approx(20e6)
    beside = load("beside", replace(stream("s", "left"), disks=("left", "right")), stream("t", "slow"))
    assert bound(topology, beside, beside.roles["s"], "bw") == pytest.approx(10e6)
    assert bound(topology, beside, beside.roles["t"], "bw") == pytest.approx(2e6)
    # Three queues of four: by Little's law the mean time in them is their sum over their throughput.
    total = bound(topology, all_three, all_three.roles["s"], "iops")
    assert bound(topology, all_three, all_three.roles["s"], "lat.mean") == pytest.approx(12 / total * 1e9)


@given(st.floats(0.1, 1e3), st.dictionaries(st.text(max_size=3), st.floats(0.1, 1e3), min_size=1, max_size=9))
def test_max_min_shares_are_fair_and_use_all_that_is_wanted(capacity: float, demands: dict[str, float]) -> None:
    wire = FlowElement(FlowKind.LINK, "wire", capacity)
    wants = {name: FlowElement(FlowKind.DISK, name, demand) for name, demand in demands.items()}
    shares = fill([Flow(name, 1.0, {wire: 1.0, own: 1.0}) for name, own in wants.items()]).rates
    assert sum(shares.values()) == pytest.approx(min(capacity, sum(demands.values())))
    assert all(shares[name] <= demands[name] * (1 + 1e-9) for name in demands)
    cut = [shares[name] for name in demands if shares[name] < demands[name] * (1 - 1e-9)]
    assert all(share == pytest.approx(max(shares.values())) for share in cut)


def test_the_order_of_elements_does_not_follow_from_hashes() -> None:
    """They differ at each start of Python."""
    fixed = {FlowElement(FlowKind.DISK, f"d{number}", 1.0): 1.0 for number in range(24)}
    assert list(fill([Flow("flow", 1.0, fixed)]).use) == list(fixed)


def test_a_choice_gets_what_a_fixed_flow_leaves_of_a_shared_link() -> None:
    """With each at x, 100 - x of the shared link and 20 of the other are left to the one that may choose: x is 60."""
    shared, other = FlowElement(FlowKind.LINK, "shared", 1.0), FlowElement(FlowKind.LINK, "other", 1.0)
    choice = FlowChoice(1.0, ({shared: 1 / 100}, {other: 1 / 20}))
    flows = [Flow("fixed", 1.0, {shared: 1 / 100}), Flow("chooses", 1.0, {}, (choice,))]
    assert dict(fill(flows).rates) == pytest.approx({"fixed": 60.0, "chooses": 60.0}, rel=1e-5)


def test_what_is_left_is_filled_from_the_level_that_was_reached() -> None:
    narrow, wide = FlowElement(FlowKind.LINK, "narrow", 1.0), FlowElement(FlowKind.LINK, "wide", 1.0)
    flows = [Flow("a", 1.0, {narrow: 0.1, wide: 0.01}), Flow("b", 1.0, {wide: 0.01})]
    filled = fill(flows)
    assert dict(filled.rates) == pytest.approx({"a": 10.0, "b": 90.0})
    assert filled.full == {narrow, wide}


def test_a_disk_without_limits_has_no_bound() -> None:
    topology = one_queue()
    free = replace(topology, disks={**topology.disks, "p1": Disk("p1", GIB)})
    solo = load("solo", role("victim", "p1", 1))
    with pytest.raises(Misuse, match="no bound"):
        bound(free, solo, solo.roles["victim"], "iops")


@pytest.mark.parametrize(("can_queue", "users", "share"), [(64, 1, 64), (64, 3, 22), (10, 3, 4), (8, 4, 4), (3, 2, 3)])
def test_a_fair_share_is_rounded_up_and_four_at_least(can_queue: int, users: int, share: int) -> None:
    assert fair_share(can_queue, users) == share


@given(st.integers(1, 512), st.integers(1, 512), st.integers(1, 1024))
def test_more_depth_or_more_tags_never_lower_a_bound(shallow: int, more: int, can_queue: int) -> None:
    def iops(iodepth: int, tags: int) -> float:
        together = load("together", role("fast", "fast", iodepth), role("slow", "slow"))
        return bound(null_topology(tags), together, together.roles["fast"], "iops")

    rounding = 1 + 1e-12
    assert iops(shallow, can_queue) <= iops(shallow + more, can_queue) * rounding
    assert iops(shallow, can_queue) <= iops(shallow, can_queue + more) * rounding

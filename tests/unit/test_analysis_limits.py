# SPDX-License-Identifier: GPL-2.0-only
"""Limits of stacks against closed forms."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.limits.filling import Flow, FlowChoice, FlowElement, FlowKind, fill
from harness.limits.limits import _limits, allowed, share_of_reads, shares_of_bound
from harness.scenario.model import Arm, Role
from lab.base.errors import Misuse
from lab.topology.graph import Access, parts
from lab.topology.model import Disk, Driver, Hba, Link, Lun, Stack, StackKind, Topology, Zone
from tests.unit.analysis_samples import GIB, MS, bound, load, role

MB = 10**6
KIB = 1 << 10


def topology(
    disks: Mapping[str, Disk],
    stacks: tuple[Stack, ...] = (),
    *,
    links: tuple[Link, ...] = (),
    paths: Mapping[str, Lun] | None = None,
    hba: Hba | None = None,
) -> Topology:
    return Topology(
        "t",
        "",
        1,
        {"h": hba or Hba("h", Driver.TCMU, 1024, 64)},
        disks,
        paths or {name: Lun(name, "h", (name,)) for name in disks},
        links={link.name: link for link in links},
        stacks={stack.name: stack for stack in stacks},
    )


def disks(*rates: int, seek: int = 0, links: tuple[str, ...] = ()) -> dict[str, Disk]:
    return {f"d{n}": Disk(f"d{n}", GIB, rate=rate * MB, seek=seek, links=links) for n, rate in enumerate(rates)}


def stream(disk: str, rw: str = "read", bs: int = 1024 * KIB, iodepth: int = 4) -> Role:
    return replace(role("s", disk, iodepth, bs), rw=rw)


def most(topology: Topology, role: Role) -> float:
    one = load("one", role)
    return bound(topology, one, one.roles[role.name], "bw")


def stripe(count: int, chunk: int = 64 * KIB) -> Stack:
    return Stack("vol", StackKind.STRIPE, tuple(f"d{n}" for n in range(count)), chunk=chunk)


def raid(level: str, count: int, chunk: int = 128 * KIB) -> Stack:
    return Stack("vol", StackKind.MD, tuple(f"d{n}" for n in range(count)), chunk=chunk, level=level)


def test_a_stripe_runs_at_as_many_times_its_slowest_member() -> None:
    four = topology(disks(45, 70, 75, 75), (stripe(4),))
    assert most(four, stream("vol")) == pytest.approx(4 * 45 * MB)
    assert most(replace(four, stacks={"vol": raid("raid0", 4)}), stream("vol")) == pytest.approx(180 * MB)


def test_one_request_within_a_chunk_keeps_one_member_busy() -> None:
    four = topology(disks(80, 80, 80, 80), (stripe(4),))
    assert most(four, stream("vol", bs=64 * KIB, iodepth=1)) == pytest.approx(80 * MB)
    assert most(four, stream("vol", bs=64 * KIB, iodepth=2)) == pytest.approx(160 * MB)
    assert most(four, stream("vol", bs=256 * KIB, iodepth=1)) == pytest.approx(320 * MB)


def test_requests_of_several_sizes_take_the_time_of_their_mean() -> None:
    """A seek and 28 KiB each on a serial disk. Cut into chunks, a large one keeps several members busy at once."""
    split = {"bssplit": "4k/60:64k/40"}
    mixed = replace(stream("d0", "randread", bs=28 * KIB, iodepth=1), options=split)
    assert most(topology(disks(80, seek=8 * MS)), mixed) == pytest.approx(28 * KIB / (0.008 + 28 * KIB / (80 * MB)))
    with pytest.raises(Misuse, match="nothing bounds s: stripe vol cuts requests of several sizes"):
        most(topology(disks(80, 80), (stripe(2),)), replace(mixed, disks=("vol",)))


def test_two_parts_of_one_disk_under_a_stripe_take_turns() -> None:
    """A stripe over four disks and a second place on one of them, chunk by chunk: 5 t / (2 s + 2 t)."""
    parts = (
        Stack("left", StackKind.LINEAR, ("d0",), size=GIB // 4),
        Stack("right", StackKind.LINEAR, ("d0",), offset=GIB // 2, size=GIB // 4),
    )
    vol = Stack("vol", StackKind.STRIPE, ("left", "right", "d1", "d2", "d3"), chunk=64 * KIB)
    bad = topology(disks(80, 80, 80, 80, seek=8 * MS), (*parts, vol))
    seek, chunk = 0.008, 64 * KIB / (80 * MB)
    # Requests of five chunks: one of each member.
    assert most(bad, stream("vol", bs=320 * KIB)) == pytest.approx(5 * 64 * KIB / (2 * seek + 2 * chunk))
    good = topology(disks(80, 80, 80, 80, seek=8 * MS), (stripe(4),))
    ratio = most(bad, stream("vol", bs=320 * KIB)) / most(good, stream("vol", bs=320 * KIB))
    assert ratio == pytest.approx(5 * chunk / (4 * (2 * seek + 2 * chunk)))
    # Adjoining chunks of a larger request may be merged on their member: fewer seeks.
    assert most(bad, stream("vol", bs=1280 * KIB)) == pytest.approx(20 * 64 * KIB / (2 * seek + 8 * chunk))


@pytest.mark.parametrize(
    ("level", "rw", "members"),
    [
        ("raid5", "read", 4), ("raid5", "write", 3), ("raid6", "read", 4), ("raid6", "write", 2), ("raid4", "read", 3),
        ("raid1", "read", 4), ("raid1", "write", 1), ("raid10", "read", 4), ("raid10", "write", 2),
    ],
)  # fmt: skip
def test_arrays_of_four_give_what_their_layout_leaves(level: str, rw: str, members: int) -> None:
    array = topology(disks(8, 8, 8, 8), (raid(level, 4),))
    assert most(array, stream("vol", rw, bs=1536 * KIB, iodepth=16)) == pytest.approx(members * 8 * MB, rel=1e-5)


def test_write_mostly_members_of_a_mirror_are_written_and_not_read() -> None:
    array = topology(disks(8, 8, 8, 8), (replace(raid("raid1", 4), write_mostly=3),))
    assert most(array, stream("vol", "read", bs=1536 * KIB, iodepth=16)) == pytest.approx(8 * MB, rel=1e-5)
    assert most(array, stream("vol", "write", bs=1536 * KIB, iodepth=16)) == pytest.approx(8 * MB, rel=1e-5)


def mirrored(**services: int) -> dict[str, Disk]:
    return {name: Disk(name, GIB, service=time * MS) for name, time in services.items()}


FLASH = Hba("h", Driver.NULL_BLK, 1024, 1024)


@pytest.mark.parametrize(("rw", "rate"), [("randread", 500), ("randwrite", 250), ("randrw", 1000 / 3)])
@pytest.mark.parametrize("depth", [1, 16])
def test_a_write_to_unequal_mirrors_takes_as_long_as_the_slower_one(rw: str, rate: float, depth: int) -> None:
    """2 ms and 4 ms: a read takes 2 ms, a write 4 ms, half of each 3 ms. Debian's 6.1: 496, 249 at depth 1."""
    array = topology(mirrored(d0=2, d1=4), (raid("raid1", 2),), hba=FLASH)
    assert most(array, stream("vol", rw, 4096, depth)) == pytest.approx(depth * rate * 4096)


def test_reads_of_mirrors_of_several_disks_go_to_any_of_them() -> None:
    """Three striped disks of 8 MB/s mirrored by one: 32 MB/s, not twice the 8 MB/s of the smaller half.

    Of 1 ms and 3 ms in flight one by one: 1,000 reads a second, not one in the mean of 2 ms.
    """
    wide = Stack("wide", StackKind.STRIPE, ("d0", "d1", "d2"), chunk=4 * KIB)
    array = replace(raid("raid1", 2), over=("wide", "d3"))
    assert most(topology(disks(8, 8, 8, 8), (wide, array)), stream("vol", "randread", 4 * KIB, 64)) == pytest.approx(
        32 * MB, rel=1e-5
    )
    slow = topology(mirrored(d0=3, d1=3, d2=3, d3=1), (wide, array), hba=FLASH)
    assert most(slow, stream("vol", "randread", 4 * KIB, 1)) == pytest.approx(1000 * 4096)
    assert most(slow, stream("vol", "randwrite", 4 * KIB, 1)) == pytest.approx(1000 / 3 * 4096)


def test_a_stream_from_an_array_jumps_over_its_parity() -> None:
    array = topology(disks(*[80] * 12, seek=8 * MS), (raid("raid6", 12),))
    run = 10 * 128 * KIB
    assert most(array, stream("vol", bs=run, iodepth=4)) == pytest.approx(12 * run / (0.008 + run / (80 * MB)))
    assert most(array, stream("vol", "write", bs=run)) == pytest.approx(10 * 80 * MB)
    apart = topology(disks(*[80] * 4, seek=8 * MS), (raid("raid4", 4),))
    assert most(apart, stream("vol", bs=3 * 128 * KIB)) == pytest.approx(3 * 80 * MB)


def test_small_random_writes_to_raid5_are_four_requests_each() -> None:
    array = topology(disks(*[80] * 8, seek=8 * MS), (raid("raid5", 8),))
    wanted = 8 / 4 / (0.008 + 4096 / (80 * MB))
    one = load("one", replace(role("s", "vol", 64), rw="randwrite"))
    assert bound(array, one, one.roles["s"], "iops") == pytest.approx(wanted)


PORTS = (Link("p0", 60 * MB), Link("p1", 30 * MB))


def multipath(selector: str, policy: str = "multibus", count: int = 1, links: tuple[Link, ...] = PORTS) -> Topology:
    """``count`` disks of 80 MB/s, each behind both ports."""
    luns = {
        f"{path}{n}": Lun(f"{path}{n}", "h", (f"d{n}",), (link.name,))
        for path, link in zip("ab", links, strict=True)
        for n in range(count)
    }
    stacks = tuple(
        Stack(f"m{n}", StackKind.MULTIPATH, (f"a{n}", f"b{n}"), selector=selector, policy=policy) for n in range(count)
    )
    return topology(disks(*[80] * count), stacks, links=links, paths=luns)


@pytest.mark.parametrize(
    ("selector", "policy", "rate"),
    [
        # In turn by either path, while the disk moves one request at a time: 2 / (1 / 60 + 1 / 30).
        ("round-robin", "multibus", 40),
        ("queue-length", "multibus", 60),
        ("service-time", "multibus", 60),
        ("service-time", "failover", 60),
    ],
)
def test_selectors_over_unequal_paths(selector: str, policy: str, rate: int) -> None:
    assert most(multipath(selector, policy), stream("m0")) == pytest.approx(rate * MB, rel=1e-5)


@pytest.mark.parametrize(("selector", "rate"), [("round-robin", 60), ("queue-length", 80)])
def test_a_disk_with_a_buffer_waits_for_no_path(selector: str, rate: int) -> None:
    rig = multipath(selector)
    buffered = replace(rig, disks={name: replace(disk, buffer=8) for name, disk in rig.disks.items()})
    assert most(buffered, stream("m0")) == pytest.approx(rate * MB, rel=1e-5)


@pytest.mark.parametrize(("selector", "rate"), [("round-robin", 60), ("queue-length", 90)])
def test_many_disks_share_the_ports_and_the_cut_is_named(selector: str, rate: int) -> None:
    three = multipath(selector, count=3)
    all_three = load("all", replace(stream("m0"), disks=("m0", "m1", "m2")))
    found = allowed(three, all_three)
    assert found.rates["s"] == pytest.approx(rate * MB, rel=1e-5)
    assert bound(three, all_three, all_three.roles["s"], "bw") == pytest.approx(rate * MB, rel=1e-5)
    binding = {limit.element.name for limit in found.limits if limit.use > 0.999}
    assert binding == ({"p1"} if selector == "round-robin" else {"p0", "p1"})
    use = {limit.element.name: limit.use for limit in found.limits if limit.element.kind is FlowKind.DISK}
    # In turn: 10 / 60 + 10 / 30. By choice at the least, were all of 30 by the faster port.
    assert all(each == pytest.approx(0.5, rel=1e-4) for each in use.values())


def test_a_free_choice_with_fixed_splits() -> None:
    """A stripe over two multipath devices goes on at the pace of the slower member, by both ports."""
    two = multipath("service-time", count=2)
    vol = Stack("vol", StackKind.STRIPE, ("m0", "m1"), chunk=64 * KIB)
    slow = replace(two, stacks={**two.stacks, "vol": vol})
    assert most(slow, stream("vol")) == pytest.approx(90 * MB, rel=1e-5)
    slower = replace(slow, disks={**slow.disks, "d1": Disk("d1", GIB, rate=20 * MB)})
    assert most(slower, stream("vol")) == pytest.approx(40 * MB, rel=1e-5)


def test_tags_of_a_host_carry_by_little_s_law() -> None:
    many = topology(disks(*[8] * 24), hba=Hba("h", Driver.TCMU, 6, 6))
    every = load("all", replace(stream("d0", bs=64 * KIB), disks=tuple(many.disks)))
    found = allowed(many, every)
    assert found.rates["s"] == pytest.approx(6 * 8 * MB)
    first = found.limits[0]
    assert first.element == FlowElement(FlowKind.HOST, "h", 6)
    assert first.rate == pytest.approx(48 * MB)


def test_disks_without_links_share_a_host_s_tags_evenly_whatever_a_request_carries() -> None:
    """Three of six tags each, though fair sharing leaves a LUN four: 3 requests a ms."""
    both = topology({name: Disk(name, GIB, service=MS) for name in ("d0", "d1")}, hba=Hba("h", Driver.TCMU, 6, 6))
    small, large = role("small", "d0", 64, 4 * KIB), role("large", "d1", 64, 16 * KIB)
    rates = allowed(both, load("both", small, large)).rates
    assert rates == pytest.approx({"small": 3000 * 4 * KIB, "large": 3000 * 16 * KIB})


def test_a_bound_is_that_of_a_role_alone_on_the_queue_of_a_shared_lun() -> None:
    """Two requests of 1 ms at a time."""
    halves = tuple(
        Stack(name, StackKind.LINEAR, ("d",), offset=start, size=GIB // 2)
        for name, start in (("l", 0), ("r", GIB // 2))
    )
    shared = topology({"d": Disk("d", GIB, service=MS)}, halves, hba=Hba("h", Driver.TCMU, 1024, 2))
    both = load("both", role("left", "l", 64), role("right", "r", 64))
    assert bound(shared, both, both.roles["left"], "iops") == pytest.approx(2000)
    assert allowed(shared, both).rates["left"] == pytest.approx(1000 * 4096)


def test_a_cost_for_each_request_weighs_on_small_ones() -> None:
    slow = topology(disks(80, 80, links=("w",)), (stripe(2),), links=(Link("w", 100 * MB, cost=MS),))
    small = 64 * KIB / (0.001 + 64 * KIB / (100 * MB))
    assert most(slow, stream("vol", bs=64 * KIB)) == pytest.approx(small)
    # 512 KiB arrive at each member for a request of a MiB, when what adjoins is merged.
    assert most(slow, stream("vol")) == pytest.approx(512 * KIB / (0.001 + 512 * KIB / (100 * MB)))


def test_zones_are_slower_tracks() -> None:
    zoned = {"d0": Disk("d0", GIB, rate=80 * MB, zones=(Zone(GIB // 2, 40 * MB),))}
    there = topology(zoned)
    assert most(there, stream("d0")) == pytest.approx(80 * MB)
    assert most(there, replace(stream("d0"), options={"offset": "768M"})) == pytest.approx(40 * MB)
    anywhere = replace(stream("d0", "randread", bs=4096))
    assert most(there, anywhere) == pytest.approx(2 / (1 / (80 * MB) + 1 / (40 * MB)))


@pytest.mark.parametrize(("ncq", "iodepth", "choices"), [(1, 16, 1), (8, 16, 8), (8, 2, 2)])
def test_a_disk_with_choices_waits_less_for_its_sector(ncq: int, iodepth: int, choices: int) -> None:
    turning = topology({"d0": Disk("d0", GIB, rate=80 * MB, seek=4 * MS, rotation=8 * MS, ncq=ncq)})
    one = load("one", role("r", "d0", iodepth))
    wanted = 1 / (0.004 + 0.008 / (choices + 1) + 4096 / (80 * MB))
    assert bound(turning, one, one.roles["r"], "iops") == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("rw", "reads", "seeks"),
    [
        ("read", 1, 0), ("write", 0, 0), ("trim", 0, 0), ("rw", 0.7, 0), ("readwrite", 0.7, 0),
        ("randread", 1, 1), ("randwrite", 0, 1), ("randrw", 0.7, 1),
    ],
)  # fmt: skip
def test_a_role_reads_by_its_direction_and_seeks_where_it_is_random(rw: str, reads: float, seeks: int) -> None:
    of = replace(stream("d0", rw, bs=4 * KIB), options={"rwmixread": "70"})
    assert share_of_reads(of) == reads
    assert 4 * KIB / most(topology(disks(80, seek=8 * MS)), of) == pytest.approx(4 * KIB / (80 * MB) + seeks * 0.008)


def test_a_stream_on_a_linear_stack_is_on_one_member() -> None:
    both = topology(disks(80, 40), (Stack("vol", StackKind.LINEAR, ("d0", "d1")),))
    assert most(both, stream("vol")) == pytest.approx(80 * MB)
    assert most(both, replace(stream("vol"), options={"offset": "1G"})) == pytest.approx(40 * MB)


def test_random_requests_on_a_linear_stack_are_on_each_member_by_its_part_of_the_extent() -> None:
    both = topology(disks(80, 40), (Stack("vol", StackKind.LINEAR, ("d0", "d1")),))
    anywhere = parts(both, "vol", Access(GIB // 2, GIB, 4 * KIB, sequential=False, reads=1.0))
    assert [(part.start, part.size, part.share) for part in anywhere] == [(GIB // 2, GIB // 2, 0.5), (0, GIB // 2, 0.5)]
    # Without a size the extent ends with the stack: a third of the requests go to the first disk.
    to_the_end = replace(stream("vol", "randread", bs=4 * KIB), options={"offset": "512M"})
    assert most(both, to_the_end) == pytest.approx(40 * MB * 3 / 2)


def test_buffered_streams_come_in_read_ahead() -> None:
    costly = topology(disks(80, links=("w",)), links=(Link("w", 80 * MB, cost=MS),))
    one = load("one", replace(stream("d0", bs=4096, iodepth=1), direct=False))

    def rate(read_ahead: Mapping[str, str]) -> float:
        return bound(costly, one, one.roles["s"], "bw", **read_ahead)

    assert rate({}) == pytest.approx(128 * KIB / (0.001 + 128 * KIB / (80 * MB)))
    assert rate({"read_ahead_kb": "512"}) == pytest.approx(512 * KIB / (0.001 + 512 * KIB / (80 * MB)))


def test_every_element_comes_with_what_it_allows() -> None:
    two = topology(disks(8, 8, links=("w",)), (stripe(2),), links=(Link("w", 12 * MB, what="SAS"),))
    found = {limit.element.kind: limit for limit in allowed(two, load("one", stream("vol"))).limits}
    assert found[FlowKind.LINK].rate == pytest.approx(12 * MB)
    assert found[FlowKind.LINK].use == pytest.approx(1)
    assert found[FlowKind.DISK].rate == pytest.approx(16 * MB)
    assert found[FlowKind.DISK].use == pytest.approx(0.75)


RATES = st.integers(1, 100)


@given(st.lists(RATES, min_size=1, max_size=5), RATES, RATES)
def test_a_choice_is_a_maximum_flow(speeds: list[int], left: int, right: int) -> None:
    """Disks that all choose between two links: nothing is left over that any of them could have used."""
    wires = [FlowElement(FlowKind.LINK, "left", left), FlowElement(FlowKind.LINK, "right", right)]
    flows = []
    for number, speed in enumerate(speeds):
        own = FlowElement(FlowKind.DISK, f"d{number}", speed)
        flows.append(Flow(f"f{number}", 1.0, {}, (FlowChoice(1.0, tuple({own: 1.0, wire: 1.0} for wire in wires)),)))
    found = fill(flows)
    assert sum(found.rates.values()) == pytest.approx(min(sum(speeds), left + right), rel=1e-4)
    held = [found.rates[f"f{n}"] for n, speed in enumerate(speeds) if found.rates[f"f{n}"] < speed * 0.999]
    assert all(each == pytest.approx(max(found.rates.values()), rel=1e-3) for each in held)
    assert all(use <= 1 + 1e-4 for use in found.use.values())


@pytest.mark.parametrize(
    ("scheduler", "seeks", "turn"), [("mq-deadline", 0.0, 0), ("bfq", 0.5, 8 / 33), ("none", 1.0, 4), ("kyber", 1.0, 4)]
)
def test_what_an_elevator_sorts_needs_fewer_seeks_and_shorter_turns(scheduler: str, seeks: float, turn: float) -> None:
    """32 of 64 blocks wait: as many as 2 * 32 / 64 follow one another. mq-deadline read 1.9 times the bound."""
    disks = {"d": Disk("d", GIB, rate=20 * MB, seek=2 * MS, rotation=8 * MS)}
    blocks = {"mq-deadline": 64, "bfq": 128}.get(scheduler, 64)
    reader = replace(role("r", "d", 32, 16 * KIB), options={"size": str(blocks * 16 * KIB)})
    found = bound(topology(disks), load("l", reader), reader, "iops", scheduler=scheduler)
    assert 1 / found == pytest.approx(16 * KIB / (20 * MB) + seeks * (2 + turn) / 1000)


def test_a_policy_of_paths_is_no_limit_of_the_devices() -> None:
    """A kernel whose round-robin stays on the faster path exceeds twice the slower one."""
    links = (Link("a", 400 * MB), Link("b", 100 * MB))
    paths = {name: Lun(name, "h", ("d",), (name,)) for name in ("a", "b")}
    both = Stack("m", StackKind.MULTIPATH, ("a", "b"), selector="round-robin")
    place = topology({"d": Disk("d", GIB, rate=1000 * MB, buffer=MB)}, (both,), links=links, paths=paths)
    reader = role("r", "m", 16, 64 * KIB)
    arm, window = Arm("a", place, {}, {}), load("l", replace(reader, rw="read"))
    moved = {"r": 400.0 * MB}
    assert shares_of_bound(arm, window, moved)[0] == pytest.approx(2.0)
    assert shares_of_bound(arm, window, moved, devices=True)[0] == pytest.approx(0.8)


@pytest.mark.parametrize(("ncq", "choices"), [(1, 1), (4, 4), (32, 8)])
def test_streams_on_one_disk_take_turns_of_what_it_may_choose(ncq: int, choices: int) -> None:
    """A turn is one seek, then as many requests of 16 KiB as the disk chooses from; a bound is that of one stream."""
    disks = {"d": Disk("d", GIB, rate=80 * MB, seek=4 * MS, rotation=8 * MS, ncq=ncq)}
    first, second = (replace(role(name, "d", 8, 16 * KIB), rw="read") for name in "ab")
    turn = 0.004 + 0.008 / (1 + choices) + choices * 16 * KIB / (80 * MB)
    both = load("l", first, second)
    assert bound(topology(disks), both, first, "iops") == pytest.approx(choices / turn)


def test_a_share_of_what_nothing_bounds_is_not_known() -> None:
    cached = replace(role("r", "d0"), direct=False, options={"invalidate": "0"})
    polled = replace(role("r", "d0"), ioengine="io_uring", options={"hipri": "1"})
    for reader, why in ((cached, "the page cache may have its blocks"), (polled, "null_blk completes what is polled")):
        with pytest.raises(Misuse, match=f"nothing bounds r: {why}"):
            shares_of_bound(Arm("a", topology(disks(80)), {}, {}), load("l", reader), {"r": 1.0})


def test_what_is_full_comes_first_although_its_use_is_found_by_halving() -> None:
    full, busy = FlowElement(FlowKind.LINK, "full", 1.0), FlowElement(FlowKind.DISK, "busy", 1.0)
    flows = [Flow("r", 1.0, {busy: 1.0, full: 1.0})]
    filled: Any = SimpleNamespace(flows=flows, rates={"r": 8.0}, use={busy: 0.9999, full: 0.999}, full={full})
    found = list(_limits(filled))
    assert [limit.element for limit in found] == [full, busy]

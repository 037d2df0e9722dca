# SPDX-License-Identifier: GPL-2.0-only
"""Ranges of names, scale, paths, enclosures, stacks and origins of the topology language."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import InputErrors
from lab.guest.steps.device import Array, TableStep
from lab.guest.steps.setting import Try, Tune
from lab.realise.recipe import devices
from lab.topology import load as loading
from lab.topology.load import load_topology
from lab.topology.model import Link, Origin, Region, StackKind, Topology, Zone, build_order
from lab.topology.parameters import apply_setting, apply_try
from lab.topology.ranges import in_ranges, range_names
from tests.unit.test_topology_load import load, mistakes

J4400 = """\
topology: t
memory: 1G
scale: 10
vm: {dirty_bytes: 64M}
links:
  pcie0..1: {pcie: {generation: 1, lanes: 8}}
  port0..1: {sas: {gbit: 3, lanes: 4}, efficiency: 94, cost: 2us}
  box: {rate: 900 MB/s}
disks:
  d0..3:
    {size: 1G, rate: 80 MB/s, seek: 8ms, rpm: 7200, ncq: 4, look_ahead: 2M, coalesce: 8,
     zones: [{from: 512M, rate: 45 MB/s}]}
  e0..3: {size: 1G, rate: 80 MB/s}
enclosures:
  j0: {model: J4400, disks: [d0..3], links: [box]}
hbas:
  mpt0..1: {model: SAS1068E, driver: tcmu, can_queue: 127, cmd_per_lun: 64, links: [pcie0..1], slot: "3", node: 1}
luns:
  a0..3: {hba: mpt0, disks: [d0..3], links: [port0]}
  b0..3: {hba: mpt0, disks: [d0..3], links: [port1]}
  e0..3: {hba: mpt1, disks: [e0..3]}
stacks:
  mp0..3: {kind: multipath, over: [a0..3, b0..3], selector: service-time, repeat_count: 3}
  vol: {kind: stripe, chunk: 64k, over: [mp0..3], queue: {read_ahead_kb: 512}}
  head: {kind: linear, over: [e0], offset: 16M, size: 64M}
  both: {kind: linear, over: [head, e1]}
  raid: {kind: md, level: raid6, chunk: 128k, over: [both, e2, e3, vol], size: 64M, md: {stripe_cache_size: 512}}
origins:
  - {of: disk.*.rate, cites: the report}
  - {of: disk.*.seek, fitted: the stripe on one disk}
"""


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    return load(J4400, tmp_path)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("d8..11", ("d8", "d9", "d10", "d11")),
        ("d08..11", ("d08", "d09", "d10", "d11")),
        ("j0-d0..1-x", ("j0-d0-x", "j0-d1-x")),
        ("d3..1", ()),
        ("d0..9999", ()),
        ("d0", ()),
    ],
)
def test_ranges(text: str, names: tuple[str, ...]) -> None:
    assert range_names(text) == names


def test_rates_are_lower_and_times_longer_by_the_scale_and_a_path_has_all_links(topology: Topology) -> None:
    disk = topology.disks["d2"]
    assert (disk.rate, disk.seek, disk.rotation, disk.ncq) == (8_000_000, 80_000_000, 83_333_333, 4)
    assert (disk.look_ahead, disk.coalesce) == (2 << 20, 8)
    assert disk.zones == (Zone(512 << 20, 4_500_000),)
    assert topology.links["pcie0"] == Link("pcie0", 200_000_000, 0, "PCIe 1.0 x8")
    assert topology.links["port1"] == Link("port1", 112_800_000, 20_000, "SAS 3 Gbit/s x4")
    assert topology.path("b1", "d1") == ("pcie0", "port1", "box")
    assert topology.path("e1", "e1") == ("pcie1",)
    assert topology.leaves("vol") == ("a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3")
    assert set(topology.targets()) == {"e0", "e1", "e2", "e3", *topology.luns, *topology.stacks} - set()
    with pytest.raises(KeyError):
        topology.region("d0")
    assert topology.region("vol") == Region("vol", 0, 4 << 30)
    assert topology.region("both") == Region("both", 0, (64 << 20) + (1 << 30))
    assert topology.region("raid").size == 2 * (64 << 20)


def test_settings_are_values_of_the_hardware_too(topology: Topology) -> None:
    assert apply_setting(topology, "disk.d1.rate", 50_000_000).disks["d1"].rate == 5_000_000
    assert apply_setting(topology, "disk.d1.rpm", 6000).disks["d1"].rotation == 100_000_000
    turned = apply_setting(topology, "disk.d*.seek", 1_000_000)
    assert {disk.seek for name, disk in turned.disks.items() if name[0] == "d"} == {10_000_000}
    assert turned.disks["e0"].seek == 0
    assert apply_setting(topology, "disk.d0.look_ahead", 0).disks["d0"].look_ahead == 0
    assert apply_setting(topology, "disk.d0.coalesce", 1).disks["d0"].coalesce == 1
    assert apply_setting(topology, "stack.vol.chunk", 4096).stacks["vol"].chunk == 4096
    assert apply_setting(topology, "stack.mp*.selector", "queue-length").stacks["mp3"].selector == "queue-length"
    raid = apply_setting(topology, "stack.raid.md.stripe_cache_size", 256).stacks["raid"]
    assert raid.settings == {"md/stripe_cache_size": "256"}
    with pytest.raises(ValueError, match="no such setting"):
        apply_setting(topology, "stack.raid.md.level", 1)


def test_stacks_are_built_after_their_members(topology: Topology) -> None:
    order = [stack.name for stack in build_order(topology)]
    assert order.index("mp3") < order.index("vol") < order.index("raid")
    assert order.index("head") < order.index("both") < order.index("raid")
    rows = {step.name: step.rows for step in devices(topology) if isinstance(step, TableStep)}
    assert rows["mp1"] == ("0 2097152 multipath 0 0 1 1 service-time 0 2 2 /lab/a1 3 1 /lab/b1 3 1",)
    assert rows["vol"] == ("0 8388608 striped 4 128 /lab/mp0 0 /lab/mp1 0 /lab/mp2 0 /lab/mp3 0",)
    assert rows["head"] == ("0 131072 linear /lab/e0 32768",)
    assert rows["both"] == ("0 131072 linear /lab/head 0", "131072 2097152 linear /lab/e1 0")
    (array,) = (step for step in devices(topology) if isinstance(step, Array))
    assert array.fields()[3] == (
        "--level=raid6 --raid-devices=4 --bitmap=none --chunk=128K --size=65536K --assume-clean"
        " /lab/both /lab/e2 /lab/e3 /lab/vol"
    )


def test_the_page_cache_is_set_and_read_back_and_tried_attributes_come_last(topology: Topology) -> None:
    assert topology.vm == {"dirty_bytes": "67108864"}
    turned = apply_setting(topology, "vm.dirty_background_bytes", 1 << 20)
    tunes = [step.fields() for step in devices(turned) if isinstance(step, Tune) and step.knob.startswith("vm.")]
    assert tunes == [
        ("tune", f"vm.{name}", f"/proc/sys/vm/{name}", str(value))
        for name, value in (("dirty_bytes", 64 << 20), ("dirty_background_bytes", 1 << 20))
    ]
    with pytest.raises(ValueError, match="no such setting"):
        apply_setting(topology, "vm.swappiness", 1)
    tried = apply_try(topology, "stack.raid.queue.max_sectors_kb", 1280)
    steps = [step.fields() for step in devices(tried) if isinstance(step, Tune | Try) and "raid" in step.path]
    assert [fields[:2] for fields in steps] == [
        ("tune", "stack.md.stripe_cache_size[raid]"),
        ("try", "stack.raid.queue.max_sectors_kb"),
    ]
    with pytest.raises(ValueError, match="no stack rai"):
        apply_try(topology, "stack.rai.queue.max_sectors_kb", 1280)


def test_origins_are_kept(topology: Topology) -> None:
    assert topology.origins == (
        Origin("disk.*.rate", "cites", "the report"),
        Origin("disk.*.seek", "fitted", "the stripe on one disk"),
    )
    assert topology.stacks["raid"].kind is StackKind.MD


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("disks: [d0..3], links: [port0]", "disks: [d0..2], links: [port0]", "d0..2 has 3 names, the row's key 4"),
        ("  e0..3: {size", "  d3..6: {size", '"d3": duplicate name, here as part of d3..6'),
        (
            "{pcie: {generation: 1, lanes: 8}}",
            "{rate: 1 MB/s, pcie: {generation: 1, lanes: 8}}",
            "expected one of rate",
        ),
        ("e0..3: {size: 1G", "e0..3: {size: 1G, seek: 1ms, buffer: 2", "disk e0: a disk with a buffer has no seek"),
        ("e0..3: {size: 1G", "e0..3: {size: 1G, coalesce: 2, buffer: 2", "disk e0: a disk with a buffer has no seek"),
        (
            "e0..3: {size: 1G",
            "e0..3: {size: 1G, buffer: 193",
            "the buffers of all disks hold 772 requests, at most 768",
        ),
        ("from: 512M", "from: 2G", "disk d0: expected zones in ascending order"),
        ("over: [mp0..3]", "over: [mp0..4]", "stack vol: no LUN or stack mp4, did you mean"),
        ("over: [head, e1]", "over: [raid, e1]", "it is over itself"),
        ("kind: stripe, chunk: 64k", "kind: stripe", "stack vol: chunk is missing"),
        ("kind: stripe, chunk: 64k", "kind: stripe, chunk: 65k", "stack vol: chunk must be a power of two"),
        ("kind: linear, over: [head", "kind: linear, level: raid1, over: [head", "kind linear has no level"),
        ("over: [both, e2, e3, vol]", "over: [both, e2, e3]", "raid6 needs at least 4 members"),
        ("over: [both, e2, e3, vol]", "write_mostly: 1, over: [both, e2, e3, vol]", "some members of a raid1"),
        ("e0..3: {size: 1G", "e0..3: {size: 1G, discard: true", "disk e0: discard needs driver null_blk, got tcmu"),
        ("over: [both, e2, e3, vol]", "over: [both, e2, e3, e3]", "e3 is listed twice"),
        ("over: [head, e1]", "over: [head, e1], offset: 1M", "stack both: offset and size need a single member"),
        ("over: [head, e1]", "over: [head, e1], size: 1M", "stack both: offset and size need a single member"),
        ("offset: 16M, size: 64M", "offset: 1G, size: 64M", "offset and size exceed the 1G of e0"),
        ("size: 64M, md", "size: 8G, md", "size 8G exceeds its smallest member"),
        ("over: [a0..3, b0..3]", "over: [a0..3, e0..3]", "all paths of a multipath device must lead to the same disk"),
        ("  raid: {", "  e1: {", "stack e1: a LUN or a disk has that name"),
        ("fitted: the stripe on one disk", "fitted: x, cites: y", "expected one of cites, fitted, chosen, guessed"),
        (
            "  j0: {model: J4400, disks: [d0..3]",
            "  i0: {disks: [d3]}\n  j0: {disks: [d0..3]",
            "disk d3 is in i0 already",
        ),
    ],
)
def test_mistakes(old: str, new: str, wanted: str, tmp_path: Path) -> None:
    assert old in J4400
    assert wanted in mistakes(J4400.replace(old, new), tmp_path)


BARE = """\
topology: t
title: t
memory: 1G
links:
  wide: {pcie: {generation: 1, lanes: 8}, efficiency: 90}
disks:
  d0..3: {size: 1G, rate: 80 MB/s, seek: 8ms, links: [wide]}
  e: {size: 1G, rate: 80 MB/s, links: [wide]}
hbas:
  h: {driver: tcmu, can_queue: 64}
luns:
  d0..3: {hba: h, disks: [d0..3]}
  e: {hba: h, disks: [e]}
"""
SOME = "origins:\n  - {of: disk.*.rate, cites: the data sheet}\n  - {of: disk.d*.seek, fitted: the stripe}\n"
REST = "  - {of: hba.h.can_queue, cites: x}\n  - {of: link.*.*, chosen: x}\n"


def in_catalogue(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(loading, "CATALOGUE", folder)
    (folder / "t.yaml").write_text(text)
    try:
        load_topology("t", near=Path())
    except InputErrors as errors:
        return str(errors)
    return ""


def test_every_parameter_in_the_catalogue_needs_an_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = in_catalogue(BARE, tmp_path, monkeypatch)
    every = "disk.*.rate, disk.*.seek, link.*.rate, link.*.efficiency, hba.*.can_queue"
    assert f"parameters without an origin: {every} (write origins: " in found
    found = in_catalogue(BARE + SOME, tmp_path, monkeypatch)
    assert "t.yaml:15:3" in found
    assert "without an origin: link.*.rate, link.*.efficiency, hba.*.can_queue (" in found
    assert in_catalogue(BARE + SOME + REST, tmp_path, monkeypatch) == ""
    few = (SOME + REST).replace("disk.*.rate", "disk.e.rate")
    found = in_catalogue(BARE + few, tmp_path, monkeypatch)
    assert "without an origin: disk.d0.rate, disk.d1.rate, disk.d2.rate, disk.d3.rate (" in found


def test_the_catalogue_has_no_guesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guess = SOME.replace("cites: the data sheet", "guessed: usual")
    assert "t.yaml:15:5: origins: the catalogue has no guesses" in in_catalogue(BARE + guess, tmp_path, monkeypatch)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "t.yaml").write_text(BARE + guess)
    kinds = {origin.of: origin.kind for origin in load_topology("./t.yaml", near=elsewhere).origins}
    assert kinds["disk.*.rate"] == "guessed"


def test_an_origin_without_a_parameter_is_refused(tmp_path: Path) -> None:
    found = mistakes(BARE + SOME.replace("d*.seek", "*.rpm"), tmp_path)
    assert "t.yaml:16:10: origins: this file has no parameter disk.*.rpm" in found
    assert "(known: disk.*.rate, disk.*.seek, link.*.rate, link.*.efficiency, hba.*.can_queue, disk.*.size)" in found


@pytest.mark.parametrize(
    ("names", "short"),
    [
        ((), ""),
        (("wire",), "wire"),
        (("d0", "d1"), "d0..1"),
        (("d08", "d09", "d10"), "d08..10"),
        (("d9", "d10"), "d9..10"),
        (("a0", "b1"), "a0, b1"),
        (("d0", "d1", "d3"), "d0..1, d3"),
        (("c0t6", "c0t7", "c1t6"), "c0t6..7, c1t6"),
        (("s1-up", "s2-up"), "s1..2-up"),
    ],
)
def test_names_are_shortened_to_ranges(names: tuple[str, ...], short: str) -> None:
    assert in_ranges(names) == short


@given(st.integers(0, 900), st.integers(2, 90))
def test_a_range_expands_to_the_names_it_was_made_from(first: int, count: int) -> None:
    names = tuple(f"d{number:03d}" for number in range(first, first + count))
    assert range_names(in_ranges(names)) == names

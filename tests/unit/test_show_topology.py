# SPDX-License-Identifier: GPL-2.0-only
"""``blklab show TOPOLOGY``: the drawing, what it allows, the timers that a scale crosses."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli import main
from harness.report.topology import branches, describe_topology
from lab.topology.model import Topology
from lab.topology.parameters import crossings
from tests.unit.test_topology_load import load

MIB = 1 << 20
TWO_BOXES = """\
topology: t
title: Two boxes <behind> two ports & a bus
memory: 1G
scale: 10
links:
  pcie: {pcie: {generation: 1, lanes: 8}}
  port0..1: {sas: {gbit: 3, lanes: 1}}
  bus: {rate: 132 MB/s, cost: 100us}
disks:
  d00..11: {size: 1G, rate: 80 MB/s, seek: 8ms, rpm: 7200}
  e0..1: {size: 1G, rate: 75 MB/s, links: [bus]}
  f: {size: 1G, rate: 45 MB/s}
enclosures:
  j0: {model: J4400, disks: [d00..11]}
hbas:
  mpt: {model: SAS1068E, driver: tcmu, can_queue: 64, cmd_per_lun: 32, links: [pcie]}
  ahci: {driver: tcmu, can_queue: 64, cmd_per_lun: 32, slot: "4", node: 1}
luns:
  a00..11: {hba: mpt, disks: [d00..11], links: [port0]}
  b00..11: {hba: mpt, disks: [d00..11], links: [port1]}
  e0..1: {hba: ahci, disks: [e0..1]}
  f: {hba: ahci, disks: [f]}
stacks:
  m00..11: {kind: multipath, over: [a00..11, b00..11], selector: service-time}
  vol: {kind: stripe, chunk: 64k, over: [e0, e1, f]}
origins:
  - {of: disk.*.rate, cites: the data sheet}
"""
TREE = """\
m00..11  12 stacks: multipath of 2, service-time, multibus, rq, over a00..11, b00..11
vol  stripe of 3 x 64k, over e0..1, f

mpt  SAS1068E, played by tcmu, can_queue 64, cmd_per_lun 32
└─ pcie  PCIe 1.0 x8, 2 GB/s [200 MB/s]
   ├─ port0  SAS 3 Gbit/s x1, 300 MB/s [30 MB/s]
   │  └─ j0  J4400
   │     └─ d00..11  12 disks: 1G, 80 MB/s [8 MB/s], seek 8 ms [80 ms], 7200 rpm
   └─ port1  SAS 3 Gbit/s x1, 300 MB/s [30 MB/s]
      └─ j0  J4400
         └─ d00..11  12 disks: 1G, 80 MB/s [8 MB/s], seek 8 ms [80 ms], 7200 rpm
ahci  played by tcmu, slot 4, node 1, can_queue 64, cmd_per_lun 32
├─ bus  132 MB/s [13.2 MB/s], 100 us [1 ms] a request
│  └─ e0..1  2 disks: 1G, 75 MB/s [7.5 MB/s]
└─ f  1G, 45 MB/s [4.5 MB/s]
"""


@pytest.fixture
def boxes(tmp_path: Path) -> Topology:
    return load(TWO_BOXES, tmp_path)


def test_what_is_alike_is_one_line_and_origins_are_shown(boxes: Topology) -> None:
    assert TREE in describe_topology(boxes)
    assert "where its figures come from\n  disk.*.rate  cites: the data sheet" in describe_topology(boxes)


@pytest.mark.parametrize(("rate", "lines"), [("8 MB/s", "1G, 8 MB/s"), ("4 MB/s", "a: 1G, 8 MB/s, b: 1G, 4 MB/s")])
def test_disks_behind_one_lun_are_told_apart_where_they_differ(rate: str, lines: str, tmp_path: Path) -> None:
    text = (
        f"topology: t\nmemory: 1G\ndisks: {{a: {{size: 1G, rate: 8 MB/s}}, b: {{size: 1G, rate: {rate}}}}}\n"
        "hbas: {h: {driver: tcmu, can_queue: 9}}\nluns: {l: {hba: h, disks: [a, b]}}\n"
    )
    assert f"─ a, b  2 disks: {lines}\n" in describe_topology(load(text, tmp_path))


def test_two_ways_to_a_disk_are_two_lines(tmp_path: Path) -> None:
    one = TWO_BOXES.replace("d00..11", "d00..00").replace("a00..11", "a00..00").replace("b00..11", "b00..00")
    ((pcie,), _) = (branch.below for branch in branches(load(one.replace("m00..11", "m00..00"), tmp_path)))
    ways = [(port, box, disks) for port in pcie.below for box in port.below for disks in box.below]
    assert [" ".join(part.box.title for part in way) for way in ways] == ["port0 j0 d00", "port1 j0 d00"]


def test_the_bound_of_all_disks_names_what_limits_them(boxes: Topology) -> None:
    # Two ports of 30 MB/s, a bus of 13.2 MB/s with 1 ms for a request, and a disk of 4.5 MB/s beside them.
    together = 60e6 + MIB / (0.001 + MIB / 13.2e6) + 4.5e6
    line = next(line for line in describe_topology(boxes).splitlines() if "all disks" in line)
    assert re.search(rf"\[{together / 1e6:.2f} MB/s\], bound by link port0..1, bus and disk f$", line)


def test_stacks_and_tags_have_their_bounds(boxes: Topology) -> None:
    text = describe_topology(boxes)
    assert "stack m00..11: each all by any free one of a00, b00" in text
    assert re.search(
        r"read in 1M: 80 MB/s \[8 MB/s\], bound by disk d00;"
        r" all at once 600 MB/s \[60 MB/s\], bound by link port0..1",
        text,
    )
    assert "stack vol: 1/3 by e0..1, f" in text
    assert "read in 1M: 131.2 MB/s [13.12 MB/s], bound by link bus" not in text
    assert "read in 1M: 135 MB/s [13.5 MB/s], bound by disk f" in text


def test_tags_that_bind_are_told(boxes: Topology) -> None:
    few = replace(boxes, hbas={**boxes.hbas, "mpt": replace(boxes.hbas["mpt"], can_queue=2, cmd_per_lun=2)})
    # Two requests of 1M at 8 MB/s each, whatever the ports carry.
    assert "streams of 1M: 160 MB/s [16 MB/s] by Little's law; the tags limit" in describe_topology(few)


def test_times_that_the_scale_carries_across_a_timer_are_warned_of(boxes: Topology) -> None:
    found = {(each.timer.name, each.what) for each in crossings(boxes)}
    assert ("wbt", "d00..11: a seek") in found
    # 8.33 ms turn is more than the 8 ms of BFQ on the hardware already, and the seek is not less than them.
    assert not [what for name, what in found if name == "slice_idle" and what.endswith(("a seek", "a revolution"))]
    assert ("timeout", "d00..11: 64 requests of 4k queued") not in found
    assert ("write_expire", "d00..11: 64 requests of 4k queued") in found
    assert "75 ms  wbt (block/blk-wbt.c" in describe_topology(boxes)
    assert crossings(replace(boxes, scale=1)) == ()
    disks = {name: replace(disk, seek=8 * 10**6) if disk.seek else disk for name, disk in boxes.disks.items()}
    exactly = {(each.timer.name, each.what) for each in crossings(replace(boxes, disks=disks))}
    assert ("slice_idle", "d00..11: a seek") in exactly


def test_wbt_waits_2_ms_for_flash_and_75_for_a_rotating_disk(boxes: Topology) -> None:
    disks = {name: replace(disk, rate=disk.rate // 4 if disk.rate else None) for name, disk in boxes.disks.items()}
    wbt = [each for each in crossings(replace(boxes, scale=40, disks=disks)) if each.timer.name == "wbt"]
    assert {(each.timer.time // 10**6, each.what.partition(":")[0]) for each in wbt} == {
        (2, "f"),
        (2, "e0..1"),
        (75, "d00..11"),
    }


def test_one_verb_shows_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.yaml").write_text(TWO_BOXES)
    assert main(["show", str(tmp_path / "t.yaml")]) == 0
    assert TREE in capsys.readouterr().out
    assert main(["show", "calibration-tcmu"]) == 0
    assert re.search("bound by disk double, stream, .* and link narrow", capsys.readouterr().out)
    assert main(["show", "null-shared-tags"]) == 0
    assert "\nclaims" in capsys.readouterr().out
    assert main(["show", "--topology", "null-shared-tags"]) == 0
    assert "the tags limit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["calibration-tcmu", "--arm", "a"], "calibration-tcmu is a topology and has no arms"),
        (["no-such-thing"], "no-such-thing"),
    ],
)
def test_misuse(words: list[str], wanted: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", *words]) == 129
    assert wanted in capsys.readouterr().err

# SPDX-License-Identifier: GPL-2.0-only
"""Zoned disks: the devices that play them, what is refused, what kernels lack, and how many writes are in flight."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.limits.limits import arm_bound
from harness.scenario.load import read_scenario
from lab.base.contents import note
from lab.base.errors import InputErrors
from lab.guest.steps.device import Module, Write
from lab.guest.steps.setting import Confirm
from lab.realise.capability import _strings, missing
from lab.realise.recipe import devices
from lab.topology.load import load_topology
from lab.topology.parameters import apply_setting
from tests.unit.payload_samples import CONFIG
from tests.unit.test_realise_capability import able

SCENARIO = """\
scenario: t
title: t
clock: virtual
schema: 1
topology:
  memory: 512M
  disks:
    d0: {size: 64M, service: 2ms, zone_size: 4M, zone_capacity: 3M, zone_nr_conv: 2, zone_max_open: 4}
    d1: {size: 64M, service: 2ms}
  hbas:
    h: {driver: null_blk, can_queue: 64}
  luns:
    l0..1: {hba: h, disks: [d0..1]}
queue: {scheduler: mq-deadline}
window: {ramp: 1s, runtime: 1s}
arms: {a: {}}
loads:
  l:
    w: {disk: d0, rw: randwrite, bs: 4k, iodepth: 16, zonemode: zbd, offset: 8M}
"""


def read(folder: Path, *changes: tuple[str, str]) -> str:
    """The scenario with changes, or the mistakes in it."""
    text = SCENARIO
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "t.yaml").write_text(text)
    try:
        read_scenario("t", search=folder)
    except InputErrors as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "changes, says",
    [
        ({}, ""),
        ({"zone_size: 4M": "zone_size: 3M"}, "disk d0: zone_size 3M: expected a power of two that divides size"),
        ({"zone_capacity: 3M": "zone_capacity: 5M"}, "zone_capacity 5M is not a whole number of MiB up to zone_size"),
        ({"zone_nr_conv: 2": "zone_nr_conv: 16"}, "zone_nr_conv 16: no zone is left to be written sequentially"),
        ({"zone_max_open: 4": "zone_max_open: 14"}, "zone_max_open 14 limits nothing: expected less than 14"),
        (
            {"zone_max_open: 4": "zone_max_open: 4, zone_max_active: 3"},
            "zone_max_active 3 is less than zone_max_open 4",
        ),
        ({"zone_max_open: 4": "discard: true"}, "a zoned null_blk takes no discards"),
        ({"zone_size: 4M, ": ""}, "disk d0: zone_capacity is of a zoned disk: zone_size is missing"),
        (
            {"driver: null_blk": "driver: tcm_loop"},
            "disk d0: zone_size needs driver null_blk or scsi_debug, got tcm_loop",
        ),
        ({"driver: null_blk": "driver: scsi_debug"}, "all disks of scsi_debug must have the same size and service"),
        (
            {"\nqueue: ": "\n  stacks: {s: {kind: linear, over: [l0]}}\nqueue: "},
            "l0 is zoned, and no stack over zoned disks",
        ),
        ({"zonemode: zbd, ": ""}, "zonemode: d0 is zoned (write zonemode: zbd"),
        ({"zonemode: zbd, offset: 8M": "size: 8M"}, ""),
        ({"offset: 8M": "offset: 9M"}, "zonemode: size and offset are not whole zones of 4M"),
        ({"zbd": "zbd, zonesize: 8M"}, "zonesize: zones of d0 have 4M"),
        ({"zbd": "zbd, max_open_zones: 5"}, "max_open_zones: fio refuses more than the 4 of d0"),
        (
            {"zonemode: zbd": "max_open_zones: 4, size: 4M", "offset: 8M": "sync: sync"},
            "max_open_zones: zonemode is missing",
        ),
        ({"disk: d0": "disk: d1"}, "zonesize: zones of d1 have 0 (give its disk a zone_size)"),
        ({"disk: d0": "disk: d1", "zbd": "zbd, zonesize: 4M"}, ""),
    ],
)
def test_zones_that_no_driver_has_and_writes_that_zones_do_not_take_are_refused(
    changes: Mapping[str, str], says: str, tmp_path: Path
) -> None:
    mistakes = read(tmp_path, *changes.items())
    assert says in mistakes and bool(says) == bool(mistakes), mistakes


@pytest.mark.parametrize(
    "changes, writes",
    [
        ({}, 4),  # zone_max_open
        ({"zbd": "zbd, max_open_zones: 3"}, 3),
        ({"zone_max_open: 4": "zone_max_open: 0"}, 0),
        ({", zone_max_open: 4": ""}, 14),  # 64 / 4 zones, of which 2 are conventional
        ({"rw: randwrite": "rw: write"}, 1),
        ({"zonemode: zbd, offset: 8M": "size: 8M"}, 16),  # the depth: conventional zones
        ({"disk: d0": "disk: d1", "zbd": "zbd, zonesize: 4M"}, 16),
    ],
)
def test_a_zone_takes_one_write_at_a_time(changes: Mapping[str, str], writes: int, tmp_path: Path) -> None:
    mistakes = read(tmp_path, *changes.items())
    if not writes:
        assert "zone_max_open: expected an integer from 1" in mistakes
        return
    scenario = read_scenario("t", search=tmp_path)
    (load,), (arm,) = scenario.loads.values(), scenario.arms.values()
    # One write takes 2 ms.
    assert arm_bound(arm, load, "w", "iops") == pytest.approx(writes * 500)


def test_null_blk_and_scsi_debug_are_told_the_zones_and_asked_for_them(tmp_path: Path) -> None:
    assert not read(tmp_path)
    (arm,) = read_scenario("t", search=tmp_path).arms.values()
    folder = "/sys/kernel/config/nullb/nullb0/"
    written = {s.path.removeprefix(folder): s.value for s in devices(arm.topology) if isinstance(s, Write)}
    zones = {"zone_size": "4", "zone_capacity": "3", "zone_nr_conv": "2", "zone_max_open": "4"}
    assert written.items() >= {"zoned": "1", **zones}.items()
    assert "/sys/kernel/config/nullb/nullb1/size" in written and "zone_max_active" not in written
    shown = {s.path: s.value for s in devices(arm.topology) if isinstance(s, Confirm)}
    queue = "/lab/l0.sys/queue/"
    assert shown == {f"{queue}zoned": "host-managed", f"{queue}chunk_sectors": "8192", f"{queue}max_open_zones": "4"}
    scsi = load_topology("zoned-scsi-debug", near=Path())
    (words,) = (s.parameters.split() for s in devices(scsi) if isinstance(s, Module) and s.name == "scsi_debug")
    # Without a store its write pointers do not move.
    zoned = ("fake_rw=0", "zbc=managed", "zone_size_mb=4", "zone_cap_mb=4", "zone_nr_conv=16", "zone_max_open=0")
    assert {*words} >= {*zoned}
    assert not {word for word in words if word.startswith("zoned")}


def test_a_kernel_that_cannot_keep_writes_to_a_zone_in_order_is_skipped(tmp_path: Path) -> None:
    assert not read(tmp_path)
    (arm,) = read_scenario("t", search=tmp_path).arms.values()
    assert missing(able(tmp_path), arm.topology, arm.queue) == ("CONFIG_BLK_DEV_ZONED is not set",)
    old = able(tmp_path, config={**CONFIG, "CONFIG_BLK_DEV_ZONED": "y"})
    names = ("size", "irqmode", "completion_nsec", "power", "zoned", "zone_size", "zone_capacity", "zone_nr_conv")
    with (tmp_path / "null_blk.ko").open("ab") as module:
        module.write(b"\0".join(name.encode() for name in ("", *names, "")))
    note(tmp_path)
    release = "6.1.0-50-amd64"
    assert missing(old, arm.topology, arm.queue) == (f"null_blk of {release} has no zone_max_open",)
    unlimited = apply_setting(arm.topology, "disk.d0.zone_max_open", 0)
    assert missing(old, unlimited, arm.queue) == ()
    alone = f"{release} keeps writes to a zone in order by mq-deadline alone, as all before Linux 6.10"
    assert missing(old, unlimited, {"scheduler": "none"}) == (alone,)
    old.image.write_bytes(b"\0zone_wplugs\0")
    _strings.cache_clear()
    assert missing(old, unlimited, {"scheduler": "none"}) == ()

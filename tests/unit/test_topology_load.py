# SPDX-License-Identifier: GPL-2.0-only
"""Topologies: what loads, what is refused, and the arithmetic of the token bucket."""

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import InputErrors, Misuse
from lab.topology.fields import DISK_SETTINGS, HBA_SETTINGS, STACK_SETTINGS
from lab.topology.limits import carries, effective_iops, longest_wait, refusals
from lab.topology.load import CATALOGUE, load_topology
from lab.topology.model import Disk, Driver, Hba, Link, Processors, Region, Stack, Topology
from lab.topology.parameters import apply_setting
from lab.yaml.fields import Field
from lab.yaml.strict import Problems, parse

GOOD = """\
topology: t
memory: 512M
disks:
  a: {size: 1G, rate: 2 MB/s}
  b: {size: 2G, service: 1ms}
hbas:
  h: {driver: tcm_loop, can_queue: 64, cmd_per_lun: 32}
luns:
  la: {hba: h, disks: [a]}
  lb: {hba: h, disks: [b]}
"""


def load(text: str, folder: Path) -> Topology:
    (folder / "t.yaml").write_text(text)
    return load_topology("t.yaml", near=folder)


def mistakes(text: str, folder: Path) -> str:
    with pytest.raises(InputErrors) as caught:
        load(text, folder)
    return str(caught.value)


@pytest.mark.parametrize("path", sorted(CATALOGUE.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_whole_catalogue_loads(path: Path) -> None:
    topology = load_topology(path.stem, near=Path())
    assert topology.name == path.stem
    assert topology.title
    assert not list(refusals(topology))


def test_values_have_their_units_and_defaults(tmp_path: Path) -> None:
    topology = load(GOOD, tmp_path)
    assert topology.memory == 512 << 20
    assert topology.disks["a"] == Disk("a", 1 << 30, rate=2 * 10**6)
    assert topology.disks["b"] == Disk("b", 2 << 30, service=10**6)
    assert topology.hbas["h"].driver is Driver.TCM_LOOP
    assert topology.hbas["h"].hw_queues == 1
    assert topology.region("b") == Region("lb", 0, 2 << 30)
    assert load_topology("neighbours-one-queue", near=Path()).region("p1") == Region("all", 1 << 30, 1 << 30)
    assert load(GOOD.replace(", cmd_per_lun: 32", ""), tmp_path).hbas["h"].cmd_per_lun == 64
    problems = Problems()
    node = parse(GOOD.replace("topology: t\n", "").encode(), "s.yaml", problems)
    assert load_topology(node, near=Path()).name == "inline"


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("driver: tcm_loop", "driver: tcm_lop", "got tcm_lop (did you mean tcm_loop?)"),
        ("driver: tcm_loop, can_queue: 64", "driver: mptsas1068, can_queue: 64", "mptsas1068 always has 118"),
        ("hba: h, disks: [a]", "hba: g, disks: [a]", "t.yaml:9:13: lun la: no HBA g"),
        ("disks: [b]", "disks: [b, a]", "t.yaml:10:7: lun lb: disk a is on LUN la already"),
        ("disks: [b]", "disks: [c]", "lun lb: no disk c"),
        ("disks: [b]", "disks: [c]", "t.yaml:5:6: disk b: no LUN uses it"),
        ("disks: [b]", "disks: []", "disks: expected 1 to 256 entries, got 0"),
        ("cmd_per_lun: 32", "cmd_per_lun: 65", "t.yaml:7:6: hba h: cmd_per_lun 65 exceeds can_queue 64"),
        ("can_queue: 64", 'can_queue: "64"', 'can_queue: expected an integer, got "64" (remove the quotes)'),
        ("can_queue: 64", "can_queue: 0", "can_queue: expected an integer from 1 to 10240, got 0"),
        ("memory: 512M\n", "", "topology: memory is missing"),
        ("memory: 512M", "memory: 1M", 'memory: expected at least 128M, got "1M"'),
        ("topology: t\n", "", "topology is missing"),
        ("rate: 2 MB/s", "rate: 1500 kB/s", "disk a: 1.5 MB/s is not a whole number of MB/s"),
        ("rate: 2 MB/s", "rate: 10 kB/s", "is not a whole number of MB/s"),
        ("rate: 2 MB/s", "rate: 2", "rate: expected a rate such as 1 MB/s, got 2 (add the unit)"),
        ("rate: 2 MB/s", "rate: 2 MB/s, service: 1ms", "disk a: expected either rate or service"),
        (", rate: 2 MB/s", "", "disk a: expected either rate or service"),
        ("size: 1G", "size: 1049k", "size 1.02441M is not a whole number of MiB"),
        ("service: 1ms", "service: 30s", "service 30 s reaches the command timeout of 30 s"),
        ("tcm_loop", "tcm_loop, poll_queues: 1", "hba h: poll_queues needs driver null_blk, got tcm_loop"),
        ("tcm_loop", "null_blk", "needs disks with service, disk a has a rate"),
        ("tcm_loop", "null_blk", "null_blk has no cmd_per_lun"),
        ("tcm_loop", "scsi_debug", "all disks of scsi_debug must have the same size and service"),
        (
            "memory: 512M",
            "memory: 512M\nmachine: {cpus: 9}",
            "t.yaml:3:17: cpus: expected an integer from 1 to 8, got 9",
        ),
        ("memory: 512M", "memory: 512M\nmachine: {cpus: 4, turn: 99}", "turn: expected an integer from 100 to 1000000"),
        ("memory: 512M", "memory: 512M\nmachine: {cpu: 4}", "cpu: unknown key, did you mean cpus?"),
        ("disks:\n", "diks:\n", "diks: unknown key, did you mean disks?"),
        ("  lb:", "  LB:", 'LUN "LB": expected a name of at most 40 characters a-z, 0-9 and -'),
        ("luns:", "  g: {driver: tcm_loop, can_queue: 1}\nluns:", "hba g: no LUN uses it"),
    ],
)
def test_refusals(old: str, new: str, wanted: str, tmp_path: Path) -> None:
    assert old in GOOD
    found = mistakes(GOOD.replace(old, new), tmp_path)
    assert wanted in found, found


def test_a_guest_has_as_many_queues_as_cpus(tmp_path: Path) -> None:
    text = GOOD.replace("memory: 512M", "memory: 512M\nmachine: {cpus: 4}")
    topology = load(text.replace("driver: tcm_loop", "driver: tcm_loop, hw_queues: 4"), tmp_path)
    assert topology.processors == Processors(4, 1000)
    assert topology.hbas["h"].hw_queues == 4
    (refusal,) = refusals(apply_setting(topology, "hba.hw_queues", 5))
    assert str(refusal) == ("hba h: hw_queues 5: the kernel makes no more queues than CPUs, and the guest has 4")
    assert apply_setting(topology, "machine.turn", 300).processors == Processors(4, 300)
    (refusal,) = refusals(apply_setting(topology, "machine.cpus", 2))
    assert "the guest has 2" in str(refusal)


def test_drivers_have_limits_of_their_own(tmp_path: Path) -> None:
    two = GOOD.replace("luns:", "  g: {driver: tcm_loop, can_queue: 1}\nluns:").replace(
        "{hba: h, disks: [b]", "{hba: g, disks: [b]"
    )
    assert "hba g: can_queue and hw_queues must equal those of HBA h" in mistakes(two, tmp_path)
    text = GOOD.replace("rate: 2 MB/s", "service: 1ms").replace(
        "tcm_loop, can_queue: 64, cmd_per_lun: 32", "null_blk, can_queue: 64"
    )
    text = text.replace("disks: [a]}", "disks: [a, b]}").replace("  lb: {hba: h, disks: [b]}\n", "")
    assert "lun la: several disks on one LUN need driver tcm_loop" in mistakes(text, tmp_path)
    text = (
        GOOD.replace("size: 2G", "size: 1G").replace("rate: 2 MB/s", "service: 1ms").replace("tcm_loop", "scsi_debug")
    )
    assert load(text, tmp_path).hbas["h"].driver is Driver.SCSI_DEBUG
    assert "can_queue 193 exceeds 192, the limit of scsi_debug" in mistakes(
        text.replace("can_queue: 64", "can_queue: 193"), tmp_path
    )


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("size: 1G", "size: 1Q").replace("can_queue: 64", "can_queue: no").replace("512M", "x")
    assert len(mistakes(text, tmp_path).splitlines()) == 3


def test_an_unknown_name_lists_the_catalogue_and_a_missing_file_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r"no topology neighbour in the catalogue, did you mean neighbours\?"):
        load_topology("neighbour", near=Path())
    with pytest.raises(Misuse, match="does not exist"):
        load_topology("./none.yaml", near=tmp_path)


@pytest.mark.parametrize(
    ("rate", "bs", "iops"),
    [
        # 20,971 bytes in a tick hold five requests of 4 KiB; 50 ticks a second.
        (10**6, 4096, 250),
        (10**6, 16384, 50),
        (10**6, 20480, 50),
        (2 * 10**6, 4096, 500),
        (10 * 10**6, 65536, 150),
    ],
)
def test_a_disk_with_a_rate_serves_whole_requests_in_each_tick(rate: int, bs: int, iops: int) -> None:
    disk = Disk("d", 1 << 30, rate=rate)
    assert effective_iops(disk, bs, Driver.TCM_LOOP) == iops
    assert carries(disk, bs, Driver.TCM_LOOP) is None


def test_a_request_larger_than_a_tick_is_never_served() -> None:
    slow = Disk("d", 1 << 30, rate=10**6)
    reason = carries(slow, 24 << 10, Driver.TCM_LOOP)
    assert reason is not None and "20971 bytes in a tick of 20 ms" in reason
    assert carries(slow, 20971, Driver.TCM_LOOP) is None
    assert carries(slow, 20972, Driver.TCM_LOOP) is not None
    assert carries(Disk("d", 1 << 30, service=1), 1 << 30, Driver.TCM_LOOP) is None
    assert effective_iops(Disk("d", 1 << 30, service=1), 4096, Driver.TCM_LOOP) is None


def test_the_longest_wait_grows_with_depth_on_serial_disks_only(tmp_path: Path) -> None:
    topology = load(GOOD, tmp_path)
    assert longest_wait(topology.disks["a"], 4096, 500, topology) == 10**9
    assert longest_wait(topology.disks["b"], 4096, 500, topology) == 10**6


MODELLED = """\
topology: t
memory: 512M
links:
  wire: {rate: 12 MB/s, cost: 1ms}
disks:
  a: {size: 1G, rate: 8500 kB/s, seek: 8ms, links: [wire]}
  b: {size: 1G, rate: 80 MB/s}
hbas:
  h: {driver: tcmu, can_queue: 64, cmd_per_lun: 32}
luns:
  la: {hba: h, disks: [a]}
  lb: {hba: h, disks: [b]}
"""


def test_modelled_disks_have_any_rate_a_seek_and_a_link_that_requests_wait_for(tmp_path: Path) -> None:
    topology = load(MODELLED, tmp_path)
    assert topology.disks["a"] == Disk("a", 1 << 30, rate=8_500_000, seek=8 * 10**6, links=("wire",))
    assert topology.links == {"wire": Link("wire", 12 * 10**6, 10**6)}
    assert topology.driver("a") is Driver.TCMU
    assert carries(topology.disks["a"], 1 << 40, Driver.TCMU) is None
    assert effective_iops(topology.disks["a"], 4096, Driver.TCMU) is None
    topology = load(MODELLED.replace("8500 kB/s", "1 MB/s").replace("12 MB/s", "1 MB/s"), tmp_path)
    each = 8_000_000 + 4_096_000 + 1_000_000 + 4_096_000
    assert longest_wait(topology.disks["a"], 4096, 10, topology) == 10 * each


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("links: [wire]", "links: [wier]", "t.yaml:6:52: disk a: no link wier, did you mean wire? (known: wire)"),
        (", links: [wire]", "", "t.yaml:4:9: link wire: nothing uses it"),
        ("links: [wire]", "links: [wire, wire]", "t.yaml:6:52: disk a: link wire is listed twice"),
        ("rate: 80 MB/s", "service: 1ms", "disk b: driver tcmu needs disks with a rate"),
        ("driver: tcmu", "driver: tcm_loop", "disk a: seek needs driver tcmu, got tcm_loop"),
        ("driver: tcmu", "driver: tcm_loop", "disk a: links needs driver tcmu, got tcm_loop"),
        ("driver: tcmu", "driver: tcm_loop", "disk a: 8.5 MB/s is not a whole number of MB/s"),
        ("{rate: 12 MB/s, cost: 1ms}", "{cost: 1ms}", "link wire: expected one of rate, pcie and sas"),
        ("memory: 512M", "memory: 256M", "memory 256M is too little: a guest with the rings of 2 disks needs 272M"),
        (
            "  la: {hba: h, disks: [a]}\n  lb: {hba: h, disks: [b]}",
            "  la: {hba: h, disks: [a, b]}\n  lb: {hba: h, disks: [b]}",
            "disk b is on LUN la already: all paths must have the same disks",
        ),
    ],
)
def test_mistakes_about_modelled_disks(old: str, new: str, wanted: str, tmp_path: Path) -> None:
    assert old in MODELLED
    assert wanted in mistakes(MODELLED.replace(old, new), tmp_path)


def test_settings_change_one_parameter(tmp_path: Path) -> None:
    base = load(MODELLED, tmp_path)
    assert apply_setting(base, "disk.a.seek", 5).disks["a"] == replace(base.disks["a"], seek=5)
    assert apply_setting(base, "disk.a.rate", 5).disks["a"] == replace(base.disks["a"], rate=5)
    assert apply_setting(base, "link.wire.rate", 7).links["wire"] == Link("wire", 7, 10**6)
    assert apply_setting(base, "link.wire.cost", 7).links["wire"] == Link("wire", 12 * 10**6, 7)
    with pytest.raises(ValueError, match="no link wier"):
        apply_setting(base, "link.wier.rate", 7)
    base = load_topology("neighbours", near=Path())
    assert apply_setting(base, "hba.cmd_per_lun", 16).hbas["twa0"].cmd_per_lun == 16
    assert apply_setting(base, "hba.twa0.can_queue", 128).hbas["twa0"].can_queue == 128
    assert apply_setting(base, "hba.hw_queues", 2).hbas["twa0"].hw_queues == 2
    assert apply_setting(base, "disk.p1.rate", 10**6).disks["p1"] == Disk("p1", 1 << 30, rate=10**6)
    assert apply_setting(base, "disk.p0.service", 10**6).disks["p0"] == Disk("p0", 1 << 30, service=10**6)
    assert base.hbas["twa0"].cmd_per_lun == 64


@pytest.mark.parametrize("key", ["hba.twa1.can_queue", "disk.p2.rate", "hba.depth", "disk.rate", "x.y", "hba", ""])
def test_settings_of_unknown_parts_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match=r"no (HBA|disk|such)"):
        apply_setting(load_topology("neighbours", near=Path()), key, 1)


def test_the_tag_set_of_null_blk_is_one_number() -> None:
    topology = apply_setting(load_topology("null-shared-tags", near=Path()), "hba.can_queue", 32)
    assert topology.hbas["nullb"].cmd_per_lun == 32
    assert not list(refusals(topology))


@pytest.mark.parametrize("part, settings", [(Disk, DISK_SETTINGS), (Hba, HBA_SETTINGS), (Stack, STACK_SETTINGS)])
def test_a_missing_key_means_the_default_that_the_reference_names(
    part: type[Disk | Hba | Stack], settings: Mapping[str, Field]
) -> None:
    defaults = {field.name: field.default for field in dataclasses.fields(part)}
    stated = {name: field.default for name, field in settings.items() if field.default is not None}
    assert stated == {name: defaults[name] for name in stated}

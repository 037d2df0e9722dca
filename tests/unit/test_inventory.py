# SPDX-License-Identifier: GPL-2.0-only
"""Controllers: what a guest shows of them, and their interrupts."""

from dataclasses import replace

import pytest

from harness.figures.boot import LoadFiles, MeasurementError
from harness.figures.counters import _interrupt_figures, controller_figures
from harness.scenario.model import Load
from lab.base.record import INVENTORY
from lab.realise.inventory import mismatches, read_inventory
from lab.topology.model import Driver, Hba, Link, Lun, Stack, StackKind, Topology
from tests.unit.analysis_samples import load, role
from tests.unit.test_realise_in_qemu import made

PCI = "/sys/devices/pci0000:00/0000:00:02.0/0000:01:00.0"
SEEN = {
    "hba.h.place": PCI,
    "hba.h.node": "-1",
    "hba.h.can_queue": "118",
    "hba.h.max_link_speed": "2.5 GT/s PCIe",
    "hba.h.max_link_width": "8",
    "lun.slow.place": f"{PCI}/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sda",
    "lun.slow.size": "2097152",
    "lun.slow.wwid": "naa.5001405110000000",
    "lun.slow.queue_depth": "64",
    "lun.fast.place": f"{PCI}/host0/port-0:1/end_device-0:1/target0:0:1/0:0:1:0/block/sdb",
    "lun.fast.size": "2097152",
    "lun.fast.wwid": "naa.5001405110000001",
    "lun.fast.queue_depth": "64",
    "stack.both.members": "sda sdb",
}
BOTH = {"both": Stack("both", StackKind.STRIPE, ("slow", "fast"), chunk=4096)}
TOPOLOGY = replace(made(Driver.MPTSAS, 118), stacks=BOTH)


def test_all_is_there() -> None:
    rows = "".join(f"{key}\t{text}\n" for key, text in SEEN.items())
    seen = read_inventory(rows.encode())
    assert mismatches(TOPOLOGY, seen) == ()


@pytest.mark.parametrize(
    ("key", "text", "wanted"),
    [
        ("hba.h.place", "", "hba h: no such controller"),
        ("hba.h.can_queue", "127", "hba h: can_queue is 127, not 118"),
        ("hba.h.max_link_width", "4", "hba h: lanes of its slot is 4, not 8"),
        ("hba.h.max_link_speed", "5.0 GT/s PCIe", "hba h: GT/s of its slot is 5, not 2.5"),
        ("lun.fast.place", "", "lun fast: no such disk"),
        ("lun.fast.place", "/sys/devices/x/0:0:1:0/block/sdb", "not behind hba h"),
        ("lun.fast.place", f"{PCI}/host0/target0:0:0/0:0:0:0/block/sdb", "two disks have the address 0:0:0:0"),
        ("lun.fast.size", "8", "lun fast: sectors is 8, not 2097152"),
        ("lun.fast.wwid", "naa.5001405110000000", "lun fast: wwid is naa.5001405110000000, not naa.5001405110000001"),
        ("lun.fast.queue_depth", "", "lun fast: depth is not shown, not 64"),
        ("stack.both.members", "sda", "stack both: its members are sda, expected sda, sdb"),
    ],
)
def test_what_is_not_as_it_should_be(key: str, text: str, wanted: str) -> None:
    assert any(wanted in reason for reason in mismatches(TOPOLOGY, {**SEEN, key: text}))


def nvme() -> Topology:
    hbas = {name: Hba(name, Driver.NVME, 63, 63, node=node) for node, name in enumerate("ab")}
    luns = {name: Lun(name, name, ("slow",)) for name in hbas}
    stacks = {"two": Stack("two", StackKind.NVME, ("a", "b"))}
    return replace(made(Driver.NVME), hbas=hbas, luns=luns, stacks=stacks, links={"unused": Link("unused", 1)})


def test_namespaces_nodes_and_paths() -> None:
    seen = {"stack.two.members": "nvme0 nvme1 nvme0n1 model"}
    for number, name in enumerate("ab"):
        place = f"/sys/devices/pci/0000:0{number}:00.0"
        seen |= {f"hba.{name}.place": place, f"hba.{name}.node": str(number), f"hba.{name}.serial": "labsub-two"}
        seen |= {f"lun.{name}.place": f"{place}/nvme/nvme{number}/nvme0c{number}n1", f"lun.{name}.size": "2097152"}
        seen |= {f"lun.{name}.wwid": "nvme.1", f"lun.{name}.nsid": "1", f"lun.{name}.nr_tags": "63"}
    assert mismatches(nvme(), seen) == ()
    twice = {**seen, "lun.b.place": seen["lun.a.place"]}
    assert "two disks have the address nvme0 namespace 1" in mismatches(nvme(), twice)
    assert mismatches(nvme(), {**seen, "hba.b.node": "0"}) == ("hba b: numa_node is 0, not 1",)
    assert mismatches(nvme(), {**seen, "stack.two.members": "nvme0"}) == ("stack two: paths is 1, not 2",)
    assert mismatches(nvme(), {**seen, "lun.b.nr_tags": "31"}) == (
        "hba b: can_queue is 31, not 63",
        "lun b: depth is 31, not 63",
    )


HEADER = "           CPU0       CPU1\n"
IRQS = "  22:   {a}   {b}   IO-APIC  22-fasteoi   ioc0\n  31:  7  7  PCI-MSI 1-edge  other\nNMI:  1  1  Non-maskable\n"
ALL = load("all", role("dd", ("slow", "fast")))


def counters(a: int, b: int) -> bytes:
    return f"== /proc/stat\ncpu 1\n== /proc/interrupts\n{HEADER}{IRQS.format(a=a, b=b)}".encode()


def sent(**inventory: str) -> dict[str, bytes]:
    seen = {**SEEN, "hba.h.interrupts": "22", **inventory}
    rows = "".join(f"{key}\t{text}\n" for key, text in seen.items())
    return {INVENTORY: rows.encode(), "all.before": counters(100, 5), "all.after": counters(190, 15)}


def figures(measured: dict[str, bytes], one: Load = ALL, topology: Topology = TOPOLOGY) -> dict[str, float]:
    files = LoadFiles(measured, topology, one)
    readings = (*controller_figures(files, {}), *_interrupt_figures(files))
    return {metric: value for (_, _, metric), value in readings}


def test_interrupts_by_processor_and_the_place_of_a_controller_are_figures() -> None:
    found = figures(sent())
    assert (found["interrupts"], found["interrupts.cpu0"], found["interrupts.cpu1"]) == (100.0, 90.0, 10.0)
    assert found["interrupts.cpu7"] == 0.0
    found = figures(sent())
    assert (found["node"], found["slot.lanes"], found["slot.gts"]) == (-1.0, 8.0, 2.5)


def test_controllers_of_different_places_have_no_common_one() -> None:
    two = replace(TOPOLOGY, hbas={"h": TOPOLOGY.hbas["h"], "g": Hba("g", TOPOLOGY.hbas["h"].driver, 118, 64)})
    spread = replace(two, luns={**two.luns, "fast": replace(two.luns["fast"], hba="g")})
    own = "/sys/devices/pci0000:00/0000:00:03.0/0000:02:00.0"
    seen = {"hba.g.node": "1", "hba.g.max_link_width": "8", "hba.g.max_link_speed": "5.0 GT/s PCIe"}
    seen |= {"hba.g.place": own, "hba.g.can_queue": "118", "lun.fast.place": f"{own}/host1/1:0:1:0/block/sdb"}
    found = figures(sent(**seen), topology=spread)
    assert "node" not in found
    assert "slot.gts" not in found
    assert found["slot.lanes"] == 8.0


def test_a_boot_whose_disks_are_others_or_whose_counters_are_absent_has_no_figures() -> None:
    with pytest.raises(MeasurementError, match="lun slow: depth is 1, not 64; and 1 more"):
        figures(sent(**{"lun.fast.wwid": "naa.5", "lun.slow.queue_depth": "1"}))
    measured = sent()
    del measured["all.after"]
    with pytest.raises(MeasurementError, match="did not send it"):
        figures(measured)

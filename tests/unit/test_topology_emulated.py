# SPDX-License-Identifier: GPL-2.0-only
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import Misuse
from lab.topology.emulated import differences, emulated
from lab.topology.limits import refusals
from lab.topology.load import catalogue, load_topology
from lab.topology.model import EMULATED, SCSI, Disk, Driver, Hba, Link, Lun, Processors, Stack, StackKind, Topology

GIB = 1 << 30


def named(name: str) -> Topology:
    return load_topology(name, near=Path())


def made(driver: Driver, *, luns: int = 2, hba: Hba | None = None, disk: Disk | None = None) -> Topology:
    names = [f"d{number}" for number in range(luns)]
    first = hba or Hba("h", driver, 118, 64)
    return Topology(
        name="t",
        title="",
        memory=GIB,
        hbas={first.name: first},
        disks={name: replace(disk or Disk("", GIB, rate=8_000_000), name=name) for name in names},
        luns={name: Lun(name, first.name, (name,)) for name in names},
    )


def reasons(topology: Topology) -> str:
    return "\n".join(map(str, refusals(topology)))


@pytest.mark.parametrize("topology", catalogue(), ids=lambda topology: topology.name)
def test_every_topology_of_the_catalogue_converts_to_qemu_controllers(topology: Topology) -> None:
    on_qemu = emulated(topology)
    assert {hba.driver for hba in on_qemu.hbas.values()} <= EMULATED
    assert list(on_qemu.luns) == list(topology.luns)
    assert on_qemu.targets() == topology.targets()
    several = any(len(lun.disks) > 1 for lun in topology.luns.values())
    assert ("several disks on one LUN" in reasons(on_qemu)) == several
    assert several or not reasons(on_qemu)
    assert emulated(on_qemu) == on_qemu


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ({"controller": Driver.MEGASAS_GEN2, "original_driver": "nvme", "model": "PERC H730P (Mini)"}, "megasas-gen2"),
        ({"original_driver": "mptsas", "model": "SAS1068"}, "mptsas1068"),
        ({"original_driver": "mpt3sas"}, "virtio-scsi"),
        ({"model": "MegaRAID (megaraid_sas)"}, "megasas"),  # a file of capture before the key
        ({}, "virtio-scsi"),
    ],
)
def test_keys_choose_the_controller(keys: dict[str, Any], chosen: str) -> None:
    (hba,) = emulated(made(Driver.TCMU, hba=Hba("h", Driver.TCMU, 64, 64, **keys))).hbas.values()
    assert hba.driver == chosen


def test_a_model_chooses_no_controller() -> None:
    topology = made(Driver.TCMU, hba=Hba("h", Driver.TCMU, 64, 64, model="LSI MegaRAID", original_driver="mpt3sas"))
    with pytest.raises(Misuse, match="which of QEMU's controllers is HBA h") as caught:
        emulated(topology)
    assert "controller: with one of mptsas1068 (SAS1068E), megasas (MegaRAID SAS 1078)" in caught.value.remedy


def test_the_machine_of_qemus_controllers_has_its_own_cpus() -> None:
    topology = made(Driver.MPTSAS)
    assert not reasons(topology)
    wanted = "hba h: machine: a machine with QEMU controllers has a CPU for each NUMA node"
    assert reasons(replace(topology, processors=Processors(4))).startswith(wanted)


def test_24_disks_with_two_paths_need_six_controllers_of_eight() -> None:
    on_qemu = emulated(named("sun-j4400-multipath"))
    assert len(on_qemu.hbas) == 12
    assert {hba.driver for hba in on_qemu.hbas.values()} == {Driver.MPTSAS}
    assert {hba.can_queue for hba in on_qemu.hbas.values()} == {118}
    assert [on_qemu.luns[name].hba for name in ("a00", "a08", "b00", "a24", "b47")] == [
        "mpt0",
        "mpt0-2",
        "mpt0-4",
        "mpt1",
        "mpt1-6",
    ]
    # What they share upstream they still share.
    assert on_qemu.path("a00", "d00") == ("pcie0", "port0a")
    assert on_qemu.path("b23", "d23") == ("pcie0", "port0b")


def test_differences_name_the_controllers_and_lost_properties() -> None:
    told = differences(named("sun-x4540"), emulated(named("sun-x4540")))
    assert "mpt0: mptsas1068, can_queue 118" in told
    assert told[-1] == "disks and links are throttles, without seek, rpm, ncq"


def test_a_zoned_disk_is_none_there() -> None:
    """fio of a role with zonemode: zbd ended with 1 in the guest, as the disk has no zones."""
    zoned = made(Driver.SCSI_DEBUG, disk=Disk("", GIB, zone_size=1 << 24, zone_nr_conv=2))
    on_qemu = emulated(zoned)
    assert on_qemu.zoned("d0") is None and zoned.zoned("d0")
    assert differences(zoned, on_qemu)[-1] == "disks and links are throttles, without zone_size, zone_nr_conv"


def test_lost_parameters_set_no_bounds_and_virtio_scsi_always_has_its_tags() -> None:
    disks = emulated(named("intel-965p-lvm")).disks
    assert disks["sata0"].seek == disks["sata0"].rotation == 0
    assert disks["sata0"].zones == ()
    assert {link.cost for link in emulated(named("dl980-iodrive")).links.values()} == {0}
    topology = named("calibration-tcm-loop")
    asked = replace(topology, hbas={"loop": replace(topology.hbas["loop"], can_queue=254)})
    assert emulated(asked).hbas["loop"].can_queue == 1024


REFUSED = {
    "9 disks on one mptsas1068, at most 8 are possible": made(Driver.MPTSAS, luns=9),
    "can_queue 64: mptsas1068 always has 118": made(Driver.MPTSAS, hba=Hba("h", Driver.MPTSAS, 64, 64)),
    "can_queue 2: megasas takes 4 to 974": made(Driver.MEGASAS, hba=Hba("h", Driver.MEGASAS, 2, 2)),
    "can_queue 128: virtio-scsi always has 1024": made(Driver.VIRTIO_SCSI, hba=Hba("h", Driver.VIRTIO_SCSI, 128, 64)),
    "cmd_per_lun 65 exceeds can_queue 64": made(Driver.MEGASAS, hba=Hba("h", Driver.MEGASAS, 64, 65)),
    "write cmd_per_lun 64": made(Driver.NVME, hba=Hba("h", Driver.NVME, 64, 32)),
    "hw_queues 2: megasas has one queue": made(Driver.MEGASAS, hba=Hba("h", Driver.MEGASAS, 64, 64, hw_queues=2)),
    "node 8: the machine has at most 8 NUMA nodes": made(Driver.MEGASAS, hba=Hba("h", Driver.MEGASAS, 64, 64, node=8)),
    "40 kB/s is below 40.96 kB/s": made(Driver.MPTSAS, disk=Disk("", GIB, rate=40_000)),
    "a throttled QEMU disk has no seek": made(Driver.MPTSAS, disk=Disk("", GIB, rate=10**6, seek=1)),
    "a throttled QEMU disk has no zone_size": made(Driver.NVME, disk=Disk("", GIB, zone_size=1 << 24)),
}


@pytest.mark.parametrize("wanted", REFUSED)
def test_refusals(wanted: str) -> None:
    assert wanted in reasons(REFUSED[wanted])
    assert not reasons(made(Driver.MPTSAS))


def test_links_are_throttles_and_what_cannot_be_combined_is_refused() -> None:
    topology = made(Driver.MPTSAS)
    hba = replace(topology.hbas["h"], links=("wire",))
    slow = replace(topology, hbas={"h": hba}, links={"wire": Link("wire", 1000)})
    assert "link wire: 1 kB/s is below 40.96 kB/s" in reasons(slow)
    assert "link wire: a throttle has no cost" in reasons(replace(slow, links={"wire": Link("wire", 10**6, cost=1)}))
    topology = made(Driver.MPTSAS)
    mixed = replace(topology, hbas={**topology.hbas, "g": Hba("g", Driver.TCMU, 64, 64)})
    assert "driver tcmu is inside the guest" in reasons(mixed)
    many = {f"h{number}": Hba(f"h{number}", Driver.NVME, 63, 63) for number in range(14)}
    assert "15 controllers on node 0" in reasons(replace(topology, hbas={**topology.hbas, **many}))
    unlike = {"a": Hba("a", Driver.NVME, 63, 63), "b": Hba("b", Driver.NVME, 64, 64)}
    assert "can_queue must equal that of HBA a" in reasons(replace(topology, hbas={**topology.hbas, **unlike}))
    topology = made(Driver.MPTSAS)
    twice = {**topology.luns, "again": Lun("again", "h", ("d0",))}
    assert not reasons(replace(topology, luns=twice))
    nvme = replace(topology, hbas={"h": Hba("h", Driver.NVME, 63, 63)}, luns=twice)
    assert "paths of a namespace need a stack of kind nvme" in reasons(nvme)
    stack = Stack("s", StackKind.NVME, ("d0", "again"))
    assert "lie under a stack" not in reasons(replace(nvme, stacks={"s": stack}))
    assert EMULATED - {Driver.NVME} == SCSI & EMULATED

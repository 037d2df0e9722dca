# SPDX-License-Identifier: GPL-2.0-only
"""A device family of QEMU at a time: the words of its command line and the steps of its guest, to the letter."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lab.guest.steps import job_files
from lab.guest.steps.device import Find, Module
from lab.guest.steps.setting import Confirm, Tune
from lab.realise import recipe
from lab.realise.hardware import hardware, lacking, places, wanted_devices
from lab.topology.emulated import emulated
from lab.topology.load import catalogue, load_topology
from lab.topology.model import Disk, Driver, Hba, Link, Lun, Stack, StackKind, Topology

GIB = 1 << 30
FAST, SLOW = Disk("fast", GIB, service=100_000), Disk("slow", GIB, rate=2_000_000)
WIRE = Link("wire", 3_000_000, what="PCIe 1.0 x8")


def made(driver: Driver, can_queue: int = 64, cmd_per_lun: int = 64) -> Topology:
    """A slow disk and a fast one behind one controller in a slot."""
    return Topology(
        name="t",
        title="",
        memory=GIB,
        hbas={"h": Hba("h", driver, can_queue, cmd_per_lun, links=("wire",))},
        disks={"slow": SLOW, "fast": FAST},
        luns={"slow": Lun("slow", "h", ("slow",)), "fast": Lun("fast", "h", ("fast",))},
        links={"wire": WIRE},
    )


def lines(topology: Topology) -> list[str]:
    words = hardware(topology).words
    return [f"{words[at]} {words[at + 1]}" for at in range(0, len(words), 2)]


def devices(topology: Topology) -> list[dict[str, object]]:
    return [json.loads(line.removeprefix("-device ")) for line in lines(topology) if line.startswith("-device ")]


BACKENDS = [
    '-object {"qom-type":"throttle-group","id":"disk.slow","limits":{"bps-total":2000000}}',
    '-object {"qom-type":"throttle-group","id":"link.wire","limits":{"bps-total":3000000}}',
    '-blockdev {"driver":"throttle","throttle-group":"disk.slow","file":{"driver":"throttle",'
    '"throttle-group":"link.wire","file":{"driver":"null-co","size":1073741824,"read-zeroes":true}},"node-name":"lun.0"}',
    '-blockdev {"driver":"throttle","throttle-group":"link.wire","file":{"driver":"null-co","size":1073741824,'
    '"read-zeroes":true,"latency-ns":100000},"node-name":"lun.1"}',
    '-device {"driver":"pcie-root-port","id":"port.1","bus":"pcie.0","addr":"0x10","chassis":1,"slot":1,'
    '"x-speed":"2_5","x-width":"8"}',
]
SCSI_DISKS = [
    '-device {"driver":"scsi-hd","bus":"hba.h.0","scsi-id":0,"lun":0,"drive":"lun.0","serial":"lab00000",'
    '"wwn":5764959714915909632,"share-rw":true}',
    '-device {"driver":"scsi-hd","bus":"hba.h.0","scsi-id":1,"lun":0,"drive":"lun.1","serial":"lab00001",'
    '"wwn":5764959714915909633,"share-rw":true}',
]
CONTROLLERS = {
    Driver.MPTSAS: [
        '-device {"driver":"mptsas1068","id":"hba.h","bus":"port.1","sas_address":5766302626366881808}',
        *SCSI_DISKS,
    ],
    Driver.MEGASAS: [
        '-device {"driver":"megasas","id":"hba.h","bus":"port.1","max_cmds":97,"sas_address":5766302626366881808}',
        *SCSI_DISKS,
    ],
    Driver.MEGASAS_GEN2: [
        '-device {"driver":"megasas-gen2","id":"hba.h","bus":"port.1","max_cmds":97,"sas_address":5766302626366881808}',
        *SCSI_DISKS,
    ],
    Driver.VIRTIO_SCSI: [
        '-device {"driver":"virtio-scsi-pci","id":"hba.h","bus":"port.1","num_queues":1,"virtqueue_size":64,'
        '"cmd_per_lun":64}',
        *SCSI_DISKS,
    ],
    Driver.NVME: [
        '-device {"driver":"nvme","id":"hba.h","bus":"port.1","serial":"labctl-h","max_ioqpairs":1}',
        '-device {"driver":"nvme-ns","bus":"hba.h","drive":"lun.0","nsid":1,"eui64":5764959714915909632}',
        '-device {"driver":"nvme-ns","bus":"hba.h","drive":"lun.1","nsid":2,"eui64":5764959714915909633}',
    ],
}


@pytest.mark.parametrize("driver", CONTROLLERS)
def test_hardware_of_a_family(driver: Driver) -> None:
    assert lines(made(driver)) == [*BACKENDS, *CONTROLLERS[driver]]
    assert hardware(made(driver)).cpus == 2


SLOT = "/sys/devices/pci0000:00/0000:00:10.0/0000:*:00.0"
MODULES = {
    Driver.MPTSAS: ["sd_mod", "mptsas"],
    Driver.MEGASAS: ["sd_mod", "megaraid_sas"],
    Driver.MEGASAS_GEN2: ["sd_mod", "megaraid_sas"],
    Driver.VIRTIO_SCSI: ["sd_mod", "virtio_pci", "virtio_scsi"],
    Driver.NVME: ["nvme"],
}
TARGETS = {
    Driver.MPTSAS: f"{SLOT}/host*/port-*/end_device-*/target*",
    Driver.MEGASAS: f"{SLOT}/host*/target*",
    Driver.MEGASAS_GEN2: f"{SLOT}/host*/target*",
    Driver.VIRTIO_SCSI: f"{SLOT}/virtio*/host*/target*",
}


@pytest.mark.parametrize("driver", MODULES)
def test_a_guest_finds_disks_by_who_they_are(driver: Driver) -> None:
    steps = recipe.devices(made(driver))
    assert [step.name for step in steps if isinstance(step, Module)] == MODULES[driver]
    (slow, fast) = (step for step in steps if isinstance(step, Find))
    if driver is Driver.NVME:
        assert slow == Find("slow", f"{SLOT}/nvme/nvme*/nvme*n*/nsid", "1", ".")
        assert fast.value == "2"
        assert Module("nvme", "io_queue_depth=65") in steps
        return
    assert slow == Find("slow", f"{TARGETS[driver]}/*:*:*:*/wwid", "naa.5001405110000000", "block/*")
    assert fast.value == "naa.5001405110000001"
    assert Tune("hba.cmd_per_lun[fast]", "/lab/fast.sys/device/queue_depth", "64") in steps
    host = TARGETS[driver].partition("/host*")[0]
    assert Confirm("hba.can_queue[fast]", f"{host}/host*/scsi_host/host*/can_queue", "64") in steps


def test_paths_to_one_disk_have_its_name_and_its_throttle() -> None:
    topology = made(Driver.MPTSAS, 118)
    hbas = {name: replace(topology.hbas["h"], name=name) for name in ("a", "b")}
    luns = {name: Lun(name, name, ("slow",)) for name in hbas}
    twice = replace(topology, hbas=hbas, luns=luns)
    disks = [one for one in devices(twice) if one["driver"] == "scsi-hd"]
    assert [disk["bus"] for disk in disks] == ["hba.a.0", "hba.b.0"]
    assert len({(disk["wwn"], disk["serial"]) for disk in disks}) == 1
    assert sum('"throttle-group":"disk.slow"' in line for line in lines(twice)) == 2


def test_a_subsystem_is_shared_by_its_controllers() -> None:
    topology = made(Driver.NVME)
    hbas = {name: replace(topology.hbas["h"], name=name, links=()) for name in ("a", "b")}
    luns = {name: Lun(name, name, ("slow",)) for name in hbas}
    stack = Stack("two", StackKind.NVME, ("a", "b"), iopolicy="round-robin")
    shared = replace(topology, hbas=hbas, luns=luns, stacks={"two": stack})
    made_of = [one for one in devices(shared) if one["driver"] != "pcie-root-port"]
    assert [one["driver"] for one in made_of] == ["nvme-subsys", "nvme", "nvme", "nvme-ns"]
    assert {one["subsys"] for one in made_of[1:3]} == {"subsystem.two"}
    assert len({one["serial"] for one in made_of[1:3]}) == 1
    steps = recipe.devices(shared)
    names = "/sys/class/nvme-subsystem/nvme-subsys*/subsysnqn"
    assert Find("two", names, "nqn.2019-08.org.qemu:two", "nvme*n1") in steps
    assert Tune("stack.iopolicy[two]", "/lab/two.sys/../iopolicy", "round-robin") in steps


def test_nodes_have_memory_a_socket_and_a_root_bus() -> None:
    topology = made(Driver.NVME)
    hbas = {f"h{node}": replace(topology.hbas["h"], name=f"h{node}", node=node) for node in (0, 2)}
    luns = {"slow": Lun("slow", "h0", ("slow",)), "fast": Lun("fast", "h2", ("fast",))}
    spread = replace(topology, hbas=hbas, luns=luns)
    assert hardware(spread).cpus == 3
    assert lines(spread)[:6:2] == [
        f'-object {{"qom-type":"memory-backend-ram","id":"memory{node}","size":{size}}}'
        for node, size in enumerate((342 << 20, 341 << 20, 341 << 20))
    ]
    assert lines(spread)[5] == "-numa node,nodeid=2,cpus=2,memdev=memory2"
    buses = [one for one in devices(spread) if one["driver"] == "pxb-pcie"]
    assert [(one["numa_node"], one["bus_nr"]) for one in buses] == [(0, 64), (2, 192)]
    assert places(spread)["h2"].folder == "/sys/devices/pci0000:c0/0000:c0:00.0/0000:*:00.0"


def test_what_must_be_read_back_is_kept_in_a_sparse_file() -> None:
    topology = emulated(load_topology("sun-x4540", near=Path()))
    own = hardware(topology)
    assert own.files == {f"disk-c{c}t{t}.raw": topology.disks["c0t6"].size for c in range(6) for t in (6, 7)}
    assert sum('"driver":"null-co"' in word for word in own.words) == 36
    assert sum('"filename":"disk-c5t7.raw"' in word for word in own.words) == 1


@pytest.mark.parametrize("topology", catalogue(), ids=lambda topology: topology.name)
def test_every_topology_of_the_catalogue_fits_on_a_machine(topology: Topology) -> None:
    on_qemu = emulated(topology)
    ids = [str(one["id"]) for one in devices(on_qemu) if "id" in one]
    assert len(ids) == len(set(ids))
    addresses = [(one["bus"], one["addr"]) for one in devices(on_qemu) if "addr" in one]
    assert len(addresses) == len(set(addresses))
    assert {str(one["driver"]) for one in devices(on_qemu)} <= set(wanted_devices(on_qemu))
    names = [step.lun for step in recipe.devices(on_qemu) if isinstance(step, Find)]
    assert set(on_qemu.luns) <= set(names)
    assert job_files(recipe.devices(on_qemu), deadline=60)


def test_a_qemu_without_a_device_is_named() -> None:
    topology = emulated(load_topology("dl980-iodrive", near=Path()))
    assert wanted_devices(topology) == ("pxb-pcie", "pcie-root-port", "nvme", "nvme-ns")
    assert lacking(topology, wanted_devices(topology)) == ()
    assert lacking(topology, ("pcie-root-port", "nvme")) == (
        "this QEMU has no device pxb-pcie",
        "this QEMU has no device nvme-ns",
    )

# SPDX-License-Identifier: GPL-2.0-only
"""The guest's steps for an emulated topology: name every LUN, and record the inventory."""

from collections.abc import Iterator, Mapping

from lab.guest.steps import Step
from lab.guest.steps.device import Find, Module, sysfs
from lab.guest.steps.setting import Interrupts, Locate, Members, Read, RouteInterrupts, Tune
from lab.realise import stacks
from lab.realise.in_guest.tcm_loop import queue_limits
from lab.realise.in_qemu import controllers
from lab.realise.in_qemu.places import RootPortPlace, places
from lab.topology.model import SCSI, Driver, Hba, Lun, StackKind, Topology

_FAMILIES: Mapping[Driver, tuple[tuple[str, ...], str, str]] = {
    Driver.MPTSAS: (("sd_mod", "mptsas"), "host*", "port-*/end_device-*/target*"),
    Driver.MEGASAS: (("sd_mod", "megaraid_sas"), "host*", "target*"),
    Driver.MEGASAS_GEN2: (("sd_mod", "megaraid_sas"), "host*", "target*"),
    Driver.VIRTIO_SCSI: (("sd_mod", "virtio_pci", "virtio_scsi"), "virtio*/host*", "target*"),
    Driver.NVME: (("nvme",), "", ""),
}
"""Modules, path of the SCSI host below its controller's folder, and path of the targets below the host."""


def steps(topology: Topology) -> Iterator[Step]:
    """Steps that name every LUN, create every stack, and record the inventory."""
    yield from _modules(topology)
    where = places(topology)
    for lun in topology.luns.values():
        hba = topology.hbas[lun.hba]
        if hba.driver is Driver.NVME:
            yield _find_namespace(topology, lun, where[hba.name])
        else:
            host = scsi_host(topology, hba.name)
            wwid = f"naa.{controllers.wwn(topology, lun.disks[0]):x}"
            yield Find(lun.name, f"{host}/{_FAMILIES[hba.driver][2]}/*:*:*:*/wwid", wwid, "block/*")
            yield from queue_limits(hba, lun, f"{host}/scsi_host/host*/can_queue")
    for hba in topology.hbas.values():
        if hba.interrupts is not None:
            yield RouteInterrupts(f"hba.interrupts[{hba.name}]", where[hba.name].folder, hba.interrupts)
    yield from _heads(topology)
    yield from stacks.steps(topology)
    yield from _inventory(topology, where)


def scsi_host(topology: Topology, hba: str) -> str:
    """A glob for the folder of a controller's SCSI host."""
    return f"{places(topology)[hba].folder}/{_FAMILIES[topology.hbas[hba].driver][1]}"


def _modules(topology: Topology) -> Iterator[Step]:
    for driver, tags in {hba.driver: hba.can_queue for hba in topology.hbas.values()}.items():
        for module in _FAMILIES[driver][0]:
            # A queue of n entries carries n - 1 commands (drivers/nvme/host/pci.c, nvme_alloc_tagset).
            yield Module(module, f"io_queue_depth={tags + 1}" if module == "nvme" else "")


def _find_namespace(topology: Topology, lun: Lun, place: RootPortPlace) -> Find:
    number = 1 if controllers.multipath(topology, lun.name) else controllers.target(topology, lun) + 1
    # Since 5.19 the kernel ignores the identifiers of QEMU's namespaces (NVME_QUIRK_BOGUS_NID), so the number is used.
    return Find(lun.name, f"{place.folder}/nvme/nvme*/nvme*n*/nsid", str(number), ".")


def _heads(topology: Topology) -> Iterator[Step]:
    """The multipath devices of NVMe namespaces."""
    for stack in topology.stacks.values():
        if stack.kind is StackKind.NVME:
            subsystems = "/sys/class/nvme-subsystem/nvme-subsys*"
            yield Find(stack.name, f"{subsystems}/subsysnqn", controllers.nqn(stack), "nvme*n1")
            policy = f"{sysfs(stack.name)}/../iopolicy"
            yield Tune(f"stack.iopolicy[{stack.name}]", policy, stack.iopolicy)


def _inventory(topology: Topology, where: Mapping[str, RootPortPlace]) -> Iterator[Step]:
    for hba in topology.hbas.values():
        yield from _read_controller(topology, hba, where[hba.name])
    for lun in topology.luns.values():
        yield from _read_lun(lun, topology.hbas[lun.hba])
    for stack in topology.stacks.values():
        below = ".." if stack.kind is StackKind.NVME else "slaves"
        yield Locate(f"stack.{stack.name}.place", sysfs(stack.name))
        yield Members(f"stack.{stack.name}.members", f"{sysfs(stack.name)}/{below}")


def _read_controller(topology: Topology, hba: Hba, place: RootPortPlace) -> Iterator[Step]:
    key = f"hba.{hba.name}"
    yield Locate(f"{key}.place", place.folder)
    yield Read(f"{key}.node", f"{place.folder}/numa_node")
    yield Interrupts(f"{key}.interrupts", place.folder)
    for attribute in ("max_link_speed", "max_link_width", "current_link_speed", "current_link_width"):
        yield Read(f"{key}.{attribute}", f"{place.port_folder}/{attribute}")
    if hba.driver in SCSI:
        for attribute in ("can_queue", "cmd_per_lun", "proc_name"):
            yield Read(f"{key}.{attribute}", f"{scsi_host(topology, hba.name)}/scsi_host/host*/{attribute}")
    else:
        for attribute in ("serial", "queue_count", "sqsize"):
            yield Read(f"{key}.{attribute}", f"{place.folder}/nvme/nvme*/{attribute}")


def _read_lun(lun: Lun, hba: Hba) -> Iterator[Step]:
    key, folder = f"lun.{lun.name}", sysfs(lun.name)
    yield Locate(f"{key}.place", folder)
    yield Read(f"{key}.size", f"{folder}/size")
    if hba.driver in SCSI:
        for attribute in ("wwid", "queue_depth"):
            yield Read(f"{key}.{attribute}", f"{folder}/device/{attribute}")
    else:
        yield Read(f"{key}.wwid", f"{folder}/wwid")
        yield Read(f"{key}.nsid", f"{folder}/nsid")
        yield Read(f"{key}.nr_tags", f"{folder}/mq/0/nr_tags")

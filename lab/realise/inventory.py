# SPDX-License-Identifier: GPL-2.0-only
"""The guest's steps for QEMU's controllers: name every LUN by its identity, record what sysfs shows of all devices, the
inventory, and compare it with the topology: HCTLs, names, tags, paths, nodes, slots.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from lab.guest.steps import Step
from lab.guest.steps.device import Find, Module, sysfs
from lab.guest.steps.setting import Interrupts, Locate, Members, Read, RouteInterrupts, Tune
from lab.realise.drivers import queue_limits
from lab.realise.hardware import RootPortPlace, nqn, nvme_serial, places, slot_of, target, wwn
from lab.topology.emulated import multipath, nodes
from lab.topology.model import SCSI, Driver, Hba, Lun, Stack, StackKind, Topology

_FAMILIES: Mapping[Driver, tuple[tuple[str, ...], str, str]] = {
    Driver.MPTSAS: (("sd_mod", "mptsas"), "host*", "port-*/end_device-*/target*"),
    Driver.MEGASAS: (("sd_mod", "megaraid_sas"), "host*", "target*"),
    Driver.MEGASAS_GEN2: (("sd_mod", "megaraid_sas"), "host*", "target*"),
    Driver.VIRTIO_SCSI: (("sd_mod", "virtio_pci", "virtio_scsi"), "virtio*/host*", "target*"),
    Driver.NVME: (("nvme",), "", ""),
}
"""Modules, path of the SCSI host below its controller's folder, and path of the targets below the host."""


def steps(topology: Topology) -> Iterator[Step]:
    """Steps that name every LUN."""
    yield from _modules(topology)
    where = places(topology)
    for lun in topology.luns.values():
        hba = topology.hbas[lun.hba]
        if hba.driver is Driver.NVME:
            yield _find_namespace(topology, lun, where[hba.name])
        else:
            host = scsi_host(topology, hba.name)
            wwid = f"naa.{wwn(topology, lun.disks[0]):x}"
            yield Find(lun.name, f"{host}/{_FAMILIES[hba.driver][2]}/*:*:*:*/wwid", wwid, "block/*")
            yield from queue_limits(hba, lun, f"{host}/scsi_host/host*/can_queue")
    for hba in topology.hbas.values():
        if hba.interrupts is not None:
            yield RouteInterrupts(f"hba.interrupts[{hba.name}]", where[hba.name].folder, hba.interrupts)
    yield from _heads(topology)


def scsi_host(topology: Topology, hba: str) -> str:
    """A glob for the folder of a controller's SCSI host."""
    return f"{places(topology)[hba].folder}/{_FAMILIES[topology.hbas[hba].driver][1]}"


def _modules(topology: Topology) -> Iterator[Step]:
    for driver, tags in {hba.driver: hba.can_queue for hba in topology.hbas.values()}.items():
        for module in _FAMILIES[driver][0]:
            # A queue of n entries carries n - 1 commands (drivers/nvme/host/pci.c, nvme_alloc_tagset).
            yield Module(module, f"io_queue_depth={tags + 1}" if module == "nvme" else "")


def _find_namespace(topology: Topology, lun: Lun, place: RootPortPlace) -> Find:
    number = 1 if multipath(topology, lun.name) else target(topology, lun) + 1
    # Since 5.19 the kernel ignores the identifiers of QEMU's namespaces (NVME_QUIRK_BOGUS_NID), so the number is used.
    return Find(lun.name, f"{place.folder}/nvme/nvme*/nvme*n*/nsid", str(number), ".")


def _heads(topology: Topology) -> Iterator[Step]:
    """The multipath devices of NVMe namespaces."""
    for stack in topology.stacks.values():
        if stack.kind is StackKind.NVME:
            subsystems = "/sys/class/nvme-subsystem/nvme-subsys*"
            yield Find(stack.name, f"{subsystems}/subsysnqn", nqn(stack), "nvme*n1")
            policy = f"{sysfs(stack.name)}/../iopolicy"
            yield Tune(f"stack.iopolicy[{stack.name}]", policy, stack.iopolicy)


def records(topology: Topology) -> Iterator[Step]:
    """Steps that record the inventory, once every stack is there."""
    where = places(topology)
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


Inventory = Mapping[str, str]
"""Keys such as ``lun.p0.wwid`` and ``hba.twa0.can_queue`` to the text that was read, empty if the file is absent."""

_HCTL = re.compile(r"[0-9]+:[0-9]+:[0-9]+:[0-9]+")
_NVME_PATH = re.compile(r"nvme[0-9]+")
_SECTOR = 512
_GENERATIONS = {1: "2.5", 2: "5", 3: "8", 4: "16", 5: "32"}


def read_inventory(data: bytes) -> Inventory:
    """From rows ``key<TAB>text``."""
    rows = (line.partition("\t") for line in data.decode("utf-8", "replace").splitlines())
    return {key: text.strip() for key, _, text in rows}


def mismatches(topology: Topology, seen: Inventory) -> tuple[str, ...]:
    """One sentence for each difference from the topology; empty when there is none."""
    wrong = [reason for hba in topology.hbas.values() for reason in _of_hba(topology, hba, seen)]
    wrong += [reason for lun in topology.luns.values() for reason in _of_lun(topology, lun, seen)]
    wrong += [reason for stack in topology.stacks.values() for reason in _of_stack(topology, stack, seen)]
    addresses = [address for lun in topology.luns.values() if (address := _block_device(lun, seen)[1])]
    wrong += [
        f"two disks have the address {address}" for address in sorted({a for a in addresses if addresses.count(a) > 1})
    ]
    return tuple(wrong)


def _block_device(lun: Lun, seen: Inventory) -> tuple[str, str]:
    """The name of a LUN's block device, and its address: HCTL, or controller and namespace."""
    place = PurePosixPath(seen.get(f"lun.{lun.name}.place", ""))
    hctl = next(filter(_HCTL.fullmatch, place.parts), "")
    controller = next(filter(_NVME_PATH.fullmatch, place.parts), "")
    return place.name, hctl or (f"{controller} namespace {seen.get(f'lun.{lun.name}.nsid', '')}" if controller else "")


def _tags(topology: Topology, hba: Hba, seen: Inventory) -> str:
    if hba.driver in SCSI:
        return seen.get(f"hba.{hba.name}.can_queue", "")
    first = next(lun for lun in topology.luns.values() if lun.hba == hba.name)
    return seen.get(f"lun.{first.name}.nr_tags", "")


def _of_hba(topology: Topology, hba: Hba, seen: Inventory) -> Iterator[str]:
    key, what = f"hba.{hba.name}", f"hba {hba.name}"
    if not seen.get(f"{key}.place"):
        yield f"{what}: no such controller"
        return
    yield from _differs(f"{what}: can_queue", _tags(topology, hba, seen), str(hba.can_queue))
    if nodes(topology) > 1:
        yield from _differs(f"{what}: numa_node", seen.get(f"{key}.node", ""), str(hba.node))
    slot = slot_of(topology, hba)
    if slot:
        generation, lanes = slot
        speed = seen.get(f"{key}.max_link_speed", "").partition(" ")[0].removesuffix(".0")
        yield from _differs(f"{what}: GT/s of its slot", speed, _GENERATIONS[generation])
        yield from _differs(f"{what}: lanes of its slot", seen.get(f"{key}.max_link_width", ""), str(lanes))
    if hba.driver not in SCSI:
        yield from _differs(f"{what}: serial", seen.get(f"{key}.serial", ""), nvme_serial(topology, hba))


def _of_lun(topology: Topology, lun: Lun, seen: Inventory) -> Iterator[str]:
    key, what, hba = f"lun.{lun.name}", f"lun {lun.name}", topology.hbas[lun.hba]
    name, address = _block_device(lun, seen)
    if not name:
        yield f"{what}: no such disk"
        return
    if not seen[f"{key}.place"].startswith(f"{seen.get(f'hba.{hba.name}.place')}/"):
        yield f"{what}: it is at {seen[f'{key}.place']}, not behind hba {hba.name}"
    if not address:
        yield f"{what}: {seen[f'{key}.place']} shows no address"
    yield from _differs(f"{what}: sectors", seen.get(f"{key}.size", ""), str(topology.lun_size(lun.name) // _SECTOR))
    depth = seen.get(f"{key}.queue_depth") or seen.get(f"{key}.nr_tags", "")
    yield from _differs(f"{what}: depth", depth, str(hba.cmd_per_lun))
    if hba.driver in SCSI:
        yield from _differs(f"{what}: wwid", seen.get(f"{key}.wwid", ""), f"naa.{wwn(topology, lun.disks[0]):x}")
    elif not seen.get(f"{key}.wwid"):
        yield f"{what}: it has no wwid"


def _of_stack(topology: Topology, stack: Stack, seen: Inventory) -> Iterator[str]:
    members = set(seen.get(f"stack.{stack.name}.members", "").split())
    if stack.kind is StackKind.NVME:
        paths = [name for name in members if _NVME_PATH.fullmatch(name)]
        yield from _differs(f"stack {stack.name}: paths", str(len(paths)), str(len(stack.over)))
        return
    kinds = {member: "stack" if member in topology.stacks else "lun" for member in stack.over}
    wanted = {PurePosixPath(seen.get(f"{kind}.{name}.place", "")).name for name, kind in kinds.items()}
    if members != wanted:
        yield f"stack {stack.name}: its members are {_join(members)}, expected {_join(wanted)}"


def _join(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _differs(what: str, seen: str, wanted: str) -> Iterator[str]:
    if seen != wanted:
        yield f"{what} is {seen or 'not shown'}, not {wanted}"

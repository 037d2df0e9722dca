# SPDX-License-Identifier: GPL-2.0-only
"""The sysfs inventory of an emulated topology, compared with the topology: HCTLs, names, tags, paths, nodes, slots."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from lab.realise.in_qemu import controllers
from lab.realise.in_qemu.places import nodes, slot_of
from lab.topology.model import SCSI, Hba, Lun, Stack, StackKind, Topology

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
        yield from _differs(f"{what}: serial", seen.get(f"{key}.serial", ""), controllers.nvme_serial(topology, hba))


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
        yield from _differs(
            f"{what}: wwid", seen.get(f"{key}.wwid", ""), f"naa.{controllers.wwn(topology, lun.disks[0]):x}"
        )
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

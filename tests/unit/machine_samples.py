# SPDX-License-Identifier: GPL-2.0-only
"""Folders with sys and proc as Linux shows three machines: MegaRAID, SAS with multipath, and NVMe with four paths."""

import os
from pathlib import Path

_SECTOR = 512
_WWID = "naa.5000c500a1b2c3%02x"


class MachineTree:
    """A folder ``root`` to which devices are added; links are those of sysfs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sys = root / "sys"
        self._minor = 0
        self.write("devices/system/cpu/online", "0-7")
        (self.sys / "block").mkdir(exist_ok=True)

    def write(self, path: str, text: object) -> None:
        file = self.sys / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def link(self, path: str, to: str) -> None:
        there = self.sys / path
        there.parent.mkdir(parents=True, exist_ok=True)
        there.symlink_to(os.path.relpath(self.sys / to, there.parent))

    def pci(self, address: str, kind: str, *, speed: str, width: int, node: int) -> str:
        place = f"devices/pci{address[:7]}/{address}"
        for key, value in {
            "class": kind,
            "numa_node": node,
            "current_link_speed": f"{speed} GT/s PCIe",
            "current_link_width": width,
        }.items():
            self.write(f"{place}/{key}", value)
        self.link(f"bus/pci/devices/{address}", place)
        return place

    def host(self, number: int, pci: str, *, can_queue: int, cmd_per_lun: int, driver: str) -> str:
        place = f"{pci}/host{number}"
        own = f"{place}/scsi_host/host{number}"
        values = {"can_queue": can_queue, "cmd_per_lun": cmd_per_lun, "sg_tablesize": 128, "proc_name": driver}
        for key, value in values.items():
            self.write(f"{own}/{key}", value)
        self.link(f"class/scsi_host/host{number}", own)
        return place

    def block(self, name: str, place: str, size: int, *, scheduler: str = "[none]", rotational: int = 0) -> str:
        """A block device of ``size`` GiB at ``place``; its major and minor number."""
        self._minor += 16
        number = f"8:{self._minor}"
        queue = {"scheduler": scheduler, "nr_requests": 256, "read_ahead_kb": 128, "rotational": rotational}
        values = {"size": size * (1 << 30) // _SECTOR, "dev": number, "ro": 0, "queue/max_sectors_kb": 1280}
        for key, value in (values | {f"queue/{key}": value for key, value in queue.items()}).items():
            self.write(f"{place}/{key}", value)
        self.link(f"block/{name}", place)
        return number

    def scsi_disk(self, name: str, host: str, target: int, size: int, *, depth: int, wwid: int, spins: bool) -> str:
        address = f"{host.rpartition('host')[2].partition('/')[0]}:0:{target}:0"
        device = f"{host}/target{address[:-2]}/{address}"
        for key, value in {"queue_depth": depth, "type": 0, "wwid": _WWID % wwid, "model": "ST4000NM0023"}.items():
            self.write(f"{device}/{key}", value)
        place = f"{device}/block/{name}"
        number = self.block(name, place, size, scheduler="none [mq-deadline] bfq", rotational=int(spins))
        self.link(f"{place}/device", device)
        return number

    def sas_port(self, host: str, port: str, phys: int, rate: str) -> str:
        """A port of ``host``; the place for ``scsi_disk`` of what is connected to it."""
        place = f"{host}/port-{port}"
        self.write(f"{place}/sas_port/port-{port}/num_phys", phys)
        self.link(f"class/sas_port/port-{port}", f"{place}/sas_port/port-{port}")
        self.link(f"{place}/sas_port/port-{port}/device", place)
        for phy in range(phys):
            own = f"{host}/phy-{port}{phy}"
            self.write(f"{own}/sas_phy/phy-{port}{phy}/negotiated_linkrate", rate)
            self.link(f"class/sas_phy/phy-{port}{phy}", f"{own}/sas_phy/phy-{port}{phy}")
            self.link(f"{place}/phy-{port}{phy}", own)
        return f"{place}/end_device-{port}"

    def partition(self, disk: str, number: int, start: int, size: int) -> str:
        """A partition with its start and size in MiB; its device number."""
        place = self.sys / "block" / disk
        parent = (place / "dev").read_text().strip()
        major, minor = parent.split(":")
        inside = str(place.resolve().relative_to(self.sys.resolve()))
        numbered = f"{major}:{int(minor) + number}"
        values = {"partition": number, "start": start << 11, "size": size << 11, "dev": numbered}
        for key, value in values.items():
            self.write(f"{inside}/{disk}{number}/{key}", value)
        return numbered

    def mapped(self, number: int, size: int, table: str, slaves: str) -> str:
        """A dm device of ``size`` GiB; in a folder its table is a file."""
        name = f"dm-{number}"
        numbered = self.block(name, f"devices/virtual/block/{name}", size)
        for slave in slaves.split():
            self.link(f"devices/virtual/block/{name}/slaves/{slave}", f"block/{slave}")
        file = self.root / "dm" / name / "table"
        file.parent.mkdir(parents=True)
        file.write_text(f"0 {size * (1 << 30) // _SECTOR} {table}\n")
        return numbered

    def array(self, number: int, level: str, members: str, size: int, **attributes: int | str) -> None:
        place = f"devices/virtual/block/md{number}"
        self.block(f"md{number}", place, size)
        values: dict[str, int | str] = {"level": level, "raid_disks": len(members.split()), "sync_action": "idle"}
        for key, value in (values | attributes).items():
            self.write(f"{place}/md/{key}", value)
        for slot, member in enumerate(members.split()):
            self.write(f"{place}/md/dev-{member}/slot", slot)


def megaraid(root: Path) -> MachineTree:
    """A MegaRAID with four hard disks of which two hold an md mirror on partitions, and an SSD at an AHCI host."""
    tree = MachineTree(root)
    pci = tree.pci("0000:03:00.0", "0x010400", speed="8.0", width=8, node=0)
    raid = tree.host(0, pci, can_queue=5088, cmd_per_lun=256, driver="megaraid_sas")
    for place, name in enumerate(("sda", "sdb", "sdc", "sdd")):
        tree.scsi_disk(name, raid, place, 3726, depth=256, wwid=place, spins=True)
    ahci = tree.host(
        1, tree.pci("0000:00:1f.2", "0x010601", speed="", width=0, node=-1), can_queue=32, cmd_per_lun=1, driver="ahci"
    )
    tree.scsi_disk("sde", ahci, 0, 447, depth=32, wwid=9, spins=False)
    for disk in ("sda", "sdb"):
        tree.partition(disk, 1, 1, 512)
        tree.partition(disk, 2, 513, 1 << 20)
    tree.array(127, "raid1", "sda2 sdb2", 1023, array_state="clean")
    return tree


def mpt3sas(root: Path) -> MachineTree:
    """Two SAS3008; each reaches the same four disks, which are under dm-multipath and a striped logical volume."""
    tree = MachineTree(root)
    numbers: dict[str, str] = {}
    for number, names in enumerate((("sda", "sdb", "sdc", "sdd"), ("sde", "sdf", "sdg", "sdh"))):
        pci = tree.pci(f"0000:8{number}:00.0", "0x010700", speed="8.0", width=8, node=number)
        host = tree.host(number, pci, can_queue=9664, cmd_per_lun=7, driver="mpt3sas")
        for target, name in enumerate(names):
            numbers[name] = tree.scsi_disk(name, host, target, 7452, depth=254, wwid=target, spins=True)
    tops = []
    for place, (one, other) in enumerate(zip("abcd", "efgh", strict=True)):
        paths = f"{numbers[f'sd{one}']} 1 {numbers[f'sd{other}']} 1"
        table = f"multipath 1 queue_if_no_path 1 alua 1 1 round-robin 0 2 1 {paths}"
        tops.append(tree.mapped(place, 7452, table, f"sd{one} sd{other}"))
    stripes = " ".join(f"{number} 2048" for number in tops)
    tree.mapped(4, 29804, f"striped 4 256 {stripes}", "dm-0 dm-1 dm-2 dm-3")
    return tree


def two_paths_each(root: Path, disks: int) -> MachineTree:
    """Two SAS hosts that reach the same disks."""
    tree = MachineTree(root)
    for number in range(2):
        pci = tree.pci(f"0000:8{number}:00.0", "0x010700", speed="8.0", width=8, node=number)
        host = tree.host(number, pci, can_queue=9664, cmd_per_lun=7, driver="mpt3sas")
        for target in range(disks):
            name = f"sd{'pq'[number]}{chr(97 + target // 26)}{chr(97 + target % 26)}"
            tree.scsi_disk(name, host, target, 7452, depth=254, wwid=target, spins=True)
    return tree


def nvme_four_paths(root: Path) -> MachineTree:
    """A namespace reached through four controllers on two nodes, and a drive of its own without multipath."""
    tree = MachineTree(root)
    for number in range(4):
        pci = tree.pci(f"0000:4{number}:00.0", "0x010802", speed="16.0", width=4, node=number // 2)
        _controller(tree, number, pci)
        path = f"{pci}/nvme/nvme{number}/nvme0c{number}n1"
        _namespace(tree, f"nvme0c{number}n1", path, 1788)
        tree.link(f"devices/virtual/nvme-subsystem/nvme-subsys0/nvme{number}", f"class/nvme/nvme{number}")
    head = "devices/virtual/nvme-subsystem/nvme-subsys0"
    tree.write(f"{head}/iopolicy", "round-robin")
    tree.link("class/nvme-subsystem/nvme-subsys0", head)
    tree.block("nvme0n1", f"{head}/nvme0n1", 1788)
    pci = tree.pci("0000:61:00.0", "0x010802", speed="8.0", width=4, node=1)
    _controller(tree, 4, pci)
    _namespace(tree, "nvme4n1", f"{pci}/nvme/nvme4/nvme4n1", 894)
    return tree


def _controller(tree: MachineTree, number: int, pci: str) -> None:
    own = f"{pci}/nvme/nvme{number}"
    for key, value in {
        "transport": "pcie",
        "serial": f"S4X{number}SECRET",
        "subsysnqn": "nqn.secret",
        "sqsize": 1023,
    }.items():
        tree.write(f"{own}/{key}", value)
    tree.link(f"class/nvme/nvme{number}", own)


def _namespace(tree: MachineTree, name: str, place: str, size: int) -> None:
    tree.block(name, place, size)
    tree.write(f"{place}/nsid", 1)
    tree.write(f"{place}/wwid", "eui.00secret")
    for queue, cpus in enumerate(("0-3", "4-7")):
        tree.write(f"{place}/mq/{queue}/nr_tags", 1023)
        tree.write(f"{place}/mq/{queue}/cpu_list", cpus)

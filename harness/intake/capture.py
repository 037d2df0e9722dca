# SPDX-License-Identifier: GPL-2.0-only
"""A topology file from a snapshot of a machine.

The hosts are devices inside the guest, so the file serves the virtual clock; ``lab.topology.emulated`` converts it for
the wall clock. What was read, and what is a guess, is in the file's ``origins``.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from harness.intake.documents import AnnotatedDocument, Document, accepts, exact_size
from harness.intake.snapshot import (
    MEBIBYTE,
    CapturedController,
    CapturedDevices,
    CapturedLun,
    Notes,
    Snapshot,
    read_devices,
    slug,
)
from harness.intake.volumes import StackReader, same_disk
from lab.base.errors import Misuse
from lab.topology.fields import DISKS, HBAS, LUNS, NODE, ORIGINAL_DRIVER, QUEUE_FIELDS
from lab.topology.limits import LEAST_NVME_TAGS, MOST_BUFFERED, MOST_TAGS, handler_memory
from lab.topology.model import Driver
from lab.topology.ranges import NamedRanges

_MEMORY = 512 * MEBIBYTE
_STRIPE_PAGE = 4096
_SEEK, _RPM, _SERVICE = 8 * 10**6, 7200, 100_000
_SPINNING, _FLASH = 150, 500
_BUFFER = 32
_GENERATIONS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5}
_LANES = 32
_SAS_GBIT = ("3", "6", "12")
_CITES, _GUESSED = "cites", "guessed"
_QUEUE = ("scheduler", "nr_requests", "read_ahead_kb")
_STACK_READ = {
    "chunk": "read: the dm table, or chunk_size of md",
    "offset": "read: the dm table, or start of the partition",
    "size": "read: size",
    "level": "read: level",
    "queue": "read: its request queue",
    "md": "read: attributes of md",
}


def capture(snapshot: Snapshot, name: str) -> AnnotatedDocument:
    """The topology of a snapshot. Raises Misuse where the machine has no disk, or more than a topology holds."""
    notes = Notes()
    devices = read_devices(snapshot, same_disk(snapshot), notes)
    if not devices.luns:
        left = "a disk needs a controller, a size and tags" if snapshot.below("block") else "it has no block devices"
        raise Misuse(f"{snapshot.source}: no disk for a topology: {left}", remedy="capture a machine with a disk")
    counts = ((DISKS, devices.paths), (LUNS, devices.luns), (HBAS, devices.controllers))
    for field, rows in counts:
        if isinstance(field.kind, NamedRanges) and len(rows) > field.kind.most:
            message = f"{snapshot.source}: {len(rows)} {field.name}, a topology holds {field.kind.most}"
            raise Misuse(message, remedy="name the disks that matter: --disk sda --disk sdb")
    return _Writer(snapshot, devices, notes).write(name)


def _driver(devices: CapturedDevices) -> Driver:
    """The driver that can play all hosts: a topology has one."""
    scsi = [lun for lun in devices.luns.values() if not devices.controllers[lun.controller].nvme]
    if not scsi:
        return Driver.NVMET_TCP
    return Driver.TCMU if any(devices.paths[lun.disk] > 1 or lun.rotational for lun in scsi) else Driver.TCM_LOOP


def _single_paths(devices: CapturedDevices, notes: Notes) -> CapturedDevices:
    """With SCSI hosts a namespace has one path: its first."""
    luns: dict[str, CapturedLun] = {}
    namespaces: set[str] = set()
    for name, lun in devices.luns.items():
        nvme = devices.controllers[lun.controller].nvme
        if nvme and lun.disk in namespaces:
            notes.add(lun.device, "a further NVMe path: hosts that are played by SCSI have one path each")
            continue
        luns[name] = lun
        if nvme:
            namespaces.add(lun.disk)
            notes.add(lun.device, "an NVMe namespace next to SCSI disks: a SCSI host plays its controller")
    used = {lun.controller for lun in luns.values()}
    return CapturedDevices({name: host for name, host in devices.controllers.items() if name in used}, luns)


class _Writer:
    def __init__(self, snapshot: Snapshot, devices: CapturedDevices, notes: Notes) -> None:
        self._snapshot, self._notes = snapshot, notes
        self._driver = _driver(devices)
        self._devices = devices if self._driver is Driver.NVMET_TCP else _single_paths(devices, notes)
        self._luns = list(self._devices.luns.values())
        self._origins: dict[str, tuple[str, str]] = {}
        """Kind and text of the origin of each parameter."""
        self._links: dict[str, object] = {}
        self._deepest = max(host.tags for host in self._devices.controllers.values())

    def write(self, name: str) -> AnnotatedDocument:
        disks = self._disks()
        hbas = {name: self._hba(host) for name, host in self._devices.controllers.items()}
        luns = {lun.name: {"hba": lun.controller, "disks": [lun.disk], **self._ports(lun)} for lun in self._luns}
        stacks = StackReader(self._snapshot, self._devices, self._notes).read(nvme=self._driver is Driver.NVMET_TCP)
        for stack, row in stacks.items():
            for key in filter(row.__contains__, _STACK_READ):
                self._cite(f"stack.{stack}.{key}", _STACK_READ[key])
        kernel = next((line for line in self._snapshot.text("about").splitlines() if line.startswith("kernel ")), "")
        document: Document = {
            "topology": name,
            "title": f"Captured from a machine{kernel.replace('kernel ', ' with Linux ', 1)}",
            "memory": exact_size(self._memory(stacks)),
            "queue": self._queue(),
            "links": self._links,
            "disks": disks,
            "hbas": hbas,
            "luns": luns,
            "stacks": stacks,
            "origins": list(self._origin_rows()),
        }
        return AnnotatedDocument({key: value for key, value in document.items() if value}, self._notes.lines)

    def _memory(self, stacks: Mapping[str, Mapping[str, object]]) -> int:
        """Of the guest: rings of its disks, and pages of stripe caches."""
        need = handler_memory(len(self._luns)) if self._driver is Driver.TCMU else 0
        for row in stacks.values():
            settings, over = row.get("md"), row.get("over")
            if isinstance(settings, Mapping) and isinstance(over, list):
                # As much again for the stripe heads.
                need += 2 * int(settings.get("stripe_cache_size", 0)) * len(over) * _STRIPE_PAGE
        return _MEMORY * -(-max(need, _MEMORY) // _MEMORY)

    def _cite(self, of: str, attribute: str) -> None:
        # Further origins of one parameter say the same.
        self._origins.setdefault(of, (_CITES, attribute))

    # Hosts

    def _hba(self, host: CapturedController) -> Document:
        luns = [lun for lun in self._luns if lun.controller == host.name]
        tags = self._tags(host, len(luns))
        row: Document = {"driver": str(self._driver)}
        if accepts(ORIGINAL_DRIVER, host.driver):
            row[ORIGINAL_DRIVER.name] = host.driver
        row |= {"can_queue": tags, **self._depths(host, luns, tags)}
        if accepts(NODE, host.node):
            row["node"] = host.node
            self._cite(f"hba.{host.name}.node", "read: numa_node")
        row |= self._pcie(host)
        if len(host.queues) > 1:
            why = "the virtual clock has one CPU, so the host has one queue"
            text = f"{len(host.queues)} hardware queues, on CPUs {'; '.join(host.queues[:8])}: {why}"
            self._notes.add(host.name, text)
        return row

    def _tags(self, host: CapturedController, luns: int) -> int:
        """can_queue within the limits of the driver."""
        most, read = MOST_TAGS[self._driver], f"read: {host.read} is {host.tags}"
        tags = min(most, self._deepest)
        if self._driver is Driver.NVMET_TCP:
            # A queue of n entries carries n - 1 commands.
            tags = max(LEAST_NVME_TAGS, min(most, host.tags + 1))
            read += f", in a queue of {host.tags + 1} entries"
        if host.tags > tags:
            read += f"; {self._driver} has at most {most}"
        elif host.tags < tags and self._driver is not Driver.NVMET_TCP:
            read += "; hosts inside a guest share one can_queue, that of the deepest"
            if luns > 1:
                self._notes.add(host.name, f"its LUNs share {host.tags} tags on the machine, and {tags} here")
        self._cite(f"hba.{host.name}.can_queue", read)
        return tags

    def _depths(self, host: CapturedController, luns: Sequence[CapturedLun], tags: int) -> Document:
        """cmd_per_lun: what most LUNs of the host have as queue_depth."""
        if self._driver is Driver.NVMET_TCP:
            return {}
        common = Counter(lun.depth or host.tags for lun in luns).most_common(1)[0][0]
        for lun in luns:
            if (lun.depth or host.tags) != common:
                self._notes.add(lun.device, f"queue_depth {lun.depth}; the LUNs of {host.name} have one, {common}")
        depth = max(1, min(common, host.tags, tags))
        read = f"read: queue_depth is {common}" if any(lun.depth for lun in luns) else "read: no queue_depth"
        self._cite(f"hba.{host.name}.cmd_per_lun", read + ("" if depth == common else f"; here at most {depth}"))
        return {"cmd_per_lun": depth}

    # Links

    def _pcie(self, host: CapturedController) -> Document:
        speed = self._snapshot.line(f"pci/{host.pci}/current_link_speed").partition(" ")[0].removesuffix(".0")
        lanes = self._snapshot.number(f"pci/{host.pci}/current_link_width") or 0
        if not host.pci or not lanes:
            return {}
        if speed not in _GENERATIONS or not 0 < lanes <= _LANES:
            self._notes.add(host.name, f"its PCI Express link of {lanes} lanes at {speed or 'an unknown'} GT/s")
            return {}
        if self._driver is Driver.TCM_LOOP:
            text = f"its PCI Express link, {lanes} lanes at {speed} GT/s: tcm_loop has no links"
            self._notes.add(host.name, text)
            return {}
        rate = {"pcie": {"generation": _GENERATIONS[speed], "lanes": lanes}}
        return {"links": [self._link(f"pcie-{host.name}", rate, "current_link_speed and current_link_width")]}

    def _ports(self, lun: CapturedLun) -> Document:
        """The links of its SAS ports."""
        names = []
        ports = {row[0]: row[1:] for row in self._snapshot.rows("sas")}
        for port in (port for port in lun.ports if port in ports):
            lanes, rate = (*ports[port], "", "")[:2]
            gbit = rate.removesuffix(" Gbit").removesuffix(".0")
            if not (lanes.isdecimal() and 0 < int(lanes) <= _LANES and gbit in _SAS_GBIT):
                self._notes.add(port, f"a SAS port of {lanes or 'no'} phys at {rate or 'an unknown speed'}")
            elif self._driver is not Driver.TCMU:
                self._notes.add(port, f"its SAS link, {lanes} phys at {gbit} Gbit/s: {self._driver} has no links")
            else:
                sas = {"sas": {"gbit": int(gbit), "lanes": int(lanes)}}
                names.append(self._link(f"sas-{slug(port)}", sas, "num_phys and negotiated_linkrate"))
        return {"links": names} if names else {}

    def _link(self, name: str, rate: Mapping[str, object], read: str) -> str:
        self._links[name] = rate
        self._cite(f"link.{name}.rate", f"read: {read}")
        return name

    # Disks

    def _disks(self) -> dict[str, object]:
        first: dict[str, CapturedLun] = {}
        for lun in self._luns:
            first.setdefault(lun.disk, lun)
        for name in first:
            self._cite(f"disk.{name}.size", "read: size")
        return {name: {"size": exact_size(lun.size), **self._speeds(lun)} for name, lun in first.items()}

    def _speeds(self, lun: CapturedLun) -> Document:
        """Guesses: sysfs has no times and rates."""
        if self._driver is not Driver.TCMU:
            self._guess(lun, "service", "usual for flash, which serves all of its requests at once here")
            return {"service": f"{_SERVICE // 1000}us"}
        usual = f"usual for {'a hard disk' if lun.rotational else 'flash with SATA'}"
        self._guess(lun, "rate", usual)
        if lun.rotational:
            self._guess(lun, "seek", usual)
            self._guess(lun, "rpm", "sysfs does not show the speed of rotation")
            return {"rate": f"{_SPINNING} MB/s", "seek": f"{_SEEK // 1000}us", "rpm": _RPM}
        flash = sum(not other.rotational for other in self._luns)
        row: Document = {"rate": f"{_FLASH} MB/s"}
        if (buffer := min(_BUFFER, MOST_BUFFERED // flash)) > 1:
            row["buffer"] = buffer
            self._guess(lun, "buffer", "flash serves many requests at once")
        return row

    def _guess(self, lun: CapturedLun, key: str, text: str) -> None:
        self._origins.setdefault(f"disk.{lun.disk}.{key}", (_GUESSED, text))

    # What the whole machine has

    def _queue(self) -> Document:
        """Settings of the request queues that all or most LUNs have."""
        fields = {field.name: field for field in QUEUE_FIELDS}
        settings: Document = {}
        for key in _QUEUE:
            values = {lun.device: self._setting(lun.device, key) for lun in self._luns}
            common = Counter(filter(None, values.values())).most_common(1)
            if not common:
                continue
            text = common[0][0]
            for device, other in values.items():
                if other != text:
                    self._notes.add(device, f"{key} {other or 'not shown'}; the topology has one for all LUNs, {text}")
            value = int(text) if text.isdecimal() else text
            if accepts(fields[key], value):
                settings[key] = value
            else:
                self._notes.add("queue", f"{key} {text} is none that a scenario can set")
        if settings.get("scheduler", "none") == "none" and "nr_requests" in settings:
            self._notes.add("queue", f"nr_requests {settings.pop('nr_requests')}: without an elevator it is the tags")
        for key in settings:
            self._cite(f"queue.{key}", f"read: {key}")
        return settings

    def _setting(self, device: str, key: str) -> str:
        text = self._snapshot.line(f"block/{device}/queue/{key}")
        return text.partition("[")[2].partition("]")[0] or text if key == "scheduler" else text

    def _origin_rows(self) -> Iterator[Document]:
        """The origins, those of all disks, hosts or links together where they are equal."""
        groups: dict[str, list[str]] = {}
        for of in self._origins:
            groups.setdefault(re.sub(r"\..*\.", ".*.", of), []).append(of)
        for every, parameters in groups.items():
            alike = len({self._origins[of] for of in parameters}) == 1
            for of in parameters[: 1 if alike else None]:
                kind, text = self._origins[of]
                yield {"of": every if alike else of, kind: text}
